// Package extract reads links, text and metadata out of a page.
//
// An [Extractor] goes over the page once, tag by tag, and builds no tree: a tree costs
// more than all the rest of a crawl, and parsers give up on nesting that real pages
// have. It works in a worker, one page at a time, and reuses what it can; the [Result]
// it fills is the caller's and may be reused too.
//
// A page passes through in this order: header.go reads what the answer says of it,
// charset.go makes UTF-8 of it, scanner.go finds its tags, rawtext.go steps over scripts and
// the like, names.go, attrs.go and entities.go read attributes, scan.go decides what each
// tag means, with rels.go for links, shared.go for what any element may carry, forms.go,
// css.go and, for what a page says of itself, says.go and directives.go. links.go gathers
// references and, at the end, resolves those that known.go does not remember from earlier
// pages. xml.go is for documents that are no HTML.
//
// What is a link to a page: href of a, area and, by its rel, link; src of frames, portals
// and iframes, and what stands in srcdoc; longdesc, and the cite of quotations; data of an
// object that says it is HTML; href of SVG's a; the targets of meta refresh and of the
// headers Refresh and Link; og:url; data-href, and data-url and data-link where they look
// like a URL; the start of a web manifest; XLink in any XML. Feeds and forms are if the
// Options ask for them.
//
// What is a resource, if they are asked for: src, srcset, imagesrcset, poster and data of
// whatever shows or runs something, background, lowsrc and dynsrc of old, applets and
// params; in SVG, what use, image and others refer to; link by its rel, the images of Open
// Graph and Twitter; url() and @import in style sheets, in style elements and attributes
// and in the style sheets that XML names; data-src and its like, where they look like a
// URL.
//
// Links in noscript and noframes count, because we run no scripts and show no frames. Not
// links: what stands in comments, scripts, textareas and templates, and references that
// are nothing but a fragment.
//
// A page's links are in order and unique by canonical URL. Navigation wins over
// Resource, and both over a nofollow link, wherever each stood first.
// References resolve against the first base element with an href even if they stand
// before it, as in a browser.
//
// # Bounds
//
// A page costs at most its own size a few times over: links beyond Options.MaxLinks are
// counted and dropped, and title and metadata are cut at 1 KiB. Any input is a page: an
// Extractor never panics and never fails on what a server sends. What it remembers of
// earlier pages is at most 5 MB.
//
// # Why a scanner of our own
//
// The tokenizer of x/net/html alone costs more than three times as much as all that this
// package does with a page (BenchmarkCost): it looks at every byte of text and copies the name
// of every attribute, to hand out tags of which one in six can matter. The scanner here
// looks for "<" and passes over the rest. Else it must not differ, so the tokenizer is the
// oracle of its tests: on every input both have to give the same tokens, down to where
// the tokenizer itself strays from the standard.
package extract

import (
	"errors"
	"hash/maphash"
	"net/http"
	"strings"
	"time"

	"golang.org/x/text/encoding"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/effort"
)

// defaultMaxLinks is above what pages written for people hold; site maps in HTML and
// traps go beyond it.
const defaultMaxLinks = 10_000

// maxLinkBytes bounds the links of one page, written out, and grows with Options.MaxLinks.
// Ten thousand links of two hundred bytes fit; a long base with short references under it
// can make a small page many megabytes of links.
const maxLinkBytes = 2 << 20

// maxKept is the memory an Extractor keeps from page to page, in bytes per buffer. Few
// pages have more than a megabyte of text or of references.
const maxKept = 1 << 20

// maxField bounds title and metadata, in bytes. Search engines show a tenth of it.
const maxField = 1 << 10

// Options say what a page is read for. The zero Options ask for links to pages and
// for metadata.
type Options struct {
	// Text asks for the page's text, and for that of its links. False leaves both out.
	Text bool
	// Resources asks for images, scripts, styles and media too. False leaves them out.
	Resources bool
	// MaxLinks bounds the links of one page, and with 209 bytes for each what they are
	// together, which is 2 MiB at least. Zero, and anything below, is 10,000.
	MaxLinks int
	// Rules are applied to every link. Nil applies none.
	Rules *canonical.Rules
	// Feeds takes the feeds that a page names as alternates of its own, and its sitemap, as
	// links to pages. False leaves them out.
	Feeds bool
	// Forms takes forms that are sent by GET as links to pages: the action with the values
	// that the form has before anyone has filled it in. Forms with a password or a file are
	// left out, and so are those with more than 64 fields. False leaves out all.
	Forms bool
	// Agent is the name, in lower case, by which pages may speak to this crawler, as in
	// meta name=treadlight. Empty: by none, only to all robots.
	Agent string
	// Budget is what reading the page may cost; when it is spent the rest is left out. Nil has
	// no bound.
	Budget *effort.Budget
	// Key seeds the fingerprints of links. It should be nobody's to guess, so that no
	// page can hold URLs that are taken for one another. Zero is a key like others.
	Key uint64
}

// Kind is what following a link is for.
type Kind uint8

// The kinds.
const (
	Navigation Kind = iota // another page
	Resource               // something a page is made of
)

// String is "navigation" or "resource".
func (k Kind) String() string {
	if k == Resource {
		return "resource"
	}
	return "navigation"
}

// Link is a way out of a page.
type Link struct {
	URL canonical.URL
	// Fingerprint is that of URL under Options.Key.
	Fingerprint uint64
	// Tag and Attr are the element and attribute it stood in, in lower case.
	Tag, Attr string
	// Rel is the rel attribute in lower case, at most 256 bytes of it.
	Rel string
	// Type is the media type that a link element or Link header has for it, in lower case
	// and not cut at its parameters. Empty if it is not said, and for resources.
	Type string
	// Text is what the link reads, if Options.Text and if it is an a element.
	Text string
	Kind Kind
}

// NoFollow reports whether the page asks crawlers not to follow the link.
func (l *Link) NoFollow() bool { return hasToken(l.Rel, "nofollow") }

// Meta is what a page says about itself. Each field is the first of its name, with
// space collapsed, at most 1 KiB; empty if there is none.
type Meta struct {
	Description string `json:"description,omitempty"`
	Robots      string `json:"robots,omitempty"` // all of them, joined by ", "
	Generator   string `json:"generator,omitempty"`
	Canonical   string `json:"canonical,omitempty"` // link rel=canonical, resolved
	OGTitle     string `json:"og_title,omitempty"`
	OGType      string `json:"og_type,omitempty"`
	OGImage     string `json:"og_image,omitempty"` // as written
}

// Result is what a page held.
type Result struct {
	// HTML is whether the page was read for links at all.
	HTML  bool
	Links []Link
	Title string
	// Lang is the lang attribute of the html element, or what stands for it: meta
	// http-equiv=content-language, then the header Content-Language if it names one.
	Lang string
	// Base is what references were resolved against: the document's URL or its base
	// element's.
	Base string
	Meta Meta
	// Directives is what the page and its header say to robots, or to the Agent, each once:
	// "noindex", "max-snippet:20". "none" is given as what it stands for, what permits is
	// left out, and an unavailable_after has its time in RFC 3339 if it could be read. At
	// most 24 of at most 64 bytes.
	Directives []string
	// NoIndex and NoFollow are whether they are among the Directives, UnavailableAfter is
	// the instant of that directive, or zero.
	NoIndex, NoFollow bool
	UnavailableAfter  time.Time
	// Alternates are the other forms of the page, at most 100, and Next and Prev its
	// neighbours in a series; all are canonical.
	Alternates []Alternate
	Next, Prev string
	// Text is the page's text with space collapsed and a line per block, if asked for.
	Text string
	// Charset is the encoding that the page was read in, by its WHATWG name.
	Charset string
	// BadLinks counts references that are no URL, SkippedSchemes those to mailto:,
	// javascript: and the like, LongLinks those longer than [canonical.MaxLength] and
	// DroppedLinks those beyond MaxLinks. A reference repeated counts once, unless it was
	// dropped or is longer than any URL.
	BadLinks, SkippedSchemes, LongLinks, DroppedLinks int
}

// Reset empties r and keeps its memory for the next page.
func (r *Result) Reset() {
	clear(r.Links)
	*r = Result{Links: r.Links[:0]}
}

// Extractor reads pages. The zero Extractor is ready. It must not be used by two
// goroutines at once, nor copied once it was used.
type Extractor struct {
	page // what is known of the current page

	// What follows is memory that pages share. Between pages a buffer holds at most
	// maxKept, whatever pages came before, and nothing refers to a page's body.

	source    source // nil is scanner; the tests have another
	scanner   scanner
	pending   []pending         // at most MaxLinks
	refs      []byte            // the references of pending, one after another, and of relations
	relations []relation        // at most maxAlternates and three
	byRef     index             // pending by its reference
	byURL     index             // links by their fingerprint
	known     known             // references of this page and of those before
	linkBytes int               // of all URLs resolved and kept, and the first that was not
	rels      map[string]string // interned values of rel and the like, bounded by maxRels
	meanings  map[string]relMeaning
	encodings encodings // what pages declared

	lastRobots     string // the content of a meta robots, at most maxField of it
	lastDirectives directives
	decoded        []byte       // a body that was not UTF-8
	seed           maphash.Seed // so that no page can choose references that collide
	dirSeed        maphash.Seed // of page.dir: a reference may be the very name of a directory
	hasSeed        bool
}

// page is the state that each page begins without.
type page struct {
	opts Options
	dst  *Result
	doc  canonical.URL
	base canonical.URL
	dir  uint64            // hash of the directory that references are relative to
	enc  encoding.Encoding // nil if queries are UTF-8

	form     form
	xhtml    bool // its syntax is that of XML
	hasBase  bool
	text     textBuffer
	title    bool // the next text is the title
	hasTitle bool
	style    bool // the next text is a style sheet
	silent   bool // within an element whose text is not for reading
	template int  // open template elements
	svg      int  // open svg elements
	anchor   int  // index of the pending link whose text is being read, or -1

	directives           directives
	metaLang, headerLang string
	related              relMeaning // which relations there are
	sent                 formState
	srcdocs              [][]byte // documents within this one
	srcdocBytes          int      // of all, at most maxSrcdoc
	sharedMask           uint64   // the attributes that matter whatever element has them
	inner                bool     // one of them is being read
}

// Document is what an [Extractor] reads, with what the server said of it.
type Document struct {
	URL canonical.URL
	// MediaType and Charset are those of the Content-Type, both possibly empty.
	MediaType, Charset string
	// Header is that of the answer: of it are read Link, Refresh, X-Robots-Tag and
	// Content-Language. Nil is none.
	Header http.Header
	// Body is decoded of any content coding. It is not changed, nor kept.
	Body []byte
}

// Page reads body, which is the document at base as mediaType in charset, without a
// header; see Document.
func (e *Extractor) Page(base canonical.URL, mediaType, charset string, body []byte, opts Options, dst *Result) error {
	return e.Document(&Document{URL: base, MediaType: mediaType, Charset: charset, Body: body}, opts, dst)
}

// Document reads d. It replaces all of *dst. Links have HTML, XHTML, SVG and what else is
// XML, but for feeds and sitemaps, and, if Options.Resources, style sheets; and so has
// the header, whatever the body is. Of text/plain the text is taken. The error is about
// the arguments, never about the document.
func (e *Extractor) Document(d *Document, opts Options, dst *Result) error {
	if d.URL.IsZero() {
		return errors.New("extract: no base to resolve links against")
	}
	if opts.MaxLinks <= 0 {
		opts.MaxLinks = defaultMaxLinks
	}
	dst.Reset()
	defer e.release()
	e.page = page{opts: opts, dst: dst, doc: d.URL, base: d.URL, anchor: -1, text: textBuffer{buf: e.text.buf[:0]}}
	dst.Base = d.URL.String()
	e.begin()
	e.header(d.Header)
	e.read(formOf(d.MediaType, d.Body), d)
	e.finish()
	return nil
}

// read goes over the body.
func (e *Extractor) read(f form, d *Document) {
	if f == css && !e.opts.Resources {
		f = opaque
	}
	if f == opaque {
		return
	}
	e.opts.Budget.SpendText(len(d.Body))
	body := e.decode(d.Body, d.Charset)
	if f == xml {
		f = xmlForm(body)
	}
	e.form, e.dst.HTML = f, f > plain
	switch f {
	case opaque:
		e.dst.Charset = ""
	case plain:
		e.plainText(body)
	case css:
		e.enc = nil // whose queries are always UTF-8
		e.css("css", "url", body)
	case appManifest:
		e.webManifest(body)
	case xml, xhtml, html:
		if f != html && e.opts.Resources {
			e.styleSheets(body)
		}
		e.scan(body, f != html)
		e.scanInner()
	}
}

// begin readies what is reused. Hashing is seeded once and not per page: a page cannot
// learn the seed from the links we follow.
func (e *Extractor) begin() {
	if !e.hasSeed {
		e.seed, e.dirSeed, e.hasSeed = maphash.MakeSeed(), maphash.MakeSeed(), true
	}
	if e.source == nil {
		e.source = &e.scanner
	}
	e.pending, e.refs, e.relations = e.pending[:0], e.refs[:0], e.relations[:0]
	e.byRef.reset()
	e.byURL.reset()
	e.known.reset(e.opts.Key, e.opts.Rules)
	e.linkBytes = 0
}

// release lets go of the page, which belongs to the caller, and of memory beyond the
// usual.
func (e *Extractor) release() {
	e.dst, e.srcdocs, e.sent = nil, nil, formState{}
	e.scanner.release()
	if cap(e.refs) > maxKept {
		e.refs = nil
	}
	if cap(e.decoded) > maxKept {
		e.decoded = nil
	}
	if cap(e.text.buf) > maxKept {
		e.text.buf = nil
	}
}

// form is how a body is read.
type form uint8

const (
	opaque form = iota // not at all
	plain
	html // and what follows is read for links
	xhtml
	xml // which may turn out to be XHTML, or nothing for us
	css
	appManifest
)

// formOf goes by the media type and looks into the body only if there is none.
func formOf(mediaType string, body []byte) form {
	mediaType = essence(mediaType)
	if mediaType == "" {
		mediaType = essence(http.DetectContentType(body))
	}
	switch {
	case strings.EqualFold(mediaType, "text/html"):
		return html
	case strings.EqualFold(mediaType, "application/xhtml+xml"):
		return xhtml
	case strings.EqualFold(mediaType, "text/plain"):
		return plain
	case strings.EqualFold(mediaType, "text/css"):
		return css
	case strings.EqualFold(mediaType, "application/manifest+json"):
		return appManifest
	case strings.EqualFold(mediaType, "text/xml"), strings.EqualFold(mediaType, "application/xml"):
		return xml
	case len(mediaType) > 4 && strings.EqualFold(mediaType[len(mediaType)-4:], "+xml"):
		return xml
	}
	return opaque
}
