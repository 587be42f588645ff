package readable

import (
	mathbits "math/bits"
	"slices"
	"strings"
	"unicode"
	"unsafe"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/dom"
)

// block is a run of text that stands by itself, as a paragraph or a cell of a table does.
type block struct {
	text                 string
	nodes                []*html.Node // its text nodes
	words, linked, found int          // number of words; of those in links; of those in what Readability found
	pre                  bool         // preformatted text
	whole                *html.Node   // the outermost list, table or code that contains it
	marks
	main bool // selected as main text
}

// marks are what the elements around a block say about it.
type marks struct {
	aside   bool // not main text, by element or role
	named   bool // not main text, by class or id
	detail  bool // about the text: caption, byline, date
	heading bool
	inMain  bool // within a main element
	inBody  bool
}

// links returns the share of words in links.
func (b *block) links() float64 { return float64(b.linked) / float64(max(1, b.words)) }

// prose returns the number of words outside of links.
func (b *block) prose() int { return b.words - b.linked }

type splitter struct {
	d      *dom.Document
	texts  map[*byte]bool
	weigh  map[*html.Node]weight
	total  weight
	worded [64]weight // total weight of the elements with a class word, by its bit
	common uint64     // class words that say nothing on this page, because elements with them hold a quarter of its text

	blocks []*block
	open   *block
	line   dom.Collapser // the text of open
	raw    strings.Builder
	whole  *html.Node
}

func newSplitter(d *dom.Document, found map[*byte]bool) *splitter {
	s := &splitter{d: d, texts: found, open: &block{}, weigh: make(map[*html.Node]weight)}
	s.total = s.measure(d.Root, false, 0)
	for bit, w := range s.worded {
		if s.large(w) {
			s.common |= 1 << bit
		}
	}
	return s
}

// weight says how much text an element holds.
type weight struct {
	found int    // words that were found
	words int    // words
	prose int    // words that are no links
	main  bool   // a main element
	names uint64 // bits of what its class says
}

func (w *weight) add(v weight) {
	w.found += v.found
	w.words += v.words
	w.prose += v.prose
	w.main = w.main || v.main
}

func (s *splitter) split() []*block {
	s.children(s.d.Root, marks{}, false)
	s.end(marks{})
	return s.blocks
}

func (s *splitter) measure(n *html.Node, linked bool, above uint64) (w weight) {
	w.names = named(n)
	for c := n.FirstChild; c != nil && s.d.Budget.SpendText(len(c.Data)); c = c.NextSibling {
		switch {
		case c.Type == html.TextNode:
			count := dom.Words(c.Data)
			w.words += count
			if s.found(c) {
				w.found += count
			}
			if !linked {
				w.prose += count
			}
		case c.Type == html.ElementNode && !dom.Silent(c):
			w.add(s.measure(c, linked || c.DataAtom == atom.A, above|w.names))
		}
	}
	for bits := w.names &^ above; bits != 0; bits &= bits - 1 {
		s.worded[mathbits.TrailingZeros64(bits)].add(w)
	}
	w.main = w.main || isMain(n)
	s.weigh[n] = w
	return w
}

func isMain(n *html.Node) bool {
	role, _ := dom.Attr(n, "role")
	return n.DataAtom == atom.Main || strings.EqualFold(strings.TrimSpace(role), "main")
}

// size returns how much of the page's text something holds: of what Readability found, or, if it found nothing, of the
// words outside of links.
func (s *splitter) size(w weight) int {
	if len(s.texts) == 0 {
		return w.prose
	}
	return w.found
}

// half reports whether something holds half of what is no link; of a page of links, half of its words.
func (s *splitter) half(w weight) bool {
	if 10*s.total.prose < s.total.words {
		return 2*w.words >= s.total.words
	}
	return 2*w.prose >= s.total.prose
}

// large reports whether something holds a quarter of the text or more.
func (s *splitter) large(w weight) bool { return 4*s.size(w) >= s.size(s.total) }

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
	count := dom.Words(n.Data)
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

// permalink reports whether an element is only the sign by which a heading links to itself.
func permalink(n *html.Node) bool {
	href, _ := dom.Attr(n, "href")
	c := n.FirstChild
	return n.DataAtom == atom.A && strings.HasPrefix(href, "#") && c != nil && c.NextSibling == nil && c.Type == html.TextNode &&
		slices.Contains([]string{"¶", "#", "§", "🔗"}, strings.TrimSpace(c.Data))
}

// lineNumbers reports whether an element has the numbers of the lines of code beside it, as its class says.
func lineNumbers(n *html.Node) bool {
	class, _ := dom.Attr(n, "class")
	if class == "" || len(class) > maxClass || !numbersClass().MatchString(class) {
		return false
	}
	for c := range n.Descendants() {
		if c.Type == html.TextNode && strings.Trim(c.Data, "0123456789 \r\n\t") != "" {
			return false
		}
	}
	return true
}

var numbersClass = lazy.Regexp(`(?i)\b(line-?(no|num|number)s?|lnt?|gutter)\b`)

func (s *splitter) element(n *html.Node, outer marks, linked bool) {
	if permalink(n) || lineNumbers(n) || s.open.pre && n.DataAtom == atom.Button {
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

// isWhole reports whether parts of an element are useless without the rest.
func isWhole(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Ul, atom.Ol, atom.Dl, atom.Pre:
		return true
	case atom.Table: // a table used for layout contains tables, forms or code
		for c := range n.Descendants() {
			if c.DataAtom == atom.Table || c.DataAtom == atom.Form || c.DataAtom == atom.Pre {
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

// marks adds what an element says about the blocks in it. A class, or an element that is meant to be short, says
// nothing if the element holds a quarter of the text or more, as in <div class="with-sidebar">.
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
	w := s.weigh[n]
	m.inMain = m.inMain || isMain(n)
	m.aside = m.aside || never(n) || !w.main && !s.half(w) && aside(n)
	if s.large(w) {
		return m
	}
	switch n.DataAtom {
	case atom.Form, atom.Noscript:
		m.aside = m.aside || !w.main
	case atom.Figure, atom.Figcaption, atom.Header:
		m.detail = true
	case atom.Time:
		m.detail = m.detail || s.size(w) < maxByline
	case atom.Main, atom.Article, atom.H1:
		return m
	}
	m.named = m.named || w.names&^(s.common|caption|byline) != 0
	m.detail = m.detail || w.names&caption != 0 || w.names&byline != 0 && s.size(w) < maxByline
	return m
}

// never reports whether an element is not main text, however long it is.
func never(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Nav, atom.Footer, atom.Button, atom.Menu, atom.Dialog:
		return true
	}
	return false
}

// aside reports whether an element is not main text unless it contains half of the page's text or a main element:
// templates forget to close asides, and scripts show what is hidden at first.
func aside(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Aside:
		for word := range classWords(n) {
			if notes[word] {
				return false
			}
		}
		return true
	case atom.Main, atom.Article, atom.H1:
		return false
	}
	if _, hidden := dom.Attr(n, "hidden"); hidden {
		id, _ := dom.Attr(n, "id")
		return !strings.HasPrefix(id, "S:") // React sends these parts of a page late, and a script moves them to their place
	}
	if v, _ := dom.Attr(n, "aria-hidden"); v == "true" {
		return true
	}
	if style, _ := dom.Attr(n, "style"); style != "" && len(style) <= maxClass &&
		strings.Contains(strings.ReplaceAll(strings.ToLower(style), " ", ""), "display:none") {
		return true
	}
	role, _ := dom.Attr(n, "role")
	return slices.Contains(roles, strings.ToLower(strings.TrimSpace(role)))
}

// notes are names of asides that are part of the text.
var notes = map[string]bool{
	"footnote": true, "footnotes": true, "admonition": true, "note": true, "callout": true, "tip": true, "warning": true, "caution": true, "hint": true,
}

var roles = []string{
	"navigation", "banner", "contentinfo", "search", "complementary", "menu", "menubar", "toolbar",
	"dialog", "alertdialog", "form", "tablist", "status",
}

// What a word in a class or an id says about an element, as bits. Each word for boilerplate has a bit of its own.
const (
	caption uint64 = 1 << 63
	byline  uint64 = 1 << 62
)

// maxByline bounds the words of a byline or a date.
const maxByline = 40

var names = func() map[string]uint64 {
	all := make(map[string]uint64)
	for name := range strings.FieldsSeq("nav navbar navigation navheader navfooter menu sidebar breadcrumb breadcrumbs footer masthead topbar toolbar " +
		"cookie cookies consent gdpr share sharing social related recommended promo advert advertisement ad ads sponsor " +
		"sponsored newsletter subscribe pagination pager widget popup modal skip tagcloud copyright comments") {
		all[name] = 1 << len(all)
	}
	for name := range strings.FieldsSeq("caption captions credit credits attribution gallery") {
		all[name] = caption
	}
	for name := range strings.FieldsSeq("byline meta postmeta postinfo timestamp date dateline dates author bio tags submitted postdate published") {
		all[name] = byline
	}
	return all
}()

// named returns the bits of the words in the class and id of an element.
func named(n *html.Node) (bits uint64) {
	if n.DataAtom == atom.Html || n.DataAtom == atom.Body {
		return 0
	}
	for word := range classWords(n) {
		bits |= names[word]
	}
	return bits
}

// maxClass bounds the classes that are read, in bytes.
const maxClass = 1 << 10

// classWords yields the words of class and id in lower case: for "relatedPosts nav-bar" related, posts, nav, bar. The id of a
// section is made of its heading.
func classWords(n *html.Node) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, attr := range []string{"class", "id"} {
			value, _ := dom.Attr(n, attr)
			if len(value) > maxClass || attr == "id" && n.DataAtom == atom.Section {
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
