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

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/route"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

// Page is a URL that was visited, with whatever came of it: [Page.OK] tells a page from a redirect, an error page, or a
// host that did not answer. A Page is for one goroutine at a time, but for [Page.Follow] and [Page.Emit].
type Page struct {
	// URL is what was asked for, in its canonical form; never nil. It is the program's own to change.
	URL *url.URL
	// Kind is "page" or "sitemap" (feeds too).
	Kind string
	// Method is that of the request, "GET" unless [WithMethod] or [WithBody] said otherwise.
	Method string
	// Status is the HTTP status. Zero: there was no response, and Err says why.
	Status int
	// Header is that of the response. Nil: there was none.
	Header http.Header
	// Body is the response's body, its content codings undone, cut at [FetchOptions.MaxBody]. It is valid until the handler
	// returns, or the loop over [Crawler.Crawl] takes its next page; then it becomes nil, and its bytes are those of other
	// pages. [Page.Clone] keeps it. Empty: there is none.
	Body []byte
	// ContentType is the media type in lower case without parameters, such as "text/html". Empty: the host said none.
	ContentType string
	// Charset is the encoding of a text, by its WHATWG name. Empty: it was not read as one.
	Charset string
	// RedirectTo is the canonical URL that a redirect names, which is visited as a page of its own if it is in scope and was not seen.
	// Empty: it is no redirect.
	RedirectTo string
	// Err is why there is no response, or not the whole of it, or why it could not be read; it is a [*PageError]. Nil
	// does not say that the status is a good one.
	Err error

	// Depth is how many links the page is away from a seed; zero is a seed.
	Depth int
	// Referrer is the canonical URL of the page that had the link, or redirected here. Empty: it is a seed.
	Referrer string
	// FetchedAt is when the request was sent.
	FetchedAt time.Time
	// Attempt is which request for the URL this was, from 1. Zero: nothing was sent, as [Options.OnRequest] did not want it.
	Attempt int
	// Timings are where the time went. What took none is zero.
	Timings record.Timings
	// RemoteAddr is the address and port that answered. Empty: nobody did.
	RemoteAddr string

	// WireBytes is the size of the body as it was sent, in bytes.
	WireBytes int64
	// Truncated says that only a part of the page was read: see [ExtractOptions.MaxElements], MaxTime and
	// [FetchOptions.MaxBody].
	Truncated bool
	// Digest is "sha256:" and the hash of the Body in hex. Empty: there is no body, or [OutputOptions.Record] leaves it out.
	Digest string
	// Change says how the page differs from an earlier round of the crawl: "new", "changed", "unchanged" or "gone".
	// Empty: this is the first round.
	Change string

	inner *pipeline.Page
	route *route.Pattern // by which a Router found the handler; nil: there is none
}

// PageError is why there is no response to a request, or no whole one.
type PageError struct {
	// Class is a name to count by, such as "timeout", "dns", "network", "too_large" or "handler";
	// docs/reference/go.md has all.
	Class string
	// Message is for people, and may change.
	Message string
}

// Error is the message.
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

// Clone is a copy of a page to be kept: in a handler or a loop, for when the page is over. It has a Body of its own, of which
// it holds the memory, and finds and reads all that the page does. Its Follow and Emit are those of the page.
func (p *Page) Clone() *Page {
	c, u := *p, *p.URL
	c.inner, c.URL = p.inner.Clone(), &u
	c.Body = c.inner.Body
	return &c
}

// OK reports whether this is a page: its status is 2xx, its whole body is there, and it is no sitemap.
func (p *Page) OK() bool { return p.Kind == "page" && p.Status/100 == 2 && p.Err == nil }

// Title is the text of the title element, at most 1 KiB. Empty: there is none.
func (p *Page) Title() string { return p.inner.Title }

// Lang is the language of the page as it or its header says, such as "de-CH". Empty: neither does.
func (p *Page) Lang() string { return p.inner.Lang }

// Text is what a reader sees of an HTML page, white space collapsed, at most 4 MiB of it. Empty: it is none.
func (p *Page) Text() string {
	if p.inner.Text != "" {
		return p.inner.Text
	}
	return p.root().Text()
}

// MainText is what a person came to an HTML page for, without navigation, asides and footers: a line per block, at most 1 MiB.
// Empty: there is none. The error is that the program does not import the package maintext of this module.
func (p *Page) MainText() (string, error) {
	a, err := p.inner.Article()
	if err != nil {
		return "", err
	}
	return a.Text(), nil
}

// Markdown is the main text as GitHub's dialect of Markdown, headings, lists, tables, code, links and pictures kept, and links
// absolute; it begins with the title of the page. Empty and error are as those of [Page.MainText].
func (p *Page) Markdown() (string, error) {
	a, err := p.inner.Article()
	if err != nil {
		return "", err
	}
	return a.Markdown(), nil
}

// Byline is who wrote the page, as it says for people or machines, on one line. Empty: it does not say, or the package maintext
// of this module is not imported.
func (p *Page) Byline() string {
	if a, err := p.inner.Article(); err == nil {
		return a.About().Byline
	}
	return ""
}

// Published is when the page was, as it says. Zero: as for [Page.Byline].
func (p *Page) Published() time.Time {
	if a, err := p.inner.Article(); err == nil {
		return a.About().Published
	}
	return time.Time{}
}

// Links are the canonical URLs of the pages that the page links to, each once, in their order, at most 10,000; of a
// sitemap none. Nil: there are none, or [OutputOptions.Record] leaves them out of records. They are what is followed, as far as it
// is in scope, whether or not a handler looks at them. The slice is the program's own.
func (p *Page) Links() []string { return slices.Clone(p.inner.Links) }

// JSONLD are the JSON-LD blocks of an HTML page that are JSON, as they are written, at most 1 MiB.
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

// Values are what the rules of [ExtractOptions.Fields] took out of the page under a name. Nil: nothing.
func (p *Page) Values(name string) []string {
	for _, f := range p.inner.Fields {
		if f.Name == name {
			return slices.Clone(f.Values)
		}
	}
	return nil
}

// Param is the value of a wildcard of the route by which a [Router] found the handler, unescaped. Empty: the route has no
// such wildcard, or there is no route.
func (p *Page) Param(name string) string {
	if p.route == nil {
		return ""
	}
	return p.route.Value(p.inner.At(), name)
}

// Find yields the elements that a list of CSS selectors selects, in the order of the page. It selects in the tree of an
// HTML page, which is built when a method first needs it, at some ten times the size of the page in memory and within the
// page's budget ([ExtractOptions.MaxElements]); of anything else the tree is empty. A selector that is none panics, as it is the
// program's.
func (p *Page) Find(selector string) iter.Seq[Element] { return p.root().Find(selector) }

// First is the first element of [Page.Find], or the zero Element if there is none.
func (p *Page) First(selector string) Element { return p.root().First(selector) }

// XPath yields what an XPath 1.0 expression finds: elements, and for attributes, texts, numbers and the like an Element
// that has nothing but its [Element.Text]. For the rest it is as [Page.Find].
func (p *Page) XPath(expression string) iter.Seq[Element] { return p.root().XPath(expression) }

func (p *Page) root() Element { return Element{page: p, node: p.inner.Document().Root} }

// Followed is what became of [Page.Follow].
type Followed struct {
	// URL is the reference, resolved and canonical. Empty: it is no URL that can be fetched.
	URL string
	// Reason is why it is not followed, by a name to count by: "invalid" (it is no URL), "over" (the handler has
	// returned), "page_links" (a page follows 10,000 links at most), or what the scope says: "other_host",
	// "other_domain", "other_prefix", "too_deep", "excluded", "not_included". Empty: it is on its way to the
	// frontier, where it is left out if it was seen before (see [Options.OnSkip]), and asked for when its host and robots.txt allow it.
	Reason string
	// Detail is the Reason in words, such as "depth 6 > 5". Empty: it is followed.
	Detail string
}

// OK reports whether the reference is followed.
func (f Followed) OK() bool { return f.Reason == "" }

// FollowOption changes what [Page.Follow] asks for. What it sets is kept with the URL in every frontier, on disk and in a
// fleet too, in clear: it is no place for passwords, which a [Client] may send that shares its Jar as [Options.CookieJar].
type FollowOption func(*followOptions)

type followOptions struct{ pipeline.Request }

// WithPriority has the URL visited before those of its host with fewer points, from -1000 to 1000. Others have those of
// [Options.Order] and [ScopeOptions.Scores], which are 0 if these say nothing.
func WithPriority(points int) FollowOption {
	return func(q *followOptions) { q.Points = min(max(points, -scope.MaxPoints), scope.MaxPoints) }
}

// WithMeta attaches a value to the request, for [Page.Meta] of the page that comes of it, or of where that redirects. Label,
// keys and values of a request are 1 KiB of UTF-8 together at most; with more, or what is none, it is "invalid". They are not
// passed on from page to page.
func WithMeta(key, value string) FollowOption {
	return func(q *followOptions) {
		if q.Meta == nil {
			q.Meta = make(map[string]string)
		}
		q.Meta[key] = value
	}
}

// WithLabel has the page that comes of it go to the handler of the pattern "label:NAME" of a [Router].
func WithLabel(name string) FollowOption { return func(q *followOptions) { q.Label = name } }

// WithHeader sends a field over that of the options; given again, another value of it. Host, Content-Length, Connection
// and the like are the client's own: with them, or a value that is not UTF-8, the request is "invalid".
func WithHeader(name, value string) FollowOption {
	return func(q *followOptions) {
		if q.Header == nil {
			q.Header = make(http.Header)
		}
		q.Header.Add(name, value)
	}
}

// WithMethod sends another method than GET. With it, or a body, the request is another one than the page's: both are
// visited. POST, PATCH and the like are sent once, and again only if the host has refused them or was not reached.
func WithMethod(method string) FollowOption { return func(q *followOptions) { q.Method = method } }

// WithBody sends a body, by POST unless [WithMethod] says otherwise. All of a request is 64 KiB at most.
func WithBody(contentType string, body []byte) FollowOption {
	return func(q *followOptions) {
		if q.Method == "" {
			q.Method = http.MethodPost
		}
		q.Body = body
		WithHeader("Content-Type", contentType)(q)
	}
}

// WithAgain visits the URL although it was seen. The same key, a line of text, makes the same visit: given by two pages, it is
// made once.
func WithAgain(key string) FollowOption { return func(q *followOptions) { q.Again = "again " + key } }

// WithoutScope visits the URL wherever it is: of the scope only [ScopeOptions.Exclude] holds. Where it redirects to, and what
// its page links to, is in scope or not as ever. Its host is asked as politely as others, and must have a public address.
func WithoutScope() FollowOption { return func(q *followOptions) { q.Outside = true } }

// Follow adds a link to the crawl, as if the page had it: the reference is resolved against the base of the page, made
// canonical, and checked by the scope. It says at once whether it is followed. The links that the page itself has are
// followed in any case, after these, unless [Options.HandlersFollow] is set. If the handler fails, what it followed is not.
//
// It may be called until the handler returns, or the loop takes its next page, by any goroutine.
func (p *Page) Follow(ref string, options ...FollowOption) Followed {
	var q followOptions
	for _, option := range options {
		option(&q)
	}
	u, decision, err := p.inner.Follow(strings.TrimSpace(ref), q.Request)
	f := Followed{URL: u.String()}
	switch {
	case err != nil:
		f.Reason, f.Detail = pipeline.FollowReason(err), err.Error()
	case !decision.In:
		f.Reason, f.Detail = decision.Code.String(), decision.Reason()
	}
	return f
}

// Emit has an item written with the record of the page: by each of the sinks that takes its type, as [Items] does, before the
// record, and acknowledged with it. So after whatever end of the process an item is in the file once, and those of a handler
// that fails are not. Where [Options.Sinks] is nil, all are printed. The error is that no sink takes the type, that it cannot
// be encoded as JSON, that the items of the page exceed 1 MiB, or that the page is over. It may be called by any goroutine
// until then.
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

// Meta is what [WithMeta] attached under a key. Empty: nothing.
func (p *Page) Meta(key string) string { return p.inner.RequestMeta[key] }

// Label is that of [WithLabel]. Empty: there is none.
func (p *Page) Label() string { return p.inner.Label }

// Element is an element of a page. The zero Element is none: its methods return nothing.
type Element struct {
	page  *Page
	node  *html.Node
	value string // in place of a node
}

// selectors are those that programs use again and again, compiled.
var selectors = func() *lru.Cache[string, *fields.Selector] {
	c, err := lru.New[string, *fields.Selector](1000)
	if err != nil {
		panic(err) // the size is no good
	}
	return c
}()

func selectorOf(text string) *fields.Selector {
	if s, ok := selectors.Get(text); ok {
		return s
	}
	s, err := fields.ParseSelector(text)
	if err != nil {
		panic("crawl: " + err.Error())
	}
	selectors.Add(text, s)
	return s
}

// Find yields the elements below e that a list of CSS selectors selects; see [Page.Find].
func (e Element) Find(selector string) iter.Seq[Element] {
	s := selectorOf(selector)
	return func(yield func(Element) bool) {
		if e.node != nil {
			s.Each(e.node, e.page.inner.Document().Budget, func(n *html.Node) bool { return yield(Element{page: e.page, node: n}) })
		}
	}
}

// First is the first element of [Element.Find], or the zero Element if there is none.
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

// OK reports whether there is an element, or a value in its place.
func (e Element) OK() bool { return e.node != nil || e.value != "" }

// Name is that of the element, in lower case: "a". Empty: it is none.
func (e Element) Name() string {
	if e.node == nil || e.node.Type != html.ElementNode {
		return ""
	}
	return e.node.Data
}

// Attr is the value of an attribute as it is written, its name in lower case. Empty: there is none.
func (e Element) Attr(name string) string {
	if e.node == nil {
		return ""
	}
	value, _ := dom.Attr(e.node, name)
	return value
}

// URL is the value of an attribute, resolved against the base of the page and canonical. Empty: it is no URL that can be
// fetched.
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

// Text is what a reader sees of the element, white space collapsed, at most 4 MiB.
func (e Element) Text() string {
	if e.node == nil {
		return strings.Join(strings.Fields(e.value), " ")
	}
	return dom.TextWithin(e.node, dom.MaxBytes, e.page.inner.Document().Budget)
}

// HTML is the element as HTML, what is in it included. Empty: there is none.
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
