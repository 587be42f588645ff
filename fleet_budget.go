package crawl

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/pipeline/frontier/redis"
	"github.com/treadlight/crawl/internal/ratelimit"
	tokens "github.com/treadlight/crawl/internal/ratelimit/admission/redis"
)

const (
	// tokenPatience is for one question about tokens, which nobody waits for: an answer that
	// is late is worth more than none.
	tokenPatience = time.Second

	// slotsEvery is how often a process asks for its share of what may be out at a time, at most.
	slotsEvery = time.Second
)

// shareRates has the limiter's budgets be those of the whole job, if there are any.
func (c *Crawler) shareRates(lc *ratelimit.Config) error {
	f := &c.cfg.Fleet
	if !f.Shared() || !lc.Enabled || lc.GlobalRPS == 0 && lc.IPRPS == 0 && lc.SiteRPS == 0 && lc.GlobalConcurrency == 0 && lc.GlobalBytes == 0 {
		return nil
	}
	o, err := f.Client(os.LookupEnv)
	if err == nil {
		c.tokens, err = tokens.New(tokens.Config{Redis: o, Deadline: tokenPatience, Clock: c.clk})
	}
	if err != nil {
		return &FleetError{f.Job, err}
	}
	lc.Fleet, lc.FleetName = c.tokens, "crawl/"+f.Job
	return nil
}

// askForTokens asks a server whether it lets us count rates: one that does not would have
// nothing be asked for, ever. Whether it is there at all is no question of ours.
func (c *Crawler) askForTokens(ctx context.Context) error {
	if c.tokens == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tokenPatience)
	defer cancel()
	return redis.Verdict(c.tokens.Ping(ctx))
}

// shareEnds has the job keep count of what bounds all of its processes.
func (c *Crawler) shareEnds(rc *redis.Config) error {
	rc.MaxPages, rc.Use = c.cfg.MaxPages, useOf(c.limiter, c.clk)
	list, err := budgets(&c.cfg.Settings)
	if err != nil || len(list) == 0 {
		return err
	}
	rc.Budget = func(url string) (budget, most int) {
		for i := range list {
			if list[i].Match.MatchString(url) {
				return i + 1, list[i].MaxPages
			}
		}
		return 0, 0
	}
	return nil
}

// useOver is over how long the rates are taken that a process tells of. A budget lets three
// quarters of a second's worth go at once, which in a shorter span would be most of it.
const useOver = 15 * time.Second

// rates are how fast budgets are used, by what had been used of them at instants. It is not
// safe for concurrent use.
type rates struct {
	marks []mark // the oldest first, and no two closer than a second
}

// mark is what had been used of budgets at an instant, by names.
type mark struct {
	at   time.Time
	used map[string]int64
}

// over is what was used a second over the last useOver, or since the first call.
func (r *rates) over(now time.Time, used map[string]int64) map[string]float64 {
	if len(r.marks) == 0 || now.Sub(r.marks[len(r.marks)-1].at) >= time.Second {
		r.marks = append(r.marks, mark{now, used})
	}
	for len(r.marks) > 1 && now.Sub(r.marks[1].at) >= useOver {
		r.marks = r.marks[1:]
	}
	since := &r.marks[0]
	span := max(now.Sub(since.at), time.Second).Seconds() // what goes at once is no rate
	all := make(map[string]float64, len(used))
	for name, n := range used {
		all[name] = float64(n-since.used[name]) / span
	}
	return all
}

// useOf tells what a limiter uses of budgets that processes share, by their settings. It is not
// safe for concurrent use.
func useOf(l *ratelimit.AdaptiveRateLimiter, clk clock.Clock) func() map[string]float64 {
	var speed rates
	return func() map[string]float64 {
		uses := l.BudgetUses()
		if uses == nil {
			return nil
		}
		used := make(map[string]int64, len(uses))
		for _, u := range uses {
			used["ratelimit."+u.Name] = u.Used
		}
		all := speed.over(clk.Now(), used)
		const flight = "ratelimit.global_concurrency"
		if n, ok := used[flight]; ok {
			all[flight] = float64(n) // what is out is out now
		}
		return all
	}
}

// shareSlots asks for this process's share of ratelimit.global_concurrency until ctx ends.
func (c *Crawler) shareSlots(ctx context.Context) {
	plan := c.cfg.RateLimit.GlobalConcurrency
	if plan == 0 || c.tokens == nil {
		return
	}
	told, failed := false, false
	setting := slog.String("setting", "ratelimit.global_concurrency")
	for {
		held, want := c.limiter.Slots()
		want = min(want, c.cfg.Concurrency)
		if c.fleet.store.Statistics().Hosts > 0 {
			want = max(want, 1) // for the next one, which may be due soon
		}
		share, until, err := c.fleet.store.Slots(ctx, plan, held, want)
		switch {
		case err == nil:
			c.limiter.ShareSlots(share, until)
			if failed {
				c.fleet.log.Info("Redis answers for this setting again", setting)
			}
			if failed = false; share == 0 && want > 0 && !told {
				told = true
				c.fleet.log.Info("all that may be out at a time is with other processes: nothing is asked for until they let go of some",
					setting, slog.Int("plan", plan))
			}
		case ctx.Err() == nil && !failed:
			failed = true
			c.fleet.log.Warn("Redis does not say what this process may have out at a time: nothing is begun when what it said last has run out",
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
