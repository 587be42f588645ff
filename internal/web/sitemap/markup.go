package sitemap

import (
	"bytes"
	"fmt"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// space may surround names and values: white space of Unicode, and two characters without width
// that editors leave.
const space = " \t\r\n\v\f\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a" +
	"\u2028\u2029\u202f\u205f\u3000\u200b\ufeff"

// reader is the state of Read.
type reader struct {
	doc   Document
	base  canonical.URL // xml:base of the root, or the document's own URL
	yield func(Entry) bool
	sum   Summary
	w     window

	charged int  // bytes, to the budget
	stopped bool // by yield, by a bound, or because it is no sitemap or feed
	root    bool // the root element was seen
	strict  bool // a document with another root is not read
	dialect dialect
	inside  string // an element within an entry with other content, or empty
	group   group  // the entry being read
	field   field  // what the next text is
	value   []byte // that text, unescaped
}

type dialect uint8

const (
	unsettled dialect = iota
	protocol          // urlset or sitemapindex
	feed              // RSS or Atom
)

// group is an entry and its extras, which are yielded together.
type group struct {
	open     bool
	main     Entry // without a URL if there is none yet
	fallback canonical.URL
	extras   []Entry // at most maxExtras
	base     canonical.URL
	loose    bool // it needs no URL, as in Atom
	named    bool // it had one, valid or not
}

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

// problem counts a problem and keeps the first.
func (r *reader) problem(format string, args ...any) {
	if r.sum.Problems++; r.sum.Problems == 1 {
		r.sum.Problem = fmt.Sprintf("line %d: ", r.w.line()) + fmt.Sprintf(format, args...)
	}
}

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

// goesOn reports whether to read on, and charges the budget. A tag is searched once for each of
// its attributes.
func (r *reader) goesOn() bool {
	const times = 8
	read := r.w.used - r.charged
	r.charged = r.w.used
	if !r.stopped && !r.doc.Budget.SpendText(times*read) {
		r.stopped, r.sum.Bound = true, "the budget of a page (extract.max_elements, extract.max_time)"
	}
	return !r.stopped
}

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

// markupAt reads what follows a "<".
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

func (r *reader) endsWithin(what string) {
	if r.w.err == nil {
		r.problem("the document ends within %s", what)
	}
}

// declaration skips a document type.
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

// refuse stops at a document that is no sitemap or feed.
func (r *reader) refuse(what string) {
	if r.sum.Format == None {
		r.problem("%s, and neither a sitemap nor a feed", what)
		r.stopped = true
	}
}

func isNameStart(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c == ':' || c >= 0x80
}

// element handles a tag, given without its brackets.
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

func (r *reader) start(e string, name, attrs []byte) {
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

func (r *reader) rootElement(e string, name, attrs []byte) {
	r.root = true
	r.base = r.rebase(r.base, attrs)
	switch e {
	case "urlset":
		r.sum.Format, r.dialect = URLSet, protocol
	case "sitemapindex":
		r.sum.Format, r.dialect = Index, protocol
	case "rss":
		r.sum.Format, r.dialect = RSS, feed
	case "feed":
		r.sum.Format, r.dialect = Atom, feed
	case "html":
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

// settleDialect decides by the first entry, where the root does not.
func (r *reader) settleDialect(e string) {
	switch e {
	case "url":
		r.sum.Format, r.dialect = URLSet, protocol
	case "sitemap":
		r.sum.Format, r.dialect = Index, protocol
	case "item":
		r.sum.Format, r.dialect = RSS, feed
	case "entry":
		r.sum.Format, r.dialect = Atom, feed
	}
}

// finish handles the end of an element.
func (r *reader) finish(e string) {
	switch e {
	case r.inside:
		r.inside = ""
	case "url", "sitemap", "item", "entry":
		if r.inside == "" || r.dialect == protocol {
			r.flush(false)
		}
	}
}
