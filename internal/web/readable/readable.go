// Package readable finds the main text of a page: what a person came for, without navigation, asides, footers, forms
// and cookie notices.
//
// [Read] cuts the tree of a page into blocks of text and selects some of them:
//
//   - A port of Mozilla's Readability reads the page, and for each block it is noted whether it is part of the result.
//     Readability finds the right part of nearly every article, but with captions, bylines and teasers in it. Of forums,
//     listings and landing pages it finds one section out of many.
//   - Our own rules find blocks that are boilerplate by element, role, class or id, and those that consist of links.
//     An element with much of the page's text is never boilerplate, and a class that much of the text has is ignored on
//     that page.
//   - On an article Readability decides what is kept, and our rules leave out some of that. On other pages a block is
//     kept if either of them keeps it. A page is an article if it says so (Open Graph, schema.org, one article element),
//     unless Readability left out most of it.
//   - Blocks of one shape, which stand in the same elements with the same classes, are judged together.
//   - Of documentation, which is a page with code, nothing is left out between the ends of what Readability found, or within
//     the main element: Readability drops lists, tables and boxes.
//   - On a page with more links than paragraphs, such as a listing, the links are the text.
//   - Lists, tables and code are kept whole if more than a quarter of them is kept, and headings with what is below them.
//
// So [Article.Text] and [Article.Markdown] show blocks of the page itself, in its order and with its elements, not the
// output of a library. bench/maintext compares the package with the libraries.
//
// The cost of Readability grows with the square of a page's depth and size, so pages beyond bounds are read by our rules
// alone. These take time in proportion to the page and stop when its budget is spent. Of a page of which this leaves no main
// text, all text is the main text.
package readable

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/maintext"
)

// MaxText bounds the text, in bytes.
const MaxText = 1 << 20

func init() {
	maintext.Readers.Register(func(d *dom.Document, base *url.URL) maintext.Article { return Read(d, base) })
}

// Article is the main text of a page. It must not be used concurrently.
type Article struct {
	about  maintext.About
	blocks []*block
	d      *dom.Document
	base   *url.URL
}

// Read finds the main text of a page. References are resolved against base. The tree is not changed.
func Read(d *dom.Document, base *url.URL) *Article {
	a := &Article{d: d, base: base}
	s := newSplitter(d, a.readability())
	a.blocks = s.split()
	choose(a.blocks, isArticle(d))
	keepWhole(a.blocks)
	keepHeadings(a.blocks)
	if a.partial() && !slices.ContainsFunc(a.blocks, func(b *block) bool { return b.main }) {
		a.blocks = []*block{{text: dom.TextWithin(d.Root, MaxText-1, nil), main: true}} // the bound of elements bounds its cost
	}
	if a.about.Title == "" {
		a.about.Title = title(d)
	}
	return a
}

// partial reports whether the page is too large to be read in full.
func (a *Article) partial() bool { return a.d.Cut || a.d.Budget.Spent() }

// About returns what the page says about itself.
func (a *Article) About() maintext.About { return a.about }

// Text returns the main text with a line for each block, cut at MaxText. White space is collapsed except in
// preformatted text. It is empty if the page has no main text.
func (a *Article) Text() string {
	var b strings.Builder
	for _, x := range a.blocks {
		if !x.main {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if b.WriteString(dom.Clip(x.text, MaxText-b.Len())); b.Len()+utf8.UTFMax > MaxText {
			break
		}
	}
	return b.String()
}

// Bounds of pages that Readability may read: at worst it takes about a second. None of the 2,008 pages that
// bench/maintext measures is larger.
const (
	maxNodes = 40_000
	maxCost  = 4_000_000
)

// readability returns the texts that Readability finds, each by the address of its first byte, as a copy of a tree
// shares the bytes of its texts. The result is empty if it finds none or if the page is beyond the bounds.
func (a *Article) readability() (found map[*byte]bool) {
	if !affordable(a.d.Root) {
		return nil
	}
	defer func() {
		if recover() != nil { // a bug of the library must not cost the page
			found = nil
		}
	}()
	p := readability.NewParser()
	r, err := p.ParseDocument(a.d.Root, a.base)
	if err != nil {
		return nil
	}
	line := func(s string) string { return dom.Clip(strings.Join(strings.Fields(s), " "), 1<<10) }
	a.about = maintext.About{Title: line(r.Title()), Byline: line(r.Byline()), Site: line(r.SiteName()), Lang: line(r.Language()), Excerpt: line(r.Excerpt())}
	if t, err := r.PublishedTime(); err == nil {
		a.about.Published = t
	}
	if r.Node == nil {
		return nil
	}
	found = make(map[*byte]bool)
	for n := range r.Node.Descendants() {
		if n.Type == html.TextNode && n.Data != "" {
			found[unsafe.StringData(n.Data)] = true
		}
	}
	return found
}

// affordable reports whether Readability can read a page in time. It reads the text below an element again for each
// element, so the cost of text grows with its depth.
func affordable(root *html.Node) bool {
	nodes, cost := 0, 0
	var add func(n *html.Node, depth int) bool
	add = func(n *html.Node, depth int) bool {
		nodes++
		cost += depth * (1 + len(n.Data)/32)
		for i := range n.Attr {
			cost += len(n.Attr[i].Val) / 32
		}
		within := nodes <= maxNodes && cost <= maxCost
		for c := n.FirstChild; c != nil && within; c = c.NextSibling {
			within = add(c, depth+1)
		}
		return within
	}
	return add(root, 0)
}

// isArticle reports whether a page says that it is one article.
func isArticle(d *dom.Document) bool {
	articles := 0
	for n := range d.Root.Descendants() {
		if n.Type != html.ElementNode || !d.Budget.Spend(1) {
			continue
		}
		attr := func(name string) string { v, _ := dom.Attr(n, name); return v }
		switch n.DataAtom {
		case atom.Meta:
			p := attr("property")
			if p == "article:published_time" || p == "og:type" && strings.EqualFold(attr("content"), "article") {
				return true
			}
		case atom.Script:
			if strings.Contains(attr("type"), "ld+json") && n.FirstChild != nil && saysArticle(n.FirstChild.Data) {
				return true
			}
		case atom.Article:
			articles++
		}
		kind := attr("itemtype")
		if strings.HasSuffix(kind, "Article") || strings.HasSuffix(kind, "BlogPosting") || attr("itemprop") == "articleBody" {
			return true
		}
	}
	return articles == 1
}

func saysArticle(ld string) bool {
	return strings.Contains(ld, `NewsArticle"`) || strings.Contains(ld, `"Article"`) || strings.Contains(ld, `BlogPosting"`)
}

// title returns the text of the title element, or else of the first heading.
func title(d *dom.Document) string {
	for _, name := range []atom.Atom{atom.Title, atom.H1} {
		for n := range d.Root.Descendants() {
			if n.DataAtom == name && n.FirstChild != nil {
				return dom.TextWithin(n, 1<<10, d.Budget)
			}
		}
	}
	return ""
}
