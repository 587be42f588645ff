package crawl

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/content"
	"github.com/treadlight/crawl/internal/web/extract"
)

// Failure is a request without a whole response, or a page for which a handler, a hook or an [Extractor] failed. See
// [Options.OnError].
type Failure struct {
	// URL is the requested URL in its canonical form.
	URL string
	// Kind is "page", "sitemap", or "robots" for a robots.txt.
	Kind string
	// Attempt is the number of the request for the URL, from 1. Zero means that [Options.OnRequest] failed and nothing
	// was sent.
	Attempt int
	// Again says that the URL will be requested again. False means that the record of the URL has the error.
	Again bool
	// Err is a [*PageError]; never nil.
	Err error
}

// Skipped is a URL that is not requested; see [Options.OnSkip].
type Skipped struct {
	// URL is the URL in its canonical form.
	URL string
	// Referrer is the canonical URL of the page that has the link. Empty for a seed.
	Referrer string
	// Reason is a name to count by. For links it is a reason of the scope, as in [Followed], "too_many_redirects",
	// "nofollow" (the page asks for that), "trap" (similar links brought nothing new), "budget" (Scope.Budgets),
	// "host_pages" (MaxPagesPerHost), "frontier_full" or "hosts_full" (MaxURLs), or "sitemaps" (the host has too many).
	// For seeds and for [Page.Follow] it may also be "seen": the URL was requested before, or is queued. For URLs that
	// are taken from the queue it is "robots", "trap", "excluded", "not_included", or why robots.txt cannot be read,
	// such as "network"; these have a record too.
	Reason string
	// Detail is the Reason as a sentence. It may change.
	Detail string
}

// BodyHandler reads the bodies of a media type as a stream, so that large files need no memory; see [Options.Bodies].
type BodyHandler struct {
	// MaxBytes bounds a body without content codings, in place of Fetch.MaxBody. The rest is not read, and the page
	// fails with the class "too_large". Zero means 1 GiB, a negative number no bound.
	MaxBytes int64
	// Timeout bounds a request from its start to the end of the body, in place of Fetch.Timeout. Zero means no bound as
	// long as the host keeps sending.
	Timeout time.Duration
	// Handle reads the body of a response with a status of 2xx. It runs on the goroutine that fetches, several at the
	// same time, and counts against Concurrency until it returns. The page has everything of the header and no Body;
	// Follow and Emit work as in a [HandlerFunc]. What Handle does not read is not fetched. If the connection breaks,
	// the reader returns an error, the page is requested again as any other, and Handle is called again; the same
	// happens after a crash of the program. An error or a panic of Handle belongs to the page, with the class
	// "handler". In all these cases, what it followed and emitted is dropped. With no-digest in OutputOptions.Record
	// nothing is hashed, and a later round cannot tell whether the body has changed. Required.
	Handle func(ctx context.Context, page *Page, body io.Reader) error
}

// Document is a page as the host sent it, for an [Extractor]. It is valid until Extract returns; the extractor must not
// change it.
type Document struct {
	// URL is the canonical URL; never nil.
	URL *url.URL
	// ContentType is the media type in lower case without parameters, and Charset its parameter of that name. Empty if
	// the host sent none.
	ContentType, Charset string
	// Header is the response's header.
	Header http.Header
	// Body is the body without content codings, in its own charset, cut at Fetch.MaxBody.
	Body []byte
}

// Extracted is what an [Extractor] found in a page. Every field may be empty.
type Extracted struct {
	// Title and Lang are cut at 1 KiB, Text at 4 MiB. Bytes that are not UTF-8 are left out.
	Title, Lang, Text string
	// Links are references, absolute or relative to the URL of the document. References that are no http or https URL,
	// and those beyond 10,000, are left out.
	Links []string
	// Values are the values of fields by name, for the record and for [Page.Values].
	Values map[string][]string
}

// Extractor reads pages of media types that are not built in; see [Options.Extractors].
type Extractor interface {
	// Extract reads a page. It is called by several goroutines at the same time. The context ends after Extract.MaxTime
	// and with the crawl. An error or a panic belongs to the page, with the class "extractor"; the page counts as
	// visited, without links.
	Extract(ctx context.Context, doc *Document) (*Extracted, error)
}

// defaultBody is the bound of a body that is read as a stream.
const defaultBody = 1 << 30

// hooks puts the program's hooks and replacements into cfg. The error names the fields that are wrong.
func (o *Options) hooks(cfg *assembly.Config) error {
	cfg.OnRequest, cfg.OnResponse, cfg.Named, cfg.Panics = o.OnRequest, o.OnResponse, o.Named, o.Panics
	if f := o.OnError; f != nil {
		cfg.OnError = func(e pipeline.Failure) {
			f(Failure{URL: e.URL, Kind: e.Kind, Attempt: e.Attempt, Again: e.Again, Err: (*PageError)(&e.Error)})
		}
	}
	if f := o.OnSkip; f != nil {
		cfg.OnSkip = func(s pipeline.Skip) { f(Skipped(s)) }
	}
	if f := o.OnEvent; f != nil {
		cfg.OnEvent = func(e ratelimit.Event) { f(assembly.Convert[Event](&e)) }
	}
	o.readers(cfg)
	if o.CookieJar != nil {
		cfg.Cookies = cookies.Standard{Jar: o.CookieJar}
	}
	var err error
	if cfg.Transport = o.Transport; o.Fetcher != nil {
		cfg.Transport = fetching{o.Fetcher}
		if o.Transport != nil {
			err = errors.New("Options.Transport: it is what a Fetcher is in place of: set one of them")
		}
	}
	return errors.Join(err, cfg.Embed("Options"))
}

// readers sets what reads bodies and pages in place of the crawl.
func (o *Options) readers(cfg *assembly.Config) {
	if len(o.Bodies) > 0 {
		cfg.Bodies = make(map[string]*pipeline.BodyHandler, len(o.Bodies))
	}
	for name, h := range o.Bodies {
		inner := &pipeline.BodyHandler{MaxBytes: max(cmp.Or(h.MaxBytes, defaultBody), 0), Timeout: h.Timeout}
		if handle := h.Handle; handle != nil {
			inner.Handle = func(ctx context.Context, page *pipeline.Page, body io.Reader) error {
				return handle(ctx, newPage(page), body)
			}
		}
		cfg.Bodies[name] = inner
	}
	if len(o.Extractors) > 0 {
		cfg.Extractors = make(map[string]content.Extractor, len(o.Extractors))
	}
	for name, e := range o.Extractors {
		var read content.Extractor // nil is an error of Embed, as a nil Handle is
		if e != nil {
			read = func(ctx context.Context, d *extract.Document) (*content.Extracted, error) {
				got, err := e.Extract(ctx, &Document{URL: d.URL.Parsed(), ContentType: d.MediaType, Charset: d.Charset, Header: d.Header, Body: d.Body})
				return (*content.Extracted)(got), err
			}
		}
		cfg.Extractors[name] = read
	}
}
