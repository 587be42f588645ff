package pipeline

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/gate"
	"github.com/treadlight/crawl/internal/ratelimit/enum"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/rendering"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
)

// End is why a crawl ended.
type End uint8

// The ends.
const (
	EndNone        End = iota // the crawl has not ended
	EndDone                   // every URL in scope was visited
	EndLimit                  // MaxPages or MaxTime was reached
	EndBlocked                // only hosts remain that refuse requests
	EndUnruled                // no URL could be requested, because robots.txt could not be fetched from any host
	EndInterrupted            // Stop was called
	EndFailed                 // a sink, a handler or the context ended it with an error
	numEnds
)

var endNames = [numEnds]string{"running", "done", "limit", "blocked", "unruled", "interrupted", "failed"}

func (e End) String() string { return endNames[e] }

// MarshalText returns the name of the end. It never fails.
func (e End) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText sets e to the end with that name. An unknown name is an error.
func (e *End) UnmarshalText(text []byte) error {
	return enum.Parse(endNames[:], "end of a crawl", text, e)
}

// Pipeline is one crawl. New builds it, and Run runs it once.
type Pipeline struct {
	cfg       Config
	discovery *discovery // belongs to the goroutine of Discovery while Run runs
	gate      gate.Gate
	rendering rendering.Asker
	loop      Handler // gets every page after Config.Handle; nil means no loop
	stats     stats
	recent    sink.Recent
	asking    atomic.Int32          // requests that hold a permit; counted only with Config.Queues
	heard     atomic.Bool           // a response has arrived
	trouble   atomic.Pointer[error] // the error of the first request that failed before any response had arrived

	leases  chan *frontier.Lease // has room for every worker, so that sending never blocks Discovery
	fetched chan *fetched
	results chan *result
	events  chan event
	acks    chan written
	asks    chan func(*discovery)
	bodies  *semaphore.Weighted // bounds the bytes that waiting records hold; see maxHeld

	began    atomic.Bool
	stop     signal // closed when Stop is called
	stopping signal // closed when requests and pages in progress have at most Grace left
	halt     signal // closed when no more URLs are leased
	gone     signal // closed when Discovery has ended

	mu     sync.Mutex // guards what follows
	status status
}

type status struct {
	since         time.Time // the instant from which MaxTime counts; zero means the start of Run
	start, finish time.Time // finish is zero while the crawl runs
	until         time.Time // when the last record of a canceled URL may be written; zero means no bound is set
	end           End
	reason        string
}

type signal struct {
	once sync.Once
	c    chan struct{}
}

func (s *signal) give() { s.once.Do(func() { close(s.c) }) }

// New builds a crawl and starts nothing. The error comes from the frontier; it is [frontier.ErrTooManyExcluded] if
// cfg.Blocked names too many hosts.
func New(cfg Config) (*Pipeline, error) {
	cfg = cfg.withDefaults()
	p := &Pipeline{
		cfg:     cfg,
		leases:  make(chan *frontier.Lease, cfg.MaxOut),
		fetched: make(chan *fetched, cfg.Processors),
		results: make(chan *result, resultsRoom),
		events:  make(chan event, cfg.Concurrency),
		acks:    make(chan written, 1),
		asks:    make(chan func(*discovery)),
		bodies:  semaphore.NewWeighted(maxHeld),
	}
	p.gate = gate.Gate{Scope: cfg.Scope, Robots: cfg.Robots, Retries: cfg.Retries, Traps: cfg.Traps, Log: cfg.Log}
	if !cfg.IgnoreCrawlDelay {
		p.gate.SetCrawlDelay = cfg.Limiter.SetCrawlDelay
	}
	for _, s := range []*signal{&p.stop, &p.stopping, &p.halt, &p.gone} {
		s.c = make(chan struct{})
	}
	p.stats.init()
	fc := frontier.Config{
		Pacer: cfg.Limiter, Slots: cfg.Concurrency, ExtraSlots: cfg.MaxOut - cfg.Concurrency, PerHost: cfg.PerHost,
		MaxURLs: cfg.MaxURLs, MaxHosts: cfg.MaxHosts, Resident: cfg.Resident, MaxPagesPerHost: cfg.MaxPagesPerHost,
		Key: cfg.Key, InFlight: cfg.Limiter.InFlightCap, NoRetries: cfg.Retries == 0, Gate: &p.gate,
	}
	if cfg.Robots != nil {
		fc.RobotsGivenUp = p.gate.GivenUp
	}
	if cfg.State != nil {
		fc.Store, fc.Left = cfg.State, cfg.State.Left
	}
	f, err := frontier.New(fc)
	if err != nil {
		return nil, err
	}
	p.rendering = rendering.Asker{
		Scope: cfg.Scope, Robots: cfg.Robots, Send: p.send, Refuse: f.Refuse,
		Others: &robots.Source{Cache: cfg.RenderRobots, Now: cfg.Clock.Now, Ask: p.rendering.AskRobots, Obey: p.gate.Obey},
	}
	p.discovery = &discovery{p: p, frontier: f, pages: cfg.Pages, sitemaps: scope.NewCounters(), toldSpent: make(map[int]bool)}
	p.discovery.peers = &frontier.Alone{Clock: cfg.Clock, MaxPages: func() int { return p.discovery.maxPages }}
	p.discovery.tells = cfg.OnSkip != nil
	if cfg.State != nil && cfg.State.Peers != nil {
		p.discovery.peers = cfg.State.Peers
	}
	for _, host := range cfg.Blocked {
		if err := f.Exclude(cfg.Clock.Now(), host); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Run visits the seeds and every URL that the scope lets in, and returns when the crawl is over. All goroutines that it
// started have ended by then. So it waits for a handler that ignores its context and for a sink that blocks, whatever
// [Config.Grace] says. The sequence of seeds must end when ctx ends or [Pipeline.Halted] is closed, even while it waits
// for input. The error is nil for every End but EndFailed; for that one it is the error of the sink, of the handler or
// of ctx.
func (p *Pipeline) Run(ctx context.Context, seeds iter.Seq[request.Seed]) error {
	if p.began.Swap(true) {
		return errors.New("pipeline: Run was called before: build a new pipeline for another crawl")
	}
	p.mu.Lock()
	p.status.start = p.cfg.Clock.Now()
	p.mu.Unlock()
	err := p.stages(ctx, seeds)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.finish = p.cfg.Clock.Now()
	switch {
	case err != nil:
		p.status.end, p.status.reason = EndFailed, err.Error()
	case p.status.end == EndNone:
		p.status.end, p.status.reason = EndDone, "every URL in scope was visited"
		if why, answered := p.Trouble(), p.heard.Load(); why != nil && !answered {
			p.status.reason = "no request was answered: " + why.Error()
		}
	}
	return err
}

func (p *Pipeline) feed(ctx context.Context, to chan<- request.Seed, seeds iter.Seq[request.Seed]) error {
	defer close(to)
	for s := range seeds {
		select {
		case to <- s:
		case <-p.halt.c:
			return ctx.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *Pipeline) stages(ctx context.Context, seeds iter.Seq[request.Seed]) error {
	g, ctx := errgroup.WithContext(ctx)
	work, cut := context.WithCancel(ctx)
	defer cut()
	feed := make(chan request.Seed)
	g.Go(func() error { return p.feed(ctx, feed, seeds) })
	var fetchers sync.WaitGroup // counts the workers of Extraction, and Discovery, which starts them
	fetchers.Add(1)
	var writers sync.WaitGroup // counts the goroutines that send results
	writers.Add(1)
	d := p.discovery
	d.seeds, d.cut = feed, cut
	d.hire = func() { spawn(g, &fetchers, 1, func() error { return p.extract(ctx, work) }) }
	g.Go(func() error {
		defer writers.Done()
		defer fetchers.Done()
		defer p.gone.give()
		defer p.halt.give()
		return d.run(ctx)
	})
	spawn(g, &writers, p.cfg.Processors, func() error { return p.process(ctx, work) })
	g.Go(func() error { fetchers.Wait(); close(p.fetched); return nil })
	g.Go(func() error { writers.Wait(); close(p.results); return nil })
	watched(g, func() error { return p.output(ctx, work) })
	return g.Wait()
}

// spawn runs n goroutines in the group. wg counts them.
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

// watched runs a stage in the group and turns an exit of its goroutine into an error. A handler or sink that calls
// runtime.Goexit, as t.FailNow does, ends a worker together with its page; without an error the other stages would wait
// for them forever. A panic is not caught and ends the program.
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

// CountFrom sets an instant before Run from which MaxTime counts. It must not be called after Run.
func (p *Pipeline) CountFrom(t time.Time) { p.status.since = t }

// Loop sets a function that gets every page after [Config.Handle], whatever that returned. It must not be called after
// Run.
func (p *Pipeline) Loop(body Handler) { p.loop = body }

// Stop ends the leasing of URLs. Requests and pages in progress are finished and recorded within [Config.Grace], and
// canceled after it. Stop may be called at any time, from any goroutine, and more than once.
func (p *Pipeline) Stop() { p.stop.give() }

// Halted returns a channel that is closed when no more URLs are leased: a limit was reached, Stop was called, or the
// crawl is over. From then on no more seeds are taken.
func (p *Pipeline) Halted() <-chan struct{} { return p.halt.c }

// Stopping returns a channel that is closed when the crawl has to end within [Config.Grace], because Stop was called or
// MaxTime is over. It stays open if the crawl ends before that.
func (p *Pipeline) Stopping() <-chan struct{} { return p.stopping.c }

// End returns why the crawl ended, and the reason in words. It returns EndNone while the crawl runs.
func (p *Pipeline) End() (End, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.end, p.status.reason
}

// Trouble returns the error of the first request that failed before any response had arrived. Nil means that there was
// none.
func (p *Pipeline) Trouble() error {
	if err := p.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// drop counts links that are not followed for lack of room or budget. It logs a warning the first time that a reason
// occurs.
func (p *Pipeline) drop(reason string, links int, first, fix string) {
	if p.stats.tally(p.stats.n.Dropped, reason, links) {
		warnDropped(p.cfg.Log, reason, first, fix)
	}
}

func warnDropped(log *slog.Logger, reason, first, fix string) {
	log.Warn("links are being dropped", slog.String("reason", reason), slog.String("first", first), slog.String("fix", fix))
}
