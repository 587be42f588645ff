package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/content"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/record"
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

const defaultBody = 1 << 30

// hooks puts the program's hooks and replacements into cfg. The error names the fields that are wrong.
func (o *Options) hooks(cfg *assembly.Config) error {
	if f := o.OnRequest; f != nil {
		cfg.OnRequest = func(r *http.Request) error { return o.guard("OnRequest", func() error { return f(r) }) }
	}
	if f := o.OnResponse; f != nil {
		cfg.OnResponse = func(r *http.Response) error { return o.guard("OnResponse", func() error { return f(r) }) }
	}
	if f := o.OnError; f != nil {
		cfg.OnError = func(e pipeline.Failure) {
			o.tell("OnError", func() {
				f(Failure{URL: e.URL, Kind: e.Kind, Attempt: e.Attempt, Again: e.Again, Err: (*PageError)(&e.Error)})
			})
		}
	}
	if f := o.OnSkip; f != nil {
		cfg.OnSkip = func(s pipeline.Skip) {
			o.tell("OnSkip", func() { f(Skipped{URL: s.URL, Referrer: s.Referrer, Reason: s.Reason, Detail: s.Detail}) })
		}
	}
	if f := o.OnEvent; f != nil {
		cfg.OnEvent = func(e ratelimit.Event) { o.tell("OnEvent", func() { f(assembly.Convert[Event](&e)) }) }
	}
	return errors.Join(o.sinks(), o.bodies(cfg), o.extractors(cfg), o.network(cfg))
}

// sinks returns an error for sinks that are nil or that write to the same place: a state keeps one position for each.
func (o *Options) sinks() error {
	var errs []error
	known := make(map[string]string) // field by path
	for i, s := range slices.Concat(o.Sinks, o.Archives) {
		field := fmt.Sprintf("Options.Sinks[%d]", i)
		if n := i - len(o.Sinks); n >= 0 {
			field = fmt.Sprintf("Options.Archives[%d]", n)
		}
		if s == nil {
			errs = append(errs, fmt.Errorf("%s: it is nil", field))
		}
		durable, ok := s.(record.Durable)
		if !ok {
			continue
		}
		path := durable.Mark().Path
		if first := known[path]; first != "" {
			errs = append(errs, fmt.Errorf("%s: it writes to %s, as %s does: give it a place of its own", field, path, first))
		} else if path != "" && path != "-" {
			known[path] = field
		}
	}
	return errors.Join(errs...)
}

// guard turns a panic into an error and logs its stack.
func (o *Options) guard(name string, call func() error) (err error) {
	if o.Panics {
		return call()
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
			if o.Log != nil {
				o.Log.Error("a hook panicked", slog.String("hook", name), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
			}
		}
	}()
	return call()
}

// tell calls a hook and logs its panic.
func (o *Options) tell(name string, call func()) {
	_ = o.guard(name, func() error { call(); return nil }) // guard has logged it
}

// bodies sets up the lookup of a handler by media type: its own, else that of its kind, else "*/*".
func (o *Options) bodies(cfg *assembly.Config) error {
	if len(o.Bodies) == 0 {
		return nil
	}
	var errs []error
	handlers := make(map[string]*pipeline.BodyHandler, len(o.Bodies))
	for name, h := range o.Bodies {
		if err := checkType(name, true); err != nil {
			errs = append(errs, fmt.Errorf("Options.Bodies[%q]: %w", name, err))
		}
		if h.Handle == nil || h.Timeout < 0 {
			errs = append(errs, fmt.Errorf("Options.Bodies[%q]: set Handle, and a Timeout of zero or more", name))
		}
		handle := h.Handle
		inner := &pipeline.BodyHandler{MaxBytes: max(h.MaxBytes, 0), Timeout: h.Timeout}
		if h.MaxBytes == 0 {
			inner.MaxBytes = defaultBody
		}
		inner.Handle = func(ctx context.Context, page *pipeline.Page, body io.Reader) error {
			return o.guard("Bodies", func() error { return handle(ctx, newPage(page), body) })
		}
		handlers[name] = inner
	}
	cfg.Bodies = func(mediaType string) *pipeline.BodyHandler {
		if h := handlers[mediaType]; h != nil {
			return h
		}
		if kind, _, ok := strings.Cut(mediaType, "/"); ok && handlers[kind+"/*"] != nil {
			return handlers[kind+"/*"]
		}
		return handlers["*/*"]
	}
	return errors.Join(errs...)
}

// checkType returns an error unless name is a media type, or with pattern set a pattern of them.
func checkType(name string, pattern bool) error {
	kind, sub, ok := strings.Cut(name, "/")
	if pattern && ok && sub == "*" {
		sub = "x"
		if kind == "*" {
			kind = "x"
		}
	}
	if media, params, err := mime.ParseMediaType(kind + "/" + sub); !ok || err != nil || media != kind+"/"+sub || len(params) > 0 || strings.Contains(media, "*") {
		return errors.New("it is no media type: write it as \"application/pdf\", in lower case and without parameters")
	}
	return nil
}

func (o *Options) extractors(cfg *assembly.Config) error {
	var errs []error
	for name, e := range o.Extractors {
		if err := checkType(name, false); err != nil {
			errs = append(errs, fmt.Errorf("Options.Extractors[%q]: %w", name, err))
		}
		if e == nil {
			errs = append(errs, fmt.Errorf("Options.Extractors[%q]: it is nil", name))
			continue
		}
		if cfg.Extractors == nil {
			cfg.Extractors = make(map[string]content.Extractor, len(o.Extractors))
		}
		cfg.Extractors[name] = func(ctx context.Context, d *extract.Document) (out *content.Extracted, err error) {
			err = o.guard("Extractors", func() error {
				out, err = extractBy(ctx, e, d)
				return err
			})
			return out, err
		}
	}
	return errors.Join(errs...)
}

func extractBy(ctx context.Context, e Extractor, d *extract.Document) (*content.Extracted, error) {
	got, err := e.Extract(ctx, &Document{URL: d.URL.Parsed(), ContentType: d.MediaType, Charset: d.Charset, Header: d.Header, Body: d.Body})
	if got == nil || err != nil {
		return nil, err
	}
	out := &content.Extracted{Title: got.Title, Lang: got.Lang, Text: got.Text, Links: got.Links}
	for _, name := range slices.Sorted(maps.Keys(got.Values)) {
		out.Values = append(out.Values, record.Values{Name: name, Values: got.Values[name], List: true})
	}
	return out, nil
}

// network sets what replaces the crawl's own client and cookie jar.
func (o *Options) network(cfg *assembly.Config) error {
	var errs []error
	cfg.Named = o.Named
	if o.CookieJar != nil {
		cfg.Cookies = cookies.Standard{Jar: o.CookieJar}
		if o.Access.Cookies || o.Access.CookieFile != "" {
			errs = append(errs, errors.New("Options.CookieJar: it replaces Access.Cookies and Access.CookieFile: set one of them"))
		}
	}
	switch {
	case o.Transport != nil && o.Fetcher != nil:
		errs = append(errs, errors.New("Options.Transport: it is what a Fetcher is in place of: set one of them"))
	case o.Transport != nil:
		cfg.Transport = transportOf{o, "Transport", o.Transport.RoundTrip}
	case o.Fetcher != nil:
		fetch := o.Fetcher.Fetch
		cfg.Transport = transportOf{o, "Fetcher", func(r *http.Request) (*http.Response, error) { return fetch(r.Context(), r) }}
	}
	if cfg.Transport != nil && o.Access.Proxy != "" {
		errs = append(errs, errors.New("Options.Access.Proxy: Transport and Fetcher make connections of their own: set one of them"))
	}
	return errors.Join(errs...)
}
