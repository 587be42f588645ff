package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// End is why a crawl ended.
type End uint8

// The ends.
const (
	EndNone        End = iota // it has not ended
	EndDone                   // every URL in scope was visited
	EndLimit                  // MaxPages or MaxTime was reached
	EndBlocked                // only hosts that refuse to be asked remain
	EndUnruled                // nothing could be asked for: of no host robots.txt can be had
	EndInterrupted            // Stop was called
	EndFailed                 // an error ended it: a sink, a handler, or the context
	numEnds
)

var endNames = [numEnds]string{"running", "done", "limit", "blocked", "unruled", "interrupted", "failed"}

// String names the end for logs and snapshots.
func (e End) String() string { return endNames[e] }

// MarshalText writes the name, so that JSON shows it.
func (e End) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads a name back.
func (e *End) UnmarshalText(text []byte) error {
	i := slices.Index(endNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("unknown end of a crawl %q", text)
	}
	*e = End(i)
	return nil
}

// Pipeline is one crawl. Build it with New and call Run once.
type Pipeline struct {
	cfg      Config
	frontier *frontier.Frontier // owned by Discovery while Run runs
	gate     *gate
	budgets  *budgets
	traps    *traps
	sitemaps *sitemapTally
	stats    stats
	asking   atomic.Int32                        // requests that hold a permit, if the Fetcher has queues
	heard    atomic.Bool                         // there was an answer
	excluded atomic.Pointer[map[string]struct{}] // hosts of which nothing is to be asked, as the frontier has them; nil for none

	leases  chan *frontier.Lease // room for every worker: Discovery never waits on it
	fetched chan *fetched
	results chan *result
	events  chan event
	acks    chan written
	bodies  bodies
	asks    chan func(*discovery)
	recent  recent

	stop     chan struct{}
	stopping chan struct{} // closed when what is under way has no more than Grace
	stopOnce sync.Once
	began    atomic.Bool
	gone     chan struct{} // closed when Discovery has ended
	halt     chan struct{} // closed when no more URLs are leased: at gone or before
	haltOnce sync.Once

	mu     sync.Mutex // guards what follows
	since  time.Time  // what MaxTime counts from; zero: Run
	start  time.Time
	finish time.Time // zero while running
	until  time.Time // when the last record of what was cut off is to be written; zero if nothing is
	end    End
	reason string
}

// New builds a crawl and starts nothing. The error names the field that is wrong.
func New(cfg Config) (*Pipeline, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Pipeline{
		cfg:      cfg,
		leases:   make(chan *frontier.Lease, cfg.MaxOut),
		fetched:  make(chan *fetched, cfg.Processors),
		results:  make(chan *result, resultsRoom),
		bodies:   newBodies(),
		events:   make(chan event, cfg.Concurrency),
		acks:     make(chan written, 1),
		asks:     make(chan func(*discovery)),
		stop:     make(chan struct{}),
		stopping: make(chan struct{}),
		gone:     make(chan struct{}),
		halt:     make(chan struct{}),
		sitemaps: newSitemapTally(),
	}
	if p.budgets, err = newBudgets(cfg.Budgets); err != nil {
		return nil, err
	}
	p.traps = newTraps(&cfg)
	fc := frontier.Config{
		Pacer: cfg.Limiter, Slots: cfg.Concurrency, ExtraSlots: cfg.MaxOut - cfg.Concurrency, PerHost: cfg.PerHost,
		MaxURLs: cfg.MaxURLs, MaxHosts: cfg.MaxHosts, Resident: cfg.Resident, MaxPagesPerHost: cfg.MaxPagesPerHost,
		Key: cfg.Key, InFlight: cfg.Limiter.InFlightCap, NoRetries: cfg.Retries == 0,
	}
	if cfg.Robots != nil {
		p.gate = &gate{cache: cfg.Robots, limiter: cfg.Limiter, delays: !cfg.IgnoreCrawlDelay, retries: cfg.Retries, log: cfg.Log}
		fc.Gate, fc.RobotsGivenUp = p.gate, p.gate.robotsGivenUp
	}
	if p.traps.Detector != nil {
		fc.Gate = &trapGate{fc.Gate, p.traps}
	}
	fc.Gate = &scopeGate{Gate: fc.Gate, scope: cfg.Scope}
	if cfg.State != nil {
		fc.Store, fc.Left, fc.Owner = cfg.State, cfg.State.Left, cfg.State.Owner
	}
	if p.frontier, err = frontier.New(fc); err != nil {
		return nil, err
	}
	return p, p.excludeAll(cfg.Blocked)
}

// Run visits the seeds and all that the scope lets in, and returns when the crawl is
// over; nothing it started is left then, so that it waits for a handler that does not heed its
// context and for a sink that blocks, whatever [Config.Grace] says. The sequence of seeds must end when ctx does or
// [Pipeline.Halted] is closed, whatever it waits for. The error is nil for every End but EndFailed:
// it is the sink's, the handler's or ctx's.
func (p *Pipeline) Run(ctx context.Context, seeds iter.Seq[canonical.URL]) error {
	if p.began.Swap(true) {
		return errors.New("pipeline: Run was called before: build a new pipeline for another crawl")
	}
	p.mu.Lock()
	p.start = p.cfg.Clock.Now()
	p.mu.Unlock()
	err := p.stages(ctx, seeds)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish = p.cfg.Clock.Now()
	switch {
	case err != nil:
		p.end, p.reason = EndFailed, err.Error()
	case p.end == EndNone:
		p.end, p.reason = EndDone, "every URL in scope was visited"
	}
	return err
}

// stages runs the four stages until the last one ends.
func (p *Pipeline) stages(ctx context.Context, seeds iter.Seq[canonical.URL]) error {
	g, ctx := errgroup.WithContext(ctx)
	work, cut := context.WithCancel(ctx)
	defer cut()
	feed := make(chan canonical.URL)
	g.Go(func() error {
		defer close(feed)
		for u := range seeds {
			select {
			case feed <- u:
			case <-p.halt:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	var fetchers sync.WaitGroup // and Discovery, which hires them
	fetchers.Add(1)
	hire := func() { spawn(g, &fetchers, 1, func() error { return p.extract(ctx, work) }) }
	var writers sync.WaitGroup // those who send results
	writers.Add(1)
	g.Go(func() error {
		defer writers.Done()
		defer fetchers.Done()
		defer close(p.gone)
		defer p.haltOnce.Do(func() { close(p.halt) })
		d := &discovery{p: p, frontier: p.frontier, hire: hire, seeds: feed, pages: p.cfg.Pages, guesses: make(guesses), ending: ending{cut: cut}}
		return d.run(ctx)
	})
	spawn(g, &writers, p.cfg.Processors, func() error { return p.process(ctx, work) })
	g.Go(func() error { fetchers.Wait(); close(p.fetched); return nil })
	g.Go(func() error { writers.Wait(); close(p.results); return nil })
	watched(g, func() error { return p.output(ctx, work) })
	return g.Wait()
}

// spawn runs n goroutines of the group and lets wg know when they are gone.
func spawn(g *errgroup.Group, wg *sync.WaitGroup, n int, run func() error) {
	wg.Add(n)
	for range n {
		watched(g, func() error {
			defer wg.Done()
			return run()
		})
	}
}

var errExited = errors.New("a handler or sink ended the goroutine it was called in")

// watched runs a stage in the group. Handlers and sinks are not ours: one that calls
// runtime.Goexit, as t.FailNow does, takes a worker and its page along, and without an
// error the other stages would wait for them for ever. A panic is left to end the program.
func watched(g *errgroup.Group, run func() error) {
	g.Go(func() error {
		returned := false
		defer func() {
			if !returned {
				g.Go(func() error { return errExited })
			}
		}()
		err := run()
		returned = true
		return err
	})
}

// CountFrom has MaxTime count from an instant before Run. It must not be called once Run was.
func (p *Pipeline) CountFrom(t time.Time) { p.since = t }

// Handle sets [Config.Handle]. It must not be called once Run was.
func (p *Pipeline) Handle(page func(context.Context, *Page) error) { p.cfg.Handle = page }

// Stop ends the leasing of URLs; what is under way is finished and recorded within
// [Config.Grace], and cancelled after it. It may be called at any time, from any goroutine,
// and more than once.
func (p *Pipeline) Stop() { p.stopOnce.Do(func() { close(p.stop) }) }

// Revise has Discovery ask the limiter anew when hosts may be asked, because its rules have
// changed: a host that was to wait for a day by the old ones is not looked at before. It
// may be called at any time, from any goroutine but those that call a hook of the limiter
// or the log's handler, and waits for Discovery's next free moment.
func (p *Pipeline) Revise() {
	p.order(func(d *discovery) { d.frontier.Revise(p.cfg.Clock.Now()) })
}

// Halted is closed when no more URLs are leased, and so no more seeds are wanted: a
// limit was reached, Stop was called, or the crawl is over.
func (p *Pipeline) Halted() <-chan struct{} { return p.halt }

// Stopping is closed when the crawl is to end within [Config.Grace]: Stop was called or
// MaxTime is over. It stays open if the crawl ends before that.
func (p *Pipeline) Stopping() <-chan struct{} { return p.stopping }

// End is why the crawl ended, and in words; EndNone while it runs.
func (p *Pipeline) End() (End, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end, p.reason
}

func (p *Pipeline) halted(end End, reason string) {
	p.mu.Lock()
	p.end, p.reason = end, reason
	p.mu.Unlock()
	p.haltOnce.Do(func() { close(p.halt) })
	p.cfg.Log.Debug("no further URLs are leased", slog.String("reason", reason))
}

// dropped counts a link the frontier had no room for, and says so the first time.
func (p *Pipeline) dropped(why frontier.Added, it *frontier.Item) {
	if p.stats.dropped[why].Add(1) == 1 {
		p.cfg.Log.Warn("links are being dropped",
			slog.String("reason", why.String()), slog.String("first", it.URL.String()),
			slog.String("fix", fmt.Sprintf("raise %s", fixes[why])))
	}
}

var fixes = map[frontier.Added]string{
	frontier.Full:      "frontier.max_urls",
	frontier.HostsFull: "frontier.max_urls",
	frontier.HostPages: "max_pages_per_host",
}
