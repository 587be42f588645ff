package memory

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

const (
	// saveEvery is the time between saves, and so what a crash may lose.
	saveEvery = time.Minute

	// saveSoon is the least time between saves of pauses. These are saved soon, so that a crawl that is killed and
	// resumed obeys them.
	saveSoon = time.Second

	// saveRest is the least pause between saves, as a multiple of the time that a save takes: so saves use 1 % of a
	// processor at most.
	saveRest = 100
)

// Place is where a memory is kept: a [*Database], or the state of a crawl.
type Place interface {
	Path() string
	Load() ([]ratelimit.HostMemory, Damage, error)
	Save(ctx context.Context, hosts iter.Seq[ratelimit.HostMemory]) error
}

// Keeper saves what a limiter learns in any number of places. It is not safe for concurrent use.
type Keeper struct {
	Places  []Place
	Limiter *ratelimit.AdaptiveRateLimiter
	Clock   clock.Clock
	Log     *slog.Logger
	// Pauses receives a value when a host has asked for a pause that should be saved soon; see [NotePauses].
	Pauses <-chan struct{}

	failed bool // the last save failed, which was logged
}

// Recall loads the entries of all places into the limiter. If a host has two entries, the newer counts.
func (k *Keeper) Recall() error {
	var known []ratelimit.HostMemory
	var names []string
	for _, from := range k.Places {
		hosts, damage, err := from.Load()
		if err != nil {
			return err
		}
		if damage.Rows > 0 {
			k.Log.Warn("the memory of hosts is damaged; what can be read of it counts", slog.String("file", from.Path()),
				slog.Int("damaged_rows", damage.Rows), slog.Int("first", damage.First), slog.Any("error", damage.Err))
		}
		if len(hosts) > 0 {
			known, names = append(known, hosts...), append(names, from.Path())
		}
	}
	if n := k.Limiter.Recall(slices.Values(known)); n > 0 {
		k.Log.Info("going on from what earlier crawls have learned", slog.Int("hosts", n), slog.String("file", strings.Join(names, ", ")))
	}
	return nil
}

// Run saves from time to time until ctx ends, and soon after a host has asked for a pause.
func (k *Keeper) Run(ctx context.Context) {
	if len(k.Places) == 0 {
		return
	}
	for least := time.Duration(0); ; {
		if clock.Sleep(ctx, k.Clock, least) != nil {
			return
		}
		timer := k.Clock.NewTimer(saveEvery - min(least, saveEvery))
		select {
		case <-timer.C():
		case <-k.Pauses:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
		begun := k.Clock.Now()
		k.save(ctx, "what is learned of hosts cannot be kept; the crawl goes on, and tries again")
		least = max(saveSoon, saveRest*k.Clock.Since(begun))
	}
}

// SaveLast saves what was learned at the end of a crawl.
func (k *Keeper) SaveLast(ctx context.Context) {
	k.failed = false
	k.save(ctx, "what was learned of hosts could not be kept: later crawls learn it again, unless the file can be written by then")
}

// NotePauses returns a function that passes events on to tell, if that is not nil, and sends to pauses when a host has
// asked for a pause of a second or more, other than by Crawl-delay.
func NotePauses(pauses chan<- struct{}, tell func(ratelimit.Event)) func(ratelimit.Event) {
	return func(e ratelimit.Event) {
		if e.HoldMS >= saveSoon.Milliseconds() && e.Cause != control.CauseCrawlDelay {
			select {
			case pauses <- struct{}{}:
			default: // an earlier value was not received yet
			}
		}
		if tell != nil {
			tell(e)
		}
	}
}

func (k *Keeper) save(ctx context.Context, otherwise string) {
	for _, to := range k.Places {
		// If the end of the crawl interrupts this save, the last save makes up for it.
		if err := to.Save(ctx, k.Limiter.Remember()); err != nil && ctx.Err() == nil && !k.failed {
			k.failed = true
			k.Log.Warn(otherwise, slog.Any("error", err)) //nolint:sloglint // one of the two sentences above
		}
	}
}
