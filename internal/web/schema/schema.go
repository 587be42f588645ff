// Package schema reads structured data in the vocabulary of schema.org from pages: JSON-LD and microdata, as one kind
// of tree.
//
// [Read] finds the things of a type. From both syntaxes it makes values as encoding/json does: a group has "@type",
// perhaps "@id", and its properties; a property with several values is a list. Types are compared without the address
// of schema.org, http or https, and without regard to case; a thing may have several types.
//
// A thing nested in one that was found is a part of it, and not found by itself: the similar products that a product
// lists are not products of the page. In JSON-LD a reference to another thing of the page by its @id is replaced by
// that thing. If JSON-LD has things of the type, microdata is ignored, because sites that have both say the same in
// both.
package schema

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/metadata"
)

const (
	maxThings = 1000 // on one page
	maxDepth  = 32   // of things nested in things
)

// Thing is one thing with its properties.
type Thing = map[string]any

// Read returns the things of a type, such as "Product", in the order of the page. An empty kind means those of any
// type.
func Read(d *dom.Document, base canonical.URL, kind string) []Thing {
	l := linked{d: d, kind: plain(kind), byID: map[string]Thing{}}
	var blocks []any
	for _, text := range metadata.Read(d).JSONLD {
		if v, ok := fields.ReadJSON([]byte(text), d.Budget); ok {
			l.note(v, 0)
			blocks = append(blocks, v)
		}
	}
	if l.find(blocks, 0); len(l.found) > 0 {
		return l.found
	}
	m := micro{d: d, base: base, kind: plain(kind)}
	m.index()
	m.walk(d.Root)
	return m.found
}

// Types returns the types of the outermost things on a page, each once.
func Types(d *dom.Document, base canonical.URL) []string {
	var all []string
	for _, t := range Read(d, base, "") {
		for _, name := range texts(t["@type"]) {
			if name = short(name); name != "" && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// short returns a type without the address of its vocabulary.
func short(s string) string {
	return vocabulary().ReplaceAllString(strings.TrimSpace(s), "$1")
}

var vocabulary = lazy.Regexp(`(?is)^(?:https?://(?:www\.)?schema\.org/|schema:)(.)`)

func plain(s string) string { return strings.ToLower(short(s)) }

func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		all = []string{v}
	case []any:
		for _, x := range v {
			if s, ok := x.(string); ok {
				all = append(all, s)
			}
		}
	}
	return all
}

func is(t Thing, kind string) bool {
	types := texts(t["@type"])
	if kind == "" {
		return len(types) > 0
	}
	return slices.ContainsFunc(types, func(s string) bool { return plain(s) == kind })
}

type linked struct {
	d     *dom.Document
	kind  string
	byID  map[string]Thing
	found []Thing
}

// note remembers the things that have an @id and other properties. Of two with one @id, it keeps the one with more
// properties.
func (l *linked) note(v any, depth int) {
	if depth > maxDepth || !l.d.Budget.Spend(1) {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			l.note(x, depth+1)
		}
	case map[string]any:
		if id, ok := v["@id"].(string); ok && len(v) > max(1, len(l.byID[id])) {
			l.byID[id] = v
		}
		for _, x := range v {
			l.note(x, depth+1)
		}
	}
}

func (l *linked) find(v any, depth int) {
	if depth > maxDepth || len(l.found) == maxThings || !l.d.Budget.Spend(1) {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			l.find(x, depth+1)
		}
	case map[string]any:
		if is(v, l.kind) {
			if t, ok := l.value(v, nil).(Thing); ok {
				l.found = append(l.found, t)
			}
			return
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			l.find(v[key], depth+1)
		}
	}
}

// value returns a value with references resolved and wrappers removed. ids are those of the things around it.
func (l *linked) value(v any, ids []string) any {
	if !l.d.Budget.Spend(1) || len(ids) > maxDepth {
		return nil
	}
	switch v := v.(type) {
	case []any:
		all := make([]any, 0, len(v))
		for _, x := range v {
			all = append(all, l.value(x, ids))
		}
		return all
	case map[string]any:
		for _, wrapper := range [...]string{"@value", "@list", "@set"} {
			if x, ok := v[wrapper]; ok {
				return l.value(x, ids)
			}
		}
		id, _ := v["@id"].(string)
		if to := l.byID[id]; id != "" && len(v) == 1 && to != nil {
			v = to
		}
		if id != "" && slices.Contains(ids, id) { // the thing is nested in itself
			return Thing{"@id": id}
		}
		t := make(Thing, len(v))
		for key, x := range v {
			switch key {
			case "@context":
			case "@type":
				t[key] = types(texts(x))
			default:
				t[key] = l.value(x, append(slices.Clip(ids), id))
			}
		}
		return t
	}
	return v
}

func types(names []string) any {
	all := make([]any, len(names))
	for i, s := range names {
		all[i] = short(s)
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// micro reads the microdata of a page (HTML standard, section 5).
type micro struct {
	d     *dom.Document
	base  canonical.URL
	kind  string
	ids   map[string]*html.Node // elements that an itemref names
	found []Thing
	seen  int // number of things read
}

// index finds the elements that an itemref may name; of several with one id, the first.
func (m *micro) index() {
	m.ids = map[string]*html.Node{}
	for n := range m.d.Root.Descendants() {
		if !m.d.Budget.Spend(1) {
			return
		}
		if id, ok := dom.Attr(n, "id"); ok && id != "" && m.ids[id] == nil {
			m.ids[id] = n
		}
	}
}

// walk finds the outermost things of the type.
func (m *micro) walk(n *html.Node) {
	for c := n.FirstChild; c != nil && len(m.found) < maxThings && m.d.Budget.Spend(1); c = c.NextSibling {
		if _, scope := dom.Attr(c, "itemscope"); scope {
			if t := (Thing{"@type": typesOf(c)}); is(t, m.kind) {
				m.found = append(m.found, m.thing(c, nil))
				continue
			}
		}
		if c.DataAtom != atom.Template {
			m.walk(c)
		}
	}
}

func typesOf(n *html.Node) any {
	names, _ := dom.Attr(n, "itemtype")
	return types(strings.Fields(names))
}

// thing reads the thing of element n. within are the elements of the things around it.
func (m *micro) thing(n *html.Node, within []*html.Node) Thing {
	t := Thing{"@type": typesOf(n)}
	if id, ok := dom.Attr(n, "itemid"); ok {
		t["@id"] = m.resolve(id)
	}
	if m.seen++; len(within) > maxDepth || m.seen > maxThings || slices.Contains(within, n) {
		return t
	}
	within = append(slices.Clip(within), n)
	visited := map[*html.Node]bool{n: true}
	m.properties(t, n.FirstChild, within, visited)
	refs, _ := dom.Attr(n, "itemref")
	for id := range strings.FieldsSeq(refs) {
		if at := m.ids[id]; at != nil && !visited[at] {
			m.property(t, at, within, visited)
		}
	}
	return t
}

// properties reads the properties in an element and its following siblings.
func (m *micro) properties(t Thing, first *html.Node, within []*html.Node, visited map[*html.Node]bool) {
	for c := first; c != nil && m.d.Budget.Spend(1); c = c.NextSibling {
		m.property(t, c, within, visited)
	}
}

func (m *micro) property(t Thing, n *html.Node, within []*html.Node, visited map[*html.Node]bool) {
	if n.Type != html.ElementNode || visited[n] {
		return
	}
	visited[n] = true
	names, is := dom.Attr(n, "itemprop")
	_, scope := dom.Attr(n, "itemscope")
	if is {
		var v any
		if scope {
			v = m.thing(n, within)
		} else {
			v = m.text(n)
		}
		for name := range strings.FieldsSeq(names) {
			put(t, short(name), v)
		}
	}
	if !scope && n.DataAtom != atom.Template {
		m.properties(t, n.FirstChild, within, visited)
	}
}

func put(t Thing, name string, v any) {
	old, ok := t[name]
	switch list, isList := old.([]any); {
	case !ok:
		t[name] = v
	case isList:
		t[name] = append(list, v)
	default:
		t[name] = []any{old, v}
	}
}

// text returns the value of a property that is not itself a thing.
func (m *micro) text(n *html.Node) string {
	if content, ok := dom.Attr(n, "content"); ok {
		content = dom.Clip(content, fields.MaxValue)
		if !m.d.Budget.SpendText(len(content)) {
			return ""
		}
		return strings.Join(strings.Fields(content), " ")
	}
	links := map[atom.Atom]string{
		atom.A: "href", atom.Area: "href", atom.Link: "href", atom.Audio: "src", atom.Embed: "src", atom.Iframe: "src",
		atom.Img: "src", atom.Source: "src", atom.Track: "src", atom.Video: "src", atom.Object: "data",
	}
	if name, ok := links[n.DataAtom]; ok {
		ref, _ := dom.Attr(n, name)
		return m.resolve(ref)
	}
	values := map[atom.Atom]string{atom.Data: "value", atom.Meter: "value", atom.Time: "datetime"}
	if v, ok := dom.Attr(n, values[n.DataAtom]); ok {
		return strings.TrimSpace(v)
	}
	return dom.TextWithin(n, fields.MaxValue, m.d.Budget)
}

func (m *micro) resolve(ref string) string {
	if u, err := m.base.Resolve(strings.TrimSpace(ref)); err == nil && strings.TrimSpace(ref) != "" {
		return u.String()
	}
	return strings.TrimSpace(ref)
}
