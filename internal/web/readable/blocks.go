package readable

import (
	"slices"
	"strings"
	"unicode"
	"unsafe"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/web/dom"
)

// block is a run of text that stands by itself, as a paragraph or a cell of a table does.
type block struct {
	text                 string
	nodes                []*html.Node // its texts
	words, linked, found int          // how many, and how many of them are links, and in what Readability found
	pre                  bool         // it is preformatted
	whole                *html.Node   // the outermost list, table or code it is in
	marks
	main bool // it is main text
}

// marks are what the elements around a block say of it.
type marks struct {
	aside   bool // it is no main text, by element or role
	named   bool // it is no main text, by class
	detail  bool // caption, byline, date: it is about the text
	heading bool
	inMain  bool // it is in a main element
	inBody  bool
}

// links is the share of link words.
func (b *block) links() float64 { return float64(b.linked) / float64(max(1, b.words)) }

// prose is how many words are no links.
func (b *block) prose() int { return b.words - b.linked }

type splitter struct {
	d      *dom.Document
	texts  map[*byte]bool
	weight map[*html.Node]int // the words of an element that count: those that were found, or those that are no links
	total  int

	blocks []*block
	open   *block
	line   dom.Collapser // the text of open
	raw    strings.Builder
	whole  *html.Node
}

func newSplitter(d *dom.Document, found map[*byte]bool) *splitter {
	s := &splitter{d: d, texts: found, open: &block{}, weight: make(map[*html.Node]int)}
	s.total = s.weigh(d.Root, false)
	return s
}

func (s *splitter) split() []*block {
	s.children(s.d.Root, marks{}, false)
	s.end(marks{})
	return s.blocks
}

func (s *splitter) weigh(n *html.Node, linked bool) (total int) {
	for c := n.FirstChild; c != nil && s.d.Budget.SpendText(len(c.Data)); c = c.NextSibling {
		switch {
		case c.Type == html.TextNode:
			if s.found(c) || len(s.texts) == 0 && !linked {
				total += words(c.Data)
			}
		case c.Type == html.ElementNode && !dom.Silent(c):
			total += s.weigh(c, linked || c.DataAtom == atom.A)
		}
	}
	s.weight[n] = total
	return total
}

func (s *splitter) found(n *html.Node) bool {
	return n.Data != "" && s.texts[unsafe.StringData(n.Data)]
}

func (s *splitter) children(n *html.Node, m marks, linked bool) {
	for c := n.FirstChild; c != nil && s.d.Budget.SpendText(len(c.Data)); c = c.NextSibling {
		switch {
		case c.Type == html.TextNode:
			s.text(c, linked)
		case c.Type == html.ElementNode && !dom.Silent(c):
			s.element(c, m, linked)
		}
	}
}

func (s *splitter) text(n *html.Node, linked bool) {
	count := words(n.Data)
	s.open.words += count
	if linked {
		s.open.linked += count
	}
	if s.found(n) {
		s.open.found += count
	}
	s.open.nodes = append(s.open.nodes, n)
	if s.open.pre {
		s.raw.WriteString(n.Data)
	} else {
		s.line.Add(n.Data)
	}
}

// permalink reports whether an element is no more than a sign by which a heading links to itself.
func permalink(n *html.Node) bool {
	href, _ := dom.Attr(n, "href")
	c := n.FirstChild
	return n.DataAtom == atom.A && strings.HasPrefix(href, "#") && c != nil && c.NextSibling == nil && c.Type == html.TextNode &&
		slices.Contains([]string{"¶", "#", "§", "🔗"}, strings.TrimSpace(c.Data))
}

func (s *splitter) element(n *html.Node, outer marks, linked bool) {
	if permalink(n) {
		return
	}
	m := s.marks(n, outer)
	if _, ok := dom.Attr(n, "href"); ok && n.DataAtom == atom.A {
		linked = true
	}
	switch {
	case n.DataAtom == atom.Br && s.open.pre:
		s.raw.WriteByte('\n')
		return
	case n.DataAtom == atom.Br:
		s.line.Break()
		return
	case dom.Inline(n) || s.open.pre:
		s.children(n, m, linked)
		if text := s.raw.String(); !dom.Inline(n) && text != "" && !strings.HasSuffix(text, "\n") {
			s.raw.WriteByte('\n') // a line of code in an element of its own
		}
		return
	}
	s.end(outer)
	if before := s.whole; before == nil && isWhole(n) {
		s.whole = n
		defer func() { s.whole = before }()
	}
	s.open.pre = n.DataAtom == atom.Pre
	s.children(n, m, linked)
	s.end(m)
}

// isWhole reports whether a part of an element is of no use.
func isWhole(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Ul, atom.Ol, atom.Dl, atom.Pre:
		return true
	case atom.Table: // one in which pages are laid out has others in it
		for c := range n.Descendants() {
			if c.DataAtom == atom.Table || c.DataAtom == atom.Form {
				return false
			}
		}
		return true
	}
	return false
}

func (s *splitter) end(m marks) {
	text := s.line.String()
	if s.open.pre {
		text = strings.Trim(s.raw.String(), "\n")
	}
	if strings.TrimSpace(text) != "" {
		s.open.text, s.open.marks, s.open.whole = text, m, s.whole
		s.blocks = append(s.blocks, s.open)
	}
	s.open, s.line = &block{}, dom.Collapser{}
	s.raw.Reset()
}

// marks adds what an element says of the blocks in it. A class or a short element says nothing of a quarter of the text or
// more, as in <div class="with-sidebar">.
func (s *splitter) marks(n *html.Node, m marks) marks {
	switch n.DataAtom {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Dt:
		m.heading = true
	case atom.Body:
		m.inBody = true
	}
	if n.DataAtom == atom.Html || n.DataAtom == atom.Body {
		return m
	}
	role, _ := dom.Attr(n, "role")
	role = strings.ToLower(strings.TrimSpace(role))
	m.inMain = m.inMain || n.DataAtom == atom.Main || role == "main"
	m.aside = m.aside || aside(n, role)
	if 4*s.weight[n] >= s.total {
		return m
	}
	switch n.DataAtom {
	case atom.Form, atom.Noscript:
		m.aside = true
	case atom.Figure, atom.Figcaption, atom.Header:
		m.detail = true
	case atom.Time:
		m.detail = m.detail || s.weight[n] < maxByline
	case atom.Main, atom.Article, atom.H1:
		return m
	}
	for word := range classWords(n) {
		switch names[word] {
		case boilerplate:
			m.named = true
		case caption:
			m.detail = true
		case byline:
			m.detail = m.detail || s.weight[n] < maxByline
		}
	}
	return m
}

// aside reports whether an element is no main text whatever its length.
func aside(n *html.Node, role string) bool {
	switch n.DataAtom {
	case atom.Nav, atom.Aside, atom.Footer, atom.Button, atom.Menu, atom.Dialog:
		return true
	case atom.Main, atom.Article, atom.H1:
		return false
	}
	if _, hidden := dom.Attr(n, "hidden"); hidden {
		return true
	}
	if v, _ := dom.Attr(n, "aria-hidden"); v == "true" {
		return true
	}
	if style, _ := dom.Attr(n, "style"); style != "" && len(style) <= maxClass &&
		strings.Contains(strings.ReplaceAll(strings.ToLower(style), " ", ""), "display:none") {
		return true
	}
	return slices.Contains(roles, role)
}

var roles = []string{
	"navigation", "banner", "contentinfo", "search", "complementary", "menu", "menubar", "toolbar",
	"dialog", "alertdialog", "form", "tablist", "status",
}

// meaning is what a word in a class or an id says of an element.
type meaning uint8

const (
	boilerplate meaning = iota + 1
	caption
	byline
)

// maxByline is how many words a byline or a date has at most.
const maxByline = 40

var names = func() map[string]meaning {
	all := make(map[string]meaning)
	for m, text := range map[meaning]string{
		boilerplate: "nav navbar navigation navheader navfooter menu sidebar breadcrumb breadcrumbs footer masthead topbar toolbar " +
			"cookie cookies consent gdpr share sharing social related recommended promo advert advertisement ad ads sponsor " +
			"sponsored newsletter subscribe pagination pager widget popup modal skip tagcloud copyright comments",
		caption: "caption captions credit credits attribution gallery",
		byline:  "byline meta postmeta postinfo timestamp date dateline dates author bio tags submitted postdate published",
	} {
		for name := range strings.FieldsSeq(text) {
			all[name] = m
		}
	}
	return all
}()

// maxClass bounds the classes that are read, in bytes.
const maxClass = 1 << 10

// classWords yields the words of classes and id in lower case: of "relatedPosts nav-bar" related, posts, nav, bar.
func classWords(n *html.Node) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, attr := range []string{"class", "id"} {
			value, _ := dom.Attr(n, attr)
			if len(value) > maxClass {
				continue
			}
			start := 0
			for i, r := range value + " " {
				letter := unicode.IsLetter(r)
				if letter && !unicode.IsUpper(r) {
					continue
				}
				if i > start && !yield(strings.ToLower(value[start:i])) {
					return
				}
				start = i
				if !letter {
					start = i + len(string(r))
				}
			}
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
