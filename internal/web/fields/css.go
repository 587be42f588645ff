package fields

import (
	"fmt"
	"math/bits"
	"regexp"
	"strings"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/effort"
)

// The library matches one element at a time, and for "a ~ b ~ c" it visits all earlier siblings of each: the square or
// cube of their number, without a way to stop it. So here a selector is matched in one walk over the tree, from left to
// right: for each element it is known which parts its parent, ancestors and siblings have matched, so the cost is the
// number of elements times that of parts. The library parses selectors and tests what depends on one element alone.

// maxParts bounds the parts of the selectors of one rule, as each is one bit.
const maxParts = 64

// selector is a list of selectors, compiled.
type selector struct {
	parts       []part // of all selectors, one after another
	first, last uint64 // the parts that begin a selector, and those that end one
	// The parts by the combinator before them.
	descendant, child, next, later uint64
	scoped                         uint64 // the parts with :scope
}

type part struct {
	tests  []test
	scoped bool
}

// test is one condition on an element and its place.
type test func(m *matcher, n *html.Node, at *place) bool

// matcher matches selectors in one tree.
type matcher struct {
	root   *html.Node
	budget *effort.Budget
	sets   map[*selector]map[*html.Node]bool // the elements that arguments of :not and :has match
	text   int                               // bytes of text read in the current element
}

func newMatcher(root *html.Node, budget *effort.Budget) *matcher {
	return &matcher{root: root, budget: budget, sets: map[*selector]map[*html.Node]bool{}}
}

// place has the children of one parent. They are counted when a test first needs that.
type place struct {
	parent *html.Node
	index  map[*html.Node][2]int // position of an element among all, and among those of its name, from 1
	total  map[string]int        // number of elements by name; "" stands for all
}

// each calls yield with the matching elements in the order of the page, until it returns false or the budget is spent.
func (m *matcher) each(s *selector, yield func(*html.Node) bool) {
	var scope uint64 // the parts that match the root, which only :scope does
	for may := s.first & s.scoped; may != 0; may &= may - 1 {
		if i := bits.TrailingZeros64(may); m.matches(&s.parts[i], m.root, &place{parent: m.root}) {
			scope |= 1 << i
		}
	}
	if scope&s.last != 0 && !yield(m.root) {
		return
	}
	m.children(s, m.root, scope, scope, yield)
}

// children matches the elements in parent. The parts in self match parent, those in above match parent or one of its
// ancestors.
func (m *matcher) children(s *selector, parent *html.Node, self, above uint64, yield func(*html.Node) bool) bool {
	var before, earlier uint64 // the parts that match the previous sibling, and any earlier one
	at := place{parent: parent}
	for c := parent.FirstChild; c != nil; c = c.NextSibling {
		if !m.budget.Spend(1) {
			return false
		}
		if c.Type != html.ElementNode {
			continue
		}
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
	return !m.budget.Spent() // otherwise a test may not have seen everything
}

// set returns the elements that relate adds for each match of a selector.
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

// relation returns a test for :not, :has or :haschild.
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

// position returns a test of the position among siblings, an+b from 1.
func position(a, b int, fromEnd, ofType bool) test {
	return func(m *matcher, n *html.Node, at *place) bool {
		i, total := at.of(m, n, ofType)
		if fromEnd {
			i = total - i + 1
		}
		if i -= b; a == 0 {
			return i == 0
		}
		return i%a == 0 && i/a >= 0
	}
}

// only returns a test for :only-child or :only-of-type.
func only(ofType bool) test {
	return func(m *matcher, n *html.Node, at *place) bool {
		_, total := at.of(m, n, ofType)
		return total == 1
	}
}

// of returns the position of n, and the number of siblings including n.
func (p *place) of(m *matcher, n *html.Node, ofType bool) (index, total int) {
	if p.index == nil {
		p.index, p.total = make(map[*html.Node][2]int), make(map[string]int)
		for c := p.parent.FirstChild; c != nil && m.budget.Spend(1); c = c.NextSibling {
			if c.Type == html.ElementNode {
				p.total[""]++
				p.total[c.Data]++
				p.index[c] = [2]int{p.total[""], p.total[c.Data]}
			}
		}
	}
	if ofType {
		return p.index[n][1], p.total[n.Data]
	}
	return p.index[n][0], p.total[""]
}

// within returns a test that charges for the content of n before a test that reads it.
func within(t test, perByte int) test {
	return func(m *matcher, n *html.Node, at *place) bool {
		m.text = 0
		return m.content(n, perByte) && t(m, n, at)
	}
}

// charged returns a test that charges for the attributes of n before a test that matches a pattern.
func charged(t test, perByte int) test {
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

// upward returns a test that charges for the ancestors of n, and the siblings of legends, before a test that visits
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

// parseSelector parses a list of selectors that the library has accepted.
func parseSelector(s string) (*selector, error) {
	p := &selectorParser{left: s}
	sel, err := p.list()
	if err == nil && p.left != "" {
		err = fmt.Errorf("%q is left over", p.left)
	}
	return sel, err
}

type selectorParser struct{ left string }

// The tokens of selectors. The patterns of the library's own pseudo-classes end at the closing bracket.
var (
	blanks    = lazy.Regexp(`^(?:[ \t\r\n\f]|(?s:/\*.*?(?:\*/|$)))*`)
	joiner    = lazy.Regexp(`^[,>+~]`)
	single    = lazy.Regexp(`^(?:\*(?:\|\*)?|[.#]?` + ident + `|\[` + quotedOr(`\]`) + `\])`)
	pseudo    = lazy.Regexp(`^:(` + ident + `)`)
	argument  = lazy.Regexp(`^\(` + quotedOr(`\)`) + `\)`)
	patterned = lazy.Regexp(`^\[[ \t\r\n\f]*` + ident + `[ \t\r\n\f]*#=`)
)

const ident = `(?:\\[0-9a-fA-F]{1,6}(?:\r\n|[ \t\r\n\f])?|(?s:\\.)|[-\w]|[^\x00-\x7f])+`

// quotedOr returns a pattern for quoted text, escapes, and any other characters except end.
func quotedOr(end string) string {
	return `(?s:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^"'\\` + end + `])*`
}

func (p *selectorParser) take(form *regexp.Regexp) string {
	taken := form.FindString(p.left)
	p.left = p.left[len(taken):]
	return taken
}

// list parses selectors up to the end or a closing bracket.
func (p *selectorParser) list() (*selector, error) {
	s := &selector{}
	join := &s.first
	for {
		if p.take(blanks()); p.left == "" || len(s.parts) == maxParts {
			return nil, fmt.Errorf("it has more than %d parts; make several rules of it", maxParts)
		}
		before := p.left
		one, err := p.part()
		if err != nil {
			return nil, err
		}
		if p.left == before {
			return nil, fmt.Errorf("%q is no part of a selector", p.left)
		}
		bit := uint64(1) << len(s.parts)
		s.parts = append(s.parts, one)
		if *join |= bit; one.scoped {
			s.scoped |= bit
		}
		p.take(blanks())
		switch p.take(joiner()) {
		case ",":
			s.last |= bit
			join = &s.first
		case ">":
			join = &s.child
		case "+":
			join = &s.next
		case "~":
			join = &s.later
		default:
			if join = &s.descendant; p.left == "" || p.left[0] == ')' {
				s.last |= bit
				return s, nil
			}
		}
	}
}

// part parses the conditions on one element.
func (p *selectorParser) part() (one part, err error) {
	for {
		var t test
		from := p.left
		switch {
		case p.left == "":
			return one, nil
		case p.left[0] == ':' && pseudo().FindString(p.left) == ScopePseudo:
			p.take(pseudo())
			one.scoped = true
			t = func(m *matcher, n *html.Node, _ *place) bool { return n == m.root }
		case p.left[0] == ':':
			t, err = p.pseudo()
		case p.take(patterned()) != "":
			var perByte int
			if perByte, err = p.pattern(); err == nil {
				t, err = simple(from[:len(from)-len(p.left)])
				t = charged(t, perByte)
			}
		default:
			text := p.take(single())
			if text == "" {
				return one, nil
			}
			if text[0] == '*' {
				continue
			}
			t, err = simple(text)
		}
		if err != nil {
			return one, err
		}
		one.tests = append(one.tests, t)
	}
}

// simple returns a test that depends on the element alone.
func simple(text string) (test, error) {
	sel, err := cascadia.Parse(text)
	if err != nil {
		return nil, err
	}
	return func(_ *matcher, n *html.Node, _ *place) bool { return sel.Match(n) }, nil
}

func (p *selectorParser) pseudo() (test, error) {
	from, perByte := p.left, 0
	name := strings.ToLower(strings.TrimPrefix(p.take(pseudo()), ":"))
	switch open := strings.HasPrefix(p.left, "("); {
	case open && (name == "not" || name == "has" || name == "haschild"):
		p.left = p.left[1:]
		of, err := p.list()
		if err != nil {
			return nil, err
		}
		p.left = p.left[min(1, len(p.left)):] // the library has checked that it is closed
		return relation(name, of), nil
	case open && strings.HasPrefix(name, "matches"):
		p.left = p.left[1:]
		var err error
		if perByte, err = p.pattern(); err != nil {
			return nil, err
		}
	case open:
		p.take(argument())
	}
	text := from[:len(from)-len(p.left)]
	t, err := simple(text)
	switch {
	case err != nil:
		return nil, err
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

// nth returns a test of a position. The library parses the formula.
func nth(name, text string) (test, error) {
	a, b := 0, 1
	if strings.HasPrefix(name, "nth-") {
		sel, err := cascadia.Parse(text)
		if err != nil {
			return nil, err
		}
		if _, formula, ok := strings.Cut(sel.String(), "("); ok { // otherwise it is that of :first-child
			if _, err := fmt.Sscanf(formula, "%dn%d)", &a, &b); err != nil {
				return nil, fmt.Errorf("%q: %w", text, err)
			}
		}
	}
	return position(a, b, strings.Contains(name, "last-"), strings.HasSuffix(name, "-of-type")), nil
}

// pattern takes a regular expression with its closing bracket, which it finds by counting brackets, as the library
// does.
func (p *selectorParser) pattern() (steps int, err error) {
	open := 0
	for i, c := range []byte(p.left) {
		switch c {
		case '(', '[':
			open++
		case ')', ']':
			if open--; open < 0 {
				steps, err = patternSteps(p.left[:i])
				p.left = p.left[i+1:]
				return steps, err
			}
		}
	}
	p.left = ""
	return 0, nil
}
