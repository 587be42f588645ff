package assembly

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
)

// saveEvery is what a crash costs at most of what was learned. To find a limit takes
// about as long.
const saveEvery = time.Minute

// saveSoon is the least time between two saves when a host orders to wait: a crawl that is
// killed then and resumed at once must not ask it. An order that is shorter than that has
// run out before a process is back, and is worth no save of its own.
const saveSoon = time.Second

// saveRest is how many times the length of a save passes until the next one at least:
// however many hosts there are, notes cost a hundredth of a processor at most.
const saveRest = 100

// remembrance keeps what a crawl learns of hosts in the file of ratelimit.remember, and in
// the state of the crawl. There may be none of the two; all methods do nothing then.
type remembrance struct {
	places  []memory.Place
	limiter *ratelimit.AdaptiveRateLimiter
	clk     clock.Clock
	log     *slog.Logger
	owed    <-chan struct{} // a host has ordered to wait
	failed  bool            // and that was told
}

// fileRates is the file or database of ratelimit.remember.
type fileRates struct{ memory.Place }

// Load is that of the file, its error with the name of the setting.
func (f fileRates) Load() ([]ratelimit.HostMemory, memory.Damage, error) {
	hosts, damage, err := f.Place.Load()
	return hosts, damage, memoryError(err)
}

// stateRates is the state of the crawl.
type stateRates struct {
	disk.Rates
	state *State
}

// Load is that of the state.
func (r stateRates) Load() ([]ratelimit.HostMemory, memory.Damage, error) {
	hosts, damage, err := r.Rates.Load()
	return hosts, damage, stateError(r.state.dir, err)
}

// Save saves. A state that has failed ends the crawl and says so by itself.
func (r stateRates) Save(ctx context.Context, hosts iter.Seq[ratelimit.HostMemory]) error {
	if err := r.Rates.Save(ctx, hosts); r.state.store.Err() == nil {
		return err
	}
	return nil
}

// memoryFile is the file that the settings name; nil if they name none, or nothing is paced.
func memoryFile(r *config.RateLimit) (memory.Place, error) {
	if r.Remember == "" || !r.Enabled() {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	return memory.At(memory.Config{Path: r.Remember, MaxHosts: r.MaxDomains, MaxWait: r.MaxRetryAfter})
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
		r.failed = false
		r.save(context.WithoutCancel(ctx), "what was learned of hosts could not be kept: later crawls learn it again, unless the file can be written by then") // a crawl that is given up has learned as well
	}, nil
}

// recall loads what there is into the limiter. Of two entries of a host the newer counts.
func (c *Crawler) recall() (*remembrance, error) {
	r := &remembrance{limiter: c.limiter, clk: c.clk, log: c.cfg.Log, owed: c.owed}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if c.state != nil && c.cfg.RateLimit.Enabled() {
		r.places = append(r.places, stateRates{c.state.store.Rates(), c.state})
	}
	if file, err := memoryFile(&c.cfg.RateLimit); err != nil {
		return nil, err
	} else if file != nil {
		r.places = append(r.places, fileRates{file})
	}
	var known []ratelimit.HostMemory
	var names []string
	for _, from := range r.places {
		hosts, damage, err := from.Load()
		if err != nil {
			return nil, err
		}
		if damage.Lines > 0 {
			r.log.Warn("the memory of hosts is damaged; what can be read of it counts", slog.String("file", from.Path()),
				slog.Int("damaged_lines", damage.Lines), slog.Int("first", damage.First), slog.Any("error", damage.Err))
		}
		if len(hosts) > 0 {
			known, names = append(known, hosts...), append(names, from.Path())
		}
	}
	// The limiter takes the first it meets of each host.
	slices.SortStableFunc(known, func(a, b ratelimit.HostMemory) int { return b.LastUsed.Compare(a.LastUsed) })
	if n := c.limiter.Recall(slices.Values(known)); n > 0 {
		r.log.Info("going on from what earlier crawls have learned", slog.Int("hosts", n), slog.String("file", strings.Join(names, ", ")))
	}
	return r, nil
}

// keep saves now and then until ctx ends, and soon when a host has ordered to wait.
func (r *remembrance) keep(ctx context.Context) {
	if len(r.places) == 0 {
		return
	}
	for least := time.Duration(0); r.rest(ctx, least) == nil; {
		begun := r.clk.Now()
		r.save(ctx, "what is learned of hosts cannot be kept; the crawl goes on, and tries again")
		least = max(saveSoon, saveRest*r.clk.Since(begun))
	}
}

// rest waits until it is time to save: saveEvery, or after the least rest for an order.
func (r *remembrance) rest(ctx context.Context, least time.Duration) error {
	if err := clock.Sleep(ctx, r.clk, least); err != nil {
		return err
	}
	timer := r.clk.NewTimer(saveEvery - min(least, saveEvery))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-r.owed:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// watched is what the limiter tells, passed on, where an order to wait is noticed. A
// Crawl-delay is none: robots.txt will say it again.
func watched(owed chan<- struct{}, tell func(Event)) func(Event) {
	return func(e Event) {
		if e.HoldMS >= saveSoon.Milliseconds() && e.Cause != control.CauseCrawlDelay {
			select {
			case owed <- struct{}{}:
			default: // there is one that was not seen yet
			}
		}
		if tell != nil {
			tell(e)
		}
	}
}

// save saves. A crawl does not end because it cannot take notes; it says so once while it
// goes on, and at its end.
func (r *remembrance) save(ctx context.Context, otherwise string) {
	for _, to := range r.places {
		if err := to.Save(ctx, r.limiter.Remember()); err != nil && !r.failed {
			r.failed = true
			r.log.Warn(otherwise, slog.Any("error", err)) //nolint:sloglint // one of the two sentences above
		}
	}
}
