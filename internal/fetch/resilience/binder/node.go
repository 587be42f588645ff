package binder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Node is one value of a document that somebody else has parsed: what the formats have in
// common, with the line of each part, so that a section of a larger file is checked with
// its own paths and lines. The zero Node is null.
type Node struct {
	Kind  Kind
	Line  int     // from 1; zero: not known
	Text  string  // of a scalar: the text without quotes, the number or switch as written
	Keys  []Entry // of a map, in order, equal ones included
	Items []Node  // of a list
}

// Entry is one key of a map and its value.
type Entry struct {
	Key   string
	Line  int // of the key
	Value Node
}

// Kind is what a Node is. The zero Kind is [Null].
type Kind uint8

// The kinds of nodes.
const (
	Null   Kind = iota // nothing written, or null
	Scalar             // a single value of which the format does not say the type
	String             // a text
	Number             // a number
	Bool               // true or false
	Map                // keys and values
	List               // values
)

// String names the kind in messages.
func (k Kind) String() string {
	return [...]string{"nothing", "a single value", "a text", "a number", "true or false", "a group of settings", "a list"}[k]
}

// nestingMax is how deep a document may nest. The format has four levels; the rest is for
// what stands beside it in an application's settings.
const nestingMax = 32

// tooDeep is the problem of a document that nests deeper.
func tooDeep(line int) error {
	return Problem{Line: line, Text: fmt.Sprintf("the document is nested more than %d levels deep", nestingMax)}
}

// markUTF8 is put before a text by some editors.
const markUTF8 = "\ufeff"

// jsonReader reads token by token: decoding into structs would lose lines, and of two
// equal keys it keeps the last without a word.
type jsonReader struct {
	data []byte
	dec  *json.Decoder
	seen int64 // bytes whose lines have been counted
	line int   // the line at seen
}

func parseJSON(data []byte) (Node, error) {
	data = bytes.TrimPrefix(data, []byte(markUTF8))
	if !utf8.Valid(data) {
		return Node{}, Problem{Text: "the document is not valid UTF-8; save it in that encoding"}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		// A file that is being written is empty for a moment, and means nothing by it.
		return Node{}, Problem{Text: "the document is empty; write {} for no policy at all"}
	}
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber() // as written: what is too large must reach the field that can say so
	n, err := r.value(0)
	if err != nil {
		return Node{}, r.explain(err)
	}
	// A decoder reads values one after another; a document is one.
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return Node{}, Problem{Line: r.lineAt(r.dec.InputOffset()), Text: "the document goes on after its end; remove what follows"}
	}
	return n, nil
}

// lineAt is the line of an offset. Offsets only grow, so all calls together read the
// document once.
func (r *jsonReader) lineAt(offset int64) int {
	offset = min(max(offset, r.seen), int64(len(r.data)))
	r.line += bytes.Count(r.data[r.seen:offset], []byte("\n"))
	r.seen = offset
	return r.line
}

// value reads the value that starts with the next token.
func (r *jsonReader) value(depth int) (Node, error) {
	tok, err := r.dec.Token()
	if err != nil {
		return Node{}, err
	}
	n := Node{Line: r.lineAt(r.dec.InputOffset()), Text: fmt.Sprint(tok)}
	if depth > nestingMax {
		return Node{}, tooDeep(n.Line)
	}
	switch tok := tok.(type) {
	case nil:
		n.Text = ""
	case bool:
		n.Kind = Bool
	case json.Number:
		n.Kind = Number
	case string:
		n.Kind = String
	case json.Delim:
		n.Text = ""
		if tok == '{' {
			return r.object(n, depth)
		}
		return r.array(n, depth)
	}
	return n, nil
}

// object reads what stands between two braces.
func (r *jsonReader) object(n Node, depth int) (Node, error) {
	n.Kind = Map
	for r.dec.More() {
		tok, err := r.dec.Token()
		if err != nil {
			return n, err
		}
		e := Entry{Key: fmt.Sprint(tok), Line: r.lineAt(r.dec.InputOffset())}
		if e.Value, err = r.value(depth + 1); err != nil {
			return n, err
		}
		n.Keys = append(n.Keys, e)
	}
	_, err := r.dec.Token() // the closing brace, or the mistake in its place
	return n, err
}

// array reads what stands between two brackets.
func (r *jsonReader) array(n Node, depth int) (Node, error) {
	n.Kind = List
	for r.dec.More() {
		v, err := r.value(depth + 1)
		if err != nil {
			return n, err
		}
		n.Items = append(n.Items, v)
	}
	_, err := r.dec.Token()
	return n, err
}

// explain adds the line to what encoding/json says. A document that ends too early is told
// apart: that is what one looks like while it is being written.
func (r *jsonReader) explain(err error) error {
	if ours, ok := errors.AsType[Problem](err); ok {
		return ours
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Problem{Line: r.lineAt(int64(len(r.data))), Text: "the document ends in the middle of a value; close what is open"}
	}
	at := r.dec.InputOffset()
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = syntax.Offset
	}
	return Problem{Line: r.lineAt(at), Text: "the document is not JSON: " + err.Error()}
}

// fromYAML copies a YAML tree. Aliases and tags are refused: nothing here needs them, and
// they are how a small document becomes a large one.
func fromYAML(y *yaml.Node, depth int) (Node, error) {
	switch {
	case depth > nestingMax:
		return Node{}, tooDeep(y.Line)
	case y.Kind == 0:
		return Node{}, nil // nothing was decoded into it
	case y.Kind == yaml.AliasNode:
		return Node{}, Problem{Line: y.Line, Text: "an alias stands here; write the value itself, aliases are not followed"}
	case y.Style&yaml.TaggedStyle != 0:
		return Node{}, Problem{Line: y.Line, Text: "a tag stands here; remove it, types follow from the setting"}
	case y.Kind == yaml.DocumentNode: // has exactly one child
		return fromYAML(y.Content[0], depth)
	case y.Kind == yaml.ScalarNode:
		return yamlScalar(y), nil
	}
	n := Node{Kind: List, Line: y.Line}
	if y.Kind == yaml.MappingNode {
		n.Kind = Map
	}
	for i := 0; i < len(y.Content); i++ {
		var e Entry
		if n.Kind == Map { // keys and values alternate
			e.Key, e.Line = y.Content[i].Value, y.Content[i].Line
			i++
		}
		v, err := fromYAML(y.Content[i], depth+1)
		if err != nil {
			return Node{}, err
		}
		if e.Value = v; n.Kind == Map {
			n.Keys = append(n.Keys, e)
		} else {
			n.Items = append(n.Items, v)
		}
	}
	return n, nil
}

// yamlScalar keeps what was written. Without quotes the setting decides what it means: for
// YAML yes is a text and 010 is eight.
func yamlScalar(y *yaml.Node) Node {
	switch {
	case y.Tag == "!!null":
		return Node{Line: y.Line}
	case y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return Node{Kind: String, Line: y.Line, Text: y.Value}
	}
	return Node{Kind: Scalar, Line: y.Line, Text: y.Value}
}
