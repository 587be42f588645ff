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
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/record"
)

// Failure is a request that did not end with a whole response, or a page with which a handler, a hook or an [Extractor]
// failed; see [Options.OnError].
type Failure struct {
	// URL is what was asked for, in its canonical form.
	URL string
	// Kind is "page", "sitemap" or, of a robots.txt, "robots".
	Kind string
	// Attempt is which request for the URL it was, from 1. Zero: nothing was sent, as [Options.OnRequest] did not want it.
	Attempt int
	// Again says that the URL is asked for again. False: the record of the URL has the error.
	Again bool
	// Err is a [*PageError]; never nil.
	Err error
}

// Skipped is a URL that is not asked for; see [Options.OnSkip].
type Skipped struct {
	// URL is in its canonical form.
	URL string
	// Referrer is the canonical URL of the page that has the link. Empty: it is a seed.
	Referrer string
	// Reason is a name to count by. Of links: what the scope says, as in [Followed], "too_many_redirects" among it; "nofollow" (the
	// page asks for that), "trap" (links like it lead nowhere), "budget" (Scope.Budgets), "host_pages" (MaxPagesPerHost),
	// "frontier_full" or "hosts_full" (MaxURLs), "sitemaps" (a host has too many). Of seeds and what [Page.Follow] asks for: "seen" (it was asked for before,
	// or is queued). Of URLs in the queue, when their turn comes: "robots", "trap", "excluded" or "not_included", or why
	// robots.txt cannot be had, such as "network"; these have a record too.
	Reason string
	// Detail is the Reason in words; it may change.
	Detail string
}

// BodyHandler takes the bodies of a media type as they come, so that large files need no memory; see [Options.Bodies].
type BodyHandler struct {
	// MaxBytes bounds a body, its content codings undone, in place of Fetch.MaxBody. What is beyond is not read, and the
	// page fails with the class "too_large". Zero: 1 GiB. Negative: no bound.
	MaxBytes int64
	// Timeout bounds a request from its beginning to the end of the body, in place of Fetch.Timeout. Zero: as long as it
	// takes, while the host sends.
	Timeout time.Duration
	// Handle reads the body of a response with a status of 2xx, in the goroutine that fetches, which has one of Concurrency
	// until Handle returns: several run at a time. It gets the page as its header has it, without a Body, on which Follow and
	// Emit may be called as in a [HandlerFunc]. What it does not read is left with the host. The reader fails if the host
	// breaks off: the page is then asked for again as others are, and Handle called again, as after a crash of the program. Its own error, or panic, is the
	// page's, of class "handler". After either, what it has followed and emitted is dropped. With no-digest in
	// OutputOptions.Record nothing is hashed, and a later round cannot tell whether the body has changed. Required.
	Handle func(ctx context.Context, page *Page, body io.Reader) error
}

// Document is a page as a host has sent it, for an [Extractor]. It is valid until Extract returns, and not the extractor's to
// change.
type Document struct {
	// URL is the canonical one; never nil.
	URL *url.URL
	// ContentType is the media type, in lower case without parameters, and Charset its parameter of that name; empty: none.
	ContentType, Charset string
	// Header is that of the response.
	Header http.Header
	// Body has its content codings undone, and is cut at Fetch.MaxBody.
	Body []byte
}

// Extracted is what an [Extractor] has read in a page. All of it may be empty.
type Extracted struct {
	// Title and Lang are cut at 1 KiB, Text at 4 MiB; what is no UTF-8 is left out.
	Title, Lang, Text string
	// Links are references, relative to the URL of the document or absolute. What is no http or https URL is left out, and
	// so is what is beyond 10,000.
	Links []string
	// Values are fields of the record, and of [Page.Values], by name.
	Values map[string][]string
}

// Extractor reads pages of content types of one's own: see [Options.Extractors].
type Extractor interface {
	// Extract reads a page. It is called by several goroutines at a time. The context ends after Extract.MaxTime, and with
	// the crawl. An error, or a panic, is the page's, of class "extractor", which is then visited all the same, without links.
	Extract(ctx context.Context, doc *Document) (*Extracted, error)
}

const defaultBody = 1 << 30

// hooks puts what the program has of its own into cfg. The error names the fields that are wrong.
func (o *Options) hooks(cfg *assembly.Config) error {
	cfg.Panics = o.Panics
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
		cfg.OnEvent = func(e ratelimit.Event) { o.tell("OnEvent", func() { f(eventOf(&e)) }) }
	}
	return errors.Join(o.sinks(), o.bodies(cfg), o.extractors(cfg), o.network(cfg))
}

// sinks says which are none, or write to the same place: a state has one position for each.
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

// guard makes an error of a panic, whose stack is logged.
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

// tell calls a hook whose panic is the end of nothing.
func (o *Options) tell(name string, call func()) {
	_ = o.guard(name, func() error { call(); return nil }) // guard has logged it
}

// bodies finds the handler of a media type: its own, else that of its kind, else that of all.
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

// checkType says what is wrong with a media type.
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
			cfg.Extractors = make(map[string]pipeline.Extractor, len(o.Extractors))
		}
		cfg.Extractors[name] = func(ctx context.Context, d *extract.Document) (out *pipeline.Extracted, err error) {
			err = o.guard("Extractors", func() error {
				out, err = extractBy(ctx, e, d)
				return err
			})
			return out, err
		}
	}
	return errors.Join(errs...)
}

func extractBy(ctx context.Context, e Extractor, d *extract.Document) (*pipeline.Extracted, error) {
	got, err := e.Extract(ctx, &Document{URL: d.URL.Parsed(), ContentType: d.MediaType, Charset: d.Charset, Header: d.Header, Body: d.Body})
	if got == nil || err != nil {
		return nil, err
	}
	out := &pipeline.Extracted{Title: got.Title, Lang: got.Lang, Text: got.Text, Links: got.Links}
	for _, name := range slices.Sorted(maps.Keys(got.Values)) {
		out.Values = append(out.Values, record.Values{Name: name, Values: got.Values[name], List: true})
	}
	return out, nil
}

// network is what requests go by, and what they carry.
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
