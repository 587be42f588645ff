package binder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/document/spelling"
)

const (
	// rootKey is the optional name around all sections.
	rootKey = "Resilience"
	// DocumentMax bounds a document in bytes. One with every key is 2 KiB.
	DocumentMax = 64 << 10
	// problemsMax is how many problems are kept: a large document of rubbish must not become a
	// larger message.
	problemsMax = 50
)

// Load reads a JSON document and returns its checked model. Every error is [Problems] with
// all that is wrong. A document that has a group "Resilience" may have other keys beside it,
// which are for others and ignored.
func Load(data []byte) (*Model, error) {
	n, err := parse(data)
	if err != nil {
		return nil, err
	}
	return finish(n, "", false)
}

// parse reads JSON. Its error is [Problems].
func parse(data []byte) (document.Node, error) {
	if len(data) > DocumentMax {
		return document.Node{}, problem("", 0, "the document is larger than %d KiB; one with every key is a fraction of that, was another file meant?", DocumentMax>>10)
	}
	// A file that is being written is empty for a moment, and means nothing by it.
	if len(bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))) == 0 {
		return document.Node{}, problem("", 0, "the document is empty; write {} for no policy at all")
	}
	n, err := document.ParseJSON(data)
	if bad, ok := errors.AsType[*document.SyntaxError](err); ok {
		return n, problem("", bad.Line, "the document %s", bad.Text)
	}
	return n, err
}

// Read is [Load] of what r holds, of which it reads no more than a document may have. An
// error of r is returned as it is.
func Read(r io.Reader) (*Model, error) {
	data, err := io.ReadAll(io.LimitReader(r, DocumentMax+1))
	if err != nil {
		return nil, err
	}
	return Load(data)
}

// LoadNode is [Load] of a part of the crawl's own configuration, in which a scalar is what its
// setting takes it for, with or without quotes. path is where it stands, and begins the path of
// every problem.
func LoadNode(path string, n document.Node) (*Model, error) { return finish(n, path, true) }

// LoadSection is [Load] of one group of a larger document, such as an application's
// settings. section is the group's name or, of one within others, their names with colons
// between: "Clients:Payments". What stands beside it is ignored. The errors name paths from
// the top.
func LoadSection(data []byte, section string) (*Model, error) {
	n, path, err := sectionOf(data, section)
	if err != nil {
		return nil, err
	}
	return finish(n, path, false)
}

// LoadNamed is the documents that a group of a larger one has by name: with section
// "Policies", {"Policies": {"search": {"Timeout": {}}, "payments": {"Retry": {}}}} is two.
// Every error is [Problems] with all that is wrong.
func LoadNamed(data []byte, section string) (map[string]*Model, error) {
	n, path, err := sectionOf(data, section)
	if err != nil {
		return nil, err
	}
	if n.Kind != document.Map {
		return nil, problem(path, n.Line, "%s%s instead of a group of documents by name", subject(path), n.Kind)
	}
	models := make(map[string]*Model, len(n.Keys))
	var all Problems
	for _, e := range n.Keys {
		at := document.Join(path, document.QuoteKey(e.Key))
		if models[e.Key] != nil {
			all = append(all, problem(at, e.Line, "is there already; remove one of the two")...)
			continue
		}
		m, err := finish(e.Value, at, false)
		if problems, ok := errors.AsType[Problems](err); ok {
			all = append(all, problems...)
			continue
		}
		models[e.Key] = m
	}
	if len(all) > 0 {
		return nil, all[:min(len(all), problemsMax)]
	}
	return models, nil
}

// sectionOf finds a group, and where it stands. Its error is [Problems].
func sectionOf(data []byte, section string) (n document.Node, path string, err error) {
	if n, err = parse(data); err != nil {
		return n, "", err
	}
	for key := range strings.SplitSeq(section, ":") {
		var keys []string
		i := slices.IndexFunc(n.Keys, func(e document.Entry) bool { keys = append(keys, e.Key); return e.Key == key })
		if i < 0 {
			return n, path, problem(path, n.Line, "there is no group %s here; there are %q", document.Quote(key), keys)
		}
		path, n = document.Join(path, document.QuoteKey(key)), n.Keys[i].Value
	}
	return n, path, nil
}

func finish(n document.Node, path string, untyped bool) (*Model, error) {
	w := &walk{model: new(Model), untyped: untyped, places: make(map[string]place), bad: make(map[string]bool)}
	w.root(path, n)
	w.settle()
	if len(w.problems) == 0 {
		return w.model, nil
	}
	w.problems.sort() // before the last line, which has no line and would come first
	if w.more > 0 {
		w.problems = append(w.problems, Problem{Text: fmt.Sprintf("and %d more", w.more)})
	}
	return nil, w.problems
}

// walk moves the nodes of one document into its model.
type walk struct {
	model    *Model
	untyped  bool             // quotes mean nothing
	places   map[string]place // of what was written, by key: "Retry.Backoff.BaseMs"
	bad      map[string]bool  // paths that have a problem
	problems Problems
	more     int // problems beyond problemsMax
}

type place struct {
	path string
	line int
}

func (w *walk) report(path string, line int, format string, args ...any) {
	w.bad[path] = true
	if len(w.problems) >= problemsMax {
		w.more++
		return
	}
	w.problems = append(w.problems, problem(path, line, format, args...)...)
}

// root steps over the optional name around all sections. What else stands beside it is
// somebody else's, but for a section of ours. Nothing at all is a document without
// sections: people comment out all lines but the heading.
func (w *walk) root(path string, n document.Node) {
	model := reflect.ValueOf(w.model).Elem()
	if i := slices.IndexFunc(n.Keys, func(e document.Entry) bool { return spells(e.Key, rootKey) }); i >= 0 {
		root := n.Keys[i]
		for j, e := range n.Keys {
			if find(model.Type(), e.Key) >= 0 || j > i && spells(e.Key, rootKey) {
				w.report(document.Join(path, root.Key), root.Line, "stands beside %s; put all sections into it, and once", document.QuoteKey(e.Key))
				return
			}
		}
		path, n = document.Join(path, root.Key), root.Value
	}
	if n.Kind != document.Null || path == "" {
		w.group(path, "", n, model)
	}
}

// group moves the keys of one pair of braces into a struct. at is the path by keys of the model.
func (w *walk) group(path, at string, n document.Node, to reflect.Value) {
	if n.Kind != document.Map {
		advice := ""
		if n.Kind == document.Null { // which could mean either
			advice = "; write {} for the defaults, or remove the line"
		}
		w.report(path, n.Line, "%s%s instead of a group of settings%s", subject(path), n.Kind, advice)
		return
	}
	seen := make(map[int]document.Entry, len(n.Keys))
	for _, e := range n.Keys {
		i := find(to.Type(), e.Key)
		if i < 0 {
			w.unknown(path, e, fieldsOf(to.Type()))
			continue
		}
		f, v, full := fieldsOf(to.Type())[i], to.Field(i), document.Join(path, e.Key)
		if first, twice := seen[i]; twice {
			w.report(full, e.Line, "is set already%s; remove one of the two", as(first, e))
			continue
		}
		seen[i] = e
		w.places[document.Join(at, f.key)] = place{full, e.Line}
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
			setDefaults(v)
		}
		if v.Kind() == reflect.Struct {
			w.group(full, document.Join(at, f.key), e.Value, v)
		} else if codes, ok := reflect.TypeAssert[*[]int](v.Addr()); ok {
			w.codes(full, &f, codes, e.Value)
		} else {
			w.scalar(full, &f, v.Addr().Interface(), e.Value)
		}
	}
}

func setDefaults(section reflect.Value) {
	for i := range section.NumField() {
		f, v := fieldsOf(section.Type())[i], section.Field(i)
		if v.Kind() == reflect.Struct {
			setDefaults(v)
		} else if err := f.store(v.Addr().Interface(), f.def); err != nil {
			panic("binder: default of " + f.key + ": " + err.Error()) // a mistake in a tag
		}
	}
}

// subject begins the message about a document that has no path.
func subject(path string) string {
	if path == "" {
		return "the document is "
	}
	return "is "
}

// as names the place of the first of two equal keys.
func as(first, second document.Entry) string {
	text := ""
	if first.Key != second.Key {
		text = " as " + first.Key
	}
	if first.Line > 0 {
		text += fmt.Sprintf(" on line %d", first.Line)
	}
	return text
}

// unknown reports a key that is none, with the one that was probably meant, spelled as its
// neighbours are.
func (w *walk) unknown(path string, e document.Entry, fields []field) {
	keys := make([]string, len(fields))
	for i := range fields {
		if keys[i] = fields[i].key; strings.ToLower(e.Key) == e.Key && strings.ToLower(path) == path {
			keys[i] = fields[i].snake
		}
	}
	meant := spelling.Nearest(e.Key, keys)
	hint := "; there are " + strings.Join(keys, ", ")
	if meant != "" {
		hint = "; did you mean " + meant + "?"
	}
	w.report(document.Join(path, document.QuoteKey(e.Key)), e.Line, "is not a setting%s", hint)
}

// scalar stores a single value, if it is of the right type. A name with nothing behind it is not
// the default: the document may have been cut off there.
func (w *walk) scalar(path string, f *field, v any, n document.Node) {
	want := document.String
	switch v.(type) {
	case *bool:
		want = document.Bool
	case *int, *time.Duration:
		want = document.Number
	}
	if !n.Single() || n.Kind != want && n.Kind != document.Scalar && !w.untyped {
		w.wrongKind(path, f, v, n)
	} else if err := f.store(v, n.Text); err != nil {
		w.report(path, n.Line, "%v", err)
	}
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
	codes := make([]int, 0, len(n.Items))
	for i, item := range n.Items {
		var code int
		at := document.Item(path, i)
		w.scalar(at, f, &code, item)
		switch {
		case w.bad[at]:
		case slices.Contains(codes, code):
			w.report(at, item.Line, "%d is in the list already; remove one of the two", code)
		default:
			codes = append(codes, code)
		}
	}
	*v = codes
}

// settle moves a bound of the pauses that nobody wrote next to the one that somebody did.
// Two written ones that contradict each other are a mistake.
func (w *walk) settle() {
	if w.model.Retry == nil {
		return
	}
	b := &w.model.Retry.Backoff
	first, base := w.places["Retry.Backoff.BaseMs"]
	longest, written := w.places["Retry.Backoff.MaxDelayMs"]
	switch {
	case b.Base <= b.MaxDelay, w.bad[first.path], w.bad[longest.path]: // one mistake is one problem
	case base && written:
		w.report(longest.path, longest.line, "%s is below the first pause, BaseMs, which is %s; raise this one or lower that",
			number(float64(b.MaxDelay)/1e6), number(float64(b.Base)/1e6))
	case written:
		b.Base = b.MaxDelay
	default:
		b.MaxDelay = b.Base
	}
}
