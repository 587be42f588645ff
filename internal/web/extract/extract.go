// Package extract extracts links, text and metadata from a page.
//
// An [Extractor] reads a page once, tag by tag, without building a tree. It and the [Result] that it fills are reused
// from page to page by one worker. scanner.go and attributes.go find tags, text.go text. elements.go has the table of
// what each tag and attribute means. What needs more than a row of that table is in rel.go, forms.go, css.go and
// meta.go, which also reads the response header. links.go collects references and resolves them at the end.
//
// Links to pages are: href of a, area and, by rel, link; src of frames, portals and iframes, and the links in srcdoc;
// longdesc; cite; data of an object with an HTML type; href of SVG's a; the targets of meta refresh and of the
// headers Refresh and Link; og:url; data-href, and data-url and data-link where they look like a URL; the start of a
// web manifest; XLink in any XML; feeds and forms if the Options say so.
//
// Resources, if the Options say so, are: src, srcset, imagesrcset, poster and data of media and scripts, background,
// lowsrc, dynsrc, applets and params; the targets of use, image and other elements of SVG; link by rel; images of Open
// Graph and Twitter; url() and @import in style sheets, style elements and attributes; xml-stylesheet; data-src and
// similar attributes whose value looks like a URL.
//
// With Options.Named, texts that have the form of a URL are links to pages as well (named.go).
//
// Links in noscript and noframes count. Links in comments, scripts, textareas and templates do not, nor references
// that are only a fragment. Links are in the order of the page and unique by canonical URL. If a URL is linked in
// several ways, Navigation takes precedence over Resource, and both over a nofollow link. References are resolved
// against the first base element with an href, wherever it is.
//
// # Bounds
//
// A page takes a few times its own size in memory: links beyond Options.MaxLinks or 2 MiB are counted and dropped,
// title and metadata are cut at 1 KiB. Any input is a page: an Extractor never panics and never fails on what a server
// sends. It caches at most 5 MB of earlier pages.
//
// # Why a scanner of our own
//
// The tokenizer of x/net/html takes more than three times as long as this whole package (BenchmarkCost), because it
// examines every byte of text and copies every attribute. The tests require the scanner to yield the same tokens for
// every input, even where that tokenizer deviates from the standard.
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
	"github.com/treadlight/crawl/internal/web/mediatype"
	"github.com/treadlight/crawl/record"
)

const (
	defaultMaxLinks = 10_000 // of a page; pages written for people have fewer
	// maxLinkBytes bounds the resolved links of one page: with a long base, short references in a small page resolve to
	// many megabytes.
	maxLinkBytes = 2 << 20
	maxKept      = 1 << 20 // bytes of each buffer that may be kept for the next page
	maxField     = 1 << 10 // bytes of the title and of each field of metadata
)

// Options select what is extracted. The zero Options select links to pages, and metadata.
type Options struct {
	// Text extracts the text of the page.
	Text bool
	// Resources extracts links to images, scripts, styles and media, too.
	Resources bool
	// MaxLinks bounds the links of one page. Zero means 10,000.
	MaxLinks int
	// Rules are applied to every link. Nil applies none.
	Rules *canonical.Rules
	// Feeds treats alternates that are feeds, and the sitemap of the page, as links to pages.
	Feeds bool
	// Forms treats GET forms with their default values as links to pages, except forms with a password, a file or more
	// than 64 fields.
	Forms bool
	// Named treats texts that have the form of a URL of the page's site as links to pages, in scripts, data, comments
	// and anywhere else, and also URLs in the header and the targets of POST forms. It takes at most 100 per document.
	Named bool
	// Agent is the lower-case name of this crawler in robots directives, as in meta name=treadlight. Empty means that
	// only directives for all robots are read.
	Agent string
	// Budget bounds the cost. When it is spent, the rest of the page is left out. Nil means no bound.
	Budget *effort.Budget
	// Key seeds the fingerprints of links. It should be secret, so that no page can construct collisions.
	Key uint64
}

// Kind is the purpose of a link.
type Kind uint8

// The kinds.
const (
	Navigation Kind = iota // another page
	Resource               // something that a page is made of, such as an image
)

// Link is a link of a page.
type Link struct {
	URL canonical.URL
	// Fingerprint is the fingerprint of URL under Options.Key.
	Fingerprint uint64
	Kind        Kind
	// NoFollow says that the page asks crawlers not to follow the link, at every place where the page has it.
	NoFollow bool
}

// Result is what was extracted from a page.
type Result struct {
	// HTML says whether the page was scanned for links.
	HTML  bool
	Links []Link
	Title string
	// Lang is the lang attribute of the html element, or the content of meta http-equiv=content-language, or the header
	// Content-Language, of the latter two only if they name one language.
	Lang string
	// Base is the URL against which references were resolved.
	Base string
	Meta record.Meta
	// Directives are the directives of the page and its header for all robots or for the Agent, without duplicates:
	// "noindex", "max-snippet:20". "none" is replaced by "noindex" and "nofollow", permissions are left out, and the
	// time of unavailable_after is in RFC 3339. There are at most 24, of at most 64 bytes each.
	Directives []string
	// NoIndex, NoFollow and UnavailableAfter tell which of these Directives there are.
	NoIndex, NoFollow bool
	UnavailableAfter  time.Time
	// Alternates are the other forms of the page, at most 100. Next and Prev are its neighbors in a series. All are
	// canonical URLs.
	Alternates []record.Alternate
	Next, Prev string
	// Text is the text of the page with white space collapsed and a line for each block. It is set if Options.Text is.
	Text string
	// Scripts says whether there is a script element.
	Scripts bool
	// Charset is the WHATWG name of the encoding.
	Charset string
	// LongLinks counts references longer than [canonical.MaxLength]. DroppedLinks counts those beyond the bounds of a
	// page. Each occurrence counts.
	LongLinks, DroppedLinks int
}

// Reset empties r and keeps its memory for the next page.
func (r *Result) Reset() {
	clear(r.Links)
	*r = Result{Links: r.Links[:0]}
}

// Extractor reads pages. The zero Extractor is ready to use. It must not be used concurrently, nor copied after use.
type Extractor struct {
	page // the state of the current page

	// Memory shared by all pages: at most maxKept for each buffer, and nothing of a page's body.

	source  source // nil means scanner; tests use another one
	scanner scanner
	links   links
	text    textBuffer
	decoded []byte // the last body that was not UTF-8

	lastRobots     string // the last content of a meta robots
	lastDirectives directives
}

type page struct {
	opts   Options
	dst    *Result
	syntax syntax
	xhtml  bool   // the page is parsed as XML
	shared uint64 // attributes that matter in every element, as bits

	title    bool // the next text is the title
	hasTitle bool
	style    bool // the next text is a style sheet
	silent   bool // within an element whose text is not shown
	template int  // number of open template elements
	svg      int  // number of open svg elements
	hasBase  bool
	form     form

	directives           directives
	metaLang, headerLang string
	srcdocs              [][]byte // documents within this page
	srcdocBytes          int      // of all srcdocs, at most maxSrcdoc
	inner                bool     // one of the srcdocs is being read
	mentions             int      // links that named has added, at most maxNamed
}

// Document is the input of an [Extractor].
type Document struct {
	URL canonical.URL
	// MediaType and Charset are from the Content-Type. Both may be empty.
	MediaType, Charset string
	// Header is the header of the response. Link, Refresh, X-Robots-Tag and Content-Language are read, and further
	// fields with Options.Named.
	Header http.Header
	// Body has no content coding. It is neither changed nor kept.
	Body []byte
}

// Document reads d and replaces all of *dst. It reads links from the header, from HTML, XHTML, SVG and other XML except
// feeds and sitemaps, and, with Options.Resources, from style sheets. Of text/plain it reads the text. The error is
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
	case plain: // line breaks and indentation are kept
		if e.opts.Text {
			e.text.buf = append(e.text.buf, bytes.TrimSpace(body)...)
		}
	case css:
		e.links.enc = nil // queries in style sheets are always UTF-8
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
	code                 // scripts and data, which may contain URLs
	plain
	html // this one and those below are read for links
	xhtml
	xml // may turn out to be XHTML or opaque
	css
	appManifest
)

// syntaxOf returns the syntax for a media type or, if that is empty, for a body.
func syntaxOf(mediaType string, body []byte) syntax {
	mediaType = essence(mediaType)
	if mediaType == "" {
		mediaType = essence(http.DetectContentType(body))
	}
	switch mediaType = mediatype.Usual(strings.ToLower(mediaType)); mediaType {
	case "text/html":
		return html
	case "application/xhtml+xml":
		return xhtml
	case "text/plain":
		return plain
	case "text/javascript", "application/json":
		return code
	case "text/css":
		return css
	case "application/manifest+json":
		return appManifest
	case "application/xml":
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
