package sitemap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// isSpace is true of what may surround names and values: white space of Unicode, controls, and two characters without
// width that editors leave.
func isSpace(c rune) bool { return c <= ' ' || unicode.IsSpace(c) || c == '\u200b' || c == '\ufeff' }

// reader is the state of Read.
type reader struct {
	doc   Document
	base  canonical.URL // xml:base of the root, or the document's own URL
	yield func(Entry) bool
	sum   Summary
	raw   io.LimitedReader // the document before decoding; none left: there was more
	text  *bufio.Reader    // the document as UTF-8
	ends  int              // line ends read

	stopped bool // by yield, by a bound, or because it is no sitemap or feed
	strict  bool // only the root element is read
	root    bool // the root element was seen
	feed    bool // of RSS or Atom; otherwise of the Sitemaps protocol
	settled bool // feed is known
	attrs   []html.Attribute
	inside  string // an element within an entry with other content, or empty
	group   group  // the entry being read
	field   string // what the next text is, or empty
	value   []byte // that text, unescaped
}

type group struct {
	open     bool
	main     Entry // without a URL if there is none yet
	fallback canonical.URL
	extras   []Entry // at most maxExtras
	base     canonical.URL
	loose    bool // it needs no URL, as in Atom
	named    bool // it had one, valid or not
}

// problem counts a problem and keeps the first.
func (r *reader) problem(format string, args ...any) {
	if r.sum.Problems++; r.sum.Problems == 1 {
		r.sum.Problem = fmt.Sprintf("line %d: ", 1+r.ends) + fmt.Sprintf(format, args...)
	}
}

// charge reports whether to read on after n bytes. They are searched a few times.
func (r *reader) charge(n int) bool {
	const times = 8
	if !r.stopped && !r.doc.Budget.SpendText(times*n) {
		r.stopped, r.sum.Bound = true, "the budget of a page (extract.max_elements, extract.max_time)"
	}
	return !r.stopped
}

// web is a line with a URL.
var web = regexp.MustCompile(`(?i)^[\x00-\x20\x{85}\x{a0}\p{Z}\x{200b}\x{feff}]*https?://`)

// lines reads a list of URLs, one per line. At the first "<" where no URL is, markup follows, such as after the
// warning of a script. The last line of a truncated document is not whole.
func (r *reader) lines() {
	for !r.stopped {
		line, err := r.text.ReadSlice('\n')
		i := bytes.IndexByte(line, '<')
		switch head := bytes.TrimFunc(line[:max(i, 0)], isSpace); {
		case web.Match(line):
			if err != nil && (!errors.Is(err, io.EOF) || r.doc.Truncated || r.raw.N <= 0) {
				break
			}
			for part := range bytes.SplitSeq(bytes.TrimFunc(line, isSpace), []byte("\r")) { // that alone ends lines on old Macintoshes
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
		case html.ErrorToken: // what stopped here is no entry
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
		case html.DoctypeToken: // the first declaration in it ends this token
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

// refuse stops at a document that is no sitemap or feed.
func (r *reader) refuse(what string) {
	if r.sum.Format == None {
		r.problem("%s, and neither a sitemap nor a feed", what)
		r.stopped = true
	}
}

// chars adds to the field being read.
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

// appendUnescaped replaces the entities of XML. A "&" that begins none stays: many do not escape URLs.
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
		case name == "lt", name == "gt", name == "quot", name == "apos", number.MatchString(name):
			dst, s = append(dst, html.UnescapeString("&"+name+";")...), s[end+1:]
		default:
			dst = append(dst, '&')
		}
	}
}

var number = regexp.MustCompile(`^#(\d+|[xX][0-9a-fA-F]+)$`)

// tag handles a start or end tag. One without an end holds the next one.
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

// attribute is the value of an attribute of the current tag, whose name is in lower case.
func (r *reader) attribute(name string) (value string, ok bool) {
	i := slices.IndexFunc(r.attrs, func(a html.Attribute) bool { return a.Key == name })
	if i < 0 {
		return "", false
	}
	return r.attrs[i].Val, true
}

func (r *reader) element(name []byte, end, closes bool) {
	e := elements[string(name[bytes.LastIndexByte(name, ':')+1:])] // in whatever namespace
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
	format Format // that it tells as the root or, below another root, as an entry
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

// rootElement decides what the document is. Below an unknown root, the first entry does.
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
