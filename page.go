package crawl

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/maintext"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/route"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

// Page is a visited URL with its result: [Page.OK] tells a page from a redirect, an error page, or a host that did not
// answer. A Page may be used by one goroutine at a time, except [Page.Follow] and [Page.Emit].
type Page struct {
	// URL is the requested URL in its canonical form; never nil. The program may change it.
	URL *url.URL
	// Kind is "page", or "sitemap" for a sitemap or feed that the crawl found. One given as a seed is a "page".
	Kind string
	// Method is the request's method: "GET" unless [WithMethod] or [WithBody] set another.
	Method string
	// Status is the HTTP status. Zero means that there was no response; Err says why.
	Status int
	// Header is the response's header. Nil means that there was no response.
	Header http.Header
	// Body is the response's body without content codings, cut at [FetchOptions.MaxBody]. It is valid until the handler
	// returns or the loop over [Crawler.Crawl] takes its next page; then it is set to nil and its memory is used for
	// other pages. [Page.Clone] keeps it. Empty means that there is no body.
	Body []byte
	// ContentType is the media type in lower case without parameters, such as "text/html". Empty means that the host
	// sent none.
	ContentType string
	// Charset is the encoding of a text, as a WHATWG name. Empty means that the page was not read as text.
	Charset string
	// RedirectTo is the canonical URL that a redirect leads to. It is visited as a page of its own if it is in scope
	// and was not seen. Empty means that the page is no redirect.
	RedirectTo string
	// Err is why there is no whole response, or why it could not be read; a [*PageError]. Nil does not mean that the
	// status is a good one.
	Err error

	// Depth is the number of links from a seed; zero for a seed.
	Depth int
	// Referrer is the canonical URL of the page that linked or redirected here. Empty for a seed.
	Referrer string
	// FetchedAt is when the request was sent.
	FetchedAt time.Time
	// Attempt is the number of the request for this URL, from 1. Zero means that [Options.OnRequest] failed and nothing
	// was sent.
	Attempt int
	// Timings says how long each part of the request took; zero for a part that did not happen.
	Timings record.Timings
	// RemoteAddr is the address and port that answered. Empty means that nothing answered.
	RemoteAddr string

	// WireBytes is the size of the body in bytes as it was sent.
	WireBytes int64
	// Truncated says that only a part of the page was read: see [ExtractOptions.MaxElements], MaxTime and
	// [FetchOptions.MaxBody].
	Truncated bool
	// Digest is "sha256:" and the hash of the Body in hex. Empty means that there is no body, or that
	// [OutputOptions.Record] excludes digests.
	Digest string
	// Change says how the page differs from the last round of the crawl: "new", "changed", "unchanged" or "gone". Empty
	// in the first round.
	Change string

	inner *pipeline.Page
	route *route.Pattern // the route by which a Router found the handler; nil for none
}

// PageError says why there is no whole response to a request.
type PageError struct {
	// Class is a name to count by, such as "timeout", "dns", "network", "too_large" or "handler"; docs/reference/go.md
	// lists all.
	Class string
	// Message is a text for people. It may change.
	Message string
}

// Error returns Message.
func (e *PageError) Error() string { return e.Message }

func newPage(p *pipeline.Page) *Page {
	page := &Page{
		URL: p.At().Parsed(), Kind: p.Kind, Method: cmp.Or(p.Record.Method, http.MethodGet), Status: p.Status, Header: p.Header, Body: p.Body, ContentType: p.ContentType, Charset: p.Charset,
		RedirectTo: p.RedirectTo, Depth: p.Depth, Referrer: p.Referrer, FetchedAt: p.FetchedAt, Attempt: p.Attempt,
		Timings: p.Timings, RemoteAddr: p.RemoteAddr, WireBytes: p.WireBytes, Truncated: p.Truncated,
		Digest: p.Digest, Change: p.Change, inner: p,
	}
	if p.Error != nil {
		page.Err = (*PageError)(p.Error)
	}
	return page
}

// Clone returns a copy that stays valid after the handler has returned or the loop has gone on. The copy has its own
// Body and keeps that memory in use. Its methods find and read the same. Its Follow and Emit are those of the original
// page.
func (p *Page) Clone() *Page {
	c, u := *p, *p.URL
	c.inner, c.URL = p.inner.Clone(), &u
	c.Body = c.inner.Body
	return &c
}

// OK reports whether the URL is a page that was read: its status is 2xx, its body is whole, and it is no sitemap.
func (p *Page) OK() bool { return isPage(p.Kind, p.Status) && p.Err == nil }

func isPage(kind string, status int) bool { return kind == "page" && status/100 == 2 }

// Title is the text of the title element, or what an [Extractor] found, at most 1 KiB; empty if there is none.
func (p *Page) Title() string { return p.inner.Title }

// Lang is the language that the page or its header names, such as "de-CH"; empty if neither does.
func (p *Page) Lang() string { return p.inner.Lang }

// Text is the visible text of an HTML page, with white space collapsed, or what an [Extractor] found, at most 4 MiB;
// empty for anything else.
func (p *Page) Text() string {
	if p.inner.Text != "" {
		return p.inner.Text
	}
	return p.root().Text()
}

// MainText is the main content of an HTML page, without navigation, asides and footers: one line per block, at most 1
// MiB; empty if there is none. It returns an error if the program does not import the package maintext of this module.
func (p *Page) MainText() (string, error) {
	a, err := p.inner.Article()
	if err != nil {
		return "", err
	}
	return a.Text(), nil
}

// Markdown is the main content as GitHub Flavored Markdown, with headings, lists, tables, code, images and absolute
// links. It begins with the title of the page. Empty and error mean the same as for [Page.MainText].
func (p *Page) Markdown() (string, error) {
	a, err := p.inner.Article()
	if err != nil {
		return "", err
	}
	return a.Markdown(), nil
}

// Byline is the author that the page names, on one line; empty if it names none or if the program does not import the
// package maintext of this module.
func (p *Page) Byline() string { return p.about().Byline }

// Published is when the page says that it was published; zero in the cases in which [Page.Byline] is empty.
func (p *Page) Published() time.Time { return p.about().Published }

func (p *Page) about() (about maintext.About) {
	if a, err := p.inner.Article(); err == nil {
		about = a.About()
	}
	return about
}

// Links are the canonical URLs that the page links to, each once and in order, at most 10,000; none for Kind "sitemap".
// Those in scope are followed whether or not a handler calls Links. Nil means that there are none, or that
// [OutputOptions.Record] excludes links. The slice belongs to the caller.
func (p *Page) Links() []string { return slices.Clone(p.inner.Links) }

// Resources are the canonical URLs of images, scripts, styles and media, as Links are of pages; none unless
// [ScopeOptions.Resources] is set.
func (p *Page) Resources() []string { return slices.Clone(p.inner.Resources) }

// JSONLD yields the JSON-LD blocks of an HTML page that are valid JSON, as they are written, at most 1 MiB in all.
func (p *Page) JSONLD() iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		left := 1 << 20
		for e := range p.Find(`script[type="application/ld+json"]`) {
			text := e.raw()
			if left -= len(text); left < 0 || json.Valid([]byte(text)) && !yield(json.RawMessage(text)) {
				return
			}
		}
	}
}

// Values are the values that the rule of that name in [ExtractOptions.Fields] extracted from the page; nil for none.
func (p *Page) Values(name string) []string {
	for _, f := range p.inner.Fields {
		if f.Name == name {
			return slices.Clone(f.Values)
		}
	}
	return nil
}

// Param is the unescaped value of a wildcard in the route by which a [Router] found the handler; empty if the route has
// no such wildcard or if there is no route.
func (p *Page) Param(name string) string {
	if p.route == nil {
		return ""
	}
	return p.route.Value(p.inner.At(), name)
}

// Find yields the elements that a list of CSS selectors selects, in document order. The tree of an HTML page is built
// when a method first needs it; it takes about ten times the page's size in memory, within
// [ExtractOptions.MaxElements]. Other pages have an empty tree. Find panics if the selector is invalid.
func (p *Page) Find(selector string) iter.Seq[Element] { return p.root().Find(selector) }

// First is the first element that [Page.Find] yields, or the zero Element if there is none.
func (p *Page) First(selector string) Element { return p.root().First(selector) }

// XPath yields what an XPath 1.0 expression finds: elements; and for an attribute, text, number or the like an Element
// that has only an [Element.Text]. Otherwise it is like [Page.Find].
func (p *Page) XPath(expression string) iter.Seq[Element] { return p.root().XPath(expression) }

func (p *Page) root() Element { return Element{page: p, node: p.inner.Document().Root} }

// Followed is the result of [Page.Follow].
type Followed struct {
	// URL is the resolved and canonical URL. Empty means that it is no URL that can be fetched.
	URL string
	// Reason is why it is not followed, as a name to count by: "invalid" (not a URL), "over" (the handler has
	// returned), "page_links" (a page may follow 10,000 links), or a reason of the scope: "other_host", "other_domain",
	// "other_prefix", "too_deep", "excluded", "not_included". Empty means that it is accepted: it is requested when its
	// host and robots.txt allow it, unless it was seen before (see [Options.OnSkip]).
	Reason string
	// Detail is the Reason as a sentence, such as "depth 6 > 5". Empty if it is followed.
	Detail string
}

// OK reports whether the reference is followed.
func (f Followed) OK() bool { return f.Reason == "" }

// FollowOption changes the request that [Page.Follow] adds. What it sets is stored with the URL in clear, also on disk
// and in a fleet's Redis, so it is no place for passwords; a [Client] that shares its Jar as [Options.CookieJar] may
// send those.
type FollowOption func(*followOptions)

type followOptions struct{ request.Request }

func requestOf(options []FollowOption) request.Request {
	var q followOptions
	for _, option := range options {
		option(&q)
	}
	return q.Request
}

// WithPriority sets the URL's points, from -1000 to 1000: of a host's URLs those with more points go first. A redirect
// keeps them. Without it they are those of [Options.Order] and [ScopeOptions.Scores], or 0.
func WithPriority(points int) FollowOption {
	return func(q *followOptions) { q.Points = min(max(points, -scope.MaxPoints), scope.MaxPoints) }
}

// WithMeta attaches a value to the request, which [Page.Meta] returns for its page, also after a redirect. Label, keys
// and values of a request together may have 1 KiB of UTF-8; otherwise the request is "invalid". Pages that the page
// links to do not inherit them.
func WithMeta(key, value string) FollowOption {
	return func(q *followOptions) {
		if q.Meta == nil {
			q.Meta = make(map[string]string)
		}
		q.Meta[key] = value
	}
}

// WithLabel sends the page, also after a redirect, to the handler of the pattern "label:NAME" of a [Router].
func WithLabel(name string) FollowOption { return func(q *followOptions) { q.Label = name } }

// WithHeader sets a header field in place of that of the options; each further call adds a value. The client sets Host,
// Content-Length, Connection and the like itself: with one of these, or a value that is not UTF-8, the request is
// "invalid".
func WithHeader(name, value string) FollowOption {
	return func(q *followOptions) {
		if q.Header == nil {
			q.Header = make(http.Header)
		}
		q.Header.Add(name, value)
	}
}

// WithMethod sets a method other than GET. A request with another method or a body is not the same as the page of its
// URL: both are visited. POST, PATCH and the like are sent once, and again only if the host refused or was not reached.
func WithMethod(method string) FollowOption { return func(q *followOptions) { q.Method = method } }

// WithBody sets a body, sent by POST unless [WithMethod] says otherwise. A request may have 64 KiB in all.
func WithBody(contentType string, body []byte) FollowOption {
	return func(q *followOptions) {
		if q.Method == "" {
			q.Method = http.MethodPost
		}
		q.Body = body
		WithHeader("Content-Type", contentType)(q)
	}
}

// WithAgain visits the URL although it was seen. Requests with the same key, which is a line of text, are the same
// visit: if two pages ask for it, it is made once.
func WithAgain(key string) FollowOption { return func(q *followOptions) { q.Again = "again " + key } }

// WithoutScope visits the URL although it is out of scope, unless [ScopeOptions.Exclude] matches. The scope applies as
// usual to where it redirects and to the links of its page. Its host is requested as politely as others and must have a
// public address.
func WithoutScope() FollowOption { return func(q *followOptions) { q.Outside = true } }

// Follow adds a link to the crawl, as if the page had it: the reference is resolved against the page's base URL,
// canonicalized, and checked by the scope. The result says at once whether it is followed. The page's own links are
// followed too, after these, unless [Options.HandlersFollow] is set. If the handler fails, what it followed is dropped.
//
// Follow may be called by any goroutine until the handler returns or the loop takes its next page.
func (p *Page) Follow(ref string, options ...FollowOption) Followed {
	u, decision, err := p.inner.Follow(strings.TrimSpace(ref), requestOf(options))
	f := Followed{URL: u.String()}
	switch {
	case errors.Is(err, pipeline.ErrPageOver):
		f.Reason, f.Detail = "over", err.Error()
	case errors.Is(err, pipeline.ErrTooManyOut):
		f.Reason, f.Detail = "page_links", err.Error()
	case err != nil:
		f.Reason, f.Detail = "invalid", err.Error()
	case !decision.In:
		f.Reason, f.Detail = decision.Code.String(), decision.Reason()
	}
	return f
}

// Emit writes an item with the record of the page, to each sink that takes its type, as those of [Items] do. Items are
// written before the record and acknowledged with it: after any crash an item is in the file exactly once, and items of
// a handler that fails are not. If [Options.Sinks] is nil, items are printed. Emit fails if no sink takes the type, if
// the item cannot be encoded as JSON, if the items of the page exceed 1 MiB, or after the handler has returned. It may
// be called by any goroutine until then.
func (p *Page) Emit(item any) error {
	switch err := p.inner.Emit(item); {
	case errors.Is(err, pipeline.ErrNoSink):
		name := strings.TrimLeft(fmt.Sprintf("%T", item), "*")
		return fmt.Errorf("emit %T: %w: add what crawl.Items[%s] opens to Options.Sinks, or leave Sinks nil to have items printed", item, err, name)
	case err != nil:
		return fmt.Errorf("emit %T: %w", item, err)
	}
	return nil
}

// Meta is the value that [WithMeta] attached under the key; empty for none.
func (p *Page) Meta(key string) string { return p.inner.RequestMeta[key] }

// Label is the label that [WithLabel] set; empty for none.
func (p *Page) Label() string { return p.inner.Label }

// Element is an element of a page. The methods of the zero Element return nothing.
type Element struct {
	page  *Page
	node  *html.Node
	value string // set in place of node
}

// Find yields the elements below e that a list of CSS selectors selects; see [Page.Find].
func (e Element) Find(selector string) iter.Seq[Element] {
	s, err := fields.ParseSelector(selector)
	if err != nil {
		panic("crawl: " + err.Error())
	}
	return func(yield func(Element) bool) {
		if e.node != nil {
			s.Each(e.node, e.page.inner.Document().Budget, func(n *html.Node) bool { return yield(Element{page: e.page, node: n}) })
		}
	}
}

// First is the first element that [Element.Find] yields, or the zero Element.
func (e Element) First(selector string) Element {
	for found := range e.Find(selector) {
		return found
	}
	return Element{}
}

// XPath yields what an expression finds with e as its context; see [Page.XPath].
func (e Element) XPath(expression string) iter.Seq[Element] {
	return func(yield func(Element) bool) {
		if e.node == nil {
			return
		}
		found, err := fields.Find(expression, e.node, e.page.inner.Document().Budget)
		if err != nil {
			panic("crawl: " + err.Error())
		}
		for _, f := range found {
			if !yield(Element{page: e.page, node: f.Node, value: f.Value}) {
				return
			}
		}
	}
}

// OK reports whether e is an element, or a value that XPath found.
func (e Element) OK() bool { return e.node != nil || e.value != "" }

// Name is the element's name in lower case, such as "a"; empty for the zero Element.
func (e Element) Name() string {
	if e.node == nil || e.node.Type != html.ElementNode {
		return ""
	}
	return e.node.Data
}

// Attr is the value of an attribute, given in lower case; empty if there is none.
func (e Element) Attr(name string) string {
	if e.node == nil {
		return ""
	}
	value, _ := dom.Attr(e.node, name)
	return value
}

// URL is the value of an attribute as a URL, resolved against the page's base and canonical; empty if it is no URL that
// can be fetched.
func (e Element) URL(attribute string) string {
	ref := strings.TrimSpace(e.Attr(attribute))
	if ref == "" {
		return ""
	}
	u, err := e.page.inner.Base().Resolve(ref)
	if err != nil {
		return ""
	}
	return u.String()
}

// Text is the visible text of the element, with white space collapsed, at most 4 MiB.
func (e Element) Text() string {
	if e.node == nil {
		return strings.Join(strings.Fields(e.value), " ")
	}
	return dom.TextWithin(e.node, dom.MaxBytes, e.page.inner.Document().Budget)
}

// HTML is the element with its content, as HTML; empty for the zero Element.
func (e Element) HTML() string {
	if e.node == nil {
		return ""
	}
	var b strings.Builder
	_ = html.Render(&b, e.node) // a Builder takes everything, and what is not rendered is no HTML
	return b.String()
}

// raw is the text of a script.
func (e Element) raw() string {
	if e.node == nil || e.node.FirstChild == nil {
		return ""
	}
	return e.node.FirstChild.Data
}
