package sitemap

import (
	"bytes"
	"fmt"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// space is what may surround names and values: the white space of Unicode, and two characters
// without a width that editors leave behind.
const space = " \t\r\n\v\f\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a" +
	"\u2028\u2029\u202f\u205f\u3000\u200b\ufeff"

// reader is where a reading stands.
type reader struct {
	doc   Document
	base  canonical.URL // xml:base of the root, or the document's own URL
	yield func(Entry) bool
	sum   Summary
	w     window

	charged int     // bytes that the budget was charged for
	stopped bool    // by yield, by a bound, or because it is nothing of ours
	root    bool    // the root element was seen
	strict  bool    // nothing without a root of ours is read
	dialect dialect // what its elements mean
	inside  element // the element within an entry whose content is of another kind
	group   group   // the entry being read
	field   field   // what the text that comes is
	value   []byte  // that text, unescaped
}

// dialect is which elements a document has.
type dialect uint8

const (
	unsettled dialect = iota
	protocol          // urlset or sitemapindex
	feed              // RSS or Atom
)

// group is an entry and what belongs to it. It is yielded as a whole, its own URL first.
type group struct {
	open     bool
	main     Entry // without a URL if there is none yet
	fallback canonical.URL
	extras   []Entry // at most maxExtras
	base     canonical.URL
	loose    bool // it needs no URL of its own, as in Atom
	named    bool // it had one, even if that is none
}

// field is what a text stands for.
type field uint8

const (
	noField field = iota
	fieldLoc
	fieldExtra // the URL of an image or video
	fieldGUID
	fieldDate
	fieldPriority
	fieldFreq
	fieldAside // a page beside the entry's own
)

// problem counts what is wrong, and keeps the first.
func (r *reader) problem(format string, args ...any) {
	if r.sum.Problems++; r.sum.Problems == 1 {
		r.sum.Problem = fmt.Sprintf("line %d: ", r.w.line()) + fmt.Sprintf(format, args...)
	}
}

// markup reads the document, or what is left of it, as markup.
func (r *reader) markup() {
	for r.goesOn() {
		text, ok := r.w.through("<")
		r.text(text)
		if !ok {
			break
		}
		r.markupAt()
	}
	if !r.stopped {
		if r.field != noField {
			r.endsWithin("an element")
		}
		r.flush(true)
	}
}

// goesOn reports whether to read on, and charges for what was read. A tag is gone over once
// for each of the attributes that it may have.
func (r *reader) goesOn() bool {
	const times = 8
	read := r.w.used - r.charged
	r.charged = r.w.used
	if !r.stopped && !r.doc.Budget.SpendText(times*read) {
		r.stopped, r.sum.Bound = true, "the budget of a page (extract.max_elements, extract.max_time)"
	}
	return !r.stopped
}

// text takes in what stands between tags.
func (r *reader) text(s []byte) {
	if r.field == noField || len(s) == 0 {
		return
	}
	if len(r.value)+len(s) > maxToken {
		r.problem("a text beyond %d bytes", maxToken)
		r.field = noField
		return
	}
	r.value = appendUnescaped(r.value, s)
}

// markupAt reads what a "<" begins.
func (r *reader) markupAt() {
	head := r.w.peek(len("![CDATA["))
	ok := true
	var content []byte
	switch {
	case bytes.HasPrefix(head, []byte("!--")):
		_, ok = r.w.through("-->")
	case bytes.Equal(head, []byte("![CDATA[")):
		r.w.skip(len(head))
		content, ok = r.w.through("]]>")
		if r.field != noField && len(r.value)+len(content) <= maxToken {
			r.value = append(r.value, content...)
		}
	case bytes.HasPrefix(head, []byte("?")):
		_, ok = r.w.through(">")
	case bytes.HasPrefix(head, []byte("!")):
		ok = r.declaration()
	case len(head) > 0 && (head[0] == '/' || isNameStart(head[0])):
		var broken bool
		content, broken, ok = r.w.tag()
		if broken && ok {
			r.problem("a tag without an end")
		}
		if ok {
			r.element(content)
		}
	default:
		r.text([]byte("<"))
	}
	if !ok {
		r.endsWithin("markup")
	}
}

// endsWithin says that more should have come. That a document breaks off is said elsewhere.
func (r *reader) endsWithin(what string) {
	if r.w.err == nil {
		r.problem("the document ends within %s", what)
	}
}

// declaration passes over a document type, and over what it declares.
func (r *reader) declaration() bool {
	content, _, ok := r.w.tag()
	if ok && bytes.IndexByte(content, '[') >= 0 {
		r.problem("a document type that declares something, of which nothing is used")
		if bytes.IndexByte(content, ']') < 0 {
			if _, ok = r.w.through("]"); ok {
				_, ok = r.w.through(">")
			}
		}
	}
	if words := bytes.Fields(content); len(words) > 1 && bytes.EqualFold(words[0], []byte("!doctype")) && bytes.EqualFold(words[1], []byte("html")) {
		r.refuse("an HTML page")
	}
	return ok
}

// refuse ends the reading of what is nothing of ours.
func (r *reader) refuse(what string) {
	if r.sum.Format == None {
		r.problem("%s, and neither a sitemap nor a feed", what)
		r.stopped = true
	}
}

// isNameStart reports whether a name can begin so; bytes beyond ASCII are left to those who
// mind.
func isNameStart(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c == ':' || c >= 0x80
}

// element takes in a tag, given without its brackets.
func (r *reader) element(tag []byte) {
	r.settle()
	if tag = bytes.TrimRight(tag, space); len(tag) == 0 {
		return
	}
	end := tag[0] == '/'
	if end {
		tag = tag[1:]
	}
	n := bytes.IndexAny(tag, " \t\r\n/")
	if n < 0 {
		n = len(tag)
	}
	name, attrs := tag[:n], tag[n:]
	e := elementOf(name)
	if !end {
		r.start(e, name, attrs)
	}
	if end || len(attrs) > 0 && attrs[len(attrs)-1] == '/' {
		r.finish(e)
	}
}

// start takes in a start tag.
func (r *reader) start(e element, name, attrs []byte) {
	if !r.root {
		r.rootElement(e, name, attrs)
		return
	}
	if r.dialect == unsettled {
		r.settleDialect(e)
	}
	switch r.dialect {
	case protocol:
		r.startOfProtocol(e, attrs)
	case feed:
		r.startOfFeed(e, attrs)
	}
}

// rootElement settles what the document is.
func (r *reader) rootElement(e element, name, attrs []byte) {
	r.root = true
	r.base = r.rebase(r.base, attrs)
	switch e {
	case elURLSet:
		r.sum.Format, r.dialect = URLSet, protocol
	case elSitemapIndex:
		r.sum.Format, r.dialect = Index, protocol
	case elRSS, elRDF:
		r.sum.Format, r.dialect = RSS, feed
	case elFeed:
		r.sum.Format, r.dialect = Atom, feed
	case elHTML:
		r.refuse("an HTML page")
		return
	default:
		if r.strict {
			r.stopped = true
			return
		}
		r.problem("the root element is %.40q", name)
		r.start(e, name, attrs)
		return
	}
	if r.dialect == feed {
		r.begin(Page, nil)
	}
}

// settleDialect goes by the first entry, where the root says nothing.
func (r *reader) settleDialect(e element) {
	switch e {
	case elURL:
		r.sum.Format, r.dialect = URLSet, protocol
	case elSitemap:
		r.sum.Format, r.dialect = Index, protocol
	case elItem:
		r.sum.Format, r.dialect = RSS, feed
	case elEntry:
		r.sum.Format, r.dialect = Atom, feed
	}
}

// finish takes in the end of an element.
func (r *reader) finish(e element) {
	switch e {
	case r.inside:
		r.inside = elOther
	case elURL, elSitemap, elItem, elEntry:
		if r.inside == elOther || r.dialect == protocol {
			r.flush(false)
		}
	}
}
