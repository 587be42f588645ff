package binder

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	// DocumentMax bounds a document in bytes. One with every key and comments beside it, if
	// JSON had any, is 2 KiB.
	DocumentMax = 64 << 10
	// problemsMax is how many problems are kept. Nobody mends more in one go, and a large
	// document of rubbish must not become a larger message.
	problemsMax = 50
)

// Load reads a JSON document and returns its checked model. Every error is [Problems] with
// all that is wrong. A document that has a group "Resilience" may have other keys beside it,
// which are for others and ignored.
func Load(data []byte) (*Model, error) {
	n, err := parse(data)
	return finish(n, err, "")
}

func parse(data []byte) (Node, error) {
	if len(data) > DocumentMax {
		return Node{}, tooLarge()
	}
	return parseJSON(data)
}

func tooLarge() Problem {
	return Problem{Text: fmt.Sprintf("the document is larger than %d KiB; one with every key is a fraction of that, was another file meant?", DocumentMax>>10)}
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

// LoadYAML reads the document out of a node of a YAML file. path is where the node stands,
// such as "resilience", and begins the path of every problem; empty means at the top. The
// errors are as Load's.
func LoadYAML(path string, y *yaml.Node) (*Model, error) {
	n, err := fromYAML(y, 0)
	return finish(n, err, path)
}

// LoadNode is [LoadYAML] for a file that has been parsed into something else.
func LoadNode(path string, n Node) (*Model, error) { return finish(n, nil, path) }

// finish checks a parsed document.
func finish(n Node, err error, path string) (*Model, error) {
	if p, ok := errors.AsType[Problem](err); ok {
		p.Path = path
		return nil, Problems{p}
	}
	w := &walk{model: new(Model), places: make(map[string]place), bad: make(map[string]bool)}
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
	places   map[string]place // of what was written, by key: "Retry.Backoff.BaseMs"
	bad      map[string]bool  // paths that have a problem
	problems Problems
	more     int // problems beyond problemsMax
}

// place is where and how something was written.
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
	w.problems = append(w.problems, Problem{Path: path, Line: line, Text: fmt.Sprintf(format, args...)})
}

// root steps over the optional name around all sections. What else stands beside it is
// somebody else's, but for a section of ours. Nothing at all is a document without
// sections: people comment out all lines but the heading.
func (w *walk) root(path string, n Node) {
	i := slices.IndexFunc(n.Keys, func(e Entry) bool { return spells(e.Key, rootKey) })
	if i >= 0 {
		root := n.Keys[i]
		for j, e := range n.Keys {
			if _, ours := find(e.Key, nil, sections()); ours != nil || j > i && spells(e.Key, rootKey) {
				w.report(join(path, root.Key), root.Line, "stands beside %s; put all sections into it, and once", name(e.Key))
				return
			}
		}
		path, n = join(path, root.Key), root.Value
	}
	if n.Kind == Null && path != "" {
		return
	}
	w.group(path, "", n, nil, sections())
}

// group walks the keys of one pair of braces. at is the path by which the table knows it.
func (w *walk) group(path, at string, n Node, fields []field, list []section) {
	if n.Kind != Map {
		w.report(path, n.Line, "%s%s instead of a group of settings%s", subject(path), n.Kind, advice(n.Kind))
		return
	}
	seen := make(map[string]Entry, len(n.Keys))
	for _, e := range n.Keys {
		f, s := find(e.Key, fields, list)
		if f == nil && s == nil {
			w.unknown(path, e, fields, list)
			continue
		}
		key, full := canonical(f, s), join(path, e.Key)
		if first, twice := seen[key]; twice {
			w.report(full, e.Line, "is set already%s; remove one of the two", as(first, e))
			continue
		}
		seen[key] = e
		w.places[join(at, key)] = place{full, e.Line}
		if f != nil {
			w.value(full, f, e.Value)
			continue
		}
		if s.create != nil {
			s.create(w.model)
		}
		w.defaults(s)
		w.group(full, join(at, key), e.Value, s.fields, s.sections)
	}
}

// subject begins the message about a document that has no path.
func subject(path string) string {
	if path == "" {
		return "the document is "
	}
	return "is "
}

// advice is for a name with nothing behind it, which could mean either.
func advice(k Kind) string {
	if k == Null {
		return "; write {} for the defaults, or remove the line"
	}
	return ""
}

// as names the place of the first of two equal keys.
func as(first, second Entry) string {
	text := ""
	if first.Key != second.Key {
		text = " as " + first.Key
	}
	if first.Line > 0 {
		text += fmt.Sprintf(" on line %d", first.Line)
	}
	return text
}

// find is the field or section that a key spells.
func find(key string, fields []field, list []section) (*field, *section) {
	for i := range fields {
		if spells(key, fields[i].key) {
			return &fields[i], nil
		}
	}
	for i := range list {
		if spells(key, list[i].key) {
			return nil, &list[i]
		}
	}
	return nil, nil
}

// spells reports whether a key as written is the one of the table, in one of its spellings.
func spells(written, key string) bool { return written == key || written == snake(key) }

func canonical(f *field, s *section) string {
	if f != nil {
		return f.key
	}
	return s.key
}

// unknown reports a key that is none, with the one that was probably meant, spelled as its
// neighbours are.
func (w *walk) unknown(path string, e Entry, fields []field, list []section) {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	for _, s := range list {
		keys = append(keys, s.key)
	}
	lower := strings.ToLower(e.Key) == e.Key && strings.ToLower(path) == path
	hint := "; there are " + strings.Join(spelled(keys, lower), ", ")
	if meant := nearest(e.Key, keys); meant != "" {
		hint = "; did you mean " + spelled([]string{meant}, lower)[0] + "?"
	}
	w.report(join(path, name(e.Key)), e.Line, "is not a setting%s", hint)
}

// spelled are the keys in the spelling of the document.
func spelled(keys []string, lower bool) []string {
	if !lower {
		return keys
	}
	keys = slices.Clone(keys)
	for i, key := range keys {
		keys[i] = snake(key)
	}
	return keys
}

// defaults fills a section before it is read, those within it included.
func (w *walk) defaults(s *section) {
	for i := range s.fields {
		f := &s.fields[i]
		if err := f.store(f.ref(w.model), f.def); err != nil {
			panic("binder: default of " + f.key + ": " + err.Error()) // a mistake in the table
		}
	}
	for i := range s.sections {
		w.defaults(&s.sections[i])
	}
}

// value stores what was written for a field.
func (w *walk) value(path string, f *field, n Node) {
	switch v := f.ref(w.model).(type) {
	case *[]int:
		w.codes(path, f, v, n)
	default:
		w.scalar(path, f, v, n)
	}
}

// scalar stores a single value, if it is of the right kind.
func (w *walk) scalar(path string, f *field, v any, n Node) {
	var want Kind
	switch v.(type) {
	case *bool:
		want = Bool
	case *int, *time.Duration:
		want = Number
	default:
		want = String
	}
	switch n.Kind {
	case want, Scalar:
		if err := f.store(v, n.Text); err != nil {
			w.report(path, n.Line, "%v", err)
		}
	default:
		w.wrongKind(path, f, n)
	}
}

// wrongKind reports a value that is of another kind than its field. A name with nothing
// behind it is not the default: the document may have been cut off there.
func (w *walk) wrongKind(path string, f *field, n Node) {
	switch n.Kind {
	case Null:
		w.report(path, n.Line, "has no value; give %s, or remove the line", f.want())
	case String, Number, Bool:
		w.report(path, n.Line, "%s is %s; give %s", quote(n.Text), n.Kind, f.want())
	default:
		w.report(path, n.Line, "is %s; give %s", n.Kind, f.want())
	}
}

// codes stores the list of statuses.
func (w *walk) codes(path string, f *field, v *[]int, n Node) {
	if n.Kind != List {
		w.wrongKind(path, f, n)
		return
	}
	codes := make([]int, 0, len(n.Items))
	for i, item := range n.Items {
		var code int
		at := fmt.Sprintf("%s[%d]", path, i)
		w.scalar(at, &field{min: f.min, max: f.max, ref: func(*Model) any { return &code }}, &code, item)
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

// join puts a key below a path, which is "" at the top.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
