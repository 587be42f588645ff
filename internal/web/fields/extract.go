package fields

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/antchfx/xpath"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/record"
)

// Within is what rules are evaluated in: a page, or a part of it.
type Within struct {
	URL, Base canonical.URL  // the URL of the page, and the one against which references are resolved
	Node      *html.Node     // nil means that there is no HTML
	JSON      any            // as decoded by encoding/json, with json.Number for numbers; nil means that there is no JSON
	Budget    *effort.Budget // nil means no bound
	Left      *int           // bytes left for values
}

type page struct {
	Within
	errs []error
}

// maxErrors bounds the values that are reported as invalid dates.
const maxErrors = 5

// Page extracts the fields of a page, in the order of the rules. Url is the URL of the page, and base the one against
// which references are resolved. Each field has a value at least, and none is empty. The error says what was cut or
// failed; the fields are valid all the same.
func (e *Extractor) Page(url, base canonical.URL, d *dom.Document) ([]record.Values, error) {
	if e == nil {
		return nil, nil
	}
	left := MaxPage
	all, err := e.In(Within{URL: url, Base: base, Node: d.Root, Budget: d.Budget, Left: &left})
	if d.Cut || d.Budget.Spent() {
		err = errors.Join(err, errCut)
	}
	return all, err
}

// In extracts the fields of a part of a page. It is like Page, except that its error does not say whether the page was
// cut.
func (e *Extractor) In(w Within) ([]record.Values, error) {
	if e == nil {
		return nil, nil
	}
	p := &page{Within: w}
	var all []record.Values
	for i := range e.rules {
		c := &e.rules[i]
		if p.Budget.Spent() {
			break
		}
		if slices.ContainsFunc(all, func(f record.Values) bool { return f.Name == c.Name }) || !c.wants(p.URL.String()) {
			continue
		}
		if f := p.field(c); len(f.Values) > 0 {
			all = append(all, f)
		}
	}
	return all, errors.Join(p.errs...)
}

// errCut says that a part of the page was not read.
var errCut = fmt.Errorf("only a part of the page was looked at: it has more than %d bytes or extract.max_elements, or takes longer than extract.max_time", dom.MaxBytes)

// field evaluates one rule. If the XPath interpreter panics, the field is missing and there is an error.
func (p *page) field(c *compiled) (f record.Values) {
	f = record.Values{Name: c.Name, List: c.All, Number: c.Type == Number}
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		c.xpath = xpath.MustCompile(c.XPath) // the interpreter keeps state and was interrupted
		if r != any(errSpent) {
			p.errs = append(p.errs, fmt.Errorf("%s: %q failed: %v", c.Name, c.XPath, r))
		}
	}()
	switch {
	case c.Page:
		p.add(&f, c, p.URL.String())
		return f
	case c.json != nil:
		p.json(&f, c)
		return f
	case p.Node == nil:
		return f
	case c.re != nil:
		p.matches(&f, c)
		return f
	case c.xpath == nil:
		newMatcher(p.Node, p.Budget).each(c.css, func(n *html.Node) bool {
			return p.add(&f, c, p.value(c, n)) && (c.All || c.Attr != "") // of texts only the first element counts, even if empty
		})
		return f
	}
	switch v := c.xpath.Evaluate(navigate(p.Node, p.Budget, c.perByte)).(type) {
	case *xpath.NodeIterator:
		for v.MoveNext() {
			nav, ok := v.Current().(*navigator)
			if !ok || !p.add(&f, c, p.found(c, nav)) {
				break
			}
		}
	case string:
		p.add(&f, c, p.read(c, v))
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			p.add(&f, c, strconv.FormatFloat(v, 'f', -1, 64))
		}
	case bool:
		p.add(&f, c, strconv.FormatBool(v))
	}
	return f
}

const (
	reText  = 1 << 20 // bytes of text that regular expressions read
	rePiece = 2 << 10 // bytes that are matched together, because a match may cost as much as all the rest
)

// matches adds the matches of a regular expression in the text, which is read in pieces.
func (p *page) matches(f *record.Values, c *compiled) {
	text := dom.TextWithin(p.Node, reText, p.Budget)
	for text != "" {
		piece := text
		if len(piece) > rePiece {
			piece = dom.Clip(piece, rePiece)
			if i := strings.LastIndexByte(piece, ' '); i > 0 {
				piece = piece[:i]
			}
		}
		text = text[len(piece):]
		for at := 0; at < len(piece); {
			if !p.Budget.Spend((len(piece) - at) * c.perByte) {
				return
			}
			m := c.re.FindStringSubmatchIndex(piece[at:])
			if m == nil {
				break
			}
			from, to := m[0], m[1]
			if len(m) > 2 {
				from, to = m[2], m[3]
			}
			if from >= 0 { // the group may not be part of the match
				if v := p.read(c, piece[at+from:at+to]); !slices.Contains(f.Values, v) && !p.add(f, c, v) && v != "" {
					return
				}
			}
			at += max(m[1], 1)
		}
	}
}

// add adds a value and reports whether more values are wanted.
func (p *page) add(f *record.Values, c *compiled, value string) bool {
	if value == "" {
		return true
	}
	if len(f.Values) == MaxValues {
		p.errs = append(p.errs, fmt.Errorf("%s: more than %d values", c.Name, MaxValues))
		return false
	}
	limit := min(MaxValue, *p.Left)
	if len(value) > limit {
		if c.Type == Number || c.Type == URL { // a part of it would be a different one
			value = ""
		}
		p.errs = append(p.errs, fmt.Errorf("%s: a value longer than %d bytes, or more than %d bytes of values on the page", c.Name, MaxValue, MaxPage))
		value = dom.Clip(value, limit)
	}
	if value != "" {
		f.Values = append(f.Values, value)
		*p.Left -= len(value)
	}
	return c.All && *p.Left > 0
}

func (p *page) value(c *compiled, n *html.Node) string {
	if c.Attr != "" {
		v, _ := attr(n, c.Attr)
		return p.read(c, v)
	}
	return p.element(c, n)
}

// attr returns the value of an attribute. It also finds attributes with a namespace, such as xlink:href.
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

// element returns the value of an element. For a URL that is the target of its link.
func (p *page) element(c *compiled, n *html.Node) string {
	switch c.Type {
	case HTML:
		var l limited
		_ = html.Render(&l, n) // fails only because the writer is full
		p.Budget.SpendText(l.b.Len())
		return l.b.String()
	case URL:
		if v, ok := ofAttribute(n, "href", "src", "content", "data", "cite"); ok {
			return p.read(c, v)
		}
	case Date:
		if v, ok := ofAttribute(n, "datetime", "content"); ok {
			return p.read(c, v)
		}
	}
	return p.read(c, dom.TextWithin(n, MaxValue+utf8.UTFMax, p.Budget))
}

// ofAttribute returns the value of the first of these attributes that an element has.
func ofAttribute(n *html.Node, names ...string) (value string, ok bool) {
	for _, name := range names {
		if value, ok = dom.Attr(n, name); ok {
			break
		}
	}
	return value, ok
}

func (p *page) found(c *compiled, nav *navigator) string {
	if nav.NodeType() == xpath.ElementNode || nav.NodeType() == xpath.RootNode {
		return p.element(c, nav.Current())
	}
	return p.read(c, nav.Value())
}

func (p *page) read(c *compiled, s string) string {
	switch c.Type {
	case Number:
		return number(s)
	case URL:
		if s = strings.TrimSpace(s); s == "" {
			return ""
		}
		u, err := p.Base.Resolve(s)
		if err != nil {
			return ""
		}
		return u.String()
	case Date:
		iso, err := date(s)
		if err != nil && len(p.errs) < maxErrors {
			p.errs = append(p.errs, fmt.Errorf("%s: %.60q %w", c.Name, s, err))
		}
		return iso
	}
	var text dom.Collapser
	text.Add(s)
	return text.String()
}

// limited is a writer for little more than MaxValue bytes.
type limited struct{ b strings.Builder }

// Write appends b unless there is enough already.
func (l *limited) Write(b []byte) (int, error) {
	if l.b.Len() > MaxValue {
		return 0, io.ErrShortWrite
	}
	return l.b.Write(b)
}

// number returns the first number of a text in JSON syntax, or an empty string: "1.234,50 €" gives 1234.50.
//
// If there are a point and a comma, the last one is the decimal point and the other groups digits. A mark that occurs
// several times groups digits, and so does a single comma before three digits. A single point is a decimal point.
// Spaces, apostrophes and underscores between digits group them.
func number(s string) string {
	start := strings.IndexAny(s, digits)
	if start < 0 {
		return ""
	}
	sign := ""
	for _, minus := range []string{"-", "−"} {
		if strings.HasSuffix(s[:start], minus) && !joined(s[:start-len(minus)]) {
			sign = "-"
		}
	}
	whole, fraction := split(run(s[start:]))
	if start > 0 && s[start-1] == '.' && (start == 1 || !joined(s[:start-1])) && fraction == "" {
		whole, fraction = "0", whole // .5
	}
	whole = cmp.Or(strings.TrimLeft(whole, "0"), "0")
	if fraction != "" {
		whole += "." + fraction
	}
	if len(whole) > maxNumber {
		return ""
	}
	return sign + whole
}

const (
	digits    = "0123456789"
	maxNumber = 40 // bytes; longer ones are numbers of cards and hashes
)

// joined reports whether a dash after s is a hyphen, as in "A-4" and "2020-01".
func joined(s string) bool {
	return s != "" && (s[len(s)-1] >= utf8.RuneSelf || strings.IndexByte(letters+digits, s[len(s)-1]) >= 0)
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

var (
	numeral = lazy.Regexp(`^\d+(?:[ \x{a0}\x{202f}\x{2009}'’_,.]\d+)*`)
	group   = lazy.Regexp(`(\D*)(\d+)`)
)

// run returns the digits at the beginning of s with the points and commas between them. Other marks must group three
// digits: two years in a row are not one number.
func run(s string) string {
	var b strings.Builder
	for i, g := range group().FindAllStringSubmatch(numeral().FindString(s), -1) {
		decimal := g[1] == "," || g[1] == "."
		if i > 0 && !decimal && (len(g[2]) != 3 || i == 1 && b.Len() > 3) {
			break
		}
		if decimal {
			b.WriteString(g[1])
		}
		b.WriteString(g[2])
	}
	return b.String()
}

// split returns the digits before and after the decimal point.
func split(s string) (whole, fraction string) {
	point, comma := strings.LastIndexByte(s, '.'), strings.LastIndexByte(s, ',')
	at := max(point, comma)
	switch {
	case at < 0:
	case point >= 0 && comma >= 0: // the last one
	case strings.Count(s, s[at:at+1]) > 1, comma >= 0 && len(s)-comma-1 == 3:
		at = -1
	}
	clean := func(s string) string { return strings.NewReplacer(".", "", ",", "").Replace(s) }
	if at < 0 {
		return clean(s), ""
	}
	return clean(s[:at]), s[at+1:]
}
