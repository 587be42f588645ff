// Package readable finds the main text of a page, without navigation, asides, footers, forms and notices about
// cookies.
//
// [Text] cuts the page into blocks of text, without what is marked as boilerplate by its element, role or class;
// selects blocks by their words, the share of link words, and the same of their neighbours (Kohlschütter, Fankhauser
// and Nejdl: Boilerplate Detection using Shallow Text Features, WSDM 2010, figure 2 and the decision tree on number
// of words); and joins headings and short blocks to the long ones. Where a page marks its main text, with a main
// element, a single article or role=main, only that is read, and less is needed to be selected.
//
// On the real documentation of the tests the result was as good as that of the port of Mozilla's Readability, with
// more of the text of reference pages. It is an estimate, for search and for language models; the whole text is
// package extract's.
package readable

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/web/dom"
)

// MaxText bounds the text in bytes.
const MaxText = 1 << 20

// marks are the elements that mark main text, and the share of the page's words that they need: lists of teasers are
// articles too.
var marks = [...]struct {
	element atom.Atom
	role    string
	share   float64
}{
	{atom.Main, "main", 0.1},
	{atom.Article, "article", 0.3},
}

// Text is the main text, a line per block, white space collapsed but in preformatted text, cut at MaxText. It is
// empty if nothing stands out, as on pages of links.
func Text(d *dom.Document) string {
	body := find(d.Root, nil, func(n *html.Node) bool { return n.DataAtom == atom.Body })
	if body == nil {
		return ""
	}
	prose := make(map[*html.Node]int)
	count(body, false, prose, d.Budget)
	top, marked := container(body, prose)
	s := splitter{prose: prose, budget: d.Budget}
	s.children(top, false)
	s.end()
	blocks := s.blocks
	if marked { // all but links
		for i := range blocks {
			b := &blocks[i]
			b.main = b.links() <= 0.5 || b.heading || b.words-b.linked >= 3
		}
	} else {
		choose(blocks)
		fuse(blocks)
	}
	leadIn(blocks)
	var b strings.Builder
	for i := range blocks {
		if !blocks[i].main {
			continue
		}
		if b.Len()+len(blocks[i].text) >= MaxText {
			break
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(blocks[i].text)
	}
	return b.String()
}

// container is the element that is marked as main text, or body.
func container(body *html.Node, prose map[*html.Node]int) (n *html.Node, marked bool) {
	for _, m := range marks {
		is := func(n *html.Node) bool { return n.DataAtom == m.element || role(n) == m.role }
		only := find(body, nil, is)
		if only == nil || find(body, only, is) != nil {
			continue
		}
		if prose[only] > 0 && float64(prose[only]) >= m.share*float64(prose[body]) {
			return only, true
		}
	}
	return body, false
}

// find is the first wanted element in root, after the node n if there is one.
func find(root, n *html.Node, wanted func(*html.Node) bool) *html.Node {
	if n == nil {
		n = root.FirstChild
	} else {
		n = dom.After(n, root)
	}
	for n != nil && (n.Type != html.ElementNode || !wanted(n)) {
		if n.FirstChild != nil && !dom.Silent(n) {
			n = n.FirstChild
		} else {
			n = dom.After(n, root)
		}
	}
	return n
}

func role(n *html.Node) string {
	r, _ := dom.Attr(n, "role")
	return strings.ToLower(strings.TrimSpace(r))
}
