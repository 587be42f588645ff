// Package readable finds the main text of a page: what it was written for, without
// navigation, asides, footers, forms, and notices about cookies.
//
// [Text] works in three steps, each a file. blocks.go cuts the page into blocks of text
// and leaves out what says by its element, its role or its class that it is no main text.
// choose.go tells of each block whether it is main text, by its length in words, the share
// of them that are links, and the same of its neighbours: the rules that Kohlschütter,
// Fankhauser and Nejdl learned from hand-labelled news pages (Boilerplate Detection using
// Shallow Text Features, WSDM 2010, figure 2 and the decision tree on number of words).
// This file joins what was chosen: headings go with what follows them, short blocks with
// the long ones around them.
//
// Where a page marks its main text itself, with a main element, a single article or
// role=main, only that is looked at, and it needs less to be chosen.
//
// Libraries that do this bring a dozen others along, some of them abandoned. On the real
// documentation of the tests the result was as good as that of the port of Mozilla's
// Readability, and had more of the text of reference pages, which are no articles.
//
// The result is an estimate. It is for search and for language models, which do better
// without the boilerplate, and not for an archive: the whole text is package extract's.
package readable

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/web/dom"
)

// MaxText bounds the text in bytes. A novel has a megabyte.
const MaxText = 1 << 20

// marks are the elements that say that they hold the main text, and the share of the page's
// words that they must have to be believed: lists of teasers are articles as well.
var marks = [...]struct {
	element atom.Atom
	role    string
	share   float64
}{
	{atom.Main, "main", 0.1},
	{atom.Article, "article", 0.3},
}

// Text is the main text of a page, a line per block, white space collapsed but in
// preformatted text. It is empty if there is none that stands out, as on pages of links.
// It takes any tree and is cut at MaxText.
func Text(d *dom.Document) string {
	body := find(d.Root, func(n *html.Node) bool { return n.DataAtom == atom.Body })
	if body == nil {
		return ""
	}
	prose := make(map[*html.Node]int)
	count(body, false, prose, d.Budget)
	top, marked := container(body, prose)
	blocks := split(top, prose, d.Budget)
	if marked {
		chooseMarked(blocks)
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

// container is the element that the page says holds its main text, or body.
func container(body *html.Node, prose map[*html.Node]int) (n *html.Node, marked bool) {
	for _, m := range marks {
		is := func(n *html.Node) bool { return n.DataAtom == m.element || role(n) == m.role }
		only, several := (*html.Node)(nil), false
		for n := find(body, is); n != nil; n = findAfter(n, body, is) {
			several = only != nil
			if several {
				break
			}
			only = n
		}
		if only == nil || several {
			continue
		}
		if prose[only] > 0 && float64(prose[only]) >= m.share*float64(prose[body]) {
			return only, true
		}
	}
	return body, false
}

// find is the first element of root that is wanted.
func find(root *html.Node, wanted func(*html.Node) bool) *html.Node {
	for n := root.FirstChild; n != nil; n = step(n, root) {
		if n.Type == html.ElementNode && wanted(n) {
			return n
		}
	}
	return nil
}

// findAfter is the first one behind n, and not within it.
func findAfter(n, root *html.Node, wanted func(*html.Node) bool) *html.Node {
	for n = dom.After(n, root); n != nil; n = step(n, root) {
		if n.Type == html.ElementNode && wanted(n) {
			return n
		}
	}
	return nil
}

// step is the next node in the order of the page.
func step(n, root *html.Node) *html.Node {
	if n.FirstChild != nil && !dom.Silent(n) {
		return n.FirstChild
	}
	return dom.After(n, root)
}

func role(n *html.Node) string {
	r, _ := dom.Attr(n, "role")
	return strings.ToLower(strings.TrimSpace(r))
}
