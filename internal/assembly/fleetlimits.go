package assembly

import (
	"context"
	"log/slog"
	"os"
	"time"

	tokens "github.com/treadlight/crawl/internal/admission/redis"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier/redis"
	"github.com/treadlight/crawl/internal/ratelimit"
)

const (
	// tokenPatience is for one question about tokens, which nobody waits for: an answer that
	// is late is worth more than none.
	tokenPatience = time.Second
	// slotsEvery is how often a process asks for its share of the concurrency budget, at most.
	slotsEvery = time.Second
)

// shareRates has the limiter's budgets be those of the whole job, if there are any.
func (f *fleet) shareRates(lc *ratelimit.Config) error {
	c := f.crawl
	if !lc.Enabled || lc.GlobalRPS == 0 && lc.IPRPS == 0 && lc.SiteRPS == 0 && lc.GlobalConcurrency == 0 && lc.GlobalBytes == 0 {
		return nil
	}
	o, err := c.cfg.Fleet.Client(os.LookupEnv)
	if err != nil {
		return err
	}
	if f.tokens, err = tokens.New(tokens.Config{Redis: o, Deadline: tokenPatience, Clock: c.clk}); err != nil {
		return err
	}
	lc.Fleet, lc.FleetName = f.tokens.Shared(c.log), "crawl/"+f.job
	return nil
}

// checkTokens asks a server whether it lets us count rates: one that does not would have
// nothing be asked for, ever. Whether it is there at all is no question of ours.
func (f *fleet) checkTokens(ctx context.Context) error {
	if f.tokens == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tokenPatience)
	defer cancel()
	return redis.Verdict(f.tokens.Ping(ctx))
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
		if f.store.Statistics().Hosts > 0 {
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
				c.log.Info("other processes hold the whole concurrency budget of the fleet; waiting",
					setting, slog.Int("plan", plan))
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
