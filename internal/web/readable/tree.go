package readable

import (
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/web/dom"
)

// pruner copies the main text of a page, with the elements that give it structure.
type pruner struct {
	a    *Article
	main map[*html.Node]bool // the texts of the main text
	live map[*html.Node]bool // the elements that contain such a text
	left int                 // texts not copied yet
	room int                 // cells that may still be added for cells that span several
	seen bool                // a text has been copied
	deep int                 // number of lists and quotations around
	code bool                // the current text is preformatted
	size int                 // bytes of text copied so far
}

// tree returns a copy of the page with the main text, and with the pictures in it that have a description.
func (a *Article) tree() *html.Node {
	p := pruner{a: a, main: make(map[*html.Node]bool), live: make(map[*html.Node]bool), room: maxSpans}
	for _, b := range a.blocks {
		if !b.main {
			continue
		}
		for _, n := range b.nodes {
			p.main[n] = true
			if strings.TrimSpace(n.Data) != "" {
				p.left++
			}
			for e := n.Parent; e != nil && !p.live[e]; e = e.Parent {
				p.live[e] = true
			}
		}
	}
	root := element(atom.Div)
	p.children(root, a.d.Root, false)
	joinTexts(root)
	return root
}

// joinTexts makes one text of those that stand side by side, as nested spans leave them. The converter would do it by
// appending one after another, which copies the text so far each time.
func joinTexts(n *html.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type != html.TextNode {
			joinTexts(c)
			continue
		}
		parts := []string{c.Data}
		for next := c.NextSibling; next != nil && next.Type == html.TextNode; next = c.NextSibling {
			parts = append(parts, next.Data)
			n.RemoveChild(next)
		}
		if len(parts) > 1 {
			c.Data = strings.Join(parts, "")
		}
	}
}

func element(name atom.Atom) *html.Node {
	return &html.Node{Type: html.ElementNode, DataAtom: name, Data: name.String()}
}

// children copies the content of n. In a table, empty cells are copied, too, as cells mark columns.
func (p *pruner) children(to, n *html.Node, table bool) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch {
		case c.Type == html.TextNode:
			p.text(to, c)
		case c.Type != html.ElementNode || dom.Silent(c):
		case c.DataAtom == atom.Img:
			p.picture(to, c)
		case p.live[c] || table && isCell(c) || c.DataAtom == atom.Br:
			p.element(to, c, table)
		case p.seen && p.left > 0 && (c.DataAtom == atom.Figure || c.DataAtom == atom.Picture):
			for d := range c.Descendants() {
				if d.DataAtom == atom.Img {
					p.picture(to, d)
				}
			}
		}
	}
}

func (p *pruner) text(to, n *html.Node) {
	blank := strings.TrimSpace(n.Data) == ""
	if !p.main[n] && (!blank || to.LastChild == nil) || p.size > MaxText {
		return
	}
	p.size += len(n.Data)
	to.AppendChild(&html.Node{Type: html.TextNode, Data: n.Data})
	if p.main[n] && !blank {
		p.left--
		p.seen = true
	}
}

// picture copies a picture that has a description, if it is between texts.
func (p *pruner) picture(to, n *html.Node) {
	alt, _ := dom.Attr(n, "alt")
	source, _ := dom.Attr(n, "src")
	if lazy, ok := dom.Attr(n, "data-src"); ok && (source == "" || strings.HasPrefix(source, "data:")) {
		source = lazy
	}
	if alt = strings.Join(strings.Fields(alt), " "); alt == "" || !p.seen || p.left == 0 {
		return
	}
	if source = p.resolve(source); source != "" {
		img := element(atom.Img)
		img.Attr = []html.Attribute{{Key: "src", Val: source}, {Key: "alt", Val: alt}}
		to.AppendChild(img)
	}
}

// kept has the elements that Markdown can express.
var kept = map[atom.Atom]bool{
	atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true, atom.P: true,
	atom.Ul: true, atom.Ol: true, atom.Li: true, atom.Table: true, atom.Thead: true,
	atom.Tbody: true, atom.Tfoot: true, atom.Tr: true, atom.Td: true, atom.Th: true, atom.Caption: true,
	atom.Pre: true, atom.Code: true, atom.Blockquote: true, atom.Em: true, atom.I: true, atom.Strong: true, atom.B: true,
	atom.Del: true, atom.S: true, atom.Strike: true, atom.Br: true, atom.Hr: true, atom.Kbd: true, atom.Samp: true, atom.Tt: true,
}

func isCell(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Thead, atom.Tbody, atom.Tfoot, atom.Tr, atom.Td, atom.Th:
		return true
	}
	return false
}

// maxDeep bounds the nesting of lists and quotations.
const maxDeep = 10

// element copies one element, or only its content.
func (p *pruner) element(to, n *html.Node, table bool) {
	if p.code && !dom.Inline(n) && n.DataAtom != atom.Br { // a line of code in an element of its own
		if p.children(to, n, table); !strings.HasSuffix(lastText(to), "\n") {
			to.AppendChild(&html.Node{Type: html.TextNode, Data: "\n"})
		}
		return
	}
	copied := element(n.DataAtom)
	switch name := n.DataAtom; {
	case name == atom.Ul || name == atom.Ol || name == atom.Blockquote:
		if p.deep++; p.deep > maxDeep { // each line of a list begins with the indentation of the lists around it
			copied = element(atom.Div)
		} else if name == atom.Ol {
			copied.Attr = attributes(n, "start")
		}
		defer func() { p.deep-- }()
	case name == atom.Table && !isWhole(n): // a table used for layout
		copied = element(atom.Div)
	case isCell(n) && !table:
		copied = element(atom.Div)
	case name == atom.Table:
		table = true
	case name == atom.A:
		href, _ := dom.Attr(n, "href")
		if href = p.link(href); href == "" {
			p.children(to, n, table)
			return
		}
		copied.Attr = []html.Attribute{{Key: "href", Val: href}}
	case name == atom.Code:
		copied.Attr = attributes(n, "class")
	case name == atom.Pre:
		copied.Attr = []html.Attribute{{Key: "class", Val: language(n)}}
		p.code = true
		defer func() { p.code = false }()
	case isCell(n):
		copied.Attr = p.spans(n)
	case name == atom.Dt: // Markdown has no definition lists
		copied = element(atom.P)
		strong := element(atom.Strong)
		copied.AppendChild(strong)
		p.children(strong, n, table)
		to.AppendChild(copied)
		return
	case kept[name]:
	case dom.Inline(n):
		p.children(to, n, table)
		return
	default:
		copied = element(atom.Div)
	}
	to.AppendChild(copied)
	p.children(copied, n, table)
}

// lastText returns the text at the end of an element.
func lastText(n *html.Node) string {
	for n.LastChild != nil {
		n = n.LastChild
	}
	return n.Data
}

func attributes(n *html.Node, names ...string) (some []html.Attribute) {
	for _, name := range names {
		if v, ok := dom.Attr(n, name); ok && len(v) < 100 {
			some = append(some, html.Attribute{Key: name, Val: v})
		}
	}
	return some
}

// maxSpans bounds the cells of a page that are added for cells that span several.
const maxSpans = 2000

func (p *pruner) spans(n *html.Node) []html.Attribute {
	cells := 1
	for _, a := range attributes(n, "colspan", "rowspan") {
		k, err := strconv.Atoi(a.Val)
		if err != nil || k < 1 || k > maxSpans {
			return attributes(n, "align")
		}
		cells *= k
	}
	if p.room -= cells - 1; p.room < 0 {
		return attributes(n, "align")
	}
	return attributes(n, "align", "colspan", "rowspan")
}

// language returns the class that tells the converter the language of code. Sphinx and GitHub set it on an element
// further out.
func language(n *html.Node) string {
	for e, i := n, 0; e != nil && i < 3; e, i = e.Parent, i+1 {
		class, _ := dom.Attr(e, "class")
		if len(class) > maxClass {
			continue
		}
		for word := range strings.FieldsSeq(class) {
			for _, prefix := range []string{"language-", "lang-", "highlight-source-", "highlight-"} {
				if name, ok := strings.CutPrefix(word, prefix); ok && name != "" && name != "default" && name != "none" {
					return "language-" + name
				}
			}
		}
	}
	return ""
}

// link returns the target of a link. It is empty for a place on the same page, or a script.
func (p *pruner) link(href string) string {
	if strings.HasPrefix(strings.TrimSpace(href), "#") {
		return ""
	}
	return p.resolve(href)
}

func (p *pruner) resolve(ref string) string {
	u, err := url.Parse(strings.TrimSpace(ref))
	if err != nil || ref == "" {
		return ""
	}
	if p.a.base != nil {
		u = p.a.base.ResolveReference(u)
	}
	switch u.Scheme {
	case "http", "https", "mailto", "":
		return u.String()
	}
	return ""
}
