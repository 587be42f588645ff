package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	tokens "github.com/treadlight/crawl/internal/admission/redis"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier/redis"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

const (
	// fleetEngine is what processes of one job must have in common that no setting says: how URLs are spelled, what is
	// told of them, and how budgets are shared. It changes whenever two versions of this module would not take the same
	// URLs for the same.
	fleetEngine = "2"
	// fleetPatience is how long a process waits for a Redis when it begins, and in a cluster for a replica to take the
	// place of a node: that takes some seconds more than the 15 of its usual cluster-node-timeout.
	fleetPatience = 30 * time.Second
	// tokenPatience is for one question about tokens, which nobody waits for: a late answer is worth more than none.
	tokenPatience = time.Second
	// slotsEvery is how often a process asks for its share of the concurrency budget, at most.
	slotsEvery = time.Second
)

// FleetError is trouble with a crawl of several processes or with its Redis.
type FleetError struct {
	Job string
	Err error // says what is wrong; [ErrNoJob] if there is no such job
}

// Error names the job and the trouble.
func (e *FleetError) Error() string {
	if terms, ok := errors.AsType[*redis.TermsError](e.Err); ok {
		return fleetTerms(terms)
	}
	if errors.Is(e.Err, redis.ErrNoJob) {
		return fmt.Sprintf("there is no job %s: begin it by giving URLs, or see --job and --redis", e.Job)
	}
	return fmt.Sprintf("the job %s: %s", e.Job, strings.TrimPrefix(e.Err.Error(), "job "+e.Job+": "))
}

// Unwrap is the trouble.
func (e *FleetError) Unwrap() error { return e.Err }

// ErrNoJob and ErrJobComplete are what a [FleetError] is if the job to join is not there, or has nothing left to do.
var (
	ErrNoJob       = redis.ErrNoJob
	ErrJobComplete = redis.ErrComplete
)

// flagsOfSet are those by which a job that has a bound may be given another.
var flagsOfSet = map[string]string{"max_pages": "--max-pages N", "max_time": "--max-time TIME"}

// fleetTerms names each setting of which the job has another value, and how to have the same.
func fleetTerms(e *redis.TermsError) string {
	var b strings.Builder
	fmt.Fprintf(&b, "the job %s is crawled with other settings:", e.Job)
	for _, d := range e.Diffs {
		fmt.Fprintf(&b, "\n  %s: %s there, %s here", d.Term, cmp.Or(d.Job, "nothing"), cmp.Or(d.Here, "nothing"))
		if d.Term == "engine" {
			b.WriteString(": run the version of crawl that made the job")
		} else if flag := flagsOfSet[d.Term]; flag != "" && d.Job != "" {
			fmt.Fprintf(&b, "; 'crawl fleet set --job %s %s' changes it for all", e.Job, flag)
		}
	}
	return b.String() + "\ngive the same settings, or name another job by --job"
}

// AwaitJob waits until the job of the settings has URLs to visit. The error is that of ctx, or a [*FleetError].
func AwaitJob(ctx context.Context, settings *Settings, log *slog.Logger) error {
	f := &settings.Fleet
	o, err := f.Client(os.LookupEnv)
	if err != nil {
		return &FleetError{f.Job, err}
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
		err = &FleetError{f.Job, err}
	}
	return err
}

// fleet is this process's part in a crawl of several.
type fleet struct {
	crawl  *Crawler
	job    string
	tokens *tokens.Repository // of budgets that processes share; nil: there are none
	store  *redis.Store       // nil before open
	orders chan redis.Order   // of operators, the newest; room for one
	pipe   atomic.Pointer[pipeline.Pipeline]
}

// newFleet prepares to join the job of the settings. The limiter's budgets, if there are any, are those of all
// processes.
func newFleet(c *Crawler, lc *ratelimit.Config) (*fleet, error) {
	f := &fleet{crawl: c, job: c.cfg.Fleet.Job, orders: make(chan redis.Order, 1)}
	if !lc.Enabled || lc.GlobalRPS == 0 && lc.IPRPS == 0 && lc.SiteRPS == 0 && lc.GlobalConcurrency == 0 && lc.GlobalBytes == 0 {
		return f, nil
	}
	o, err := c.cfg.Fleet.Client(os.LookupEnv)
	if err == nil {
		f.tokens, err = tokens.New(tokens.Config{Redis: o, Deadline: tokenPatience, Clock: c.clk})
	}
	if err != nil {
		return nil, &FleetError{f.job, err}
	}
	lc.Fleet, lc.FleetName = f.tokens.Shared(c.log), "crawl/"+f.job
	return f, nil
}

// open makes the job of the settings, or joins it. The scope hears of its seeds. A server that does not let us count
// rates would have nothing be asked for, ever; whether it is there at all is no question of ours.
func (f *fleet) open() error {
	ctx, cancel := context.WithTimeout(context.Background(), fleetPatience)
	defer cancel()
	rc, err := f.storeConfig()
	if err == nil && f.tokens != nil {
		soon, cancel := context.WithTimeout(ctx, tokenPatience)
		defer cancel()
		err = redis.Verdict(f.tokens.Ping(soon))
	}
	if err == nil {
		f.store, err = redis.Open(ctx, rc)
	}
	if err != nil {
		return &FleetError{f.job, err}
	}
	f.adoptBounds(f.store.Order().Bounds) // that were set before we came
	if left := f.store.Left(); left.Known > 0 && left.Queued == 0 {
		f.crawl.log.Warn("the job is complete: only URLs that are new to it will be asked for; 'crawl fleet purge' forgets it",
			slog.String("job", f.job), slog.Int64("done", left.Known))
	}
	return nil
}

// storeConfig puts the settings into the terms of the store in Redis.
func (f *fleet) storeConfig() (redis.Config, error) {
	c, s := f.crawl, &f.crawl.cfg.Fleet
	rc := redis.Config{
		Job: s.Job, Worker: s.Worker, Terms: c.cfg.Terms(),
		MaxPages: c.cfg.MaxPages, MaxPagesPerHost: int(c.cfg.MaxPagesPerHost),
		Lease: s.Lease, Join: c.cfg.Join, Seeding: !c.cfg.Join, OnSeed: f.hearSeed, Log: c.log, Clock: c.clk,
		OnOrder: f.keepNewest,
	}
	rc.Terms["engine"] = fleetEngine
	if d := durableSinks(c.cfg.Sinks, c.cfg.Archives); len(d) > 0 {
		rc.Sync = d.sync
	}
	if c.cfg.RateLimit.Enabled() {
		rc.Remember, rc.Recall = c.limiter.MemoryOf, func(m ratelimit.HostMemory) { c.limiter.Adopt(m) }
	}
	uses := ratelimit.NewUseRates(c.limiter)
	rc.Tell = func(i *redis.WorkerInfo) {
		i.Use, i.Busiest = uses.Now()
		if p := f.pipe.Load(); p != nil {
			i.Leased = p.Leased()
		}
	}
	list, err := budgets(&c.cfg.Settings)
	if err != nil {
		return rc, err
	}
	if len(list) > 0 {
		rc.Budget = func(url string) (budget, most int) {
			i := slices.IndexFunc(list, func(b pipeline.Budget) bool { return b.Match.MatchString(url) })
			if i < 0 {
				return 0, 0
			}
			return i + 1, list[i].MaxPages
		}
	}
	rc.Redis, err = s.Client(os.LookupEnv)
	return rc, err
}

// hearSeed lets in what the seed of another process lets in. It allows no private address: a client of the console may
// have brought it. What the users of other processes have allowed is asked for when it is needed; see askFleet.
func (f *fleet) hearSeed(url string, hops uint8) {
	u, err := canonical.Parse(url)
	if err != nil {
		return // it was one where it came from
	}
	if hops == 0 {
		f.crawl.named.trust(u)
	}
	f.crawl.scope.AddSeed(u)
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

// bounds are those of this process, or where operators have set others for the job, those.
func (f *fleet) bounds(b redis.Bounds) (pages int64, span time.Duration) {
	return *cmp.Or(b.Pages, &f.crawl.cfg.MaxPages), *cmp.Or(b.Time, &f.crawl.cfg.MaxTime)
}

// adoptBounds takes the bounds of the job for those of this process.
func (f *fleet) adoptBounds(b redis.Bounds) {
	cfg := &f.crawl.cfg
	tell := func(setting, here, there string) {
		if here != there {
			f.crawl.log.Info("the job has another bound, by 'crawl fleet set', than this process was given: that of the job holds",
				slog.String("setting", setting), slog.String("job", there), slog.String("here", here))
		}
	}
	pages, span := f.bounds(b)
	tell("max_pages", strconv.FormatInt(cfg.MaxPages, 10), strconv.FormatInt(pages, 10))
	tell("max_time", cfg.MaxTime.String(), span.String())
	cfg.MaxPages, cfg.MaxTime = pages, span
}

// obey carries out what operators say to all processes of the job, until ctx ends.
func (f *fleet) obey(ctx context.Context) {
	log, pipe := f.crawl.log, f.crawl.pipe
	control, maxPages, maxTime := redis.Running, f.crawl.cfg.MaxPages, f.crawl.cfg.MaxTime
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

// insist gives an order that a pipeline takes only once it runs.
func (f *fleet) insist(ctx context.Context, order func() bool) {
	for !order() {
		select {
		case <-f.crawl.pipe.Halted():
			return
		default:
		}
		if clock.Sleep(ctx, f.crawl.clk, 10*time.Millisecond) != nil {
			return
		}
	}
}

// shareSlots asks for this process's share of ratelimit.global_concurrency until ctx ends.
func (f *fleet) shareSlots(ctx context.Context) {
	c := f.crawl
	plan := c.cfg.RateLimit.GlobalConcurrency
	if plan == 0 || f.tokens == nil {
		return
	}
	told, failed := false, false
	setting := slog.String("setting", "ratelimit.global_concurrency")
	for {
		held, want := c.limiter.Slots()
		want = min(want, c.cfg.Concurrency)
		if f.store.Hosts() > 0 {
			want = max(want, 1) // for the next one, which may be due soon
		}
		share, until, err := f.store.Slots(ctx, plan, held, want)
		switch {
		case err == nil:
			c.limiter.ShareSlots(share, until)
			if failed {
				c.log.Info("Redis answers for this setting again", setting)
			}
			if failed = false; share == 0 && want > 0 && !told {
				told = true
				c.log.Info("other processes hold the whole concurrency budget of the fleet; waiting", setting, slog.Int("plan", plan))
			}
		case ctx.Err() == nil && !failed:
			failed = true
			c.log.Warn("Redis does not tell the share of this process; new requests stop when the last share expires",
				setting, slog.Any("error", err))
		}
		period := slotsEvery
		if lease := c.cfg.Fleet.Lease; lease > 0 {
			period = min(period, lease/4) // so that what is out is cut off before the share ends
		}
		if share < max(1, want) {
			period /= 4
		}
		if clock.Sleep(ctx, c.clk, period) != nil {
			return
		}
	}
}

// end gives everything back at the end of a run that had this error. Of two the first counts.
func (f *fleet) end(err error) error {
	failed := f.store.Err()
	closed := f.close()
	switch {
	case failed != nil:
		return &FleetError{f.job, failed}
	case err == nil && closed != nil:
		return &FleetError{f.job, closed}
	}
	return err
}

// close gives back the connections.
func (f *fleet) close() (err error) {
	if f == nil {
		return nil
	}
	if f.store != nil {
		err = f.store.Close()
	}
	if f.tokens != nil {
		_ = f.tokens.Close() // which has no error
	}
	return err
}

// join has the pipeline work on the job.
func (f *fleet) join(pc *pipeline.Config) {
	pc.State = &pipeline.State{Storage: f.store, Progress: f.store, Left: f.store.Left(), Peers: f.store}
	pc.Key, pc.Job, pc.Elapsed = f.store.Key(), f.job, f.store.Elapsed()
	pc.Budgets = nil // the job counts for them
}
