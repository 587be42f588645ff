package dom

import (
	"bytes"
	"io"
	"reflect"
	"slices"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/extract"
)

const (
	// maxAttrs is how many attributes of one tag the parser gets. It copies them with each formatting element that it
	// opens again. Pages written for people have a dozen.
	maxAttrs = 256
	// maxRoots is how many html and body tags keep their attributes. The parser merges those of each one into the
	// element and looks at all that the element has each time.
	maxRoots = 16
	// nodesPerElement bounds the nodes that are made for one element that may be kept: itself, its text, and the
	// formatting elements that the parser opens again.
	nodesPerElement = 5
	// maxDepth is how many elements may be open, with the formatting elements that may be opened again, before further
	// ones are left out. With those that the parser implies, and others that do not stay open, it is below 512.
	maxDepth = 480
	// minNodes is for pages of a few tags; of larger ones the tree has no more nodes than the page has bytes.
	minNodes = 1000
)

// feed is the page as the tokenizer gets it: a reader that hands out one token at a time and stops when the page has
// cost enough. The parser of x/net/html cannot be interrupted, and some pages cost it, or have it allocate, the
// square of their length: the standard has it open all formatting elements again in each new block, and merge the
// attributes of every html and body tag. So what goes in is bounded, by what the parser would do with it.
//
// Which token comes next depends on the parser's state: in script and in SVG tags are read differently. As the
// tokenizer asks for bytes only when it has used up all it had, its state at a call of Read is that right before the
// next token. The feed reads it by reflection: the names of a few unexported fields, which watch checks. It never
// writes.
type feed struct {
	page   []byte
	at     int    // what comes before has been handed out, or left out
	chunk  []byte // what is being handed out
	budget *effort.Budget
	cut    bool // something was left out

	elements, nodes int // how many more the parser may make
	roots           int // html and body tags so far
	inside          inside
	ended           int // the start tag before which an element was ended last

	watch
}

func newFeed(page []byte, elements int, budget *effort.Budget) *feed {
	return &feed{page: page, budget: budget, elements: elements, nodes: min(nodesPerElement*elements, minNodes+len(page))}
}

// watch is the state of a tokenizer and, unless it stands alone, of its parser.
type watch struct {
	rawTag    reflect.Value // the element whose text comes next, a string
	cdata     reflect.Value // whether there may be sections of CDATA, a bool
	held      reflect.Value // how many bytes of the token in progress the tokenizer has, an int
	open      reflect.Value // the open elements; invalid without a parser
	formatted reflect.Value // the active formatting elements, markers among them
	ok        bool
}

// watchTokenizer finds the fields of a *html.Tokenizer.
func watchTokenizer(z reflect.Value) (w watch) {
	z = reflect.Indirect(z)
	w.rawTag, w.cdata = z.FieldByName("rawTag"), z.FieldByName("allowCDATA")
	if raw := z.FieldByName("raw"); raw.Kind() == reflect.Struct {
		w.held = raw.FieldByName("end")
	}
	w.ok = w.rawTag.Kind() == reflect.String && w.cdata.Kind() == reflect.Bool && w.held.CanInt()
	return w
}

// option has a parser watched from its beginning on.
func (f *feed) option() html.ParseOption {
	watchParser := func(args []reflect.Value) []reflect.Value {
		p := args[0].Elem()
		if z := p.FieldByName("tokenizer"); z.Kind() == reflect.Pointer {
			f.watch = watchTokenizer(z)
		}
		f.open, f.formatted = p.FieldByName("oe"), p.FieldByName("afe")
		f.ok = f.ok && f.open.Kind() == reflect.Slice && f.formatted.Kind() == reflect.Slice
		return nil
	}
	option, _ := reflect.TypeAssert[html.ParseOption](reflect.MakeFunc(reflect.TypeFor[html.ParseOption](), watchParser))
	return option
}

// Read hands out no more than the next token.
func (f *feed) Read(p []byte) (int, error) {
	if !f.ok { // nothing is known of the parser, and so it gets nothing
		f.cut = true
		return 0, io.EOF
	}
	held := int(f.held.Int())
	if len(f.chunk) == 0 {
		f.chunk = f.next(held)
	}
	// The tokenizer moves what it holds at each call, and looks at it again.
	n := copy(p, f.chunk)
	if n == 0 || !f.budget.SpendText(n+held) || f.elements < 0 || f.nodes < 0 {
		f.cut = f.cut || n > 0
		return 0, io.EOF
	}
	f.chunk = f.chunk[n:]
	return n, nil
}

// inside is which part of a token was handed out last.
type inside uint8

const (
	inText  inside = iota // a text as a whole, or nothing yet
	inStart               // the first two bytes of a token, which tell what it is
	inToken               // more of a token that is no text
)

// next is what comes next: a text with the two bytes behind it, or the rest of the token that they begin.
func (f *feed) next(held int) []byte {
	from, was := f.at, f.inside
	f.inside = inToken
	switch {
	case f.rawTag.Len() > 0:
		f.at = tagEnd(f.page, extract.RawTextEnd(f.page, from, f.rawTag.String()))
	case was == inStart && letter(f.page[from-1]):
		return f.startTag()
	case was == inStart && f.page[from-1] == '/':
		f.endTag()
		f.at = tagEnd(f.page, from-len("</"))
	case was == inStart && bytes.HasPrefix(f.page[from:], []byte("--")):
		f.at = extract.CommentEnd(f.page, from+len("--"))
	case was == inStart && f.cdata.Bool() && bytes.HasPrefix(f.page[from:], []byte("[CDATA[")):
		f.at = extract.Through(f.page, from, "]]>")
	case was == inStart, was == inToken && held > 0:
		f.at = extract.Through(f.page, from, ">")
	default:
		return f.textAt(from)
	}
	return f.page[from:f.at]
}

// textAt is a text with the two bytes behind it. Before a start tag that would be too deep the innermost element ends,
// so that the new one stands beside it; where that has not helped the tag is left out.
func (f *feed) textAt(from int) []byte {
	for {
		f.nodes--
		f.reopened()
		f.at, f.inside = textEnd(f.page, from), inStart
		tag := f.at - len("<x")
		if f.depth() == 0 || f.depth()+f.formatted.Len() < maxDepth || tag < from || f.page[tag] != '<' || !letter(f.page[tag+1]) {
			return f.page[from:f.at]
		}
		name := extract.TagNameEnd(f.page, f.at)
		if shallow(f.page[tag+1 : name]) {
			return f.page[from:f.at]
		}
		if f.inside = inToken; f.ended < tag {
			f.at, f.ended = tag, tag // it costs the parser no look at those that are open
			innermost := f.open.Index(f.depth() - 1).Elem().FieldByIndex(dataOf).String()
			return slices.Concat(f.page[from:tag], []byte("</"), []byte(innermost), []byte(">"))
		}
		_, _, f.at = attributes(f.page, name, 0)
		f.inside, f.cut = inText, true
		if tag > from || !f.budget.Spend(1) {
			return f.page[from:tag]
		}
		from = f.at
	}
}

// shallow reports whether an element of that name does not stay open while others are begun.
func shallow(name []byte) bool {
	switch atom.Lookup(bytes.ToLower(name[:min(len(name), len("plaintext")+1)])) {
	case atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input, atom.Link, atom.Meta, atom.Param,
		atom.Source, atom.Track, atom.Wbr, atom.Script, atom.Style, atom.Textarea, atom.Title, atom.Iframe, atom.Noembed,
		atom.Noframes, atom.Xmp, atom.Plaintext:
		return true
	}
	return false
}

// startTag is the rest of a start tag without the attributes that are too many.
func (f *feed) startTag() []byte {
	from, most := f.at, maxAttrs
	name := f.page[from-1 : extract.TagNameEnd(f.page, from)]
	if bytes.EqualFold(name, []byte("html")) || bytes.EqualFold(name, []byte("body")) {
		if f.roots++; f.roots > maxRoots {
			most = 0
		}
	}
	kept, attrs := 0, 0
	kept, attrs, f.at = attributes(f.page, from-1+len(name), most)
	f.reopened()
	f.elements--
	f.nodes--
	f.budget.Spend(f.depth() + attrs)
	if kept == f.at {
		return f.page[from:f.at]
	}
	f.cut = true
	return append(bytes.Clone(f.page[from:kept]), " >"...)
}

// depth is how many elements are open: the parser goes over them for most tags.
func (f *feed) depth() int {
	if !f.open.IsValid() {
		return 0
	}
	return f.open.Len()
}

// endTag charges for an end tag. That of a formatting element that is not the innermost has others made again.
func (f *feed) endTag() {
	f.budget.Spend(f.depth())
	if !f.formatted.IsValid() || f.formatted.Len() == 0 || f.depth() == 0 {
		return
	}
	if top := f.formatted.Index(f.formatted.Len() - 1); top.Pointer() != f.open.Index(f.depth()-1).Pointer() && formatting(f.page[f.at:]) {
		f.nodes -= misnested
	}
}

// misnested is how many nodes the end tag of a formatting element may have the parser make: three in each of eight
// rounds (HTML standard, adoption agency algorithm).
const misnested = 24

func formatting(s []byte) bool {
	switch atom.Lookup(bytes.ToLower(s[:min(extract.TagNameEnd(s, 0), len("strong")+1)])) {
	case atom.A, atom.B, atom.Big, atom.Code, atom.Em, atom.Font, atom.I, atom.Nobr, atom.S, atom.Small,
		atom.Strike, atom.Strong, atom.Tt, atom.U:
		return true
	}
	return false
}

// fields of a node, for those that only reflection reaches.
var typeOf, attrOf, dataOf = index("Type"), index("Attr"), index("Data")

func index(name string) []int {
	f, _ := reflect.TypeFor[html.Node]().FieldByName(name)
	return f.Index
}

// reopened charges for the formatting elements that the next text or tag has the parser open again: those that were
// closed with what they stood in.
func (f *feed) reopened() {
	if !f.formatted.IsValid() {
		return
	}
	for i := f.formatted.Len() - 1; i >= 0; i-- {
		n := f.formatted.Index(i)
		if n.Elem().FieldByIndex(typeOf).Uint() != uint64(html.ElementNode) || f.isOpen(n.Pointer()) {
			return
		}
		attrs := n.Elem().FieldByIndex(attrOf).Len()
		f.nodes -= 1 + attrs/2
		if !f.budget.Spend(attrs+f.depth()) || f.nodes < 0 {
			return
		}
	}
}

func (f *feed) isOpen(n uintptr) bool {
	for i := f.depth() - 1; i >= 0; i-- {
		if f.open.Index(i).Pointer() == n {
			return true
		}
	}
	return false
}

// textEnd is behind the first two bytes of the markup that ends a text.
func textEnd(s []byte, i int) int {
	for {
		n := bytes.IndexByte(s[i:], '<')
		if n < 0 || i+n+1 >= len(s) {
			return len(s)
		}
		i += n + 1
		if c := s[i]; letter(c) || c == '/' || c == '!' || c == '?' {
			return i + 1
		}
	}
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func tagEnd(s []byte, i int) int {
	if i += len("</"); i >= len(s) {
		return len(s)
	}
	if !letter(s[i]) {
		return extract.Through(s, i, ">")
	}
	_, _, end := attributes(s, extract.TagNameEnd(s, i), 0)
	return end
}

// attributes goes over those of a tag whose name ends at i, as the tokenizer of x/net does. It returns the end of the
// tag, how many attributes it has, and where it would have to end to have no more than most; if it has no more, that
// is its end.
func attributes(s []byte, i, most int) (kept, count, end int) {
	kept = -1
	for i = extract.SkipSpace(s, i); i < len(s) && s[i] != '>'; i = extract.SkipSpace(s, i) {
		if count++; count == most+1 {
			kept = i
		}
		_, _, i = extract.NextAttr(s, i)
	}
	end = min(i+1, len(s))
	if kept < 0 || i >= len(s) { // a tag that the page cuts off is none
		kept = end
	}
	return kept, count, end
}
