// Package fleet makes a crawl one of several processes that share a job in Redis. It registers itself with package
// assembly when it is imported.
package fleet

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	tokens "github.com/treadlight/crawl/internal/admission/redis"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier/redis"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/scope"
)

func init() { assembly.Fleets.Register(prepare) }

const (
	// fleetEngine is what processes of one job must have in common beyond the settings: how URLs are canonicalized,
	// what is stored about them, and how budgets are shared. It changes whenever two versions of this module would
	// disagree on whether URLs are the same.
	fleetEngine = "2"
	// fleetPatience is how long a process waits for Redis when it begins, which in a cluster includes the time until a
	// replica takes the place of a node: some seconds more than the usual cluster-node-timeout of 15 s.
	fleetPatience = 30 * time.Second
	// tokenPatience is the timeout of one request for tokens. Nothing waits for that request, so a late reply is better
	// than none.
	tokenPatience = time.Second
	// slotsEvery is the longest pause between two requests for this process's share of the concurrency budget.
	slotsEvery = time.Second
)

// Await waits until the job of the settings has URLs to visit. The error is that of ctx, or a [*assembly.FleetError].
func Await(ctx context.Context, settings *config.Config, log *slog.Logger) error {
	f := &settings.Fleet
	o, err := Client(f, os.LookupEnv)
	if err != nil {
		return &assembly.FleetError{Job: f.Job, Err: err}
	}
	err = redis.Await(ctx, o, f.Job, redis.DefaultGiveUp, clock.System(), func(exists bool) {
		what := "the job does not exist yet: waiting until a process brings it URLs"
		if exists {
			what = "the job has no URLs yet: waiting until a process brings some"
		}
		if log != nil {
			log.Info(what, slog.String("job", f.Job)) //nolint:sloglint // one of two constants
		}
	})
	if err != nil && ctx.Err() == nil {
		err = &assembly.FleetError{Job: f.Job, Err: err}
	}
	return err
}

// fleet is this process's part in a crawl of several. Its store reports about the job.
type fleet struct {
	*redis.Store // nil before Open
	crawl        *assembly.Crawler
	cfg          *assembly.Config
	log          *slog.Logger
	clk          clock.Clock
	job          string
	tokens       *tokens.Repository // tokens of the budgets that the processes share; nil means that there are none
	orders       chan redis.Order   // the newest order of operators; of capacity one
	begun        atomic.Bool
}

// prepare prepares to join the job of the settings. Budgets of the limiter become those of all processes.
func prepare(c *assembly.Crawler, lc *ratelimit.Config) (assembly.Fleet, error) {
	p := c.Parts()
	cfg := p.Config
	f := &fleet{crawl: c, cfg: cfg, log: p.Log, clk: p.Clock, job: cfg.Fleet.Job, orders: make(chan redis.Order, 1)}
	if !lc.Enabled || lc.GlobalRPS == 0 && lc.IPRPS == 0 && lc.SiteRPS == 0 && lc.GlobalConcurrency == 0 && lc.GlobalBytes == 0 {
		return f, nil
	}
	o, err := Client(&cfg.Fleet, os.LookupEnv)
	if err == nil {
		f.tokens, err = tokens.New(tokens.Config{Redis: o, Deadline: tokenPatience, Clock: f.clk})
	}
	if err != nil {
		return nil, &assembly.FleetError{Job: f.job, Err: err}
	}
	lc.Fleet, lc.FleetName = f.tokens.Shared(f.log), "crawl/"+f.job
	return f, nil
}

// Open makes the job of the settings, or joins it. The scope gets the job's seeds. It is an error if the server does
// not permit counting of rates, as then nothing would ever be requested; whether that server is reachable does not
// matter here.
func (f *fleet) Open() error {
	ctx, cancel := context.WithTimeout(context.Background(), fleetPatience)
	defer cancel()
	rc, err := f.storeConfig()
	if err == nil && f.tokens != nil {
		soon, cancel := context.WithTimeout(ctx, tokenPatience)
		defer cancel()
		err = redis.Verdict(f.tokens.Ping(soon))
	}
	if err == nil {
		f.Store, err = redis.Open(ctx, rc)
	}
	if err != nil {
		return &assembly.FleetError{Job: f.job, Err: err}
	}
	f.adoptBounds(f.Store.Order().Bounds) // bounds that were set before this process joined
	if left := f.Store.Left(); left.Known > 0 && left.Queued == 0 {
		f.log.Warn("the job is complete: only URLs that are new to it will be asked for; 'crawl fleet purge' forgets it",
			slog.String("job", f.job), slog.Int64("done", left.Known))
	}
	return nil
}

func (f *fleet) storeConfig() (redis.Config, error) {
	c, cfg := f.crawl.Parts(), f.cfg
	s := &cfg.Fleet
	rc := redis.Config{
		Job: s.Job, Worker: s.Worker, Terms: cfg.Terms(),
		MaxPages: cfg.MaxPages, MaxPagesPerHost: int(cfg.MaxPagesPerHost),
		Lease: s.Lease, Join: cfg.Join, Seeding: !cfg.Join, OnSeed: c.HearSeed, Log: f.log, Clock: f.clk,
		OnOrder: f.keepNewest,
	}
	rc.Terms["engine"] = fleetEngine
	rc.Sync = c.SyncSinks()
	limiter := c.Limiter
	if cfg.RateLimit.Enabled() {
		rc.Remember, rc.Recall = limiter.MemoryOf, func(m ratelimit.HostMemory) { limiter.Adopt(m) }
	}
	uses := ratelimit.NewUseRates(limiter)
	rc.Tell = func(i *redis.WorkerInfo) {
		i.Use, i.Busiest = uses.Now()
		if f.begun.Load() {
			i.Leased = f.crawl.Parts().Pipeline.Leased()
		}
	}
	list, err := assembly.Budgets(&cfg.Settings)
	if err != nil {
		return rc, err
	}
	if budgets := scope.NewBudgets(list); len(list) > 0 {
		rc.Budget = func(url string) (budget, most int) {
			if budget = budgets.Of(url); budget > 0 {
				most = list[budget-1].MaxPages
			}
			return budget, most
		}
	}
	rc.Redis, err = Client(s, os.LookupEnv)
	return rc, err
}

// keepNewest keeps the newest order until it is carried out.
func (f *fleet) keepNewest(order redis.Order) {
	for {
		select {
		case f.orders <- order:
			return
		case <-f.orders:
		}
	}
}

// bounds returns the bounds that operators have set for the job, or else those of this process.
func (f *fleet) bounds(b redis.Bounds) (pages int64, span time.Duration) {
	return *cmp.Or(b.Pages, &f.cfg.MaxPages), *cmp.Or(b.Time, &f.cfg.MaxTime)
}

func (f *fleet) adoptBounds(b redis.Bounds) {
	cfg := f.cfg
	tell := func(setting, here, there string) {
		if here != there {
			f.log.Info("the job has another bound, by 'crawl fleet set', than this process was given: that of the job holds",
				slog.String("setting", setting), slog.String("job", there), slog.String("here", here))
		}
	}
	pages, span := f.bounds(b)
	tell("max_pages", strconv.FormatInt(cfg.MaxPages, 10), strconv.FormatInt(pages, 10))
	tell("max_time", cfg.MaxTime.String(), span.String())
	cfg.MaxPages, cfg.MaxTime = pages, span
}

// Run carries out the orders of operators and shares the concurrency budget, until ctx ends.
func (f *fleet) Run(ctx context.Context) {
	f.begun.Store(true)
	var both sync.WaitGroup
	both.Go(func() { f.obey(ctx) })
	both.Go(func() { f.shareSlots(ctx) })
	both.Wait()
}

// obey carries out what operators want from all processes of the job, until ctx ends.
func (f *fleet) obey(ctx context.Context) {
	log, pipe := f.log, f.crawl.Parts().Pipeline
	control, maxPages, maxTime := redis.Running, f.cfg.MaxPages, f.cfg.MaxTime
	for {
		select {
		case <-ctx.Done():
			return
		case order := <-f.orders:
			if pages, span := f.bounds(order.Bounds); pages != maxPages || span != maxTime {
				maxPages, maxTime = pages, span
				log.Info("an operator has set bounds of the job; zero is none", slog.Int64("max_pages", pages), slog.Duration("max_time", span))
				f.insist(ctx, func() bool { return pipe.SetBounds(int(pages), span) })
			}
			if order.Control == control {
				continue
			}
			switch control = order.Control; control {
			case redis.Draining:
				log.Info("the job is being drained: what is under way is finished")
				f.crawl.Stop()
			case redis.Paused:
				log.Info("the job is paused: nothing further is asked for")
				f.insist(ctx, pipe.Pause)
			case redis.Running:
				log.Info("the job goes on")
				f.insist(ctx, pipe.Unpause)
			}
		}
	}
}

// insist repeats an order that a pipeline accepts only once it runs.
func (f *fleet) insist(ctx context.Context, order func() bool) {
	for !order() {
		select {
		case <-f.crawl.Halted():
			return
		default:
		}
		if clock.Sleep(ctx, f.clk, 10*time.Millisecond) != nil {
			return
		}
	}
}

// shareSlots requests this process's share of ratelimit.global_concurrency until ctx ends.
func (f *fleet) shareSlots(ctx context.Context) {
	limiter, log := f.crawl.Parts().Limiter, f.log
	plan := f.cfg.RateLimit.GlobalConcurrency
	if plan == 0 || f.tokens == nil {
		return
	}
	told, failed := false, false
	setting := slog.String("setting", "ratelimit.global_concurrency")
	for {
		held, want := limiter.Slots()
		want = min(want, f.cfg.Concurrency)
		if f.Store.Hosts() > 0 {
			want = max(want, 1) // one slot for the next request, which may be due soon
		}
		share, until, err := f.Store.Slots(ctx, plan, held, want)
		switch {
		case err == nil:
			limiter.ShareSlots(share, until)
			if failed {
				log.Info("Redis answers for this setting again", setting)
			}
			if failed = false; share == 0 && want > 0 && !told {
				told = true
				log.Info("other processes hold the whole concurrency budget of the fleet; waiting", setting, slog.Int("plan", plan))
			}
		case ctx.Err() == nil && !failed:
			failed = true
			log.Warn("Redis does not tell the share of this process; new requests stop when the last share expires",
				setting, slog.Any("error", err))
		}
		period := slotsEvery
		if lease := f.cfg.Fleet.Lease; lease > 0 {
			period = min(period, lease/4) // so that requests beyond the share are canceled before it ends
		}
		if share < max(1, want) {
			period /= 4
		}
		if clock.Sleep(ctx, f.clk, period) != nil {
			return
		}
	}
}

// End gives everything back at the end of a run, and returns the error to end with: an earlier failure of the store,
// else err, else that of closing.
func (f *fleet) End(err error) error {
	var failed error
	if f.Store != nil {
		failed = f.Store.Err()
	}
	closed := f.close()
	switch {
	case failed != nil:
		return &assembly.FleetError{Job: f.job, Err: failed}
	case err == nil && closed != nil:
		return &assembly.FleetError{Job: f.job, Err: closed}
	}
	return err
}

func (f *fleet) close() (err error) {
	if f.Store != nil {
		err = f.Store.Close()
	}
	if f.tokens != nil {
		_ = f.tokens.Close() // never returns an error
	}
	return err
}

// Join configures the pipeline to work on the job.
func (f *fleet) Join(pc *pipeline.Config) {
	pc.State = &pipeline.State{Store: f.Store, Left: f.Store.Left(), Peers: f.Store}
	pc.Key, pc.Job, pc.Elapsed = f.Store.Key(), f.job, f.Store.Elapsed()
	pc.Budgets = nil // the job counts what is used of budgets
}
