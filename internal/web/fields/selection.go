package fields

import (
	"fmt"

	"github.com/antchfx/xpath"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/effort"
)

// Selector selects elements like the CSS of a rule. It is safe for concurrent use.
type Selector struct{ css *selector }

// parsed has the last selectors, as programs use few of them again and again.
var parsed = func() *lru.Cache[string, *Selector] {
	c, err := lru.New[string, *Selector](1000)
	if err != nil {
		panic(err) // the size is no good
	}
	return c
}()

// ParseSelector compiles a list of CSS selectors, or returns the Selector of an earlier call. The error says what is
// wrong with it.
func ParseSelector(text string) (*Selector, error) {
	if s, ok := parsed.Get(text); ok {
		return s, nil
	}
	css, err := compileCSS(text)
	if err != nil {
		return nil, err
	}
	s := &Selector{css}
	parsed.Add(text, s)
	return s, nil
}

// Each calls yield with the elements below root that match, in the order of the page, until it returns false or the
// budget is spent.
func (s *Selector) Each(root *html.Node, budget *effort.Budget, yield func(*html.Node) bool) {
	newMatcher(root, budget).each(s.css, yield)
}

// Found is what an XPath expression has found: a Node, or the Value of an attribute or of a computation.
type Found struct {
	Node  *html.Node
	Value string
}

// Find evaluates an XPath expression with root as its context. When the budget is spent it returns what was found so
// far.
func Find(expr string, root *html.Node, budget *effort.Budget) (found []Found, err error) {
	e, perByte, err := compileXPath(expr)
	if err != nil {
		return nil, err
	}
	defer func() {
		if v := recover(); v != nil && v != any(errSpent) {
			err = fmt.Errorf("%q failed: %v", expr, v)
		}
	}()
	value := e.Evaluate(navigate(root, budget, perByte))
	nodes, ok := value.(*xpath.NodeIterator)
	if !ok {
		return []Found{{Value: fmt.Sprint(value)}}, nil
	}
	for nodes.MoveNext() {
		nav, ok := nodes.Current().(*navigator)
		switch {
		case !ok:
			return found, nil
		case nav.NodeType() == xpath.ElementNode || nav.NodeType() == xpath.RootNode:
			found = append(found, Found{Node: nav.NodeNavigator.Current()})
		default:
			found = append(found, Found{Value: nav.Value()})
		}
	}
	return found, nil
}

// Parts yields what the first rule of e selects, so that other rules can be evaluated in it, until yield returns false:
// elements of HTML, or values of JSON, where the values of an array are yielded one by one.
func (e *Extractor) Parts(w Within, yield func(Within) bool) {
	c := &e.rules[0]
	node := func(n *html.Node) bool {
		part := w
		part.Node, part.JSON = n, nil
		return yield(part)
	}
	switch {
	case c.json != nil:
		for _, v := range SelectJSON(c.json, w.JSON, w.Budget) {
			list, isList := v.([]any)
			if !isList {
				list = []any{v}
			}
			for _, v := range list {
				part := w
				if part.Node, part.JSON = nil, v; !yield(part) {
					return
				}
			}
		}
	case w.Node == nil:
	case c.css != nil:
		newMatcher(w.Node, w.Budget).each(c.css, node)
	default:
		for _, n := range c.nodes(w) { // collected first, because yield may use the interpreter
			if !node(n) {
				return
			}
		}
	}
}

// nodes returns the elements that the expression of a rule finds. If the budget is spent meanwhile it returns those found
// so far.
func (c *compiled) nodes(w Within) (all []*html.Node) {
	defer func() {
		if recover() != nil {
			c.xpath = xpath.MustCompile(c.XPath) // the interpreter keeps state and was interrupted
		}
	}()
	it, ok := c.xpath.Evaluate(navigate(w.Node, w.Budget, c.perByte)).(*xpath.NodeIterator)
	for ok && it.MoveNext() {
		if nav, is := it.Current().(*navigator); is && nav.NodeType() == xpath.ElementNode {
			all = append(all, nav.Current())
		}
	}
	return all
}
