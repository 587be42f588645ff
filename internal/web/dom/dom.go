// Package dom builds the tree of a page, for the few things that need one, such as selectors and the main text. Links and
// plain text come from package extract, which reads pages without a tree.
//
// [Parse] uses the parser of x/net/html, which follows the HTML standard, with scripts off: the content of noscript is
// part of the page. That parser gives up on a page with more than 512 open elements, which careless templates reach.
// Therefore elements deeper than maxDepth become siblings at that depth, so that every page has a tree.
//
// A tree takes about ten times the memory of its page. It is bounded by [MaxBytes], the number of elements that the
// caller allows, and the budget of the page. What is beyond them is cut off, and Document.Cut says so. feed.go ensures
// that no page costs the parser more than that.
package dom

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/web/effort"
)

// Default bounds of trees.
const (
	// MaxBytes bounds the bytes of a page that are parsed. Pages written for people have a tenth of that.
	MaxBytes = 4 << 20
	// MaxElements bounds a tree unless the caller sets another bound. The HTML specification on one page, which is
	// among the largest pages, has about three times as many elements.
	MaxElements = 100_000
)

// Document is the tree of a page.
type Document struct {
	// Root is the document node. Its tree has html, head and body.
	Root *html.Node
	// Cut says that the tree lacks a part of the page: what is beyond MaxBytes, the bound of elements or the budget, or
	// attributes that matter to no reader.
	Cut bool
	// Stripped says that Cut means attributes alone: every element and text is there.
	Stripped bool
	// Budget is shared by all readers of the tree. Nil means no bound.
	Budget *effort.Budget
}

// Parse is [ParseWithin] with MaxElements and no budget.
func Parse(body []byte) *Document { return ParseWithin(body, MaxElements, nil) }

// ParseWithin builds the tree of body, which is UTF-8; invalid bytes are kept. It accepts any input and keeps nothing
// of body. The tree has at most the given number of elements, and its cost is taken from the budget.
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
	if err != nil { // too deep in spite of feed
		root, _ = html.Parse(strings.NewReader("")) // cannot fail
		d.Cut = true
	}
	d.Root = root
	d.Cut = prune(root, elements) || in.cut || d.Cut
	d.Stripped = in.stripped && !d.Cut
	d.Cut = d.Cut || in.stripped
	return d
}

// prune removes the elements beyond most, in the order of the page, and everything after them. It reports whether there
// were any.
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

// TextWithin returns the text of n as a reader sees it, with each run of white space as one space, and words of
// different blocks separated. Scripts, styles and templates have no text. At most limit bytes are collected, and their
// cost is taken from the budget; when that is spent, the rest is left out.
func TextWithin(n *html.Node, limit int, budget *effort.Budget) string {
	var t Collapser
	t.children(n, limit, budget)
	return Clip(t.String(), limit)
}

// children adds the text in n. It recurses, as trees are not deep.
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

// Clip cuts s to at most limit bytes, between two characters.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// Collapser joins texts and collapses white space, as a browser does on one line. The zero Collapser is empty.
type Collapser struct {
	b     strings.Builder
	space bool // a space comes before the next word
}

// Add appends text. White space at its ends and within it becomes one space.
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

// spaces are the white space of HTML and the no-break space, which looks like a space to readers.
const spaces = " \t\n\r\f\u00a0"

// Break separates what follows by a space.
func (t *Collapser) Break() { t.space = true }

// Len returns the number of bytes so far.
func (t *Collapser) Len() int { return t.b.Len() }

func (t *Collapser) String() string { return t.b.String() }

// Silent reports whether the content of n is not text of the page.
func Silent(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Template, atom.Head, atom.Title, atom.Textarea, atom.Select,
		atom.Datalist, atom.Iframe, atom.Object, atom.Noembed, atom.Noframes:
		return n.Type == html.ElementNode
	}
	return n.Type == html.CommentNode
}

// Inline reports whether an element is part of a line of text.
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

// Attr returns the value of an attribute, and whether n has it.
func Attr(n *html.Node, name string) (string, bool) {
	for i := range n.Attr {
		if n.Attr[i].Key == name && n.Attr[i].Namespace == "" {
			return n.Attr[i].Val, true
		}
	}
	return "", false
}

// unspaced are the scripts that part no words by spaces.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// Words counts runs of letters and digits, with their marks, apostrophes and soft hyphens. In scripts without spaces two
// characters are a word, the mean length in Chinese and Japanese.
func Words(s string) (n int) {
	inside, dense := false, 0
	for _, r := range s {
		switch {
		case r >= 0x0e00 && unicode.In(r, unspaced...):
			dense++
			inside = false
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if !inside {
				n++
			}
			inside = true
		case inside && (r == '\'' || r == '’' || r == '\u00ad' || r == '\u200c' || r == '\u200d' || r >= 0x300 && unicode.Is(unicode.M, r)):
		default:
			inside = false
		}
	}
	return n + (dense+1)/2
}
