package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/robots"
	"github.com/treadlight/crawl/internal/pipeline/canonical"
	"github.com/treadlight/crawl/internal/pipeline/extract"
	"github.com/treadlight/crawl/internal/pipeline/frontier"
	"github.com/treadlight/crawl/internal/pipeline/scope"
	"github.com/treadlight/crawl/internal/pipeline/sink"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
)

// Limiter paces hosts. *ratelimit.AdaptiveRateLimiter is the one in use.
type Limiter interface {
	ratelimit.RateLimiter
	frontier.Pacer
	// SetCrawlDelay makes robots.txt's wish an obligation of the host.
	SetCrawlDelay(domain string, d time.Duration)
	// SetAddress tells where the host was found, so that it is paced with others there.
	SetAddress(domain string, addr netip.Addr)
	// InFlightCap is how many requests the user lets a host have out; zero: no rule says.
	InFlightCap(domain string) int
	// ChargeBytes tells what an answer took on the wire.
	ChargeBytes(n int64)
}

var _ Limiter = (*ratelimit.AdaptiveRateLimiter)(nil)

// Fetcher makes one request and calls its OnHeader. *fetch.Client is the one in use.
type Fetcher interface {
	Fetch(ctx context.Context, req fetch.Request) (*fetch.Response, error)
}

var _ Fetcher = (*fetch.Client)(nil)

// State is where a crawl is kept so that another process can resume it. *disk.Store is the
// one in use. Discovery calls it, and does not wait for it: see [frontier.Store].
type State interface {
	frontier.Store
	// Answers is where what the frontier asked for arrives.
	Answers() <-chan frontier.Answer
	// Commit ends a batch. What was told since the one before, and that the sinks hold what
	// they do at these positions, becomes durable together or not at all.
	Commit(positions []sink.Position)
	// Room is nil while there is room for more batches. If too many wait to be written it is
	// a channel that is closed when they do not.
	Room() <-chan struct{}
	// Failed is closed when nothing more is stored, for the reason that Err gives.
	Failed() <-chan struct{}
	Err() error
	// Left is what was there when the state was opened.
	Left() frontier.Left
}

// Page is a visited URL as handlers see it: the record, and what is too big for it.
type Page struct {
	sink.Record
	// Header is the answer's header; nil when there was no answer.
	Header http.Header
	// Body is the decoded body. It belongs to the pipeline and is valid only until the
	// handler returns; a handler that keeps it must copy it.
	Body []byte
}

// Config shapes a crawl. Limiter, Fetcher and Scope are required.
type Config struct {
	// The addresses of answers are told to the Limiter, so Fetcher must not use a proxy
	// for hosts that are to be paced apart.
	Limiter Limiter
	Fetcher Fetcher
	Scope   *scope.Scope
	// Queues says that requests may have to wait within Fetcher, or be refused there, before
	// they are sent; it calls their Permit when they have not. False: it sends them at once,
	// and permits are taken before.
	Queues bool
	// Robots remembers the rules of origins. Nil ignores robots.txt altogether.
	Robots *robots.Cache
	// IgnoreCrawlDelay leaves the Crawl-delay and Request-rate of robots.txt out of account.
	// False obeys them.
	IgnoreCrawlDelay bool
	// State keeps the frontier, so that the crawl can be resumed. Nil keeps it in memory.
	State State
	// Pages is how many pages earlier runs of the crawl have had; they count for MaxPages.
	Pages int
	// Sinks receive every record, in this order. The pipeline flushes and does not close them.
	Sinks []sink.Sink
	// Handle, if set, is called with every page, by several goroutines at a time. An
	// error ends the crawl.
	Handle func(context.Context, *Page) error
	// Extract says what to read out of pages besides links.
	Extract extract.Options
	// OmitLinks leaves the links of pages out of records; they are followed all the
	// same. False writes them.
	OmitLinks bool
	// OmitDigest leaves the digest of bodies out of records. False writes it.
	OmitDigest bool

	// Concurrency is the number of fetches under way at a time. Zero means 64.
	Concurrency int
	// PerHost is the number of fetches under way at a time for one host. Zero means 8.
	PerHost int
	// Processors is the number of goroutines that parse. Zero means one per CPU in use.
	Processors int
	// MaxPages ends the crawl after that many pages. Zero means no bound.
	MaxPages int
	// MaxPagesPerHost bounds the pages of one host. Zero means no bound.
	MaxPagesPerHost int
	// Budgets bound the URLs that match patterns; the first that matches counts. Nil bounds
	// none.
	Budgets []Budget
	// MaxTime ends the crawl after that long. Zero means no bound.
	MaxTime time.Duration
	// MaxBlocked ends the crawl when only hosts that refuse remain, and none of them
	// has given, or promises to give, an answer within this time of the last one.
	// Zero ends it as soon as only such hosts remain.
	MaxBlocked time.Duration
	// MaxURLs and MaxHosts bound the frontier, and Resident the URLs that it has in memory
	// when there is a State. Zero means its defaults.
	MaxURLs, MaxHosts, Resident int
	// Rank orders the URLs of a host; see [NewRank]. Nil is rank zero for all: they go as
	// they were found.
	Rank Rank
	// Retries is how often a URL is tried again after a transient failure, up to 100. Zero
	// means never.
	Retries int
	// Backoff is the pause before another try. Zero means none.
	Backoff backoff.Policy
	// Key seeds the fingerprints of URLs; see [frontier.Config].
	Key uint64

	// strikeAfter is [frontier.Config.StrikeAfter]; tests compare with a crawl without doubt.
	strikeAfter int

	// Clock tells the time. Nil means the system clock.
	Clock clock.Clock
	// Log receives what a person may want to know. Its handler must not ask for a Snapshot:
	// it is called by the goroutine that would have to answer. Nil means nobody is told.
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Limiter == nil:
		return c, errors.New("pipeline: Limiter is nil: give it a rate limiter")
	case c.Fetcher == nil:
		return c, errors.New("pipeline: Fetcher is nil: give it a fetch.Client")
	case c.Retries < 0 || c.Retries > 100:
		return c, fmt.Errorf("pipeline: Retries is %d: give it a number from 0 to 100", c.Retries)
	case c.Scope == nil:
		return c, errors.New("pipeline: Scope is nil: give it a scope")
	}
	for _, f := range []struct {
		name  string
		value *int
		def   int
	}{
		{"Concurrency", &c.Concurrency, 64},
		{"PerHost", &c.PerHost, 8},
		{"Processors", &c.Processors, runtime.GOMAXPROCS(0)},
	} {
		if *f.value < 0 {
			return c, fmt.Errorf("pipeline: %s is %d: give it a number above zero", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.def
		}
	}
	if c.Rank == nil {
		c.Rank = func(canonical.URL, int32) int32 { return 0 }
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// found is a link on its way to the frontier.
type found struct {
	item   frontier.Item
	fp     uint64
	budget int // see budgets.of
}

// result is what Processing hands to Output, and Discovery too for URLs that were
// refused without a fetch.
type result struct {
	lease *frontier.Lease
	rec   *sink.Record
	links []found
}

// ack is what Output hands back when a record is written.
type ack struct {
	lease *frontier.Lease
	links []found
}

// written is the acks of records that were flushed together, and how far the sinks are.
type written struct {
	acks      []ack
	positions []sink.Position
}
