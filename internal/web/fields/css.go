package fields

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/effort"
)

// The library matches one element at a time, and for "a ~ b ~ c" goes over all earlier siblings for
// each: the square or cube of their number, uninterruptible. Here a selector is matched in one walk
// over the tree, from left to right: each element knows which parts its parent, ancestors and
// siblings matched, so the cost is elements times parts. The library parses selectors and tests
// what needs one element alone.

// maxParts bounds the parts of the selectors of one rule: a bit for each.
const maxParts = 64

type selector struct {
	parts       []part // of all selectors, one after another
	first, last uint64 // the parts that begin and end a selector
	// The parts by what joins them to the one before.
	descendant, child, next, later uint64
}

// part is the conditions on one element.
type part struct{ tests []test }

// test is one condition on an element and its place.
type test func(m *matcher, n *html.Node, at *place) bool

// matcher matches selectors in one tree.
type matcher struct {
	root   *html.Node
	budget *effort.Budget
	sets   map[*selector]map[*html.Node]bool // what the arguments of :not and :has match
	text   int                               // bytes in the element that is being looked at
}

// place is the position among siblings, computed as needed.
type place struct {
	parent *html.Node
	index  int            // of the element among all, from 1
	last   *html.Node     // the element that index is of
	kinds  map[string]int // how many of a name came, itself included
	totals map[string]int // how many of a name there are, and of all by ""; nil: not counted
}

// each calls yield with the matching elements in the order of the page, until it returns false
// or the budget is spent.
func (m *matcher) each(s *selector, yield func(*html.Node) bool) {
	m.children(s, m.root, 0, 0, yield)
}

// children matches what is in parent. The parts in self match parent, those in above an ancestor
// or parent.
func (m *matcher) children(s *selector, parent *html.Node, self, above uint64, yield func(*html.Node) bool) bool {
	var before, earlier uint64 // what matches the sibling before, and any before
	at := place{parent: parent}
	for c := parent.FirstChild; c != nil; c = c.NextSibling {
		if !m.budget.Spend(1) {
			return false
		}
		if c.Type != html.ElementNode {
			continue
		}
		at.index++
		var matched uint64
		for may := s.first | above<<1&s.descendant | self<<1&s.child | before<<1&s.next | earlier<<1&s.later; may != 0; may &= may - 1 {
			if i := bits.TrailingZeros64(may); m.matches(&s.parts[i], c, &at) {
				matched |= 1 << i
			}
		}
		if matched&s.last != 0 && !yield(c) || !m.children(s, c, matched, above|matched, yield) {
			return false
		}
		before, earlier = matched, earlier|matched
	}
	return true
}

func (m *matcher) matches(p *part, n *html.Node, at *place) bool {
	steps := 1
	for i := range n.Attr {
		steps += 1 + len(n.Attr[i].Val)/effort.Bytes
	}
	for _, t := range p.tests {
		if !m.budget.Spend(steps) || !t(m, n, at) {
			return false
		}
	}
	return !m.budget.Spent() // or a test has not seen all
}

// set is the elements that a selector matches, or that relate to them.
func (m *matcher) set(s *selector, relate func(set map[*html.Node]bool, n *html.Node)) map[*html.Node]bool {
	set, ok := m.sets[s]
	if !ok {
		set = make(map[*html.Node]bool)
		m.sets[s] = set
		m.each(s, func(n *html.Node) bool {
			relate(set, n)
			return true
		})
	}
	return set
}

// relation tests :not, :has or :haschild.
func relation(name string, of *selector) test {
	relate := func(set map[*html.Node]bool, n *html.Node) { set[n] = true }
	switch name {
	case "haschild":
		relate = func(set map[*html.Node]bool, n *html.Node) { set[n.Parent] = true }
	case "has":
		relate = func(set map[*html.Node]bool, n *html.Node) {
			for p := n.Parent; p != nil && !set[p]; p = p.Parent {
				set[p] = true
			}
		}
	}
	want := name != "not"
	return func(m *matcher, n *html.Node, _ *place) bool { return m.set(of, relate)[n] == want }
}

// position tests the position among siblings, an+b from 1.
func position(a, b int, fromEnd, ofType bool) test {
	return func(m *matcher, n *html.Node, at *place) bool {
		i := at.of(m, n, ofType)
		if fromEnd {
			i = at.total(m, n, ofType) - i + 1
		}
		if i -= b; a == 0 {
			return i == 0
		}
		return i%a == 0 && i/a >= 0
	}
}

// only tests :only-child or :only-of-type.
func only(ofType bool) test {
	return func(m *matcher, n *html.Node, at *place) bool { return at.total(m, n, ofType) == 1 }
}

// of is the position of n, which comes after all earlier calls.
func (p *place) of(m *matcher, n *html.Node, ofType bool) int {
	if !ofType {
		return p.index
	}
	if p.kinds == nil {
		p.kinds = make(map[string]int)
	}
	for p.last != n {
		if p.last == nil {
			p.last = p.parent.FirstChild
		} else {
			p.last = p.last.NextSibling
		}
		m.budget.Spend(1)
		if p.last.Type == html.ElementNode {
			p.kinds[p.last.Data]++
		}
	}
	return p.kinds[n.Data]
}

func (p *place) total(m *matcher, n *html.Node, ofType bool) int {
	if p.totals == nil {
		p.totals = make(map[string]int)
		for c := p.parent.FirstChild; c != nil && m.budget.Spend(1); c = c.NextSibling {
			if c.Type == html.ElementNode {
				p.totals[""]++
				p.totals[c.Data]++
			}
		}
	}
	if ofType {
		return p.totals[n.Data]
	}
	return p.totals[""]
}

// within charges for the content of n before a test that reads it.
func within(t test, perByte int) test {
	return func(m *matcher, n *html.Node, at *place) bool {
		m.text = 0
		return m.content(n, perByte) && t(m, n, at)
	}
}

// patterned charges for the attributes of n before a test that matches a pattern.
func patterned(t test, perByte int) test {
	return func(m *matcher, n *html.Node, at *place) bool {
		for i := range n.Attr {
			if cost := len(n.Attr[i].Val) * perByte; m.budget.AllowCall(cost) {
				m.budget.Spend(cost)
			}
		}
		return !m.budget.Spent() && t(m, n, at)
	}
}

func (m *matcher) content(n *html.Node, perByte int) bool {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.TextNode {
			m.text += len(c.Data)
		}
		if !m.budget.AllowCall(m.text*perByte) || !m.budget.Spend(1+len(c.Data)/effort.Bytes+len(c.Data)*perByte) || !m.content(c, perByte) {
			return false
		}
	}
	return true
}

// upward charges for the ancestors of n, and the siblings of legends, before a test that visits
// them.
func upward(t test) test {
	return func(m *matcher, n *html.Node, at *place) bool {
		for p := n; p != nil; p = p.Parent {
			m.budget.Spend(1 + len(p.Attr))
			for s := p.PrevSibling; s != nil && p.Data == "legend" && m.budget.Spend(1); s = s.PrevSibling {
				continue
			}
		}
		return !m.budget.Spent() && t(m, n, at)
	}
}

// parseSelector splits a list of selectors that the library has accepted.
func parseSelector(s string) (*selector, error) {
	p := &selectorParser{s: s}
	sel, err := p.list()
	if err == nil && p.i < len(s) {
		err = fmt.Errorf("%q is left over", s[p.i:])
	}
	return sel, err
}

type selectorParser struct {
	s string
	i int
}

// list reads selectors up to the end or a closing bracket.
func (p *selectorParser) list() (*selector, error) {
	s := &selector{}
	join := &s.first
	for {
		if p.space(); p.i >= len(p.s) || len(s.parts) == maxParts {
			return nil, fmt.Errorf("it has more than %d parts; make several rules of it", maxParts)
		}
		one, err := p.part()
		if err != nil {
			return nil, err
		}
		bit := uint64(1) << len(s.parts)
		s.parts = append(s.parts, one)
		*join |= bit
		join = &s.descendant
		p.space()
		switch next := p.peek(); next {
		case 0, ')':
			s.last |= bit
			return s, nil
		case ',':
			s.last |= bit
			join = &s.first
		case '>':
			join = &s.child
		case '+':
			join = &s.next
		case '~':
			join = &s.later
		default:
			continue
		}
		p.i++
	}
}

func (p *selectorParser) peek() byte {
	if p.i >= len(p.s) {
		return 0
	}
	return p.s[p.i]
}

func (p *selectorParser) space() {
	for p.i < len(p.s) {
		switch {
		case strings.IndexByte(" \t\r\n\f", p.s[p.i]) >= 0:
			p.i++
		case strings.HasPrefix(p.s[p.i:], "/*"):
			p.i = min(len(p.s), p.i+len("/*")+strings.Index(p.s[p.i+len("/*"):]+"*/", "*/")+len("*/"))
		default:
			return
		}
	}
}

// part reads the conditions on one element.
func (p *selectorParser) part() (one part, err error) {
	for {
		from, perByte := p.i, 0
		switch c := p.peek(); c {
		case 0, ' ', '\t', '\r', '\n', '\f', ',', '>', '+', '~', ')', '/':
			return one, nil
		case '*':
			p.i++
			if strings.HasPrefix(p.s[p.i:], "|*") {
				p.i += len("|*")
			}
			continue
		case ':':
			t, err := p.pseudo()
			if err != nil {
				return one, err
			}
			one.tests = append(one.tests, t)
			continue
		case '[':
			if perByte, err = p.bracket(); err != nil {
				return one, err
			}
		case '.', '#':
			p.i++
			p.name()
		default:
			p.name()
		}
		if p.i == from {
			return one, fmt.Errorf("%q is no part of a selector", p.s[from:])
		}
		t, err := simple(p.s[from:p.i])
		if err != nil {
			return one, err
		}
		if perByte > 0 {
			t = patterned(t, perByte)
		}
		one.tests = append(one.tests, t)
	}
}

// simple tests what needs the element alone.
func simple(text string) (test, error) {
	sel, err := cascadia.Parse(text)
	if err != nil {
		return nil, err
	}
	return func(_ *matcher, n *html.Node, _ *place) bool { return sel.Match(n) }, nil
}

func (p *selectorParser) pseudo() (test, error) {
	from := p.i
	p.i++
	p.name()
	name, perByte := strings.ToLower(p.s[from+1:p.i]), 0
	if p.peek() == '(' {
		if name == "not" || name == "has" || name == "haschild" {
			p.i++
			of, err := p.list()
			if err != nil {
				return nil, err
			}
			p.i++ // the library has seen that it is closed
			return relation(name, of), nil
		}
		p.i++
		if strings.HasPrefix(name, "matches") {
			var err error
			if perByte, err = p.pattern(); err != nil {
				return nil, err
			}
		} else {
			p.until(')')
		}
		p.i++
	}
	text := p.s[from:min(p.i, len(p.s))]
	t, err := simple(text)
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(name, "contains"), strings.HasPrefix(name, "matches"):
		return within(t, perByte), nil
	case name == "lang", name == "enabled", name == "disabled":
		return upward(t), nil
	case strings.HasPrefix(name, "only-"):
		return only(name == "only-of-type"), nil
	case strings.HasPrefix(name, "nth-"), strings.HasPrefix(name, "first-"), strings.HasPrefix(name, "last-"):
		return nth(name, text)
	}
	return t, nil
}

// nth tests a position, by the library's reading of the formula.
func nth(name, text string) (test, error) {
	a, b := 0, 1
	if strings.HasPrefix(name, "nth-") {
		sel, err := cascadia.Parse(text)
		if err != nil {
			return nil, err
		}
		if _, formula, ok := strings.Cut(sel.String(), "("); ok { // else it is that of :first-child
			if _, err := fmt.Sscanf(formula, "%dn%d)", &a, &b); err != nil {
				return nil, fmt.Errorf("%q: %w", text, err)
			}
		}
	}
	return position(a, b, strings.Contains(name, "last-"), strings.HasSuffix(name, "-of-type")), nil
}

// name skips an identifier with its escapes.
func (p *selectorParser) name() {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '\\':
			p.escape()
			continue
		case c != '-' && c != '_' && c < 0x80 && (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9'):
			return
		}
		p.i++
	}
}

// escape skips a backslash with up to six digits and a space, or one character.
func (p *selectorParser) escape() {
	p.i++
	from := p.i
	for p.i < len(p.s) && p.i < from+6 && strings.IndexByte("0123456789abcdefABCDEF", p.s[p.i]) >= 0 {
		p.i++
	}
	switch {
	case p.i == from:
		p.i++
	case strings.HasPrefix(p.s[p.i:], "\r\n"):
		p.i += 2
	case p.i < len(p.s) && strings.IndexByte(" \t\r\n\f", p.s[p.i]) >= 0:
		p.i++
	}
}

// bracket skips a test of an attribute.
func (p *selectorParser) bracket() (perByte int, err error) {
	p.i++
	p.space()
	p.name()
	p.space()
	if strings.HasPrefix(p.s[p.i:], "#=") {
		p.i += len("#=")
		perByte, err = p.pattern()
	} else {
		p.until(']')
	}
	p.i++
	return perByte, err
}

// until skips to a closing bracket, past quoted text.
func (p *selectorParser) until(end byte) {
	for p.i < len(p.s) && p.s[p.i] != end {
		switch c := p.s[p.i]; c {
		case '\\':
			p.escape()
			continue
		case '"', '\'':
			for p.i++; p.i < len(p.s) && p.s[p.i] != c; p.i++ {
				if p.s[p.i] == '\\' {
					p.i++
				}
			}
		}
		p.i++
	}
	p.i = min(p.i, len(p.s))
}

// pattern skips a regular expression to its closing bracket, by counting, as the library does.
func (p *selectorParser) pattern() (steps int, err error) {
	from := p.i
	for open := 0; p.i < len(p.s); p.i++ {
		switch p.s[p.i] {
		case '(', '[':
			open++
		case ')', ']':
			if open--; open < 0 {
				return patternSteps(p.s[from:p.i])
			}
		}
	}
	return 0, nil
}
