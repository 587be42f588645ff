package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	pagefields "github.com/treadlight/crawl/internal/web/fields"
)

// fieldsPath is the list of rules for fields.
const fieldsPath = "extract.fields"

// Names are the names of the fields, each once, in the order of their first rules.
func (e *Extract) Names() []string {
	var names []string
	for _, text := range e.Fields {
		if r, err := pagefields.Parse(text); err == nil && !slices.Contains(names, r.Name) { // Validate has said what is wrong
			names = append(names, r.Name)
		}
	}
	return names
}

// ParseField reads a rule of [Extract].Fields. The error says what to write, everything
// that is wrong at once.
func ParseField(s string) (pagefields.Rule, error) {
	if err := printable(s); err != nil {
		return pagefields.Rule{}, err
	}
	r, err := pagefields.Parse(s)
	if err != nil {
		return r, err
	}
	var all []string
	for _, p := range problemsOf(r) {
		all = append(all, p.Error())
	}
	if len(all) > 0 {
		return r, errors.New(strings.Join(all, "; "))
	}
	return r, nil
}

func fieldRule(s string) error {
	_, err := ParseField(s)
	return err
}

// problemsOf is what is wrong with a rule, part by part.
func problemsOf(r pagefields.Rule) (all []*pagefields.Problem) {
	err := r.Check()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	for _, e := range joined.Unwrap() {
		if p, ok := errors.AsType[*pagefields.Problem](e); ok {
			all = append(all, p)
		}
	}
	return all
}

var fieldKeys = []string{"css", "xpath", "attr", "all", "type", "match"}

// fieldGroup makes rules in a line of rules by name: a rule, or a list of them, each in a
// line without its name or in parts. It reports false if anything was wrong.
func (f *fileWalk) fieldGroup(n document.Node) (document.Node, bool) {
	list, before := document.Node{Line: n.Line, Kind: document.List}, len(f.problems)+f.more
	for _, e := range f.unique(fieldsPath, n) {
		path := document.Join(fieldsPath, document.QuoteKey(e.Key))
		rules := []document.Node{e.Value}
		if e.Value.Kind == document.List {
			rules = e.Value.Items
		}
		for i, rule := range rules {
			at := path
			if e.Value.Kind == document.List {
				at = document.Item(path, i)
			}
			f.fieldItem(&list, at, e.Key, rule)
		}
	}
	return list, len(f.problems)+f.more == before
}

func (f *fileWalk) fieldItem(list *document.Node, path, name string, n document.Node) {
	switch {
	case n.Single():
		r, err := pagefields.Parse(name + "=" + n.Text)
		if err != nil {
			f.report(path, f.origin(n.Line), "%v", err)
			return
		}
		f.fieldRule(list, path, r, n, nil)
	case n.Kind == document.Map:
		f.fieldParts(list, path, name, n)
	default:
		f.report(path, f.origin(n.Line), `is %s; give a rule such as "css:.price" or {css: .price, type: number}`, n.Kind)
	}
}

func (f *fileWalk) fieldParts(list *document.Node, path, name string, n document.Node) {
	r, lines, before := pagefields.Rule{Name: name}, map[string]int{}, len(f.problems)+f.more
	for _, e := range f.unique(path, n) {
		lines[e.Key] = e.Value.Line
		key, o := document.Join(path, document.QuoteKey(e.Key)), f.origin(e.Value.Line)
		text := strings.Join(strings.Fields(e.Value.Text), " ") // of several lines, as YAML may have it
		var err error
		switch {
		case !slices.Contains(fieldKeys, e.Key):
			f.unknown(path, e.Key, f.origin(e.Line), below(path, fieldKeys))
		case !e.Value.Single():
			f.report(key, o, "is %s; give a text", e.Value.Kind)
		case e.Key == "css":
			r.CSS = text
		case e.Key == "xpath":
			r.XPath = text
		case e.Key == "attr":
			r.Attr = text
		case e.Key == "match":
			r.Match = text
		case e.Key == "type":
			r.Type, err = pagefields.ParseType(text)
		default:
			var v any
			if v, err = (&field{kind: kindBool}).parse(text); err == nil {
				r.All = v.(bool)
			}
		}
		if err != nil {
			f.report(key, o, "%v", err)
		}
	}
	// Without a selector one of the problems above is why.
	if len(f.problems)+f.more == before || r.CSS+r.XPath != "" {
		f.fieldRule(list, path, r, n, lines)
	}
}

// fieldRule checks a rule and adds it. lines are where its parts stand.
func (f *fileWalk) fieldRule(list *document.Node, path string, r pagefields.Rule, n document.Node, lines map[string]int) {
	problems := problemsOf(r)
	for _, p := range problems {
		at, line := path, n.Line
		if l, ok := lines[p.Key]; ok {
			at, line = document.Join(path, p.Key), l
		}
		f.report(at, f.origin(line), "%s", p.Text)
	}
	if len(problems) == 0 {
		list.Items = append(list.Items, document.Node{Line: n.Line, Kind: document.String, Text: r.String()})
	}
}

func below(path string, names []string) []string {
	all := make([]string, len(names))
	for i := range names {
		all[i] = document.Join(path, names[i])
	}
	return all
}

func (l *loader) checkFields() {
	if n := len(l.cfg.Extract.Fields); n > pagefields.MaxRules {
		l.report(fieldsPath, l.origins[fieldsPath], "has %d rules; give at most %d", n, pagefields.MaxRules)
	}
}
