package testsite

import (
	"cmp"
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

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/document/spelling"
)

// Parse reads a site from YAML or JSON: a file that begins with a brace is JSON. An unknown or
// repeated field, a value of the wrong type or out of range, an alias and a second document
// are errors. It reports all of them, one per line, with the line of the file, the path of the
// value (hosts[2].limit.rate) and what to write instead. [New] fills in the defaults.
func Parse(data []byte) (Config, error) {
	var cfg Config
	root, err := document.Parse("", data)
	if err != nil {
		return cfg, fmt.Errorf("read the site file: %w", err)
	}
	if root.Kind == document.Null {
		return cfg, errors.New("the site file is empty; write at least hosts: [{pages: 20}]")
	}
	var d decoder
	d.decode(root, reflect.ValueOf(&cfg).Elem(), "")
	if err := d.with(cfg.validate()); err != nil {
		return Config{}, err
	}
	return cfg, nil
}

type decoder struct {
	errs []error
	// below are the paths under which an error of validate may follow from one of errs: a value
	// that could not be read is missing for the values that need it.
	below []string
}

func (d *decoder) fail(below, format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf(format, args...))
	d.below = append(d.below, below)
}

// with is all errors, without those of validate that may follow from others.
func (d *decoder) with(err error) error {
	if len(d.errs) == 0 {
		return err
	}
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !slices.ContainsFunc(d.below, func(path string) bool { return strings.HasPrefix(line, path) }) {
				d.errs = append(d.errs, errors.New(line))
			}
		}
	}
	return errors.Join(d.errs...)
}

func (d *decoder) decode(n document.Node, v reflect.Value, path string) {
	if n.Kind == document.Null {
		return
	}
	ok := false
	if u, has := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); has && n.Single() {
		if err := u.UnmarshalText([]byte(n.Text)); err != nil {
			d.fail(path, "%s: line %d: %w", path, n.Line, err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if ok = n.Kind == document.Map; ok {
			d.decodeStruct(n, v, path)
		}
	case reflect.Slice:
		if ok = n.Kind == document.List; ok && len(n.Items) > 0 { // an empty list is nil, as a missing one
			v.Set(reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items)))
			for i, item := range n.Items {
				d.decode(item, v.Index(i), document.Item(path, i))
			}
		}
	default:
		ok = n.Single() && setScalar(v, n)
	}
	if !ok {
		got, _ := map[document.Kind]string{document.Map: "a mapping", document.List: "a list"}[n.Kind]
		below := path
		if dot := strings.LastIndexByte(path, '.'); dot >= 0 {
			below = path[:dot] // of fields that go together, the others are useless without this one
		}
		d.fail(below, "%s: line %d: %s will not do; write %s",
			cmp.Or(path, "the site file"), n.Line, cmp.Or(got, strconv.Quote(document.Clip(n.Text))), wanted(v.Type()))
	}
}

// setScalar reports whether a scalar is of v's type. A quoted number is a text.
func setScalar(v reflect.Value, n document.Node) bool {
	var err error
	switch {
	case v.Kind() == reflect.String:
		v.SetString(n.Text)
		return true
	case v.Type() == reflect.TypeFor[time.Duration]():
		var d time.Duration
		d, err = time.ParseDuration(n.Text)
		v.SetInt(int64(d))
		return err == nil
	case n.Kind == document.String:
		return false
	case v.Kind() == reflect.Bool:
		v.SetBool(n.Text == "true")
		return n.Text == "true" || n.Text == "false"
	case v.Kind() == reflect.Float64:
		var x float64
		x, err = document.ParseFloat(n.Text, "")
		v.SetFloat(x)
	case v.CanUint():
		var x uint64
		x, err = strconv.ParseUint(document.Ungroup(n.Text), 10, 64)
		v.SetUint(x)
	default:
		var x int64
		x, err = document.ParseInt(n.Text, "")
		v.SetInt(x)
	}
	return err == nil
}

// decodeStruct lists the fields that exist when it meets one that does not.
func (d *decoder) decodeStruct(n document.Node, v reflect.Value, path string) {
	keys := n.Unique(func(_, again document.Entry) {
		at := document.Join(path, again.Key)
		d.fail(at, "%s: line %d: it is set twice; keep one", at, again.Line)
	})
	names := tags(v.Type())
	for _, e := range keys {
		at := document.Join(path, e.Key)
		if !slices.Contains(names, e.Key) {
			at = document.Join(path, document.QuoteKey(e.Key))
			d.fail(at, "%s: line %d: there is no such field%s; the fields here are %s", at, e.Line, meant(e.Key, names), strings.Join(names, ", "))
			continue
		}
		for f, field := range v.Fields() {
			if tag(f) == e.Key {
				d.decode(e.Value, field, at)
			}
		}
	}
}

// meant is a hint for somebody who has misspelled one of the names, or "".
func meant(word string, names []string) string {
	if name := spelling.Nearest(word, names); name != "" {
		return fmt.Sprintf(" (did you mean %s?)", name)
	}
	return ""
}

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

func tag(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return strings.TrimPrefix(name, "-")
}

func tags(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		if name := tag(f); name != "" {
			names = append(names, name)
		}
	}
	return names
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
