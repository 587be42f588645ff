// Package dom builds the tree of a page, for the few things that need one: selectors, and what of a page is its main
// text. Links and plain text come from package extract, which reads pages without a tree.
//
// [Parse] is the parser of x/net/html, which follows the HTML standard, scripts off: what stands in noscript is part of
// the page. That parser gives up on a page with more than 512 elements open at a time, which careless templates reach:
// elements beyond maxDepth are made to stand side by side at that depth. So every page has a tree.
//
// A tree takes about ten times the memory of its page. [MaxBytes], the elements that the caller allows and the page's
// budget bound it; what is beyond them is cut off, and Document.Cut says so. feed.go keeps pages from costing the
// parser more than that.
package dom

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/web/effort"
)

const (
	// MaxBytes is how much of a page is parsed. Pages written for people have a tenth.
	MaxBytes = 4 << 20
	// MaxElements bounds a tree unless the caller has another bound. The specification of HTML on one page, among the
	// largest there are, has about three times as many.
	MaxElements = 100_000
)

// Document is the tree of a page.
type Document struct {
	// Root is the document node; its tree has html, head and body.
	Root *html.Node
	// Cut says that the tree lacks something of the page: what is beyond MaxBytes, the elements or the budget, or
	// attributes that no reader would miss.
	Cut bool
	// Budget is what all who read the tree share. Nil has no bound.
	Budget *effort.Budget
}

// Parse is [ParseWithin] with MaxElements and no budget.
func Parse(body []byte) *Document { return ParseWithin(body, MaxElements, nil) }

// ParseWithin builds the tree of body, which is UTF-8; bytes that are none stay as they are. It takes any input and
// keeps nothing of it. The tree has at most so many elements, and what it costs is taken from the budget.
func ParseWithin(body []byte, elements int, budget *effort.Budget) *Document {
	d := &Document{Budget: budget}
	if len(body) > MaxBytes {
		end := MaxBytes
		for !utf8.RuneStart(body[end]) && end > MaxBytes-utf8.UTFMax {
			end--
		}
		body, d.Cut = body[:end], true
	}
	in := newFeed(body, elements, budget)
	root, err := html.ParseWithOptions(in, html.ParseOptionEnableScripting(false), in.option())
	if err != nil { // too deep all the same
		root, _ = html.Parse(strings.NewReader("")) // which has no errors
		d.Cut = true
	}
	d.Root = root
	d.Cut = prune(root, elements) || in.cut || d.Cut
	return d
}

// prune takes out the elements beyond most, in the order of the page, and all that comes after them.
func prune(root *html.Node, most int) bool {
	elements := 0
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if elements++; elements > most {
			for c := n; c != root; c = c.Parent {
				for c.NextSibling != nil {
					c.Parent.RemoveChild(c.NextSibling)
				}
			}
			n.Parent.RemoveChild(n)
			return true
		}
	}
	return false
}

// After is the node that follows n and all that is in it, in the order of the page. It is nil after the last one
// below root.
func After(n, root *html.Node) *html.Node {
	for ; n != nil && n != root; n = n.Parent {
		if n.NextSibling != nil {
			return n.NextSibling
		}
	}
	return nil
}

// TextWithin is what a reader sees of n: its text, each run of space as one space, words of different blocks apart.
// Scripts, styles and templates have none. At most limit bytes are collected, at the cost of a budget: when that is
// spent the rest is left out.
func TextWithin(n *html.Node, limit int, budget *effort.Budget) string {
	var t Collapser
	t.children(n, limit, budget)
	return Clip(t.String(), limit)
}

// children adds what is in n. Trees are not deep.
func (t *Collapser) children(n *html.Node, limit int, budget *effort.Budget) {
	for c := n.FirstChild; c != nil && t.Len() < limit && budget.SpendText(len(c.Data)); c = c.NextSibling {
		switch {
		case c.Type == html.TextNode:
			t.Add(c.Data)
		case Silent(c):
		case c.Type == html.ElementNode && Inline(c):
			t.children(c, limit, budget)
		default:
			t.Break()
			t.children(c, limit, budget)
			t.Break()
		}
	}
}

// Clip shortens s to limit bytes, between two characters.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// Collapser joins text as a browser lays it out on one line. The zero Collapser is empty.
type Collapser struct {
	b     strings.Builder
	space bool // before the next word
}

// Add appends text; space at its ends and within it becomes one space.
func (t *Collapser) Add(s string) {
	for s != "" {
		i := strings.IndexAny(s, spaces)
		if i == 0 {
			t.space = true
			s = strings.TrimLeft(s, spaces)
			continue
		}
		if i < 0 {
			i = len(s)
		}
		if t.space && t.b.Len() > 0 {
			t.b.WriteByte(' ')
		}
		t.space = false
		t.b.WriteString(s[:i])
		s = s[i:]
	}
}

// spaces are those of HTML and the one that does not break, which is a space to readers of a value.
const spaces = " \t\n\r\f\u00a0"

// Break puts what follows apart.
func (t *Collapser) Break() { t.space = true }

// Len is how many bytes there are.
func (t *Collapser) Len() int { return t.b.Len() }

func (t *Collapser) String() string { return t.b.String() }

// Silent reports whether what is in n is no text of the page.
func Silent(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Template, atom.Head, atom.Title, atom.Textarea, atom.Select,
		atom.Datalist, atom.Iframe, atom.Object, atom.Noembed, atom.Noframes:
		return n.Type == html.ElementNode
	}
	return n.Type == html.CommentNode
}

// Inline reports whether an element stands within a line of text.
func Inline(n *html.Node) bool {
	switch n.DataAtom {
	case atom.A, atom.Abbr, atom.Acronym, atom.B, atom.Bdi, atom.Bdo, atom.Big, atom.Cite, atom.Code, atom.Data,
		atom.Del, atom.Dfn, atom.Em, atom.Font, atom.I, atom.Ins, atom.Kbd, atom.Label, atom.Mark, atom.Nobr,
		atom.Output, atom.Q, atom.Rb, atom.Rp, atom.Rt, atom.Ruby, atom.S, atom.Samp, atom.Small, atom.Span,
		atom.Strike, atom.Strong, atom.Sub, atom.Sup, atom.Time, atom.Tt, atom.U, atom.Var, atom.Wbr:
		return true
	}
	return false
}

// Attr is the value of an attribute, and whether n has it.
func Attr(n *html.Node, name string) (string, bool) {
	for i := range n.Attr {
		if n.Attr[i].Key == name && n.Attr[i].Namespace == "" {
			return n.Attr[i].Val, true
		}
	}
	return "", false
}

// Words counts runs of letters and digits; in scripts without spaces two characters are a word, the mean length in
// Chinese and Japanese.
func Words(s string) (n int) {
	inside, dense := false, 0
	for _, r := range s {
		switch {
		case r < 0x2e80 && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			if !inside {
				n++
			}
			inside = true
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			dense++
			inside = false
		case unicode.IsLetter(r): // Hangul among them, which has spaces
			if !inside {
				n++
			}
			inside = true
		default:
			inside = r == '\'' || r == '’'
		}
	}
	return n + (dense+1)/2
}
