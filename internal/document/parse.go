package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxDepth is how many levels a document may nest. Our documents have only a handful of levels; the rest is room so
// that a mistake can be reported where it is.
const MaxDepth = 32

func tooDeep(line int) error {
	return &SyntaxError{line, fmt.Sprintf("is nested more than %d levels deep", MaxDepth)}
}

// Byte order marks that some editors put before a text.
const (
	markUTF8    = "\ufeff"
	markUTF16LE = "\xff\xfe"
	markUTF16BE = "\xfe\xff"
)

// Parse reads a document. The ending of its name chooses the format; if the ending says nothing, the first character
// does: our JSON documents begin with a brace. An empty document is null. Every error is a [*SyntaxError].
func Parse(name string, data []byte) (Node, error) {
	// YAML accepts nearly all of JSON, but not its escapes for characters beyond 16 bits,
	// and its messages would speak of YAML.
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		return ParseJSON(data)
	case ".yaml", ".yml":
		return ParseYAML(data)
	}
	if bytes.HasPrefix(bytes.TrimSpace(bytes.TrimPrefix(data, []byte(markUTF8))), []byte("{")) {
		return ParseJSON(data)
	}
	return ParseYAML(data)
}

func decode(data []byte) ([]byte, error) {
	data = bytes.TrimPrefix(data, []byte(markUTF8))
	switch {
	case bytes.HasPrefix(data, []byte(markUTF16LE)), bytes.HasPrefix(data, []byte(markUTF16BE)):
		return nil, &SyntaxError{1, "is UTF-16; save it as UTF-8"}
	case !utf8.Valid(data):
		return nil, &SyntaxError{badLine(data), "is not valid UTF-8; save it in that encoding"}
	}
	return data, nil
}

func badLine(data []byte) int {
	line := 0
	for text := range bytes.Lines(data) {
		if line++; !utf8.Valid(text) {
			break
		}
	}
	return line
}

// ParseYAML reads a YAML document, see [Parse]. It keeps line numbers and repeated keys, which decoding into structs
// would lose.
func ParseYAML(data []byte) (Node, error) {
	data, err := decode(data)
	if err != nil {
		return Node{}, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return Node{}, nil // empty, or comments only
	case err != nil:
		return Node{}, yamlError(data, err)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		return Node{}, &SyntaxError{more.Line, "has a second document; keep one"}
	case !errors.Is(err, io.EOF):
		return Node{}, yamlError(data, err)
	}
	return fromYAML(&doc, 0)
}

func fromYAML(y *yaml.Node, depth int) (Node, error) {
	switch {
	case depth > MaxDepth:
		return Node{}, tooDeep(y.Line)
	case y.Kind == 0:
		return Node{}, nil // nothing was decoded into the node
	case y.Kind == yaml.AliasNode:
		return Node{}, &SyntaxError{y.Line, fmt.Sprintf("has the alias *%s; write the value itself, aliases are not followed", Clip(y.Value))}
	case y.Style&yaml.TaggedStyle != 0:
		return Node{}, &SyntaxError{y.Line, fmt.Sprintf("has the tag %s; remove it, types follow from the setting", Clip(y.Tag))}
	case y.Kind == yaml.DocumentNode: // has exactly one child
		return fromYAML(y.Content[0], depth)
	case y.Kind == yaml.ScalarNode:
		return yamlScalar(y), nil
	case y.Kind == yaml.MappingNode:
		return yamlMap(y, depth)
	}
	n := Node{Line: y.Line, Kind: List}
	for _, item := range y.Content {
		v, err := fromYAML(item, depth+1)
		if err != nil {
			return Node{}, err
		}
		n.Items = append(n.Items, v)
	}
	return n, nil
}

// yamlScalar keeps the text as it was written. If it has no quotes, the setting decides what it means: for YAML, yes is
// a text and 010 is eight.
func yamlScalar(y *yaml.Node) Node {
	switch {
	case y.Tag == "!!null":
		return Node{Line: y.Line}
	case y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return Node{Kind: String, Line: y.Line, Text: y.Value}
	}
	return Node{Kind: Scalar, Line: y.Line, Text: y.Value}
}

func yamlMap(y *yaml.Node, depth int) (Node, error) {
	n := Node{Line: y.Line, Kind: Map}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		if key.Kind != yaml.ScalarNode {
			return Node{}, &SyntaxError{key.Line, "has a list, group or alias where the name of a setting belongs"}
		}
		v, err := fromYAML(y.Content[i+1], depth+1)
		if err != nil {
			return Node{}, err
		}
		n.Keys = append(n.Keys, Entry{Key: key.Value, Line: key.Line, Value: v})
	}
	return n, nil
}

// yamlError takes the line from the parser's message, which alone contains it, and adds advice for the most common
// mistake.
func yamlError(data []byte, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	e := SyntaxError{Text: "is not YAML: " + text}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		number, what, _ := strings.Cut(rest, ": ")
		if line, err := strconv.Atoi(number); err == nil {
			e.Line, e.Text = line, "is not YAML: "+what
		}
	}
	if tab := tabLine(data); tab > 0 {
		e.Line, e.Text = tab, e.Text+"; indent with spaces, this line has a tab"
	}
	return &e
}

func tabLine(data []byte) int {
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if bytes.ContainsRune(text[:len(text)-len(bytes.TrimLeft(text, " \t"))], '\t') {
			return line
		}
	}
	return 0
}

// jsonReader reads JSON token by token. encoding/json alone would lose line numbers, and silently keep the last of
// repeated keys.
type jsonReader struct {
	data []byte
	dec  *json.Decoder
	seen int64 // offset up to which lines have been counted
	line int   // line at seen
}

// ParseJSON reads a JSON document, see [Parse].
func ParseJSON(data []byte) (Node, error) {
	data, err := decode(data)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return Node{}, err
	}
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber() // as written: the setting reports numbers that are too large
	n, err := r.value(0)
	if err != nil {
		return Node{}, r.explain(err)
	}
	// A decoder reads several values in a row; a document is only one.
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return Node{}, &SyntaxError{r.lineAt(r.dec.InputOffset()), "goes on after its end; remove what follows"}
	}
	return n, nil
}

// lineAt returns the line of an offset. Offsets only grow, so all calls together read the document once.
func (r *jsonReader) lineAt(offset int64) int {
	offset = min(max(offset, r.seen), int64(len(r.data)))
	r.line += bytes.Count(r.data[r.seen:offset], []byte("\n"))
	r.seen = offset
	return r.line
}

func (r *jsonReader) value(depth int) (Node, error) {
	tok, err := r.dec.Token()
	if err != nil {
		return Node{}, err
	}
	n := Node{Line: r.lineAt(r.dec.InputOffset())}
	if depth > MaxDepth {
		return Node{}, tooDeep(n.Line)
	}
	switch tok := tok.(type) {
	case bool:
		n.Kind, n.Text = Bool, fmt.Sprint(tok)
	case json.Number:
		n.Kind, n.Text = Number, tok.String()
	case string:
		n.Kind, n.Text = String, tok
	case json.Delim:
		return r.children(n, tok == '{', depth+1)
	}
	return n, nil
}

func (r *jsonReader) children(n Node, braces bool, depth int) (Node, error) {
	n.Kind = List
	if braces {
		n.Kind = Map
	}
	for r.dec.More() {
		var key Entry
		if braces {
			tok, err := r.dec.Token()
			if err != nil {
				return n, err
			}
			key = Entry{Key: fmt.Sprint(tok), Line: r.lineAt(r.dec.InputOffset())}
		}
		v, err := r.value(depth)
		if err != nil {
			return n, err
		}
		if key.Value = v; braces {
			n.Keys = append(n.Keys, key)
		} else {
			n.Items = append(n.Items, v)
		}
	}
	_, err := r.dec.Token() // the closing brace or bracket, or an error
	return n, err
}

// explain adds the line to an error of encoding/json. A document that ends too early gets a message of its own: a
// document looks like that while it is being written.
func (r *jsonReader) explain(err error) error {
	if _, ours := errors.AsType[*SyntaxError](err); ours {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &SyntaxError{r.lineAt(int64(len(r.data))), "is not JSON: it ends in the middle of a value; close what is open"}
	}
	at := r.dec.InputOffset()
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = syntax.Offset
	}
	return &SyntaxError{r.lineAt(at), "is not JSON: " + err.Error()}
}
