package pipeline

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/version"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/content"
	"github.com/treadlight/crawl/internal/web/mediatype"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

// Handler handles a page. See [Hooks] for its errors.
type Handler func(context.Context, *Page) error

// Hooks are what a program has called for what it crawls.
type Hooks struct {
	// Handle, if set, is called with every page, by several goroutines at a time. An error concerns the page alone: its
	// record has the error, with the class "handler". [ErrStop] ends the crawl.
	Handle Handler
	// HandlersFollow leaves the links of pages to [Page.Follow]; only redirects and sitemaps are followed without it.
	// False follows all links in scope.
	HandlersFollow bool
	// OnError, if set, is called with each [Failure]. The workers that fetch call it if the URL is tried again.
	// Otherwise those that handle pages call it, after Handle and before the record is written. Several goroutines call
	// it at a time.
	OnError func(Failure)
	// OnSkip, if set, is called with each [Skip], after the record of the page that had the link. One goroutine,
	// Output, calls it.
	OnSkip func(Skip)
	// Bodies are the handlers that read the bodies of pages while they arrive, by media type or pattern, as
	// [mediatype.Best] finds them. Nil means no handlers.
	Bodies map[string]*BodyHandler
	// Extractors read the pages of media types, given in lower case, instead of the built-in extraction. Nil means that
	// the built-in one reads all.
	Extractors map[string]content.Extractor
}

// Failure is a request that ended without a whole response, or a page for which a handler or an extractor failed.
type Failure struct {
	URL, Kind string
	Attempt   int
	Error     record.Error
	Again     bool // the URL is tried again; if false, its record has the Error
}

// Skip is a URL that is not requested.
type Skip struct {
	URL, Referrer  string
	Reason, Detail string // Reason is a name to count by; Detail says the same in words
}

// reasonSeen is why a seed or a request of a handler is not made: the same was made before, or is queued.
const reasonSeen = "seen"

func classOfFailure(err error) string {
	if fetch.Hooked(err) {
		return classHandler
	}
	return outcome.Of(0, err).String()
}

func (c *Config) failedOnce(f *fetched) {
	if c.OnError != nil && f.err != nil {
		c.OnError(Failure{
			URL: f.lease.URL.String(), Kind: f.lease.Kind.String(), Attempt: int(f.lease.Attempt) + 1, Again: true,
			Error: record.Error{Class: classOfFailure(f.err), Message: f.err.Error()},
		})
	}
}

func (c *Config) failedFor(rec *record.Record) {
	if c.OnError != nil && rec.Error != nil {
		c.OnError(Failure{URL: rec.URL, Kind: rec.Kind, Attempt: rec.Attempt, Error: *rec.Error})
	}
}

// outOfScope counts a URL that the scope leaves out. OnSkip is called for it after the record of its page.
func (o *outward) outOfScope(p *Pipeline, u canonical.URL, referrer string, v scope.Decision) {
	p.stats.out[v.Code].Add(1)
	if p.cfg.OnSkip != nil {
		o.skips = append(o.skips, Skip{URL: u.String(), Referrer: referrer, Reason: v.Code.String(), Detail: v.Reason()})
	}
}

// skipping collects what Discovery passes to Output for OnSkip.
type skipping struct {
	tells bool
	skips []Skip
}

// skip notes a URL that is left out.
func (d *skipping) skip(it *frontier.Item, reason, detail string) {
	if d.tells {
		d.skips = append(d.skips, Skip{URL: it.URL.String(), Referrer: it.Referrer, Reason: reason, Detail: detail})
	}
}

// skipSeen notes a URL that is known already, if the program or the user requested it.
func (d *skipping) skipSeen(link *found) {
	if link.asked || link.item.Seed {
		d.skip(&link.item, reasonSeen, "it was asked for before, or is queued")
	}
}

func (d *discovery) passSkips() {
	if len(d.skips) > 0 {
		d.outbox = append(d.outbox, &result{outward: outward{skips: d.skips}, aside: true})
		d.skips = nil
	}
}

// BodyHandler reads the bodies of a media type while they arrive.
type BodyHandler struct {
	MaxBytes int64         // of a body, decoded; zero means no bound
	Timeout  time.Duration // of a request, instead of the Fetcher's; zero means that only the silence of the host is bounded
	// Handle reads a body. What it leaves unread is not fetched. Its Page has no Body. Links and items are added as in
	// [Config.Handle].
	Handle func(context.Context, *Page, io.Reader) error
}

type streamed struct {
	visit *visit
	hash  hash.Hash // nil if no digest is wanted
}

// sum returns the hash of the body, as far as it was read. It is zero if a BodyHandler read the body and no
// digest is wanted.
func (f *fetched) sum() (sum version.Digest) {
	switch {
	case f.raw != nil:
		return sha256.Sum256(f.raw)
	case !f.resp.Streamed:
		return sha256.Sum256(f.resp.Body)
	case f.streamed.hash == nil:
		return sum
	}
	return version.Digest(f.streamed.hash.Sum(nil))
}

// stream returns what reads the body of a response while it arrives. Nil means that the body is read as usual.
func (t *try) stream(ctx context.Context, resp *fetch.Response) *fetch.Stream {
	p, f := t.p, t.f
	to := mediatype.Best(p.cfg.Bodies, resp.ContentType)
	if to == nil || resp.Status/100 != 2 {
		return nil
	}
	page := newPage(p, f, newRecord(f.lease, f.sent))
	page.Header, page.Status, page.ContentType, page.Charset, page.Method = resp.Header, resp.Status, resp.ContentType, resp.Charset, f.asked.Method
	s := &streamed{visit: page.visit}
	if !p.cfg.OmitDigest {
		s.hash = sha256.New()
	}
	return &fetch.Stream{MaxBytes: to.MaxBytes, Timeout: to.Timeout, Hash: s.hash, Read: func(body io.Reader) error {
		defer page.visit.end()
		f.streamed = s
		err := to.Handle(ctx, page, body)
		if errors.Is(err, ErrStop) {
			p.Stop()
			return nil
		}
		return err
	}}
}

// take adds links and items of a BodyHandler to the result, if the body was read without an error.
func (s *streamed) take(r *result, f *fetched) {
	if s == nil || f.err != nil {
		return
	}
	s.visit.into(r)
}
