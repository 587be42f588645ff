package fields

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/antchfx/xpath"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
)

// Field is what a page has of one name.
type Field struct {
	Name string
	// Values are in the order of the page, none of them empty. There is at least one.
	Values []string
	// All says that the rule asks for all values; without it there is one.
	All bool
	// Number says that the values are numbers as JSON writes them.
	Number bool
}

// page is one page while its fields are gathered.
type page struct {
	root   *html.Node
	base   canonical.URL
	budget *effort.Budget
	left   int // bytes that values may still take
	errs   []error
}

// Page gathers the fields of a page, in the order of the rules. url is that of the page,
// and base what its references are resolved against. The error says what was cut or could
// not be run; the fields are those found all the same.
func (e *Extractor) Page(url, base canonical.URL, d *dom.Document) ([]Field, error) {
	if e == nil {
		return nil, nil
	}
	p := &page{root: d.Root, base: base, budget: d.Budget, left: MaxPage}
	var all []Field
	for i := range e.rules {
		c := &e.rules[i]
		if d.Budget.Spent() {
			break
		}
		if has(all, c.Name) || !c.wants(url.String()) {
			continue
		}
		if f := p.field(c); len(f.Values) > 0 {
			all = append(all, f)
		}
	}
	if d.Cut || d.Budget.Spent() {
		p.errs = append(p.errs, errCut)
	}
	return all, errors.Join(p.errs...)
}

// errCut is for a page of which not all was looked at.
var errCut = fmt.Errorf("only a part of the page was looked at: it has more than %d bytes or extract.max_elements, or takes longer than extract.max_time", dom.MaxBytes)

func has(fields []Field, name string) bool {
	for i := range fields {
		if fields[i].Name == name {
			return true
		}
	}
	return false
}

// field runs one rule. XPath is a library's interpreter of what the user wrote: if it
// panics on some page, that page lacks the field, and says so.
func (p *page) field(c *compiled) (f Field) {
	f = Field{Name: c.Name, All: c.All, Number: c.Type == Number}
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		c.xpath = xpath.MustCompile(c.XPath) // it keeps state, and was interrupted
		if r != any(errSpent) {
			p.errs = append(p.errs, fmt.Errorf("%s: %q failed: %v", c.Name, c.XPath, r))
		}
	}()
	if c.xpath == nil {
		m := &matcher{root: p.root, budget: p.budget, sets: map[*selector]map[*html.Node]bool{}}
		m.each(c.css, func(n *html.Node) bool {
			return p.add(&f, c, p.value(c, n)) && (c.All || c.Attr != "") // of one element the first counts, empty or not
		})
		return f
	}
	switch v := c.xpath.Evaluate(navigate(p.root, p.budget, c.perByte)).(type) {
	case *xpath.NodeIterator:
		for v.MoveNext() {
			nav, ok := v.Current().(*navigator)
			if !ok || !p.add(&f, c, p.found(c, nav)) {
				break
			}
		}
	case string:
		p.add(&f, c, p.read(c.Type, v))
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			p.add(&f, c, strconv.FormatFloat(v, 'f', -1, 64))
		}
	case bool:
		p.add(&f, c, strconv.FormatBool(v))
	}
	return f
}

// add takes a value and reports whether more are wanted.
func (p *page) add(f *Field, c *compiled, value string) bool {
	if value == "" {
		return true
	}
	if len(f.Values) == MaxValues {
		p.errs = append(p.errs, fmt.Errorf("%s: more than %d values", c.Name, MaxValues))
		return false
	}
	limit := min(MaxValue, p.left)
	if len(value) > limit {
		if c.Type == Number || c.Type == URL { // half of one is another one
			value = ""
		}
		p.errs = append(p.errs, fmt.Errorf("%s: a value longer than %d bytes, or more than %d bytes of values on the page", c.Name, MaxValue, MaxPage))
		value = dom.Clip(value, limit)
	}
	if value != "" {
		f.Values = append(f.Values, value)
		p.left -= len(value)
	}
	return c.All && p.left > 0
}

// value is what a rule by CSS takes of an element.
func (p *page) value(c *compiled, n *html.Node) string {
	if c.Attr != "" {
		v, _ := attr(n, c.Attr)
		return p.read(c.Type, v)
	}
	return p.element(c, n)
}

// attr also finds those that the parser gave a namespace, such as xlink:href.
func attr(n *html.Node, name string) (string, bool) {
	name = strings.ToLower(name)
	space, key, ok := strings.Cut(name, ":")
	for i := range n.Attr {
		a := &n.Attr[i]
		if strings.EqualFold(a.Key, name) || ok && a.Namespace == space && a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

// element is what a rule takes of an element itself: of links and images as a URL, that is
// where they lead.
func (p *page) element(c *compiled, n *html.Node) string {
	switch c.Type {
	case HTML:
		v := render(n)
		p.budget.SpendText(len(v))
		return v
	case URL:
		for _, name := range []string{"href", "src", "content", "data", "cite"} {
			if v, ok := dom.Attr(n, name); ok {
				return p.read(URL, v)
			}
		}
	}
	return p.read(c.Type, dom.TextWithin(n, MaxValue+utf8.UTFMax, p.budget))
}

// found is what a rule by XPath takes of what it came to.
func (p *page) found(c *compiled, nav *navigator) string {
	if nav.NodeType() == xpath.ElementNode || nav.NodeType() == xpath.RootNode {
		return p.element(c, nav.Current())
	}
	return p.read(c.Type, nav.Value())
}

// read makes a value of a text.
func (p *page) read(t Type, s string) string {
	switch t {
	case Number:
		return number(s)
	case URL:
		if s = strings.TrimSpace(s); s == "" {
			return ""
		}
		u, err := p.base.Resolve(s)
		if err != nil {
			return ""
		}
		return u.String()
	}
	var c dom.Collapser
	c.Add(s)
	return c.String()
}

// render is an element as HTML, at most a little more than a value may have.
func render(n *html.Node) string {
	var b limited
	_ = html.Render(&b, n) // its error is that of the writer, which is full
	return b.String()
}

// limited keeps what is written to it, up to a value.
type limited struct{ strings.Builder }

var errFull = errors.New("full")

// Write fails when there is more than a value may have.
func (l *limited) Write(b []byte) (int, error) {
	if l.Len() > MaxValue {
		return 0, errFull
	}
	return l.Builder.Write(b)
}

// WriteByte and WriteString are what a Builder would otherwise offer without the limit.
func (l *limited) WriteByte(c byte) error {
	_, err := l.Write([]byte{c})
	return err
}

// WriteString fails as Write does.
func (l *limited) WriteString(s string) (int, error) { return l.Write([]byte(s)) }
