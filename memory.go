package crawl

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
)

// saveEvery is what a crash costs at most of what was learned. To find a limit takes
// about as long.
const saveEvery = time.Minute

// saveRest is how many times the length of a save passes until the next one at least:
// however many hosts there are, notes cost a hundredth of a processor at most.
const saveRest = 100

// remembrance keeps what a crawl learns of hosts in the file of ratelimit.remember. Its
// file is nil if there is none; all methods do nothing then.
type remembrance struct {
	file    *memory.File
	limiter *ratelimit.AdaptiveRateLimiter
	clk     clock.Clock
	log     *slog.Logger
	failed  bool // and that was told
}

// memoryFile is the file that the settings name; nil if they name none, or nothing is paced.
func memoryFile(r *config.RateLimit) (*memory.File, error) {
	if r.Remember == "" || !r.Enabled() {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	return memory.New(memory.Config{Path: r.Remember, MaxHosts: r.MaxDomains, MaxWait: r.MaxRetryAfter})
}

// CheckMemory reports what is wrong with the file of ratelimit.remember, as a run would:
// before other files are opened, of which one might be replaced in vain. It changes
// nothing and returns nil if there is no such file yet, or none is named.
func CheckMemory(s *Settings) error {
	file, err := memoryFile(&s.RateLimit)
	if err != nil || file == nil {
		return err
	}
	_, _, err = file.Load()
	return memoryError(err)
}

func memoryError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ratelimit.remember: %w", err)
}

// attend recalls what earlier crawls learned and starts what runs beside the crawl.
// What it returns ends that and leaves what was learned to later crawls.
func (c *Crawler) attend(ctx context.Context) (leave func(), err error) {
	r, err := c.recall()
	if err != nil {
		return nil, err
	}
	beside, stop := context.WithCancel(ctx)
	var companions sync.WaitGroup
	companions.Go(func() { _ = c.limiter.Run(beside) }) // ends with beside, and has no other error
	companions.Go(func() { r.keep(beside) })
	return func() {
		stop()
		companions.Wait()
		r.save(context.WithoutCancel(ctx)) // a crawl that is given up has learned as well
	}, nil
}

// recall loads the file into the limiter.
func (c *Crawler) recall() (*remembrance, error) {
	r := &remembrance{limiter: c.limiter, clk: c.clk, log: c.cfg.Log}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	file, err := memoryFile(&c.cfg.RateLimit)
	if err != nil || file == nil {
		return r, err
	}
	hosts, damage, err := file.Load()
	if err != nil {
		return nil, memoryError(err)
	}
	r.file = file
	if damage.Lines > 0 {
		r.log.Warn("the memory of hosts is damaged; what can be read of it counts", slog.String("file", file.Path()),
			slog.Int("damaged_lines", damage.Lines), slog.Int("first", damage.First), slog.Any("error", damage.Err))
	}
	if n := c.limiter.Recall(slices.Values(hosts)); n > 0 {
		r.log.Info("going on from what earlier crawls have learned", slog.Int("hosts", n), slog.String("file", file.Path()))
	}
	return r, nil
}

// keep saves now and then until ctx ends.
func (r *remembrance) keep(ctx context.Context) {
	for rest := saveEvery; r.file != nil && clock.Sleep(ctx, r.clk, rest) == nil; {
		begun := r.clk.Now()
		r.save(ctx)
		rest = max(saveEvery, saveRest*r.clk.Since(begun))
	}
}

// save saves. A crawl does not end because it cannot take notes; it says so once.
func (r *remembrance) save(ctx context.Context) {
	if r.file == nil {
		return
	}
	if err := r.file.Save(ctx, r.limiter.Remember()); err != nil && !r.failed {
		r.failed = true
		r.log.Warn("what is learned of hosts cannot be kept; the crawl goes on, and tries again", slog.Any("error", err))
	}
}
