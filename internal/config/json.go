package config

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

// parseJSON reads a whole file. An empty one is an empty configuration, as in YAML.
func parseJSON(data []byte) (node, error) {
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber() // as written: 1e400 must reach the row that can say what is wrong
	n, err := r.value(0)
	if errors.Is(err, io.EOF) && len(bytes.TrimSpace(data)) == 0 {
		return node{}, nil
	}
	if err != nil {
		return node{}, r.wrap(err)
	}
	// A decoder reads values one after another; a file is one.
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return node{}, &syntaxError{r.lineAt(r.dec.InputOffset()), "goes on after its closing brace; remove what follows"}
	}
	return n, nil
}

// lineAt is the line of an offset. Offsets only grow, so all calls together read the
// file once.
func (r *jsonReader) lineAt(offset int64) int {
	offset = min(max(offset, r.seen), int64(len(r.data)))
	r.line += bytes.Count(r.data[r.seen:offset], []byte("\n"))
	r.seen = offset
	return r.line
}

// value reads the value that starts with the next token.
func (r *jsonReader) value(depth int) (node, error) {
	tok, err := r.dec.Token()
	if err != nil {
		return node{}, err
	}
	line := r.lineAt(r.dec.InputOffset())
	if depth > nestingMax {
		return node{}, &syntaxError{line, fmt.Sprintf("is nested more than %d levels deep", nestingMax)}
	}
	switch tok := tok.(type) {
	case nil:
		return node{line: line}, nil
	case json.Delim:
		if tok == '{' {
			return r.object(line, depth)
		}
		return r.array(line, depth)
	default: // string, number or boolean
		return node{line: line, kind: nodeScalar, text: fmt.Sprint(tok)}, nil
	}
}

// object reads what stands between two braces. Keys are kept in order and twice if
// they come twice, which the walk reports for both formats alike.
func (r *jsonReader) object(line, depth int) (node, error) {
	n := node{line: line, kind: nodeMap}
	for r.dec.More() {
		tok, err := r.dec.Token()
		if err != nil {
			return node{}, err
		}
		key := entry{key: fmt.Sprint(tok), line: r.lineAt(r.dec.InputOffset())}
		if key.value, err = r.value(depth + 1); err != nil {
			return node{}, err
		}
		n.keys = append(n.keys, key)
	}
	_, err := r.dec.Token() // the closing brace, or the mistake in its place
	return n, err
}

// array reads what stands between two brackets.
func (r *jsonReader) array(line, depth int) (node, error) {
	n := node{line: line, kind: nodeList}
	for r.dec.More() {
		v, err := r.value(depth + 1)
		if err != nil {
			return node{}, err
		}
		n.items = append(n.items, v)
	}
	_, err := r.dec.Token()
	return n, err
}

// wrap adds the line to what encoding/json says. A file that ends too early is told
// apart: the offset of that mistake is where nothing is.
func (r *jsonReader) wrap(err error) error {
	var syntax *json.SyntaxError
	var ours *syntaxError
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &syntax):
		return &syntaxError{r.lineAt(syntax.Offset), "is not JSON: " + syntax.Error()}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &syntaxError{r.lineAt(int64(len(r.data))), "is not JSON: it ends in the middle of a value; close what is open"}
	}
	return &syntaxError{r.lineAt(r.dec.InputOffset()), "is not JSON: " + err.Error()}
}
