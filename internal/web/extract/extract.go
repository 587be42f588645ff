// Package extract reads links, text and metadata out of a page.
//
// An [Extractor] goes over a page once, tag by tag, without a tree, in one worker; it and the [Result] it fills are
// reused from page to page. scanner.go and attributes.go find tags, text.go text. elements.go has the table of what
// each tag and attribute means; rel.go, forms.go, css.go and meta.go, which also reads the response header, have what
// is more than a row of it. links.go collects references and resolves them at the end.
//
// Links to pages are: href of a, area and, by rel, link; src of frames, portals and iframes, and the links in srcdoc;
// longdesc; cite; data of an object with an HTML type; href of SVG's a; the targets of meta refresh and of the
// headers Refresh and Link; og:url; data-href, and data-url and data-link where they look like a URL; the start of a
// web manifest; XLink in any XML; feeds and forms if the Options say so.
//
// Resources, if the Options say so, are: src, srcset, imagesrcset, poster and data of media and scripts, background,
// lowsrc, dynsrc, applets and params; what use, image and others of SVG refer to; link by rel; images of Open Graph
// and Twitter; url() and @import in style sheets, style elements and attributes; xml-stylesheet; data-src and similar
// ones that look like a URL.
//
// With Options.Named, texts that have the form of a URL are links to pages as well (named.go).
//
// Links in noscript and noframes count. Links in comments, scripts, textareas and templates do not, nor references
// that are only a fragment. Links are in the order of the page and unique by canonical URL; Navigation wins over
// Resource, and both win over a nofollow link. References resolve against the first base element with an href,
// wherever it is.
//
// # Bounds
//
// A page costs a few times its own size: links beyond Options.MaxLinks or 2 MiB are counted and dropped, title and
// metadata are cut at 1 KiB. Any input is a page: an Extractor never panics and never fails on what a server sends.
// It caches at most 5 MB of earlier pages.
//
// # Why a scanner of our own
//
// The tokenizer of x/net/html takes more than three times as long as this whole package (BenchmarkCost): it looks at
// every byte of text and copies every attribute. The tests require the scanner to give the same tokens on every
// input, where the tokenizer strays from the standard too.
package extract

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/record"
)

const (
	defaultMaxLinks = 10_000 // of a page; more than those written for people have
	// maxLinkBytes bounds the resolved links of one page: a long base with short references makes a small page many
	// megabytes.
	maxLinkBytes = 2 << 20
	maxKept      = 1 << 20 // bytes of each buffer that is kept from page to page
	maxField     = 1 << 10 // bytes of title and metadata
)

// Options select what is read. The zero Options select links to pages and metadata.
type Options struct {
	// Text reads the text of the page.
	Text bool
	// Resources reads links to images, scripts, styles and media too.
	Resources bool
	// MaxLinks bounds the links of one page. Zero is 10,000.
	MaxLinks int
	// Rules are applied to every link.
	Rules *canonical.Rules
	// Feeds takes alternates that are feeds, and the page's sitemap, as links to pages.
	Feeds bool
	// Forms takes GET forms with their default values as links to pages, but for those with a password, a file or
	// more than 64 fields.
	Forms bool
	// Named takes texts that have the form of a URL of the page's site as links to pages too, in scripts, data,
	// comments and wherever else they stand, and what the header and forms of POST name. At most 100 of a document.
	Named bool
	// Agent is the lower-case name of this crawler in robots directives, as in meta name=treadlight. Empty: only
	// those for all robots are read.
	Agent string
	// Budget bounds the cost; when it is spent the rest is left out. Nil is no bound.
	Budget *effort.Budget
	// Key seeds the fingerprints of links. It should be secret, so that no page can construct collisions.
	Key uint64
}

// Kind is the purpose of a link.
type Kind uint8

// The kinds.
const (
	Navigation Kind = iota // another page
	Resource               // something a page is made of
)

// Link is a link of a page.
type Link struct {
	URL canonical.URL
	// Fingerprint is that of URL under Options.Key.
	Fingerprint uint64
	Kind        Kind
	// NoFollow says that the page asks crawlers not to follow it, wherever it has it as a link.
	NoFollow bool
}

// Result is what was read of a page.
type Result struct {
	// HTML is whether the page was read for links.
	HTML  bool
	Links []Link
	Title string
	// Lang is the lang attribute of the html element, or meta http-equiv=content-language, or the header
	// Content-Language if it names one language.
	Lang string
	// Base is what references were resolved against.
	Base string
	Meta record.Meta
	// Directives are those of the page and its header for robots or the Agent, each once: "noindex",
	// "max-snippet:20". "none" is replaced by its meaning, permissions are left out, an unavailable_after has its
	// time in RFC 3339. At most 24 of at most 64 bytes.
	Directives []string
	// NoIndex, NoFollow and UnavailableAfter are these Directives.
	NoIndex, NoFollow bool
	UnavailableAfter  time.Time
	// Alternates are the other forms of the page, at most 100, Next and Prev its neighbours in a series; all are
	// canonical.
	Alternates []record.Alternate
	Next, Prev string
	// Text is the page's text with space collapsed and a line per block, if Options.Text.
	Text string
	// Scripts is whether there is a script element.
	Scripts bool
	// Charset is the WHATWG name of the encoding.
	Charset string
	// LongLinks counts references longer than [canonical.MaxLength], DroppedLinks those beyond the bounds of a page,
	// each as often as it is there.
	LongLinks, DroppedLinks int
}

// Reset empties r and keeps its memory for the next page.
func (r *Result) Reset() {
	clear(r.Links)
	*r = Result{Links: r.Links[:0]}
}

// Extractor reads pages. The zero Extractor is ready. It must not be used concurrently, nor copied after use.
type Extractor struct {
	page // what is known of the current page

	// Memory that pages share: at most maxKept for each buffer, and nothing of a page's body.

	source  source // nil is scanner; tests have another one
	scanner scanner
	links   links
	text    textBuffer
	decoded []byte // a body that was not UTF-8

	lastRobots     string // the last content of a meta robots
	lastDirectives directives
}

type page struct {
	opts   Options
	dst    *Result
	syntax syntax
	xhtml  bool   // its syntax is that of XML
	shared uint64 // the attributes that matter whatever element has them

	title    bool // the next text is the title
	hasTitle bool
	style    bool // the next text is a style sheet
	silent   bool // within an element whose text is not for reading
	template int  // open template elements
	svg      int  // open svg elements
	hasBase  bool
	form     form

	directives           directives
	metaLang, headerLang string
	srcdocs              [][]byte // documents within this one
	srcdocBytes          int      // of all, at most maxSrcdoc
	inner                bool     // one of them is being read
	mentions             int      // at most maxNamed
}

// Document is the input of an [Extractor].
type Document struct {
	URL canonical.URL
	// MediaType and Charset are those of the Content-Type, both possibly empty.
	MediaType, Charset string
	// Header is that of the response. Link, Refresh, X-Robots-Tag and Content-Language are read.
	Header http.Header
	// Body is without content coding. It is not changed or kept.
	Body []byte
}

// Document reads d and replaces all of *dst. Links are read from the header, from HTML, XHTML, SVG and other XML but
// for feeds and sitemaps, and, if Options.Resources, from style sheets; of text/plain the text is read. The error is
// about the arguments, never about the document.
func (e *Extractor) Document(d *Document, opts Options, dst *Result) error {
	if d.URL.IsZero() {
		return errors.New("extract: no base to resolve links against")
	}
	dst.Reset()
	defer e.release()
	opts.MaxLinks = cmp.Or(opts.MaxLinks, defaultMaxLinks)
	e.page = page{opts: opts, dst: dst}
	e.text = textBuffer{buf: e.text.buf[:0]}
	if e.source == nil {
		e.source = &e.scanner
	}
	e.links.begin(d.URL, &e.opts, dst)
	dst.Base = d.URL.String()
	e.header(d.Header)
	e.read(syntaxOf(d.MediaType, d.Body), d)
	if opts.Named {
		e.namedByHeader(d.Header)
	}
	e.finish()
	return nil
}

func (e *Extractor) read(s syntax, d *Document) {
	if s == css && !e.opts.Resources || s == code && !e.opts.Named {
		s = opaque
	}
	if s == opaque {
		return
	}
	e.opts.Budget.SpendText(len(d.Body))
	body := e.decode(d.Body, d.Charset)
	if s == xml { // the root element decides; feeds and sitemaps have a parser of their own
		switch prolog(body, nil) {
		case "html":
			s = xhtml
		case "", "urlset", "sitemapindex", "rss", "feed", "rdf":
			s = opaque
		}
	}
	e.syntax, e.dst.HTML = s, s > plain
	switch s {
	case opaque:
		e.dst.Charset = ""
	case plain: // its line ends and indentation are its form
		if e.opts.Text {
			e.text.buf = append(e.text.buf, bytes.TrimSpace(body)...)
		}
	case css:
		e.links.enc = nil // whose queries are always UTF-8
		e.css(body)
	case appManifest:
		e.webManifest(body)
	case xml, xhtml, html:
		if s != html && e.opts.Resources {
			e.styleSheets(body)
		}
		e.scan(body, s != html)
		e.scanInner()
	}
	if e.opts.Named && s != opaque && s != css {
		e.named(body)
	}
}

func (e *Extractor) finish() {
	d := e.dst
	if e.opts.Text {
		d.Text = strings.ToValidUTF8(string(e.text.buf), "\ufffd")
	}
	d.Lang = cmp.Or(d.Lang, e.metaLang, e.headerLang)
	d.Directives, d.NoIndex, d.NoFollow = e.directives.list, e.directives.noIndex, e.directives.noFollow
	d.UnavailableAfter = e.directives.unavailableAfter
	e.links.finish()
}

func (e *Extractor) release() {
	e.page = page{}
	e.scanner.release()
	e.links.release()
	if cap(e.decoded) > maxKept {
		e.decoded = nil
	}
	if cap(e.text.buf) > maxKept {
		e.text.buf = nil
	}
}

type syntax uint8

const (
	opaque syntax = iota // not read
	code                 // scripts and data, which name URLs
	plain
	html // this and the next ones are read for links
	xhtml
	xml // which may become XHTML or opaque
	css
	appManifest
)

// syntaxOf is the syntax by the media type or, without one, by the body.
func syntaxOf(mediaType string, body []byte) syntax {
	mediaType = essence(mediaType)
	if mediaType == "" {
		mediaType = essence(http.DetectContentType(body))
	}
	switch mediaType = strings.ToLower(mediaType); mediaType {
	case "text/html":
		return html
	case "application/xhtml+xml":
		return xhtml
	case "text/plain":
		return plain
	case "application/javascript", "text/javascript", "application/x-javascript", "application/json":
		return code
	case "text/css":
		return css
	case "application/manifest+json":
		return appManifest
	case "text/xml", "application/xml":
		return xml
	}
	if strings.HasSuffix(mediaType, "+json") {
		return code
	}
	if len(mediaType) > len("+xml") && strings.HasSuffix(mediaType, "+xml") {
		return xml
	}
	return opaque
}
