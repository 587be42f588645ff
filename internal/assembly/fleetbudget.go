package assembly

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	tokens "github.com/treadlight/crawl/internal/admission/redis"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier/redis"
	"github.com/treadlight/crawl/internal/ratelimit"
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
	log := c.cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	lc.Fleet, lc.FleetName = &tellingTokens{Repository: c.tokens, log: log, clk: c.clk}, "crawl/"+f.Job
	return nil
}

// foreignEvery is how often a key is told of that something else has put in the place of ours.
const foreignEvery = time.Minute

// tellingTokens says which key has it that nothing is counted, if that is what is wrong: who has
// no tokens asks for nothing, and nobody would know why.
type tellingTokens struct {
	admission.Repository
	log *slog.Logger
	clk clock.Clock

	mu   sync.Mutex // guards what follows
	told time.Time
}

// Take implements [admission.Repository].
func (t *tellingTokens) Take(ctx context.Context, key string, plans []admission.Plan, n int64) (admission.Result, error) {
	res, err := t.Repository.Take(ctx, key, plans, n)
	if foreign, ok := errors.AsType[*tokens.ForeignKeyError](err); ok {
		t.mu.Lock()
		now := t.clk.Now()
		due := t.told.IsZero() || now.Sub(t.told) >= foreignEvery
		if due {
			t.told = now
		}
		t.mu.Unlock()
		if due {
			t.log.Error("a key of Redis by which a rate is counted is none of ours, and nothing that is bound by it is asked for: delete it, and the crawl goes on",
				slog.String("key", foreign.Key), slog.String("fix", "redis-cli DEL '"+foreign.Key+"'"))
		}
	}
	return res, err
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
	rc.MaxPages, rc.Use, rc.Busiest = c.cfg.MaxPages, useOf(c.limiter, c.clk), busiestOf(c.limiter, c.clk)
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

// busiestScopes is how many scopes of each budget a process tells of.
const busiestScopes = 8

// scopeMark is what was used of scopes since the mark before.
type scopeMark struct {
	from, at time.Time
	used     []ratelimit.ScopeUse
}

// busiestOf tells where a limiter uses most of the budgets that each scope has, by their settings,
// over the last useOver. It is not safe for concurrent use.
func busiestOf(l *ratelimit.AdaptiveRateLimiter, clk clock.Clock) func() map[string]map[string]float64 {
	var marks []scopeMark
	last := clk.Now()
	return func() map[string]map[string]float64 {
		now := clk.Now()
		if now.Sub(last) >= time.Second || len(marks) == 0 {
			marks = append(marks, scopeMark{last, now, l.ScopeUses(busiestScopes)})
			last = now
		}
		for len(marks) > 1 && now.Sub(marks[0].at) >= useOver {
			marks = marks[1:]
		}
		var all map[string]map[string]float64
		span := max(last.Sub(marks[0].from), time.Second).Seconds()
		for _, m := range marks {
			for _, u := range m.used {
				name := "ratelimit." + u.Name
				if all == nil {
					all = make(map[string]map[string]float64)
				}
				if all[name] == nil {
					all[name] = make(map[string]float64)
				}
				all[name][u.Scope] += float64(u.Used) / span
			}
		}
		for _, scopes := range all {
			keepBusiest(scopes, busiestScopes)
		}
		return all
	}
}

// keepBusiest keeps the n scopes with the highest rates.
func keepBusiest(scopes map[string]float64, n int) {
	names := slices.SortedFunc(maps.Keys(scopes), func(a, b string) int {
		return cmp.Or(cmp.Compare(scopes[b], scopes[a]), cmp.Compare(a, b))
	})
	for _, name := range names[min(n, len(names)):] {
		delete(scopes, name)
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
