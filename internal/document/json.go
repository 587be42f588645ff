package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// jsonReader reads JSON token by token. encoding/json would lose lines, and it keeps
// the last of two equal keys without a word.
type jsonReader struct {
	data []byte
	dec  *json.Decoder
	seen int64 // bytes whose lines have been counted
	line int   // the line at seen
}

// ParseJSON reads a JSON document, see [Parse].
func ParseJSON(data []byte) (Node, error) {
	data, err := decode(data)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return Node{}, err
	}
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber() // as written: what is too large must reach the setting that can say so
	n, err := r.value(0)
	if err != nil {
		return Node{}, r.explain(err)
	}
	// A decoder reads values one after another; a document is one.
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return Node{}, &SyntaxError{r.lineAt(r.dec.InputOffset()), "goes on after its end; remove what follows"}
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
	_, err := r.dec.Token() // the closing brace or bracket, or the mistake in its place
	return n, err
}

// explain adds the line to what encoding/json says. A document that ends too early is told
// apart: that is what one looks like while it is being written.
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
