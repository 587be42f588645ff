package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// node is what YAML and JSON have in common, with the line of each part. Scalars are
// kept as written: the row of a setting decides what a text means, not the syntax.
type node struct {
	line  int
	kind  nodeKind
	text  string  // of a scalar
	keys  []entry // of a map, in order, duplicates included
	items []node  // of a list
}

type entry struct {
	key   string
	line  int
	value node
}

type nodeKind uint8

const (
	nodeNull   nodeKind = iota // nothing written, or null
	nodeScalar                 // text, number or boolean
	nodeMap
	nodeList
)

// String names the kind in messages.
func (k nodeKind) String() string {
	return [...]string{"nothing", "a single value", "a group of settings", "a list"}[k]
}

// nestingMax is how deep a file may nest. The tree is three levels deep; the rest is
// room for a mistake to be reported where it is.
const nestingMax = 8

// syntaxError is a file that is not YAML or JSON at all.
type syntaxError struct {
	line int // 0 = not known
	text string
}

func (e *syntaxError) Error() string { return e.text }

// The marks that some editors put before a text.
const (
	markUTF8    = "\ufeff"
	markUTF16LE = "\xff\xfe"
	markUTF16BE = "\xfe\xff"
)

// parseFile reads a file into nodes. The name's ending chooses the format, and
// without a telling one the first character does: JSON here starts with a brace.
func parseFile(name string, data []byte) (node, error) {
	data = bytes.TrimPrefix(data, []byte(markUTF8))
	switch {
	case bytes.HasPrefix(data, []byte(markUTF16LE)), bytes.HasPrefix(data, []byte(markUTF16BE)):
		return node{}, &syntaxError{1, "is UTF-16; save it as UTF-8"}
	case !utf8.Valid(data):
		return node{}, &syntaxError{badLine(data), "is not valid UTF-8; save it in that encoding"}
	}
	// YAML takes nearly all of JSON, but not its escapes for characters beyond 16 bits,
	// and its messages would speak of YAML.
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		return parseJSON(data)
	case ".yaml", ".yml":
		return parseYAML(data)
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return parseJSON(data)
	}
	return parseYAML(data)
}

// badLine is the line of the first byte that is not UTF-8.
func badLine(data []byte) int {
	line := 1
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && n == 1:
			return line
		case r == '\n':
			line++
		}
		data = data[n:]
	}
	return line
}

// parseYAML reads a whole file into the parser's own tree, which unlike decoding into
// structs keeps lines and equal keys, and copies that.
func parseYAML(data []byte) (node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return node{}, nil // empty, or comments only
	case err != nil:
		return node{}, yamlError(data, err)
	}
	var more yaml.Node
	switch err := dec.Decode(&more); {
	case err == nil:
		return node{}, &syntaxError{more.Line, "a second document starts here; a configuration is one document"}
	case !errors.Is(err, io.EOF):
		return node{}, yamlError(data, err)
	}
	return fromYAML(&doc, 0)
}

// fromYAML copies a YAML tree. Aliases and tags are refused: nothing here needs them,
// and they are how a small file becomes a large tree.
func fromYAML(y *yaml.Node, depth int) (node, error) {
	switch {
	case depth > nestingMax:
		return node{}, &syntaxError{y.Line, fmt.Sprintf("is nested more than %d levels deep", nestingMax)}
	case y.Kind == yaml.AliasNode:
		return node{}, &syntaxError{y.Line, fmt.Sprintf("has the alias *%s; write the value itself, aliases are not followed", clip(y.Value))}
	case y.Style&yaml.TaggedStyle != 0:
		return node{}, &syntaxError{y.Line, fmt.Sprintf("has the tag %s; remove it, types follow from the setting", clip(y.Tag))}
	case y.Kind == yaml.DocumentNode: // has exactly one child
		return fromYAML(y.Content[0], depth)
	case y.Kind == yaml.ScalarNode && y.Tag == "!!null": // null, ~ or nothing, unquoted
		return node{line: y.Line}, nil
	case y.Kind == yaml.ScalarNode:
		return node{line: y.Line, kind: nodeScalar, text: y.Value}, nil
	case y.Kind == yaml.MappingNode:
		return fromYAMLMap(y, depth)
	}
	n := node{line: y.Line, kind: nodeList}
	for _, item := range y.Content {
		v, err := fromYAML(item, depth+1)
		if err != nil {
			return node{}, err
		}
		n.items = append(n.items, v)
	}
	return n, nil
}

// fromYAMLMap copies a map, in which keys and values alternate.
func fromYAMLMap(y *yaml.Node, depth int) (node, error) {
	n := node{line: y.Line, kind: nodeMap}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		if key.Kind != yaml.ScalarNode {
			return node{}, &syntaxError{key.Line, "has a list, group or alias where the name of a setting belongs"}
		}
		v, err := fromYAML(y.Content[i+1], depth+1)
		if err != nil {
			return node{}, err
		}
		n.keys = append(n.keys, entry{key: key.Value, line: key.Line, value: v})
	}
	return n, nil
}

// yamlError takes the line out of the parser's message, the only place that has it,
// and adds the advice that the most common mistake needs.
func yamlError(data []byte, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	e := syntaxError{text: "is not YAML: " + text}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		number, what, _ := strings.Cut(rest, ": ")
		if line, err := strconv.Atoi(number); err == nil {
			e.line, e.text = line, "is not YAML: "+what
		}
	}
	if tab := tabLine(data); tab > 0 {
		e.line, e.text = tab, e.text+"; indent with spaces, this line has a tab"
	}
	return &e
}

// tabLine is the first line indented with a tab, or 0.
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

// clip shortens a name that goes into a message.
func clip(s string) string {
	if len(s) > quoteMax {
		return s[:quoteMax] + "..."
	}
	return s
}
