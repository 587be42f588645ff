package readable

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
)

// block is text that stands together, as a paragraph does.
type block struct {
	text          string
	words, linked int  // how many, and how many of them are links
	heading, pre  bool // of a heading; preformatted
	main          bool // it is main text
}

// links is the share of the words that are links.
func (b *block) links() float64 {
	if b.words == 0 {
		return 0
	}
	return float64(b.linked) / float64(b.words)
}

// splitter gathers the blocks of a page.
type splitter struct {
	blocks  []block
	open    block         // without its text
	line    dom.Collapser // the text of open
	raw     strings.Builder
	heading bool
	prose   map[*html.Node]int
	budget  *effort.Budget
}

// split cuts what is in top into blocks. prose is that of all elements in it.
func split(top *html.Node, prose map[*html.Node]int, budget *effort.Budget) []block {
	s := splitter{prose: prose, budget: budget}
	s.children(top, false)
	s.end()
	return s.blocks
}

// children goes over what is in n.
func (s *splitter) children(n *html.Node, linked bool) {
	for c := n.FirstChild; c != nil && s.budget.SpendText(len(c.Data)); c = c.NextSibling {
		switch {
		case c.Type == html.TextNode:
			s.text(c.Data, linked)
		case c.Type == html.ElementNode && !dom.Silent(c) && !s.boilerplate(c):
			s.element(c, linked)
		}
	}
}

func (s *splitter) element(n *html.Node, linked bool) {
	link := linked || n.DataAtom == atom.A && hasHref(n)
	if dom.Inline(n) {
		s.children(n, link)
		return
	}
	switch n.DataAtom {
	case atom.Br:
		s.line.Break()
		return
	case atom.Pre:
		s.preformatted(n)
		return
	}
	s.end()
	before := s.heading
	s.heading = before || isHeading(n.DataAtom)
	s.children(n, link)
	s.end()
	s.heading = before
}

func hasHref(n *html.Node) bool {
	_, ok := dom.Attr(n, "href")
	return ok
}

func isHeading(a atom.Atom) bool {
	switch a {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Dt, atom.Caption, atom.Figcaption:
		return true
	}
	return false
}

func (s *splitter) text(t string, linked bool) {
	s.line.Add(t)
	n := words(t)
	s.open.words += n
	if linked {
		s.open.linked += n
	}
}

// end ends the block that is open.
func (s *splitter) end() {
	if s.line.Len() > 0 {
		s.open.text, s.open.heading = s.line.String(), s.heading
		s.blocks = append(s.blocks, s.open)
	}
	s.open, s.line = block{}, dom.Collapser{}
}

// preformatted is a block of its own with its line ends.
func (s *splitter) preformatted(n *html.Node) {
	s.end()
	s.raw.Reset()
	s.verbatim(n)
	text := strings.Trim(s.raw.String(), "\n")
	if strings.TrimSpace(text) != "" {
		s.blocks = append(s.blocks, block{text: text, words: words(text), pre: true})
	}
}

func (s *splitter) verbatim(n *html.Node) {
	for c := n.FirstChild; c != nil && s.budget.SpendText(len(c.Data)); c = c.NextSibling {
		switch {
		case c.Type == html.TextNode:
			s.raw.WriteString(c.Data)
		case c.DataAtom == atom.Br:
			s.raw.WriteByte('\n')
		case !dom.Silent(c):
			s.verbatim(c)
		}
	}
}

// words counts words: runs of letters and digits, and of scripts that are written without
// spaces every two characters, which is the mean length of a word in Chinese and Japanese.
func words(s string) (n int) {
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

// count adds the words of each block-level element in n that are no links, nor aside, to
// prose, and returns those of n.
func count(n *html.Node, linked bool, prose map[*html.Node]int, budget *effort.Budget) (total int) {
	for c := n.FirstChild; c != nil && budget.SpendText(len(c.Data)); c = c.NextSibling {
		switch {
		case c.Type == html.TextNode && !linked:
			total += words(c.Data)
		case c.Type == html.ElementNode && !dom.Silent(c) && !aside(c):
			total += count(c, linked || c.DataAtom == atom.A && hasHref(c), prose, budget)
		}
	}
	if !dom.Inline(n) {
		prose[n] = total
	}
	return total
}

// boilerplate reports whether an element says that it is no main text.
func (s *splitter) boilerplate(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Form, atom.Noscript:
		return s.prose[n] < formProse
	case atom.Body, atom.Main, atom.Article, atom.H1:
		return false
	}
	return aside(n) || named(n) && s.prose[n] < namedProse
}

// aside reports whether an element says so whatever it holds.
func aside(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Nav, atom.Aside, atom.Footer, atom.Button, atom.Menu, atom.Dialog:
		return true
	case atom.Body, atom.Main, atom.Article, atom.H1:
		return false
	}
	if _, hidden := dom.Attr(n, "hidden"); hidden {
		return true
	}
	if v, _ := dom.Attr(n, "aria-hidden"); v == "true" {
		return true
	}
	if style, _ := dom.Attr(n, "style"); style != "" && strings.Contains(strings.ReplaceAll(strings.ToLower(style), " ", ""), "display:none") {
		return true
	}
	return slices.Contains(roles, role(n))
}

const (
	// formProse is how many words a form has when it is around the page and no form of it:
	// some systems put every page into one.
	formProse = 150
	// namedProse is how many words an element has when its class says something of the page
	// and not of the element, as in <div class="with-sidebar">.
	namedProse = 250
)

// roles are landmarks that are no main text (WAI-ARIA 1.2).
var roles = []string{
	"navigation", "banner", "contentinfo", "search", "complementary", "menu", "menubar", "toolbar",
	"dialog", "alertdialog", "form", "tablist", "status",
}

// names are words in classes and ids that mark boilerplate. They are compared whole: "nav"
// is one and "navy" is none.
var names = map[string]bool{
	"nav": true, "navbar": true, "navigation": true, "navheader": true, "navfooter": true, "menu": true, "sidebar": true,
	"breadcrumb": true, "breadcrumbs": true, "footer": true, "masthead": true, "topbar": true, "toolbar": true,
	"cookie": true, "cookies": true, "consent": true, "gdpr": true, "share": true, "sharing": true, "social": true,
	"related": true, "recommended": true, "promo": true, "advert": true, "advertisement": true, "ad": true, "ads": true,
	"sponsor": true, "sponsored": true, "newsletter": true, "subscribe": true, "pagination": true, "pager": true,
	"widget": true, "popup": true, "modal": true, "skip": true, "tagcloud": true, "copyright": true, "comments": true,
}

// named reports whether the class or the id of n has one of the names.
func named(n *html.Node) bool {
	for _, attr := range []string{"class", "id"} {
		value, _ := dom.Attr(n, attr)
		if value == "" || len(value) > maxClass {
			continue
		}
		for word := range strings.FieldsFuncSeq(strings.ToLower(value), func(r rune) bool { return !unicode.IsLetter(r) }) {
			if names[word] {
				return true
			}
		}
	}
	return false
}

// maxClass is longer than any list of classes that means something.
const maxClass = 1 << 10
