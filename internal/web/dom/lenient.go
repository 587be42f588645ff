package dom

import (
	"slices"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// maxDepth is how deep a tree may be that was built leniently. Elements that are opened deeper stand side by side
	// at that depth, each with its own text, as in browsers, which stop at 512.
	maxDepth = 256
	// maxLook is how many elements an end tag may close, so that a page of start tags and end tags that do not match
	// costs no more than others.
	maxLook = 512
)

type builder struct {
	root, head, body *html.Node
	open             []*html.Node // the innermost last; never empty
}

func parseLeniently(z *html.Tokenizer) *html.Node {
	element := func(a atom.Atom) *html.Node { return &html.Node{Type: html.ElementNode, DataAtom: a, Data: a.String()} }
	b := builder{root: &html.Node{Type: html.DocumentNode}, head: element(atom.Head), body: element(atom.Body)}
	top := element(atom.Html)
	b.root.AppendChild(top)
	top.AppendChild(b.head)
	top.AppendChild(b.body)
	b.open = []*html.Node{b.body}
	for {
		switch z.Next() {
		case html.ErrorToken:
			return b.root
		case html.TextToken:
			b.top().AppendChild(&html.Node{Type: html.TextNode, Data: z.Token().Data})
		case html.StartTagToken, html.SelfClosingTagToken:
			t := z.Token()
			b.start(&t)
		case html.EndTagToken:
			t := z.Token()
			b.end(&t)
		case html.CommentToken:
			b.top().AppendChild(&html.Node{Type: html.CommentNode, Data: z.Token().Data})
		}
	}
}

func (b *builder) top() *html.Node { return b.open[len(b.open)-1] }

// start adds an element, and closes those that it ends without saying so.
func (b *builder) start(t *html.Token) {
	switch t.DataAtom {
	case atom.Html:
		adopt(b.head.Parent, t.Attr)
		return
	case atom.Body:
		adopt(b.body, t.Attr)
		return
	case atom.Head:
		return
	}
	for closes := ends(t.DataAtom); slices.Contains(closes, b.top().DataAtom); {
		b.open = b.open[:len(b.open)-1]
	}
	n := &html.Node{Type: html.ElementNode, DataAtom: t.DataAtom, Data: t.Data, Attr: t.Attr}
	b.place(t.DataAtom).AppendChild(n)
	if !void[t.DataAtom] && (t.Type == html.StartTagToken || t.DataAtom != 0) {
		b.open = append(b.open, n)
	}
}

// place is where an element goes: what describes the page into the head, if the body has nothing yet.
func (b *builder) place(a atom.Atom) *html.Node {
	switch a {
	case atom.Title, atom.Meta, atom.Link, atom.Base:
		if len(b.open) == 1 {
			return b.head
		}
	}
	return b.open[min(len(b.open), maxDepth)-1]
}

// end closes the innermost element of that name and all that is in it. One that is not open is no reason to close
// others.
func (b *builder) end(t *html.Token) {
	for i := len(b.open) - 1; i > max(0, len(b.open)-1-maxLook); i-- {
		if b.open[i].Data == t.Data {
			b.open = b.open[:i]
			return
		}
		if barriers[b.open[i].DataAtom] && !barriers[t.DataAtom] {
			return
		}
	}
}

// adopt gives n the attributes of another tag for it, but for those it has.
func adopt(n *html.Node, attrs []html.Attribute) {
	for _, a := range attrs {
		if _, has := Attr(n, a.Key); !has {
			n.Attr = append(n.Attr, a)
		}
	}
}

// ends are the open elements that a start tag closes: those whose end tag is left out as the standard allows, section
// 13.1.2.4. Blocks close a paragraph.
func ends(a atom.Atom) []atom.Atom {
	if closes, ok := omitted[a]; ok {
		return closes
	}
	if !Inline(&html.Node{DataAtom: a}) && a != 0 && !void[a] && !rawText[a] || a == atom.Hr {
		return []atom.Atom{atom.P}
	}
	return nil
}

var (
	cells   = []atom.Atom{atom.Td, atom.Th, atom.P}
	rows    = append([]atom.Atom{atom.Tr}, cells...)
	bodies  = append([]atom.Atom{atom.Tbody, atom.Thead, atom.Tfoot}, rows...)
	omitted = map[atom.Atom][]atom.Atom{
		atom.Li: {atom.Li, atom.P}, atom.Dt: {atom.Dt, atom.Dd, atom.P}, atom.Dd: {atom.Dt, atom.Dd, atom.P},
		atom.Option: {atom.Option}, atom.Optgroup: {atom.Option}, atom.Td: cells, atom.Th: cells, atom.Tr: rows,
		atom.Tbody: bodies, atom.Thead: bodies, atom.Tfoot: bodies,
	}
	// barriers are closed by no end tag of something else within them.
	barriers = set(atom.Table, atom.Td, atom.Th, atom.Body, atom.Template)
	// void elements hold nothing.
	void = set(atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input,
		atom.Link, atom.Meta, atom.Param, atom.Source, atom.Track, atom.Wbr)
	// rawText elements hold a single text, which must not become that of the page.
	rawText = set(atom.Script, atom.Style, atom.Textarea, atom.Title, atom.Iframe, atom.Noembed, atom.Noframes, atom.Xmp)
)

func set(atoms ...atom.Atom) map[atom.Atom]bool {
	all := make(map[atom.Atom]bool, len(atoms))
	for _, a := range atoms {
		all[a] = true
	}
	return all
}
