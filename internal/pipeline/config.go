package pipeline

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
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

// Fetcher makes one request and calls its OnHeader. *fetch.Client is the one in use.
type Fetcher interface {
	Fetch(ctx context.Context, req fetch.Request) (*fetch.Response, error)
}

var (
	_ Limiter = (*ratelimit.AdaptiveRateLimiter)(nil)
	_ Fetcher = (*fetch.Client)(nil)
)

// ErrNotRunning is what came before the crawl began, or after it had ended.
var ErrNotRunning = errors.New("the crawl does not run")

// Meter measures how long things take. *telemetry.Meter is the one in use. Its methods never wait.
type Meter interface {
	// On reports whether it measures, for callers that would have to read a clock for it.
	On() bool
	// Request takes in a request that was made. firstByte is zero and body is negative if there was no answer.
	Request(class outcome.Class, firstByte, total time.Duration, body int64)
	// Took takes in how long a phase was.
	Took(phase Phase, d time.Duration)
}

// Phase is something whose length is measured.
type Phase uint8

// The phases.
const (
	PermitWait    Phase = iota // how long a worker waited for a permit, granted or not
	QueueWait                  // how long after its host could be asked a URL was given to a worker
	DiscoveryTurn              // how long Discovery was busy without a pause
	OutputBatch                // how long it took to write records and flush the sinks
)

type noMeter struct{}

func (noMeter) On() bool                                                   { return false }
func (noMeter) Request(outcome.Class, time.Duration, time.Duration, int64) {}
func (noMeter) Took(Phase, time.Duration)                                  {}

// State is where a crawl is kept so that another process can resume it, or several can work on it: a *disk.Store or
// a *redis.Store. Discovery calls it, and does not wait for it: see [frontier.Storage].
type State struct {
	frontier.Storage
	Progress
	Left  frontier.Left // what was there when the state was opened
	Peers Peers         // nil: nobody else works on the crawl
}

// Progress says how far a state has come with what it was told and asked.
type Progress interface {
	// Answers is where what the frontier asked for arrives.
	Answers() <-chan frontier.Answer
	// Room is nil while there is room for more batches; else it is a channel that is closed when there is.
	Room() <-chan struct{}
	// Failed is closed when nothing more is stored, for the reason that Err gives.
	Failed() <-chan struct{}
	Err() error
	// Owned is why no record may be written, as another process may write it by now. Then the state has failed too.
	Owned() error
}

// Peers are the processes that work on a crawl together, this one among them. They count its pages together, and
// decide together that only blocked hosts remain. Who works on one alone is a [solo].
type Peers interface {
	// Seeded says that this one brings no more seeds.
	Seeded()
	// Pages is how many pages may be leased in all now that so many are, and whether there will be no more.
	Pages(leased int) (most int, last bool)
	// Idles says how far this one has nothing to do.
	Idles(frontier.Idleness)
	// Noted says whether a host has answered to a request, of robots.txt too; whether one has to a URL; and why the
	// first URL was given up whose robots.txt cannot be had. The others know it before a URL that is acknowledged
	// afterwards counts as done.
	Noted(answered, visited bool, unruled string)
	// Verdict is why only blocked hosts remain to all of them; empty: some others do.
	Verdict() string
	// Unvisited is why no URL could be asked for by anybody, as of when the crawl was found to be over; empty: one
	// could, or there was none.
	Unvisited() string
	// Changed receives when Pages or Verdict may say otherwise than before.
	Changed() <-chan struct{}
}

// Config shapes a crawl. Limiter, Fetcher and Scope are required.
type Config struct {
	// The addresses of answers are told to the Limiter. A Fetcher that goes by a proxy knows none.
	Limiter Limiter
	// Patience is how long a worker may wait for its permit: for a Limiter that has a worker stand in line where others
	// ask the same host. Zero means 20ms.
	Patience time.Duration
	Fetcher  Fetcher
	Scope    *scope.Scope
	// Queues says that requests may have to wait within Fetcher, or be refused there, before they are sent; it calls
	// their Permit when they have not. False: it sends them at once, and permits are taken before.
	Queues bool
	Robots *robots.Cache // remembers the rules of origins; nil ignores robots.txt altogether
	// IgnoreCrawlDelay leaves the Crawl-delay and Request-rate of robots.txt out of account. False obeys them.
	IgnoreCrawlDelay bool
	State            *State   // keeps the frontier, so that the crawl can be resumed; nil keeps it in memory
	Blocked          []string // hosts that are blocked from the beginning, as by [Pipeline.Block]
	Pages            int      // how many pages earlier runs of the crawl have had; they count for MaxPages
	// Round is which round of the crawl this is. From the second on, records say how a page differs from what rounds
	// before have found. Zero means the first.
	Round int
	// Unconditional asks for every page whole. False has one that the State knows sent only if it has changed.
	Unconditional bool
	Sinks         []record.Sink // receive every record, in this order; the pipeline flushes and does not close them
	// Archives are sinks that receive every record, with its Exchange if there was an answer, and beside them that of
	// each robots.txt. They come before Sinks, and like these. Nil has the bytes of exchanges forgotten.
	Archives []record.Sink
	// Handle, if set, is called with every page, by several goroutines at a time. An error, or a panic, is the page's:
	// its record has it, of class "handler". [ErrStop] ends the crawl.
	Handle func(context.Context, *Page) error
	loop   chan<- *Page // see Pipeline.Loop; nil: there is none
	// Panics has the panic of Handle end the program. False: it is an error.
	Panics bool
	// HandlersFollow leaves the links of pages to [Page.Follow]; redirects and sitemaps are followed. False: all in scope
	// are followed.
	HandlersFollow bool
	// OnError, if set, is called with each [Failure]: by the workers that fetch if the URL is asked for again, else by those
	// that handle pages, after Handle and before the record is written. It is called by several goroutines at a time.
	OnError func(Failure)
	// OnSkip, if set, is called with each [Skip] by one goroutine, Output, after the record of the page that had the link.
	OnSkip func(Skip)
	// Bodies, if set, says who takes the body of a page as it comes, by its media type; nil: nobody does.
	Bodies func(mediaType string) *BodyHandler
	// Extractors read the pages of media types, in lower case, in place of what is built in. Nil: it reads all.
	Extractors map[string]Extractor
	Extract    extract.Options // says what to read out of pages besides links, and Tree what takes their trees
	Tree       Tree
	PageTime   time.Duration // how long the reading of one page may take, whatever is read of it; zero means 2 s
	// OmitLinks and OmitDigest leave the links and the digest of pages out of records. False writes them.
	OmitLinks, OmitDigest bool
	StoreBody             bool // writes the bodies of answers into records; false leaves them out
	// FollowNofollow follows links that pages ask crawlers to leave alone: by rel=nofollow, or all of theirs by meta
	// robots or X-Robots-Tag. False does not.
	FollowNofollow bool
	// SkipNoindex leaves pages out of Sinks that say noindex, or whose unavailable_after is over. They are visited and
	// their links followed all the same. False writes them.
	SkipNoindex bool
	// Filter says which pages are worth their bodies; robots.txt and sitemaps always are. Nil wants all of them.
	Filter *fetch.Filter

	// Concurrency is the number of fetches under way at a time, but for those that have waited for the first byte of
	// their answer for longer than a second. Zero means 64.
	Concurrency int
	// MaxOut is the number of fetches under way in all. Zero means four times Concurrency. With Queues, and if it is
	// less than Concurrency, it is that.
	MaxOut     int
	PerHost    int           // the number of fetches under way at a time for one host; zero means 8
	Processors int           // the number of goroutines that parse; zero means one per CPU in use
	Elapsed    time.Duration // how long the crawl went on before; it counts for MaxTime
	// MaxPages ends the crawl after that many pages. Zero means no bound. With Peers they count, and this is only told.
	MaxPages        int
	MaxPagesPerHost int // bounds the pages of one host; zero means no bound
	// Budgets bound the URLs that match patterns; the first that matches counts. Nil bounds none.
	Budgets    []scope.Budget
	Traps      Traps          // what is done about URLs that lead nowhere; the zero Traps follows all
	Duplicates *neardup.Index // finds pages that repeat others; nil looks for none
	MaxTime    time.Duration  // ends the crawl after that long; zero means no bound
	// Grace is how long what is under way may take once MaxTime is over or Stop was called. After three quarters of it
	// requests are cancelled, the context of handlers ends, and what is not written yet is dropped: those URLs stay
	// queued. Without a State the URLs that were asked for are recorded as cancelled instead. The rest of the time is
	// for that, and for what cannot be interrupted to come to its end. Zero means as long as it takes.
	Grace time.Duration
	// MaxBlocked ends the crawl when only hosts that refuse remain, and none of them has given, or promises to give, an
	// answer within this time of the last one. Zero ends it as soon as only such hosts remain.
	MaxBlocked time.Duration
	// MaxRetryAfter is the longest Retry-After of a redirect that its target waits for. Zero means 1h. Those of hosts
	// are the Limiter's to bound.
	MaxRetryAfter time.Duration
	// MaxURLs and MaxHosts bound the frontier, and Resident the URLs that it has in memory when there is a State. Zero
	// means its defaults.
	MaxURLs, MaxHosts, Resident int
	// Renderer has browsers make of pages what people see. Nil: pages are read as they come.
	Renderer Renderer
	// RenderRobots has the rules of origins that rendered pages ask and the frontier does not. Required with Renderer and
	// Robots.
	RenderRobots *robots.Cache
	// Session is a login that pages are fetched within. Nil: there is none.
	Session Session
	// Rules are applied to every URL before it is known: those of seeds, links, redirects and sitemaps. Nil applies
	// none.
	Rules    *canonical.Rules
	Sitemaps Sitemaps // says which lists of URLs are read; zero asks for none
	// Rank orders the URLs of a host; see [scope.NewRank]. Nil is rank zero for all but those of sitemaps, which have
	// priorities: they go as they were found.
	Rank scope.Rank
	// Retries is how often a URL is tried again after a transient failure, up to 100. Zero means never.
	Retries int
	Backoff backoff.Policy // the pause before another try; zero means none
	// Job, if set, is the name of a crawl that several processes share: records have an ID then.
	Job string
	Key uint64 // seeds the fingerprints of URLs; see [frontier.Config]

	ranked bool // Rank was given

	Tracer Tracer      // told of every URL; nil has none told
	Meter  Meter       // measures how long things take; nil has nothing measured
	Clock  clock.Clock // tells the time; nil means the system clock
	// Log receives what a person may want to know. Its handler must not ask for a Snapshot: it is called by the
	// goroutine that would have to answer. Nil means nobody is told.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Concurrency, c.PerHost = cmp.Or(c.Concurrency, 64), cmp.Or(c.PerHost, 8)
	c.Processors = cmp.Or(c.Processors, runtime.GOMAXPROCS(0))
	c.Sitemaps.Max = cmp.Or(c.Sitemaps.Max, defaultSitemaps)
	c.MaxOut = max(cmp.Or(c.MaxOut, 4*c.Concurrency), c.Concurrency)
	if c.Queues { // which bound what is under way by themselves
		c.MaxOut = c.Concurrency
	}
	if c.ranked = c.Rank != nil; !c.ranked {
		c.Rank = func(canonical.URL, int32) int32 { return 0 }
	}
	c.Clock, c.Meter = cmp.Or(c.Clock, clock.System()), cmp.Or(c.Meter, Meter(noMeter{}))
	c.MaxRetryAfter = cmp.Or(c.MaxRetryAfter, time.Hour)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}
