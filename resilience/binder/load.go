package binder

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/document/spelling"
)

const (
	rootKey = "Resilience"
	// DocumentMax is the greatest size of a document in bytes. One with every key has 2 KiB.
	DocumentMax = 64 << 10
	// problemsMax is how many problems one error lists at most.
	problemsMax = 50
)

// Problem is one error in a document.
type Problem struct {
	Path string // the key as it was written, "Resilience.Retry.Backoff.BaseMs"; empty means the document as a whole
	Line int    // of the document, from 1; zero means that it is not known
	Text string // what is wrong, and what to write instead
}

func problem(path string, line int, format string, args ...any) Problems {
	return Problems{{Path: path, Line: line, Text: fmt.Sprintf(format, args...)}}
}

// Error returns the path, the text, and the line in brackets.
func (p Problem) Error() string {
	s := p.Text
	if p.Path != "" {
		s = p.Path + ": " + s
	}
	if p.Line > 0 {
		s += fmt.Sprintf(" [line %d]", p.Line)
	}
	return s
}

// Problems lists everything that is wrong with a document, in the order of its lines. It is a []Problem, and its Error
// has a line for each. Through Unwrap, errors.Is and errors.As see every [Problem].
type Problems = document.Problems[Problem]

// Load reads a JSON document and returns its checked model. Every error is [Problems] with everything that is wrong.
// Keys beside a group "Resilience" are ignored.
func Load(data []byte) (*Model, error) {
	n, err := parse(data)
	if err != nil {
		return nil, err
	}
	return finish(n, "", false)
}

func parse(data []byte) (document.Node, error) {
	if len(data) > DocumentMax {
		return document.Node{}, problem("", 0, "the document is larger than %d KiB; one with every key is a fraction of that, was another file meant?", DocumentMax>>10)
	}
	// A file that is being written is empty for a moment, so an empty document must not mean that there are no
	// policies.
	if len(bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))) == 0 {
		return document.Node{}, problem("", 0, "the document is empty; write {} for no policy at all")
	}
	n, err := document.ParseJSON(data)
	if bad, ok := errors.AsType[*document.SyntaxError](err); ok {
		return n, problem("", bad.Line, "the document %s", bad.Text)
	}
	return n, err
}

// LoadNode is [Load] for a part of the crawl's settings; only their reader calls it. part is a node that it has parsed,
// in which scalars need not be quoted correctly; path is the beginning of the path of every problem. Programs use
// [Load] or [LoadSection].
func LoadNode(path string, part any) (*Model, error) {
	n, ok := part.(document.Node)
	if !ok {
		return nil, problem(path, 0, "a %T is no part of a document: use Load", part)
	}
	return finish(n, path, true)
}

// LoadSection is [Load] for one group of a larger document. section is the group's name, or several names with colons
// between: "Clients:Payments". Everything beside the group is ignored. Errors have paths from the top of the document.
func LoadSection(data []byte, section string) (*Model, error) {
	n, path, err := sectionOf(data, section)
	if err != nil {
		return nil, err
	}
	return finish(n, path, false)
}

// LoadNamed loads the documents of a group by their names. With section "Policies", {"Policies": {"search": {"Timeout":
// {}}, "payments": {"Retry": {}}}} has two. Every error is [Problems] with everything that is wrong.
func LoadNamed(data []byte, section string) (map[string]*Model, error) {
	n, path, err := sectionOf(data, section)
	if err != nil {
		return nil, err
	}
	if n.Kind != document.Map {
		return nil, problem(path, n.Line, "is %s instead of a group of documents by name", n.Kind)
	}
	models := make(map[string]*Model, len(n.Keys))
	var all Problems
	at := func(e document.Entry) string { return document.Join(path, document.QuoteKey(e.Key)) }
	for _, e := range n.Unique(func(_, again document.Entry) {
		all = append(all, problem(at(again), again.Line, "is there already; remove one of the two")...)
	}) {
		m, err := finish(e.Value, at(e), false)
		if problems, ok := errors.AsType[Problems](err); ok {
			all = append(all, problems...)
		}
		models[e.Key] = m
	}
	if len(all) > 0 {
		return nil, all[:min(len(all), problemsMax)]
	}
	return models, nil
}

// sectionOf returns a group and its path. Its error is [Problems].
func sectionOf(data []byte, section string) (n document.Node, path string, err error) {
	if n, err = parse(data); err != nil {
		return n, "", err
	}
	for key := range strings.SplitSeq(section, ":") {
		i := slices.IndexFunc(n.Keys, func(e document.Entry) bool { return e.Key == key })
		if i < 0 {
			var keys []string
			for _, e := range n.Keys {
				keys = append(keys, e.Key)
			}
			return n, path, problem(path, n.Line, "there is no group %s here; there are %q", document.Quote(key), keys)
		}
		path, n = document.Join(path, document.QuoteKey(key)), n.Keys[i].Value
	}
	return n, path, nil
}

func finish(n document.Node, path string, untyped bool) (*Model, error) {
	m := new(Model)
	w := &walk{untyped: untyped}
	w.root(path, n, m)
	if len(w.problems) == 0 {
		return m, nil
	}
	slices.SortStableFunc(w.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path))
	})
	if more := len(w.problems) - problemsMax; more > 0 {
		w.problems = append(w.problems[:problemsMax], Problem{Text: fmt.Sprintf("and %d more", more)})
	}
	return nil, w.problems
}

type walk struct {
	untyped  bool // whether quotes around scalars are ignored
	problems Problems
}

func (w *walk) report(path string, line int, format string, args ...any) {
	w.problems = append(w.problems, problem(path, line, format, args...)...)
}

// root enters the group around all sections, if there is one, and ignores the keys beside it unless they are sections.
// An empty node has no sections.
func (w *walk) root(path string, n document.Node, m *Model) {
	isRoot := func(e document.Entry) bool { return e.Key == rootKey || e.Key == document.Snake(rootKey) }
	model := reflect.ValueOf(m).Elem()
	if i := slices.IndexFunc(n.Keys, isRoot); i >= 0 {
		root := n.Keys[i]
		path = document.Join(path, root.Key)
		for j, e := range n.Keys {
			if find(fieldsOf(model.Type()), e.Key) >= 0 || j > i && isRoot(e) {
				w.report(path, root.Line, "stands beside %s; put all sections into it, and once", document.QuoteKey(e.Key))
				return
			}
		}
		n = root.Value
	}
	if n.Kind != document.Null || path == "" {
		w.group(path, n, model)
	}
}

func (w *walk) group(path string, n document.Node, to reflect.Value) {
	if n.Kind != document.Map {
		subject, advice := "is ", ""
		if path == "" {
			subject = "the document is "
		}
		if n.Kind == document.Null { // it may mean the defaults, or no section
			advice = "; write {} for the defaults, or remove the line"
		}
		w.report(path, n.Line, "%s%s instead of a group of settings%s", subject, n.Kind, advice)
		return
	}
	fields := fieldsOf(to.Type())
	seen := make(map[int]document.Entry, len(n.Keys))
	for _, e := range n.Keys {
		i := find(fields, e.Key)
		if i < 0 {
			w.unknown(path, e, fields)
			continue
		}
		v, full := to.Field(i), document.Join(path, e.Key)
		if first, twice := seen[i]; twice {
			w.report(full, e.Line, "is set already as %s on line %d; remove one of the two", first.Key, first.Line)
			continue
		}
		seen[i] = e
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
			setDefaults(v)
		}
		switch at := v.Addr().Interface().(type) {
		case *Backoff:
			before := len(w.problems)
			if w.group(full, e.Value, v); len(w.problems) == before {
				w.settle(full, e.Line, at)
			}
		case *[]int:
			w.codes(full, &fields[i], at, e.Value)
		default:
			if v.Kind() == reflect.Struct {
				w.group(full, e.Value, v)
			} else {
				w.scalar(full, &fields[i], at, e.Value)
			}
		}
	}
}

func setDefaults(section reflect.Value) {
	for i, f := range fieldsOf(section.Type()) {
		v := section.Field(i)
		if v.Kind() == reflect.Struct {
			setDefaults(v)
		} else if err := f.store(v.Addr().Interface(), f.def); err != nil {
			panic("binder: default of " + f.key + ": " + err.Error()) // a mistake in a struct tag
		}
	}
}

func (w *walk) unknown(path string, e document.Entry, fields []field) {
	keys := make([]string, len(fields))
	for i := range fields {
		if keys[i] = fields[i].key; strings.ToLower(e.Key) == e.Key && strings.ToLower(path) == path {
			keys[i] = fields[i].snake
		}
	}
	hint := "there are " + strings.Join(keys, ", ")
	if meant := spelling.Nearest(e.Key, keys); meant != "" {
		hint = "did you mean " + meant + "?"
	}
	w.report(document.Join(path, document.QuoteKey(e.Key)), e.Line, "is not a setting; %s", hint)
}

// scalar stores a value of the right type. An empty value does not mean the default, because the document may have been
// cut off.
func (w *walk) scalar(path string, f *field, v any, n document.Node) bool {
	want := document.String
	switch v.(type) {
	case *bool:
		want = document.Bool
	case *int, *time.Duration:
		want = document.Number
	}
	if !n.Single() || n.Kind != want && n.Kind != document.Scalar && !w.untyped {
		w.wrongKind(path, f, v, n)
		return false
	}
	err := f.store(v, n.Text)
	if err != nil {
		w.report(path, n.Line, "%v", err)
	}
	return err == nil
}

func (w *walk) wrongKind(path string, f *field, v any, n document.Node) {
	switch {
	case n.Kind == document.Null:
		w.report(path, n.Line, "has no value; give %s, or remove the line", f.want(v))
	case n.Single():
		w.report(path, n.Line, "%s is %s; give %s", document.Quote(n.Text), n.Kind, f.want(v))
	default:
		w.report(path, n.Line, "is %s; give %s", n.Kind, f.want(v))
	}
}

func (w *walk) codes(path string, f *field, v *[]int, n document.Node) {
	if n.Kind != document.List {
		w.wrongKind(path, f, v, n)
		return
	}
	*v = make([]int, 0, len(n.Items))
	for i, item := range n.Items {
		var code int
		at := document.Item(path, i)
		switch {
		case !w.scalar(at, f, &code, item):
		case slices.Contains(*v, code):
			w.report(at, item.Line, "%d is in the list already; remove one of the two", code)
		default:
			*v = append(*v, code)
		}
	}
}

// settle resolves a first pause above the longest one. If one of them has its default, it takes the value of the other;
// otherwise that is an error.
func (w *walk) settle(path string, line int, b *Backoff) {
	switch {
	case b.Base <= b.MaxDelay:
	case b.MaxDelay == 30*time.Second:
		b.MaxDelay = b.Base
	case b.Base == 200*time.Millisecond:
		b.Base = b.MaxDelay
	default:
		w.report(path, line, "its longest pause, %v, is below the first, %v; raise the one or lower the other", b.MaxDelay, b.Base)
	}
}
