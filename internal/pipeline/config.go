package pipeline

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"runtime"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/content"
	"github.com/treadlight/crawl/internal/web/rendering"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

// Limiter paces hosts. *ratelimit.AdaptiveRateLimiter is the one in use.
type Limiter interface {
	ratelimit.RateLimiter
	ratelimit.Pacer
	// SetCrawlDelay makes the Crawl-delay of robots.txt an obligation of the host.
	SetCrawlDelay(domain string, d time.Duration)
	// SetAddress sets the address at which the host was reached, so that it is paced together with other hosts of that
	// address.
	SetAddress(domain string, addr netip.Addr)
	// InFlightCap returns how many requests of a host may be in flight by the user's rules. Zero means that no rule
	// says.
	InFlightCap(domain string) int
	// ChargeBytes charges the bytes that a response took on the wire.
	ChargeBytes(n int64)
}

// Fetcher makes one request and calls its OnHeader when the header of the response has arrived. *fetch.Client is the
// one in use.
type Fetcher interface {
	Fetch(ctx context.Context, req fetch.Request) (*fetch.Response, error)
}

var (
	_ Limiter = (*ratelimit.AdaptiveRateLimiter)(nil)
	_ Fetcher = (*fetch.Client)(nil)
)

// Meter measures how long things take. *telemetry.Meter is the one in use. Its methods never block.
type Meter interface {
	// On reports whether it measures. If not, callers need not read a clock for it.
	On() bool
	// Request adds a request that was made. If there was no response, firstByte is zero and body is negative.
	Request(class outcome.Class, firstByte, total time.Duration, body int64)
	// Took adds the duration of a phase.
	Took(phase Phase, d time.Duration)
}

// Phase names a part of the work whose duration is measured.
type Phase uint8

// The phases.
const (
	PermitWait    Phase = iota // how long a worker waited for a permit, granted or not
	QueueWait                  // from when its host was ready for a request until a URL was given to a worker
	DiscoveryTurn              // how long Discovery worked without looking at its channels
	OutputBatch                // how long Output took to write records and flush the sinks
)

type noMeter struct{}

func (noMeter) On() bool                                                   { return false }
func (noMeter) Request(outcome.Class, time.Duration, time.Duration, int64) {}
func (noMeter) Took(Phase, time.Duration)                                  {}

// State stores a crawl so that another process can resume it, or several processes can work on it.
type State struct {
	Store
	Left  frontier.Left  // what the state had when it was opened
	Peers frontier.Peers // nil means that no other process works on the crawl
}

// Store is a *disk.Store or a *redis.Store. Discovery calls it and does not wait for it; see [frontier.Storage]. Its
// other methods tell how far it has come with the batches that it was given and the questions that it was asked.
type Store interface {
	frontier.Storage
	// Answers returns the channel on which the answers to the frontier's questions arrive.
	Answers() <-chan frontier.Answer
	// Room returns nil while there is room for more batches. Otherwise it returns a channel that is closed when there
	// is.
	Room() <-chan struct{}
	// Failed returns a channel that is closed when the state stores nothing more; Err returns the reason.
	Failed() <-chan struct{}
	Err() error
	// Owned returns an error if no record may be written any more, because another process may own the state by now.
	// The state has failed then, too.
	Owned() error
}

// Config configures a crawl. Limiter, Fetcher and Scope are required.
type Config struct {
	// Limiter is passed the addresses of responses. A Fetcher that uses a proxy knows none.
	Limiter Limiter
	// Patience is how long a worker may wait for its permit. It is for a Limiter that makes workers queue for a permit
	// when other processes send requests to the same host. Zero means 20ms.
	Patience time.Duration
	Fetcher  Fetcher
	Scope    *scope.Scope
	// Queues says that requests may wait within Fetcher, or be refused there, before they are sent. Fetcher then calls
	// their Permit when their turn has come. False means that it sends them at once, and permits are taken before.
	Queues bool
	Robots *robots.Cache // caches the rules of origins; nil means that robots.txt is ignored
	// IgnoreCrawlDelay ignores the Crawl-delay and Request-rate of robots.txt. False obeys them.
	IgnoreCrawlDelay bool
	State            *State   // stores the frontier, so that the crawl can be resumed; nil means that it is in memory only
	Blocked          []string // hosts that are blocked from the start, as by [Pipeline.Block]
	Pages            int      // how many pages earlier runs of the crawl had; they count for MaxPages
	// Round is the number of this round of the crawl. From the second round on, records say how a page differs from
	// what earlier rounds found. Zero means the first.
	Round int
	// Unconditional requests every page without a condition. False requests a page that the State knows only if it has
	// changed.
	Unconditional bool
	Sinks         []record.Sink // receive every record, in this order; the pipeline flushes them and does not close them
	// Archives are sinks that receive every record, with its Exchange if there was a response, and in addition the
	// exchanges for robots.txt. They are written and flushed like Sinks and before them. Nil means that the bytes of
	// exchanges are not kept.
	Archives []record.Sink
	Hooks
	content.Options // what is read of pages; Extract gets Key and Rules from below
	// OmitDigest leaves the digest of pages out of records. False writes it.
	OmitDigest bool
	StoreBody  bool // writes the bodies of responses into records; false leaves them out
	// FollowNofollow follows links that pages ask crawlers not to follow: single links by rel=nofollow, or all links of
	// the page by meta robots or X-Robots-Tag. False obeys.
	FollowNofollow bool
	// SkipNoindex keeps pages from Sinks and Archives that say noindex, or whose unavailable_after is over. They are
	// visited and their links are followed all the same. False writes them.
	SkipNoindex bool
	// Filter decides of which pages the body is read; those of robots.txt and sitemaps always are. Nil reads all.
	Filter *fetch.Filter

	// Concurrency is the number of requests in flight at a time, not counting those that have waited for the first byte
	// of their response for longer than a second. Zero means 64.
	Concurrency int
	// MaxOut is the number of requests in flight in all. Zero means four times Concurrency. With Queues, or if it is
	// less than Concurrency, it is Concurrency.
	MaxOut     int
	PerHost    int           // the number of requests in flight at a time for one host; zero means 8
	Processors int           // the number of goroutines that parse pages; zero means GOMAXPROCS
	Elapsed    time.Duration // how long earlier runs of the crawl took; it counts for MaxTime
	// MaxPages ends the crawl after that many pages. Zero means no bound. With Peers their bound counts, and this one
	// only appears in messages.
	MaxPages        int
	MaxPagesPerHost int            // bounds the pages of one host; zero means no bound
	Budgets         *scope.Budgets // bound the URLs that match patterns; nil means no budgets
	MaxTime         time.Duration  // ends the crawl after that long; zero means no bound
	// Grace is how long requests and pages in progress may take once MaxTime is over or Stop was called. After three
	// quarters of it requests are canceled, the context of handlers ends, and what is not written yet is dropped: those
	// URLs stay queued. Without a State the URLs that were requested are recorded as canceled instead. The last quarter
	// is for these records, and for work that cannot be interrupted to end. Zero means no bound.
	Grace time.Duration
	// MaxBlocked ends the crawl when only hosts remain that refuse requests, and none of them has responded, or says
	// that it will respond, within this time of the last response. Zero ends the crawl as soon as only such hosts
	// remain.
	MaxBlocked time.Duration
	// Unattended means that nobody can unblock hosts, so that the crawl ends at once when only those are left that an
	// operator has blocked.
	Unattended bool
	// MaxRetryAfter bounds the Retry-After of a redirect, for which its target waits. Zero means 1h. The Limiter bounds
	// the Retry-After of hosts.
	MaxRetryAfter time.Duration
	// MaxURLs and MaxHosts bound the frontier. Resident bounds the URLs that it keeps in memory if there is a State.
	// Zero means the defaults of the frontier.
	MaxURLs, MaxHosts, Resident int
	// Renderer has browsers render pages. Nil means that pages are read as they were fetched.
	Renderer rendering.Renderer
	// RenderRobots caches the rules of origins that only rendered pages send requests to and the frontier does not. It
	// is required with Renderer and Robots.
	RenderRobots *robots.Cache
	// Session is a login within which pages are fetched. Nil means no login.
	Session Session
	// Rules are applied to every URL before it is looked up or queued: those of seeds, links, redirects and sitemaps.
	// Nil applies none.
	Rules    *canonical.Rules
	Sitemaps Sitemaps // says which lists of URLs are read; zero requests none
	// Rank orders the URLs of a host; see [scope.NewRank]. Nil gives all URLs the rank zero, so that they are visited
	// in the order in which they were found; URLs of sitemaps get theirs from the priority there.
	Rank scope.Rank
	// Retries is how often a URL is tried again after a transient failure, at most 100. Zero means never.
	Retries int
	Backoff backoff.Policy // the pause before another attempt; zero means none
	// Job, if set, is the name of a crawl that several processes share. Records then have an ID.
	Job string
	Key uint64 // seeds the fingerprints of URLs; see [frontier.Config]

	Tracer Tracer      // traces URLs; nil traces none
	Meter  Meter       // measures how long things take; nil measures nothing
	Clock  clock.Clock // tells the time; nil means the system clock
	// Log is the log of the crawl. Its handler must not call Snapshot: Discovery, which would have to answer, may be
	// the goroutine that logs. Nil logs nothing.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Concurrency, c.PerHost = cmp.Or(c.Concurrency, 64), cmp.Or(c.PerHost, 8)
	c.Processors = cmp.Or(c.Processors, runtime.GOMAXPROCS(0))
	c.Sitemaps.Max = cmp.Or(c.Sitemaps.Max, defaultSitemaps)
	c.MaxOut = max(cmp.Or(c.MaxOut, 4*c.Concurrency), c.Concurrency)
	if c.Queues { // the queues bound the requests in flight by themselves
		c.MaxOut = c.Concurrency
	}
	c.Clock, c.Meter = cmp.Or(c.Clock, clock.System()), cmp.Or(c.Meter, Meter(noMeter{}))
	c.Budgets = cmp.Or(c.Budgets, scope.NewBudgets(nil))
	c.Extract.Key, c.Extract.Rules = c.Key, c.Rules
	c.MaxRetryAfter = cmp.Or(c.MaxRetryAfter, time.Hour)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}
