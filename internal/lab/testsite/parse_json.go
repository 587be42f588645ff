package testsite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// jsonDocument reads JSON into the nodes that a YAML file gives, so that one decoder is
// strict about both. Nearly all JSON is YAML too, but not what is indented by tabs.
func jsonDocument(data []byte) (*yaml.Node, error) {
	r := jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	r.dec.UseNumber()
	n, err := r.value()
	if err != nil {
		return nil, fmt.Errorf("read the site file: %w", err)
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the site file has a second document; keep one")
	}
	return n, nil
}

type jsonReader struct {
	data []byte
	dec  *json.Decoder
	at   int // the offset up to which lines are counted
	line int // lines up to there
}

// here is the line of the token just read.
func (r *jsonReader) here() int {
	to := int(r.dec.InputOffset())
	r.line += bytes.Count(r.data[r.at:to], []byte("\n"))
	r.at = to
	return r.line + 1
}

// value reads the next value, or nil at the end of a list or a mapping.
func (r *jsonReader) value() (*yaml.Node, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.here()}
	switch token := token.(type) {
	case json.Delim:
		if token == '}' || token == ']' {
			return nil, nil
		}
		n.Kind = yaml.SequenceNode
		if token == '{' {
			n.Kind = yaml.MappingNode // its keys are values of their own, as in YAML
		}
		return n, r.children(n)
	case string:
		n.Tag, n.Value = "!!str", token
	case json.Number:
		n.Tag, n.Value = "!!int", token.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", fmt.Sprint(token)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

func (r *jsonReader) children(n *yaml.Node) error {
	for {
		child, err := r.value()
		if err != nil || child == nil {
			return err
		}
		n.Content = append(n.Content, child)
	}
}
