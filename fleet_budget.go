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

// useOf tells what a limiter uses of budgets that processes share: of rates what it was since it
// was told before. It is not safe for concurrent use.
func useOf(l *ratelimit.AdaptiveRateLimiter, clk clock.Clock) func() map[string]float64 {
	before, at := map[string]int64{}, clk.Now()
	return func() map[string]float64 {
		uses := l.BudgetUses()
		if uses == nil {
			return nil
		}
		now := clk.Now()
		all := make(map[string]float64, len(uses))
		for _, u := range uses {
			name := "ratelimit." + u.Name
			if name == "ratelimit.global_concurrency" {
				all[name] = float64(u.Used)
			} else if span := now.Sub(at).Seconds(); span > 0 {
				all[name] = float64(u.Used-before[u.Name]) / span
			}
			before[u.Name] = u.Used
		}
		at = now
		return all
	}
}

// shareSlots asks for this process's share of ratelimit.global_concurrency until ctx ends.
func (c *Crawler) shareSlots(ctx context.Context) {
	plan := c.cfg.RateLimit.GlobalConcurrency
	if plan == 0 || c.tokens == nil {
		return
	}
	told := false
	for {
		out, want := c.limiter.Slots()
		share, until, err := c.fleet.store.Slots(ctx, plan, out, max(1, min(want, c.cfg.Concurrency)))
		if err == nil {
			c.limiter.ShareSlots(share, until)
			if share == 0 && !told {
				told = true
				c.fleet.log.Info("all that may be out at a time is with other processes: nothing is asked for until they let go of some",
					slog.String("setting", "ratelimit.global_concurrency"), slog.Int("plan", plan))
			}
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
