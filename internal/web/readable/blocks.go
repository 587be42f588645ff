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

type block struct {
	text          string
	words, linked int  // how many, and how many of them are links
	heading, pre  bool // of a heading; preformatted
	main          bool // it is main text
}

// links is the share of link words.
func (b *block) links() float64 {
	if b.words == 0 {
		return 0
	}
	return float64(b.linked) / float64(b.words)
}

type splitter struct {
	blocks  []block
	open    block         // without its text
	line    dom.Collapser // the text of open
	raw     strings.Builder
	heading bool
	prose   map[*html.Node]int
	budget  *effort.Budget
}

func (s *splitter) children(n *html.Node, linked bool) {
	for c := n.FirstChild; c != nil && s.budget.SpendText(len(c.Data)); c = c.NextSibling {
		switch {
		case c.Type == html.TextNode:
			s.line.Add(c.Data)
			n := words(c.Data)
			s.open.words += n
			if linked {
				s.open.linked += n
			}
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
	s.heading = before || slices.Contains(headings, n.DataAtom)
	s.children(n, link)
	s.end()
	s.heading = before
}

func hasHref(n *html.Node) bool {
	_, ok := dom.Attr(n, "href")
	return ok
}

var headings = []atom.Atom{atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Dt, atom.Caption, atom.Figcaption}

func (s *splitter) end() {
	if s.line.Len() > 0 {
		s.open.text, s.open.heading = s.line.String(), s.heading
		s.blocks = append(s.blocks, s.open)
	}
	s.open, s.line = block{}, dom.Collapser{}
}

// preformatted adds a block with its line ends.
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

// words counts runs of letters and digits; in scripts without spaces two characters are a word, the mean length in
// Chinese and Japanese.
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

// count is the words in n that are neither links nor aside, and stores those of each block-level element in prose.
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

// boilerplate reports whether an element is marked as no main text.
func (s *splitter) boilerplate(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Form, atom.Noscript:
		return s.prose[n] < formProse
	case atom.Body, atom.Main, atom.Article, atom.H1:
		return false
	}
	return aside(n) || named(n) && s.prose[n] < namedProse
}

// aside reports whether an element is no main text whatever its length.
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
	// formProse is how many words make a form the page itself: some systems put pages into one.
	formProse = 150
	// namedProse is how many words let an element stay in spite of its class, as in <div class="with-sidebar">.
	namedProse = 250
)

var roles = []string{
	"navigation", "banner", "contentinfo", "search", "complementary", "menu", "menubar", "toolbar",
	"dialog", "alertdialog", "form", "tablist", "status",
}

// names are words in classes and ids that mark boilerplate, compared as whole words.
var names = map[string]bool{
	"nav": true, "navbar": true, "navigation": true, "navheader": true, "navfooter": true, "menu": true, "sidebar": true,
	"breadcrumb": true, "breadcrumbs": true, "footer": true, "masthead": true, "topbar": true, "toolbar": true,
	"cookie": true, "cookies": true, "consent": true, "gdpr": true, "share": true, "sharing": true, "social": true,
	"related": true, "recommended": true, "promo": true, "advert": true, "advertisement": true, "ad": true, "ads": true,
	"sponsor": true, "sponsored": true, "newsletter": true, "subscribe": true, "pagination": true, "pager": true,
	"widget": true, "popup": true, "modal": true, "skip": true, "tagcloud": true, "copyright": true, "comments": true,
}

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

// maxClass bounds the classes that are read, in bytes.
const maxClass = 1 << 10

// choose selects blocks by the decision tree of the paper, with its figures.
func choose(blocks []block) {
	around := slices.Concat([]block{{}}, blocks, []block{{}})
	for i := range blocks {
		blocks[i].main = isMain(&around[i], &blocks[i], &around[i+2])
	}
}

// minCode is how many words make preformatted text main text.
const minCode = 5

func isMain(before, b, after *block) bool {
	switch {
	case b.links() > 0.333333:
		return false
	case b.pre: // news have none, and navigation has none either
		return b.words >= minCode
	case before.links() <= 0.555556 && b.words > 16:
		return true
	case before.links() <= 0.555556:
		return after.words > 15 || before.words > 4 && !b.heading && after.links() <= 0.333333
	case b.words > 40:
		return true
	}
	return after.words > 17 && after.links() <= 0.333333
}

// maxGap is how many short blocks between two of the main text belong to it: list items, table cells, lines of code.
const maxGap = 12

// fuse adds the few blocks without links between selected ones.
func fuse(blocks []block) {
	last := -1
	for i := range blocks {
		if !blocks[i].main {
			continue
		}
		if last >= 0 && i-last-1 <= maxGap {
			for j := last + 1; j < i; j++ {
				blocks[j].main = blocks[j].links() <= 0.5 || blocks[j].pre
			}
		}
		last = i
	}
}

const (
	maxHeadings = 3  // in a row before their text
	maxLine     = 12 // words between a heading and its text
)

// leadIn adds headings before selected blocks, with a short line between at most, such as a date or author, and
// removes those without text.
func leadIn(blocks []block) {
	main, lines, headings := false, 0, 0 // what comes next, and how much stands before it
	for i := len(blocks) - 1; i >= 0; i-- {
		b := &blocks[i]
		switch {
		case b.heading:
			b.main = main && headings < maxHeadings
			headings++
		case b.main:
			main, lines, headings = true, 0, 0
		default:
			lines++
			main = main && lines == 1 && headings == 0 && b.words <= maxLine
		}
	}
}
