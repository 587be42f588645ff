package testsite

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Parse reads a site from YAML or JSON: a file that begins with a brace is JSON. It is
// strict: an unknown or repeated field, a value of the wrong type or out of range, and a
// second document are errors, which name the line, the path of the value
// (hosts[2].limit.rate) and what to write instead. They are told all at once, one per
// line. Defaults are left to [New].
func Parse(data []byte) (Config, error) {
	var cfg Config
	root, err := document(data)
	if err != nil {
		return Config{}, err
	}
	var d decoder
	d.decode(root, reflect.ValueOf(&cfg).Elem(), "")
	if err := d.with(cfg.validate()); err != nil {
		return Config{}, err
	}
	return cfg, nil
}

// document is the one value that the file has.
func document(data []byte) (*yaml.Node, error) {
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) > 0 && text[0] == '{' && json.Valid(data) {
		return jsonDocument(data)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the site file is empty; write at least hosts: [{pages: 20}]")
		}
		return nil, fmt.Errorf("read the site file: %w", err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("the site file has a second document; keep one")
	}
	return doc.Content[0], nil
}

// decoder is here because the YAML package's own strict mode names a line and a Go type,
// and people look for a path.
type decoder struct{ faults []fault }

// fault is one thing wrong with a file.
type fault struct {
	// below is the path under which what validate finds may be a consequence of this: a
	// value that could not be read is missed by those that go with it.
	below string
	err   error
}

func (d *decoder) fail(below string, err error) { d.faults = append(d.faults, fault{below, err}) }

// with is all faults and those problems of validate that are no consequence of them.
func (d *decoder) with(problems error) error {
	if len(d.faults) == 0 {
		return problems
	}
	var all []error
	for _, f := range d.faults {
		all = append(all, f.err)
	}
	if problems != nil {
		for line := range strings.Lines(problems.Error()) {
			if line = strings.TrimSuffix(line, "\n"); !d.explains(line) {
				all = append(all, errors.New(line))
			}
		}
	}
	return errors.Join(all...)
}

func (d *decoder) explains(problem string) bool {
	return slices.ContainsFunc(d.faults, func(f fault) bool { return strings.HasPrefix(problem, f.below) })
}

// decode sets v to what n says, and notes what is wrong with it.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias // cannot recurse for ever: our types are of finite depth
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok && n.Kind == yaml.ScalarNode {
		if err := u.UnmarshalText([]byte(n.Value)); err != nil {
			d.fail(path, fmt.Errorf("%s: line %d: %w", path, n.Line, err))
		}
		return
	}
	switch {
	case v.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		d.decodeStruct(n, v, path)
	case v.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		d.decodeSlice(n, v, path)
	case n.Kind != yaml.ScalarNode || v.Kind() == reflect.Struct || v.Kind() == reflect.Slice || rounds(n, v) || n.Decode(v.Addr().Interface()) != nil:
		d.fail(parent(path), mismatch(n, v.Type(), path))
	}
}

// parent is the mapping that a field is in, or path itself at the top of the file: there,
// fields do not go together.
func parent(path string) string {
	if dot := strings.LastIndexByte(path, '.'); dot >= 0 {
		return path[:dot]
	}
	return path
}

// rounds reports whether a fraction is meant for a whole number: the YAML package
// would cut it without a word.
func rounds(n *yaml.Node, v reflect.Value) bool {
	return (v.CanInt() || v.CanUint()) && n.ShortTag() == "!!float"
}

// decodeStruct lists the fields that exist when it meets one that does not: that is
// the manual where it is needed.
func (d *decoder) decodeStruct(n *yaml.Node, v reflect.Value, path string) {
	var seen []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		field, ok := fieldByTag(v, key.Value)
		if !ok {
			names := tags(v.Type())
			d.fail(at, fmt.Errorf("%s: line %d: there is no such field%s; the fields here are %s",
				at, key.Line, meant(key.Value, names), strings.Join(names, ", ")))
			continue
		}
		if slices.Contains(seen, key.Value) {
			d.fail(at, fmt.Errorf("%s: line %d: it is set twice; keep one", at, key.Line))
			continue
		}
		seen = append(seen, key.Value)
		d.decode(n.Content[i+1], field, at)
	}
}

// decodeSlice leaves an empty list nil: it means the same, and then a Config that is
// written and read back is equal.
func (d *decoder) decodeSlice(n *yaml.Node, v reflect.Value, path string) {
	if len(n.Content) == 0 {
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.decode(item, list.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
	v.Set(list)
}

// mismatch says what was found where, and what would have been right.
func mismatch(n *yaml.Node, t reflect.Type, path string) error {
	got := quote(n.Value)
	switch n.Kind {
	case yaml.MappingNode:
		got = "a mapping"
	case yaml.SequenceNode:
		got = "a list"
	}
	if path == "" {
		path = "the site file"
	}
	return fmt.Errorf("%s: line %d: %s will not do; write %s", path, n.Line, got, wanted(t))
}

// quoteMax is how much of a value is shown: of one that is longer the beginning tells which
// it is. A file that is no YAML is one value, as long as the file.
const quoteMax = 60

// quote is the beginning of a value, on one line.
func quote(s string) string {
	if len(s) <= quoteMax {
		return strconv.Quote(s)
	}
	return strconv.Quote(strings.ToValidUTF8(s[:quoteMax], "")) + "…"
}

// wanted describes a type to somebody who writes YAML and not Go.
func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a duration such as 20ms or 1m30s"
	}
	switch t.Kind() {
	case reflect.Struct:
		return "a mapping with fields " + strings.Join(tags(t), ", ")
	case reflect.Slice:
		return "a list such as [a, b]"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text"
	}
	return "a whole number"
}

// tag is the name of a field in the file, or "" for one that is not in it.
func tag(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return strings.TrimPrefix(name, "-")
}

// tags are the names of the fields, in the order of the struct, which is the order in
// which the manual has them.
func tags(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		if name := tag(f); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// fieldByTag finds a field by its name in the file. The empty name is that of the
// fields which are not in it, so it finds none.
func fieldByTag(v reflect.Value, name string) (reflect.Value, bool) {
	for f := range v.Type().Fields() {
		if name != "" && tag(f) == name {
			return v.FieldByIndex(f.Index), true
		}
	}
	return reflect.Value{}, false
}

// WriteYAML writes cfg as the file that [Parse] reads back equal.
func WriteYAML(w io.Writer, cfg Config) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(cfg); err != nil {
		return err
	}
	return enc.Close()
}
