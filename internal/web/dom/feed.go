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
	// maxAttrs bounds the attributes of a tag that the parser gets. It copies them with each formatting element that it
	// reopens. Pages written for people have a dozen.
	maxAttrs = 256
	// maxRoots bounds the html and body tags that keep their attributes. The parser merges the attributes of each such
	// tag into the element, and compares them with all that the element has.
	maxRoots = 16
	// nodesPerElement bounds the nodes made for one element that may be kept: the element, its text, and the formatting
	// elements that the parser reopens.
	nodesPerElement = 5
	// maxDepth bounds the open elements, including formatting elements that may be reopened; further elements are left
	// out. With the elements that the parser implies, and others that do not stay open, the depth stays below 512.
	maxDepth = 480
	// minNodes is for pages with few tags. The tree of a larger page has no more nodes than the page has bytes.
	minNodes = 1000
)

// feed is the reader from which the tokenizer gets the page. It returns one token at a time and stops when the budget
// of the page is spent. The parser of x/net/html cannot be interrupted, and some pages cost it time or memory of the
// square of their length, because by the standard it reopens all formatting elements in each new block, and merges the
// attributes of every html and body tag. So the input is bounded, by what the parser would do with it.
//
// Which token comes next depends on the state of the parser, as in script and in SVG tags are read differently. The
// tokenizer requests bytes only when it has used up all it had, so at a call of Read its state is that right before the
// next token. The feed reads that state by reflection, from a few unexported fields whose names watch checks. It never
// writes to them.
type feed struct {
	page   []byte
	at     int    // everything before was returned, or left out
	chunk  []byte // the part that is being returned
	budget *effort.Budget
	cut    bool // something was left out, other than attributes

	stripped bool // attributes were left out

	elements, nodes int // how many more of them the parser may make
	roots           int // html and body tags so far
	inside          inside
	ended           int // index of the last start tag before which an element was ended

	watch
}

func newFeed(page []byte, elements int, budget *effort.Budget) *feed {
	return &feed{page: page, budget: budget, elements: elements, nodes: min(nodesPerElement*elements, minNodes+len(page))}
}

// watch gives access to the state of a tokenizer and, unless the tokenizer is used alone, of its parser.
type watch struct {
	rawTag    reflect.Value // string: the element whose raw text comes next
	cdata     reflect.Value // bool: CDATA sections are allowed
	held      reflect.Value // int: how many bytes of the current token the tokenizer has
	open      reflect.Value // the open elements; invalid without a parser
	formatted reflect.Value // the active formatting elements, including markers
	ok        bool
}

// watchTokenizer finds the fields of an *html.Tokenizer.
func watchTokenizer(z reflect.Value) (w watch) {
	z = reflect.Indirect(z)
	w.rawTag, w.cdata = z.FieldByName("rawTag"), z.FieldByName("allowCDATA")
	if raw := z.FieldByName("raw"); raw.Kind() == reflect.Struct {
		w.held = raw.FieldByName("end")
	}
	w.ok = w.rawTag.Kind() == reflect.String && w.cdata.Kind() == reflect.Bool && w.held.CanInt()
	return w
}

// option returns an option that makes f watch a parser from its beginning.
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

// Read returns no more than the next token.
func (f *feed) Read(p []byte) (int, error) {
	if !f.ok { // without knowledge of the parser it gets nothing
		f.cut = true
		return 0, io.EOF
	}
	held := int(f.held.Int())
	if len(f.chunk) == 0 {
		f.chunk = f.next(held)
	}
	// The tokenizer moves the bytes that it holds at each call, and scans them again.
	n := copy(p, f.chunk)
	if n == 0 || !f.budget.SpendText(n+held) || f.elements < 0 || f.nodes < 0 {
		f.cut = f.cut || n > 0
		return 0, io.EOF
	}
	f.chunk = f.chunk[n:]
	return n, nil
}

// inside says which part of a token was returned last.
type inside uint8

const (
	inText  inside = iota // a whole text, or nothing yet
	inStart               // the first two bytes of a token, which show its kind
	inToken               // the rest of a token that is not text
)

// next returns the next part: a text with the two bytes after it, or the rest of the token that these begin.
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

// textAt returns a text with the two bytes after it. Before a start tag that would be too deep it ends the innermost
// element, so that the new one becomes its sibling. If that does not help, the tag is left out.
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
			f.at, f.ended = tag, tag // the parser need not search the open elements for it
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

// shallow reports whether an element of that name does not stay open while others begin.
func shallow(name []byte) bool {
	switch atom.Lookup(bytes.ToLower(name[:min(len(name), len("plaintext")+1)])) {
	case atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input, atom.Link, atom.Meta, atom.Param,
		atom.Source, atom.Track, atom.Wbr, atom.Script, atom.Style, atom.Textarea, atom.Title, atom.Iframe, atom.Noembed,
		atom.Noframes, atom.Xmp, atom.Plaintext:
		return true
	}
	return false
}

// startTag returns the rest of a start tag without the attributes beyond the bound.
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
	f.stripped = true
	return append(bytes.Clone(f.page[from:kept]), " >"...)
}

// depth returns the number of open elements, over which the parser iterates for most tags.
func (f *feed) depth() int {
	if !f.open.IsValid() {
		return 0
	}
	return f.open.Len()
}

// endTag charges for an end tag. The end tag of a formatting element that is not the innermost makes the parser copy
// others.
func (f *feed) endTag() {
	f.budget.Spend(f.depth())
	if !f.formatted.IsValid() || f.formatted.Len() == 0 || f.depth() == 0 {
		return
	}
	if top := f.formatted.Index(f.formatted.Len() - 1); top.Pointer() != f.open.Index(f.depth()-1).Pointer() && formatting(f.page[f.at:]) {
		f.nodes -= misnested
	}
}

// misnested bounds the nodes that the parser makes for the end tag of a formatting element: three in each of eight
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

// Fields of a node that are read by reflection.
var typeOf, attrOf, dataOf = index("Type"), index("Attr"), index("Data")

func index(name string) []int {
	f, _ := reflect.TypeFor[html.Node]().FieldByName(name)
	return f.Index
}

// reopened charges for the formatting elements that the parser reopens at the next text or tag: those that were closed
// together with the element around them.
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

// textEnd returns the index after the first two bytes of the markup that ends a text.
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

// attributes scans the attributes of a tag whose name ends at i, as the tokenizer of x/net does. End is the end of the
// tag, and count the number of its attributes. Kept is where the tag would have to end to have no more than most; if it
// has no more, kept equals end.
func attributes(s []byte, i, most int) (kept, count, end int) {
	kept = -1
	for i = extract.SkipSpace(s, i); i < len(s) && s[i] != '>'; i = extract.SkipSpace(s, i) {
		if count++; count == most+1 {
			kept = i
		}
		_, _, i = extract.NextAttr(s, i)
	}
	end = min(i+1, len(s))
	if kept < 0 || i >= len(s) { // a tag that the end of the page cuts off is ignored
		kept = end
	}
	return kept, count, end
}
