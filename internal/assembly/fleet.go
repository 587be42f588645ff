package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier/redis"
	"github.com/treadlight/crawl/internal/observe/console"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// fleetEngine is what processes of one job must have in common that no setting says: how URLs
// are spelled, what is told of them, and how budgets are shared. It changes whenever two versions of this module would
// not take the same URLs for the same.
const fleetEngine = "2"

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

// ErrNoJob is what a [FleetError] is if the job to join is not there.
var ErrNoJob = redis.ErrNoJob

// flagsOfSet are those by which a job that has a bound may be given another.
var flagsOfSet = map[string]string{"max_pages": "--max-pages N", "max_time": "--max-time TIME"}

// fleetTerms names each setting of which the job has another value, and how to have the same.
func fleetTerms(e *redis.TermsError) string {
	var b strings.Builder
	fmt.Fprintf(&b, "the job %s is crawled with other settings:", e.Job)
	for _, d := range e.Diffs {
		if d.Term == "engine" {
			fmt.Fprintf(&b, "\n  engine: %s there, %s here: run the version of crawl that made the job", d.Job, d.Here)
			continue
		}
		fmt.Fprintf(&b, "\n  %s: %s there, %s here", d.Term, orNothing(d.Job), orNothing(d.Here))
		if flag := flagsOfSet[d.Term]; flag != "" && d.Job != "" {
			fmt.Fprintf(&b, "; 'crawl fleet set --job %s %s' changes it for all", e.Job, flag)
		}
	}
	return b.String() + "\ngive the same settings, or name another job by --job"
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// fleet is this process's part in a crawl of several.
type fleet struct {
	job     string
	store   *redis.Store
	lease   time.Duration
	clk     clock.Clock
	control chan redis.Control // the newest; room for one
	bounds  chan redis.Bounds  // that operators have set, the newest; room for one
	pipe    atomic.Pointer[pipeline.Pipeline]
	log     *slog.Logger
}

// joinFleet makes the job of the settings, or joins it. The scope hears of its seeds.
func (c *Crawler) joinFleet() error {
	f := &c.cfg.Fleet
	if !f.Shared() {
		return nil
	}
	fail := func(err error) error { return &FleetError{f.Job, err} }
	o, err := f.Client(os.LookupEnv)
	if err != nil {
		return fail(err)
	}
	j := &fleet{job: f.Job, lease: f.Lease, clk: c.clk, control: make(chan redis.Control, 1), bounds: make(chan redis.Bounds, 1), log: c.cfg.Log}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	terms := c.cfg.Terms()
	terms["engine"] = fleetEngine
	rc := redis.Config{
		Redis: o, Job: f.Job, Worker: f.Worker, Terms: terms, Partitions: f.Partitions, MaxPagesPerHost: int(c.cfg.MaxPagesPerHost),
		Lease: f.Lease, GiveUp: f.GiveUp, Seeding: !c.cfg.Join, OnSeed: c.hearSeed, OnControl: func(control redis.Control) { hear(j.control, control) },
		OnBounds: func(b redis.Bounds) { hear(j.bounds, b) }, Leased: j.leased, Log: j.log, Clock: c.clk,
	}
	if c.cfg.Join {
		rc.Mode = redis.Join
	}
	if d := durablesOf(c.cfg.Sinks, c.cfg.Archives); len(d) > 0 {
		rc.Sync = d.sync
	}
	if c.cfg.RateLimit.Enabled() {
		rc.Remember, rc.Recall = c.limiter.MemoryOf, func(m ratelimit.HostMemory) { c.limiter.Adopt(m) }
	}
	if err := c.shareEnds(&rc); err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), fleetPatience)
	defer cancel()
	if err = c.askForTokens(ctx); err != nil {
		return fail(err)
	}
	if j.store, err = redis.Open(ctx, rc); err != nil {
		return fail(err)
	}
	c.fleet = j
	select {
	case b := <-j.bounds: // that were set before we came
		c.adoptBounds(b)
	default:
	}
	if left := j.store.Left(); left.Known > 0 && left.Queued == 0 {
		j.log.Warn("the job is complete: only URLs that are new to it will be asked for; 'crawl fleet purge' forgets it", slog.String("job", f.Job), slog.Int64("done", left.Known))
	}
	return nil
}

// fleetPatience is how long a process waits for a Redis when it begins, and in a cluster for a
// replica to take the place of a node: that takes some seconds more than the 15 of its usual
// cluster-node-timeout. A server that is not there is known of at once.
const fleetPatience = 30 * time.Second

// ErrJobComplete is what a [FleetError] is if the job to join has nothing left to do.
var ErrJobComplete = redis.ErrComplete

// AwaitJob waits until the job of the settings (fleet.job) has URLs to visit: for a process
// that brings no seeds, with [Config.Join], and may be begun before the one that does. It
// tells log, which may be nil, what it waits for. The error is that of ctx, or a
// [*FleetError]: [ErrJobComplete], or trouble with the Redis.
func AwaitJob(ctx context.Context, settings *Settings, log *slog.Logger) error {
	f := &settings.Fleet
	o, err := f.Client(os.LookupEnv)
	if err != nil {
		return &FleetError{f.Job, err}
	}
	wait := func(there bool) {
		what := "the job does not exist yet: waiting until a process brings it URLs"
		if there {
			what = "the job has no URLs yet: waiting until a process brings some"
		}
		if log != nil {
			log.Info(what, slog.String("job", f.Job)) //nolint:sloglint // one of two constants
		}
	}
	err = redis.Await(ctx, o, f.Job, f.GiveUp, clock.System(), wait)
	if err != nil && ctx.Err() == nil {
		err = &FleetError{f.Job, err}
	}
	return err
}

// hearSeed lets in what the seed of another process lets in. It opens no private address: a client
// of the console may have brought it. What the users of other processes have opened is asked for
// when it is needed; see askFleet.
func (c *Crawler) hearSeed(url string, hops uint8) {
	u, err := canonical.Parse(url)
	if err != nil {
		return // it was one where it came from
	}
	if hops == 0 {
		c.trust.name(u)
	}
	c.scope.AddSeed(u)
}

// hear keeps the newest order until it is carried out.
func hear[T any](orders chan T, order T) {
	for {
		select {
		case orders <- order:
			return
		case <-orders:
		}
	}
}

// leased is how many URLs are being asked for.
func (f *fleet) leased() int {
	if p := f.pipe.Load(); p != nil {
		return p.Leased()
	}
	return 0
}

// adoptBounds takes the bounds of the job for those of this process.
func (c *Crawler) adoptBounds(b redis.Bounds) {
	tell := func(setting, here, there string) {
		if here != there {
			c.fleet.log.Info("the job has another bound, by 'crawl fleet set', than this process was given: that of the job holds",
				slog.String("setting", setting), slog.String("job", there), slog.String("here", here))
		}
	}
	if b.Pages != nil {
		tell("max_pages", strconv.FormatInt(c.cfg.MaxPages, 10), strconv.FormatInt(*b.Pages, 10))
		c.cfg.MaxPages = *b.Pages
	}
	if b.Time != nil {
		tell("max_time", c.cfg.MaxTime.String(), b.Time.String())
		c.cfg.MaxTime = *b.Time
	}
}

// rebound has the crawl go on by bounds that an operator has set.
func (c *Crawler) rebound(ctx context.Context, b redis.Bounds) {
	pages, span := c.cfg.MaxPages, c.cfg.MaxTime
	if b.Pages != nil {
		pages = *b.Pages
	}
	if b.Time != nil {
		span = *b.Time
	}
	c.fleet.log.Info("an operator has set bounds of the job; zero is none", slog.Int64("max_pages", pages), slog.Duration("max_time", span))
	c.insist(ctx, func() bool { return c.pipe.SetBounds(int(pages), span) })
}

// obey carries out what operators say to all processes of the job, until ctx ends.
func (c *Crawler) obey(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-c.fleet.bounds:
			c.rebound(ctx, b)
		case control := <-c.fleet.control:
			switch control {
			case redis.Draining:
				c.fleet.log.Info("the job is being drained: what is under way is finished")
				c.Stop()
			case redis.Paused:
				c.fleet.log.Info("the job is paused: nothing further is asked for")
				c.insist(ctx, c.pipe.Pause)
			case redis.Running:
				c.fleet.log.Info("the job goes on")
				c.insist(ctx, c.pipe.Unpause)
			}
		}
	}
}

// insist gives an order that a pipeline takes only once it runs.
func (c *Crawler) insist(ctx context.Context, order func() bool) {
	for !order() {
		select {
		case <-c.pipe.Halted():
			return
		default:
		}
		if clock.Sleep(ctx, c.clk, 10*time.Millisecond) != nil {
			return
		}
	}
}

// runShared is run for a crawl of several processes.
func (c *Crawler) runShared(ctx context.Context, crawl func() error) error {
	c.fleet.pipe.Store(c.pipe)
	beside, stop := context.WithCancel(ctx)
	var companion sync.WaitGroup
	companion.Go(func() { c.obey(beside) })
	companion.Go(func() { c.shareSlots(beside) })
	err := crawl()
	stop()
	companion.Wait()
	err = c.fleet.end(err)
	c.closeTokens()
	return err
}

// closeTokens gives back the connections by which rates are shared.
func (c *Crawler) closeTokens() {
	if c.tokens != nil {
		_ = c.tokens.Close() // which has no error
	}
}

// end gives everything back at the end of a run that had this error. Of two the first counts.
func (f *fleet) end(err error) error {
	failed := f.store.Err()
	closed := f.store.Close()
	switch {
	case failed != nil:
		return &FleetError{f.job, failed}
	case err == nil && closed != nil:
		return &FleetError{f.job, closed}
	}
	return err
}

// join has the pipeline work on the job.
func (f *fleet) join(pc *pipeline.Config) {
	pc.State, pc.Key, pc.Job, pc.Elapsed = f.store, f.store.Key(), f.job, f.store.Elapsed()
}

// figures are those of a console. It asks nothing of Redis.
func (f *fleet) figures() console.Fleet {
	st, whole := f.store.Statistics(), f.store.Whole()
	control, silent := f.store.Standing()
	return console.Fleet{
		Job: f.job, Worker: st.Worker, State: string(control), Hosts: st.Hosts, Loaded: st.Loaded, Pending: st.Pending,
		SilentSeconds: silent.Seconds(), LeaseSeconds: f.lease.Seconds(), TripSeconds: st.LastTrip.Seconds(),
		Commands: st.Commands, Repeated: st.Retries, Acquired: st.Acquired, Given: st.Given, Lost: st.Lost, Dropped: st.Dropped, Full: st.Full,
		AgeSeconds: f.clk.Since(whole.At).Seconds(), Known: whole.Known, Done: whole.Done, Queued: whole.Queued, Leased: whole.Leased,
		Processes: whole.Processes,
	}
}

// answered reports whether a host has answered to any process of the job: that none has is so of all
// of them or of none.
func (f *fleet) answered() bool { return !f.store.Unanswered() }

var (
	_ pipeline.State     = (*redis.Store)(nil)
	_ pipeline.Allowance = (*redis.Store)(nil)
)
