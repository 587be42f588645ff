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

const (
	// saveEvery is what a crash costs at most of what was learned. To find a limit takes
	// about as long.
	saveEvery = time.Minute

	// saveSoon is the least time between two saves when a host asks for a pause: a crawl that is
	// killed then and resumed at once must not ask it. A pause that is shorter than that has
	// run out before a process is back, and is worth no save of its own.
	saveSoon = time.Second

	// saveRest is how many times the length of a save passes until the next one at least:
	// however many hosts there are, notes cost a hundredth of a processor at most.
	saveRest = 100
)

// hostMemory keeps what a crawl learns of hosts in the file of ratelimit.remember, and in the
// state of the crawl. There may be none of the two; all methods do nothing then.
type hostMemory struct {
	places  []memory.Place
	limiter *ratelimit.AdaptiveRateLimiter
	clk     clock.Clock
	log     *slog.Logger
	pauses  <-chan struct{} // a host has asked for a pause
	failed  bool            // and that was told
}

// fileMemory is the file or database of ratelimit.remember.
type fileMemory struct{ memory.Place }

// Load is that of the file, its error with the name of the setting.
func (f fileMemory) Load() ([]ratelimit.HostMemory, memory.Damage, error) {
	hosts, damage, err := f.Place.Load()
	if err != nil {
		err = fmt.Errorf("ratelimit.remember: %w", err)
	}
	return hosts, damage, err
}

// stateMemory is the state of the crawl.
type stateMemory struct {
	disk.Rates
	state *State
}

// Load is that of the state.
func (m stateMemory) Load() ([]ratelimit.HostMemory, memory.Damage, error) {
	hosts, damage, err := m.Rates.Load()
	return hosts, damage, stateError(m.state.dir, err)
}

// Save saves. A state that has failed ends the crawl and says so by itself.
func (m stateMemory) Save(ctx context.Context, hosts iter.Seq[ratelimit.HostMemory]) error {
	if err := m.Rates.Save(ctx, hosts); m.state.store.Err() == nil {
		return err
	}
	return nil
}

// memoryFile is the file that the settings name; nil if they name none, or nothing is paced.
func memoryFile(r *config.RateLimit) (memory.Place, error) {
	if r.Remember == "" || !r.Enabled() {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	place, err := memory.At(memory.Config{Path: r.Remember, MaxHosts: r.MaxDomains, MaxWait: r.MaxRetryAfter})
	if err != nil {
		return nil, err
	}
	return fileMemory{place}, nil
}

// CheckMemory reports what is wrong with the file of ratelimit.remember, as a run would. It
// changes nothing and returns nil if there is no such file yet, or none is named.
func CheckMemory(s *Settings) error {
	file, err := memoryFile(&s.RateLimit)
	if err != nil || file == nil {
		return err
	}
	_, _, err = file.Load()
	return err
}

// startMemory recalls what earlier crawls learned and starts what runs beside the crawl. What it
// returns ends that and leaves what was learned to later crawls.
func (c *Crawler) startMemory(ctx context.Context) (leave func(), err error) {
	m := &hostMemory{limiter: c.limiter, clk: c.clk, log: c.log, pauses: c.pauses}
	if c.state != nil && c.cfg.RateLimit.Enabled() {
		m.places = append(m.places, stateMemory{c.state.store.Rates(), c.state})
	}
	if file, err := memoryFile(&c.cfg.RateLimit); err != nil {
		return nil, err
	} else if file != nil {
		m.places = append(m.places, file)
	}
	if err := m.recall(); err != nil {
		return nil, err
	}
	beside, stop := context.WithCancel(ctx)
	var companions sync.WaitGroup
	companions.Go(func() { _ = c.limiter.Run(beside) }) // ends with beside, and has no other error
	companions.Go(func() { m.keep(beside) })
	return func() {
		stop()
		companions.Wait()
		m.failed = false
		m.save(context.WithoutCancel(ctx), "what was learned of hosts could not be kept: later crawls learn it again, unless the file can be written by then") // a crawl that is given up has learned as well
	}, nil
}

// recall loads what there is into the limiter. Of two entries of a host the newer counts.
func (m *hostMemory) recall() error {
	var known []ratelimit.HostMemory
	var names []string
	for _, from := range m.places {
		hosts, damage, err := from.Load()
		if err != nil {
			return err
		}
		if damage.Lines > 0 {
			m.log.Warn("the memory of hosts is damaged; what can be read of it counts", slog.String("file", from.Path()),
				slog.Int("damaged_lines", damage.Lines), slog.Int("first", damage.First), slog.Any("error", damage.Err))
		}
		if len(hosts) > 0 {
			known, names = append(known, hosts...), append(names, from.Path())
		}
	}
	// The limiter takes the first it meets of each host.
	slices.SortStableFunc(known, func(a, b ratelimit.HostMemory) int { return b.LastUsed.Compare(a.LastUsed) })
	if n := m.limiter.Recall(slices.Values(known)); n > 0 {
		m.log.Info("going on from what earlier crawls have learned", slog.Int("hosts", n), slog.String("file", strings.Join(names, ", ")))
	}
	return nil
}

// keep saves now and then until ctx ends, and soon when a host has asked for a pause.
func (m *hostMemory) keep(ctx context.Context) {
	if len(m.places) == 0 {
		return
	}
	for least := time.Duration(0); m.rest(ctx, least) == nil; {
		begun := m.clk.Now()
		m.save(ctx, "what is learned of hosts cannot be kept; the crawl goes on, and tries again")
		least = max(saveSoon, saveRest*m.clk.Since(begun))
	}
}

// rest waits until it is time to save: saveEvery, or after the least rest for a pause.
func (m *hostMemory) rest(ctx context.Context, least time.Duration) error {
	if err := clock.Sleep(ctx, m.clk, least); err != nil {
		return err
	}
	timer := m.clk.NewTimer(saveEvery - min(least, saveEvery))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-m.pauses:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// notePauses passes on what the limiter tells, and notes the pauses that a host asks for. A
// Crawl-delay is none: robots.txt will say it again.
func notePauses(pauses chan<- struct{}, tell func(ratelimit.Event)) func(ratelimit.Event) {
	return func(e ratelimit.Event) {
		if e.HoldMS >= saveSoon.Milliseconds() && e.Cause != control.CauseCrawlDelay {
			select {
			case pauses <- struct{}{}:
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
func (m *hostMemory) save(ctx context.Context, otherwise string) {
	for _, to := range m.places {
		if err := to.Save(ctx, m.limiter.Remember()); err != nil && !m.failed {
			m.failed = true
			m.log.Warn(otherwise, slog.Any("error", err)) //nolint:sloglint // one of the two sentences above
		}
	}
}
