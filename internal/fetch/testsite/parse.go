package testsite

import (
	"bytes"
	"encoding"
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

// Parse reads a site from YAML. It is strict: an unknown or repeated field, a value
// of the wrong type or out of range, and a second document are errors, which name
// the line, the path of the value (hosts[2].limit.rate) and what to write instead.
// Defaults are left to [New].
func Parse(data []byte) (Config, error) {
	var cfg Config
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return Config{}, errors.New("the site file is empty; write at least hosts: [{pages: 20}]")
		}
		return Config{}, fmt.Errorf("read the site file: %w", err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return Config{}, errors.New("the site file has a second document; keep one")
	}
	if err := decode(doc.Content[0], reflect.ValueOf(&cfg).Elem(), ""); err != nil {
		return Config{}, err
	}
	return cfg, cfg.validate()
}

// decode is here because the YAML package's own strict mode names a line and a Go
// type, and people look for a path. It stops at the first error: the next one is
// often a consequence of it.
func decode(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias // cannot recurse for ever: our types are of finite depth
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok && n.Kind == yaml.ScalarNode {
		if err := u.UnmarshalText([]byte(n.Value)); err != nil {
			return fmt.Errorf("%s: line %d: %w", path, n.Line, err)
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Struct:
		return decodeStruct(n, v, path)
	case reflect.Slice:
		return decodeSlice(n, v, path)
	}
	if n.Kind != yaml.ScalarNode || rounds(n, v) || n.Decode(v.Addr().Interface()) != nil {
		return mismatch(n, v.Type(), path)
	}
	return nil
}

// rounds reports whether a fraction is meant for a whole number: the YAML package
// would cut it without a word.
func rounds(n *yaml.Node, v reflect.Value) bool {
	return (v.CanInt() || v.CanUint()) && n.ShortTag() == "!!float"
}

// decodeStruct lists the fields that exist when it meets one that does not: that is
// the manual where it is needed.
func decodeStruct(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.MappingNode {
		return mismatch(n, v.Type(), path)
	}
	var seen []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		field, ok := fieldByTag(v, key.Value)
		if !ok {
			return fmt.Errorf("%s: line %d: there is no such field; the fields here are %s",
				at, key.Line, strings.Join(tags(v.Type()), ", "))
		}
		if slices.Contains(seen, key.Value) {
			return fmt.Errorf("%s: line %d: it is set twice; keep one", at, key.Line)
		}
		seen = append(seen, key.Value)
		if err := decode(n.Content[i+1], field, at); err != nil {
			return err
		}
	}
	return nil
}

// decodeSlice leaves an empty list nil: it means the same, and then a Config that is
// written and read back is equal.
func decodeSlice(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.SequenceNode {
		return mismatch(n, v.Type(), path)
	}
	if len(n.Content) == 0 {
		return nil
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if err := decode(item, list.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

// mismatch says what was found where, and what would have been right.
func mismatch(n *yaml.Node, t reflect.Type, path string) error {
	got := strconv.Quote(n.Value)
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
