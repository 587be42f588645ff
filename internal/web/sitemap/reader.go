package sitemap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// isSpace reports whether c may surround names and values: Unicode white space, controls, and two characters without
// width that editors leave.
func isSpace(c rune) bool { return c <= ' ' || unicode.IsSpace(c) || c == '\u200b' || c == '\ufeff' }

// reader is the state of Read.
type reader struct {
	doc   Document
	base  canonical.URL // xml:base of the root, or the document's own URL
	yield func(Entry) bool
	sum   Summary
	raw   io.LimitedReader // the document before decoding; if nothing of the limit is left, there was more
	text  *bufio.Reader    // the document as UTF-8
	ends  int              // number of line ends read

	stopped bool // stopped by yield, by a bound, or because the document is no sitemap or feed
	strict  bool // only the root element is read
	root    bool // the root element was seen
	feed    bool // RSS or Atom; otherwise the Sitemaps protocol
	settled bool // whether feed is known
	attrs   []html.Attribute
	inside  string // the element within the entry whose content is not the entry's, or empty
	group   group  // the entry being read
	field   string // the field to which the next text belongs, or empty
	value   []byte // its text so far, unescaped
}

type group struct {
	open     bool
	main     Entry // the entry; without a URL until one was read
	fallback canonical.URL
	extras   []Entry // its alternates and resources, at most maxExtras
	base     canonical.URL
	loose    bool // whether it may be without a URL, as in Atom
	named    bool // whether it had a URL, valid or not
}

// problem counts a problem and keeps the first.
func (r *reader) problem(format string, args ...any) {
	if r.sum.Problems++; r.sum.Problems == 1 {
		r.sum.Problem = fmt.Sprintf("line %d: ", 1+r.ends) + fmt.Sprintf(format, args...)
	}
}

// charge takes the cost of n bytes, which are searched a few times, from the budget, and reports whether to read on.
func (r *reader) charge(n int) bool {
	const times = 8
	if !r.stopped && !r.doc.Budget.SpendText(times*n) {
		r.stopped, r.sum.Bound = true, "the budget of a page (extract.max_elements, extract.max_time)"
	}
	return !r.stopped
}

// web matches a line that begins with a URL.
var web = lazy.Regexp(`(?i)^[\x00-\x20\x{85}\x{a0}\p{Z}\x{200b}\x{feff}]*https?://`)

// lines reads a list of URLs, one per line. At the first "<" that is not part of a URL, markup follows, for example
// after a warning of a script. The last line of a truncated document is dropped.
func (r *reader) lines() {
	for !r.stopped {
		line, err := r.text.ReadSlice('\n')
		i := bytes.IndexByte(line, '<')
		switch head := bytes.TrimFunc(line[:max(i, 0)], isSpace); {
		case web().Match(line):
			if err != nil && (!errors.Is(err, io.EOF) || r.doc.Truncated || r.raw.N <= 0) {
				break
			}
			for part := range bytes.SplitSeq(bytes.TrimFunc(line, isSpace), []byte("\r")) { // "\r" alone ends lines on old Macintoshes
				if u, ok := r.resolve(part); ok {
					r.sum.Format = Text
					r.emit(&Entry{URL: u, Priority: DefaultPriority})
				}
			}
		case i >= 0:
			if len(head) > 0 {
				r.problem("%.60q is no URL", head)
			}
			r.markup(io.MultiReader(bytes.NewReader(bytes.Clone(line[i:])), r.text))
			return
		default:
			if line = bytes.TrimFunc(line, isSpace); len(line) > 0 {
				r.problem("%.60q is no URL", line)
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			r.broken(err)
			return
		}
		r.ends++
		r.charge(len(line))
	}
}

// broken reports the error that ends a document.
func (r *reader) broken(err error) {
	switch {
	case errors.Is(err, html.ErrBufferExceeded):
		r.sum.Bound = fmt.Sprintf("%d bytes of a tag or text", maxToken)
	case !errors.Is(err, io.EOF):
		r.problem("it breaks off: %v", err)
	}
}

func (r *reader) markup(from io.Reader) {
	z := html.NewTokenizer(from)
	z.SetMaxBuf(maxToken)
	z.AllowCDATA(true)
	for !r.stopped {
		kind := z.Next()
		raw := z.Raw()
		r.ends += bytes.Count(raw, []byte("\n"))
		if !r.charge(len(raw)) {
			return
		}
		switch kind {
		case html.ErrorToken: // the part that was cut off here is no entry
			whole := errors.Is(z.Err(), io.EOF)
			switch {
			case whole && len(raw) > 0:
				r.problem("the document ends within markup")
			case whole && r.field != "":
				r.problem("the document ends within an element")
			}
			r.flush(true)
			r.broken(z.Err())
			return
		case html.TextToken:
			r.chars(raw)
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
			r.tag(z, raw)
			z.NextIsNotRawText()
		case html.DoctypeToken: // the first declaration within it ends this token
			if bytes.IndexByte(raw, '[') >= 0 {
				r.problem("a document type that declares something, of which nothing is used")
			}
			if words := bytes.Fields(bytes.TrimSuffix(raw, []byte(">"))); len(words) > 1 && bytes.EqualFold(words[1], []byte("html")) {
				r.refuse("an HTML page")
			}
		case html.CommentToken:
			if raw[len(raw)-1] != '>' {
				r.problem("the document ends within markup")
			}
		}
	}
}

// refuse stops reading, because the document is no sitemap or feed.
func (r *reader) refuse(what string) {
	if r.sum.Format == None {
		r.problem("%s, and neither a sitemap nor a feed", what)
		r.stopped = true
	}
}

// chars adds text to the field being read.
func (r *reader) chars(raw []byte) {
	if r.field == "" {
		return
	}
	content, isCDATA := bytes.CutPrefix(raw, []byte("<![CDATA["))
	if len(r.value)+len(raw) > maxField {
		r.problem("a text beyond %d bytes", maxField)
		r.field = ""
		return
	}
	if isCDATA {
		r.value = append(r.value, bytes.TrimSuffix(content, []byte("]]>"))...)
	} else {
		r.value = appendUnescaped(r.value, raw)
	}
}

// appendUnescaped appends s with the entities of XML replaced. A "&" that begins no entity stays, because many
// documents do not escape URLs.
func appendUnescaped(dst, s []byte) []byte {
	const longest = 16 // "#x10FFFF;" with some zeros in front
	for {
		i := bytes.IndexByte(s, '&')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		s = s[i+1:]
		end := max(0, bytes.IndexByte(s[:min(len(s), longest)], ';'))
		switch name := string(s[:end]); {
		case name == "amp":
			dst, s = append(dst, '&'), s[end+1:]
		case name == "lt", name == "gt", name == "quot", name == "apos", number().MatchString(name):
			dst, s = append(dst, html.UnescapeString("&"+name+";")...), s[end+1:]
		default:
			dst = append(dst, '&')
		}
	}
}

var number = lazy.Regexp(`^#(\d+|[xX][0-9a-fA-F]+)$`)

// tag handles a start or end tag. A tag without an end contains the next one.
func (r *reader) tag(z *html.Tokenizer, raw []byte) {
	r.settle()
	r.attrs = r.attrs[:0]
	if bytes.LastIndexByte(raw, '<') > 0 {
		r.problem("a tag without an end")
		for part := range bytes.SplitSeq(bytes.TrimSuffix(raw[1:], []byte(">")), []byte("<")) {
			if words := bytes.FieldsFunc(part, func(c rune) bool { return c == '/' || c <= ' ' }); len(words) > 0 {
				r.element(bytes.ToLower(words[0]), false, false)
			}
		}
		return
	}
	end, closes := raw[1] == '/', raw[len(raw)-2] == '/'
	name, more := z.TagName()
	for more {
		var key, val []byte
		key, val, more = z.TagAttr()
		r.attrs = append(r.attrs, html.Attribute{Key: string(key), Val: string(val)})
	}
	r.element(name, end, closes)
}

// attribute returns the value of an attribute of the current tag. name is in lower case.
func (r *reader) attribute(name string) (value string, ok bool) {
	i := slices.IndexFunc(r.attrs, func(a html.Attribute) bool { return a.Key == name })
	if i < 0 {
		return "", false
	}
	return r.attrs[i].Val, true
}

func (r *reader) element(name []byte, end, closes bool) {
	e := elements[string(name[bytes.LastIndexByte(name, ':')+1:])] // the namespace does not matter
	if !end && !r.root {
		r.rootElement(e, name)
	} else if !end {
		r.start(e)
	}
	if !end && !closes {
		return
	}
	switch {
	case e.name != "" && e.name == r.inside:
		r.inside = ""
	case e.entry && (r.inside == "" || !r.feed):
		r.flush(false)
	}
}

type element struct {
	name   string
	format Format // the format that the element shows as the root or, below an unknown root, as an entry
	entry  bool
}

var elements = func() map[string]element {
	all := map[string]element{
		"urlset": {"urlset", URLSet, false}, "sitemapindex": {"sitemapindex", Index, false}, "rss": {"rss", RSS, false},
		"rdf": {"rdf", RSS, false}, "feed": {"feed", Atom, false},
		"url": {"url", URLSet, true}, "sitemap": {"sitemap", Index, true}, "item": {"item", RSS, true}, "entry": {"entry", Atom, true},
	}
	for name := range strings.FieldsSeq("html loc lastmod changefreq priority link image video content_loc player_loc thumbnail_loc " +
		"guid pubdate date updated published lastbuilddate enclosure thumbnail content comments source textinput") {
		all[name] = element{name: name}
	}
	return all
}()

// rootElement decides by the root what the document is or, if the root is unknown, by the first entry.
func (r *reader) rootElement(e element, name []byte) {
	r.root, r.stopped = true, r.strict
	r.base = r.rebase(r.base)
	switch {
	case e.name == "html":
		r.refuse("an HTML page")
	case e.format != None && !e.entry:
		if r.is(e.format); r.feed {
			r.begin(Page)
		}
	case !r.strict:
		r.problem("the root element is %.40q", name)
		r.start(e)
	}
}

func (r *reader) is(f Format) { r.settled, r.sum.Format, r.feed = true, f, f.Feed() }

func (r *reader) start(e element) {
	if !r.settled && e.entry {
		r.is(e.format)
	}
	switch {
	case !r.settled:
	case r.feed:
		r.startOfFeed(e.name)
	default:
		r.startOfProtocol(e.name)
	}
}
