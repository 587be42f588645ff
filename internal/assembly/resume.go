package assembly

import (
	"context"
	"iter"
	"log/slog"

	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// join has the pipeline kept in the state, in a new round if one was asked for.
func (s *State) join(pc *pipeline.Config, settings Settings) error {
	if err := s.beginRound(settings); err != nil {
		return err
	}
	pc.State, pc.Key, pc.Pages, s.sinks = s.store, s.store.Key(), int(s.pages), durablesOf(pc.Sinks, pc.Archives)
	pc.Round, pc.Unconditional = s.store.Round(), !settings.Fetch.Conditional
	return nil
}

// resume brings back what earlier runs of the crawl had, if there were any, and notes what
// this one is about. It may end with ctx before it is done; nothing may be leased then. It returns the seeds to begin with: those given, and before them those
// of a run that ended before all of them were in the state.
func (c *Crawler) resume(ctx context.Context, given []canonical.URL, more bool) ([]canonical.URL, error) {
	early, err := parseSeeds(c.state.seeds)
	if err != nil {
		return nil, stateError(c.state.dir, err)
	}
	if err := c.restore(ctx); err != nil {
		return nil, err
	}
	if err := c.recount(ctx); err != nil {
		return nil, err
	}
	for _, u := range early {
		c.readmit(u, true)
	}
	c.admitSeeds(ctx, given) // before what they open is kept
	seeds := append(early, given...)
	return seeds, c.state.begin(ctx, c.cfg.Settings, spellings(seeds), more)
}

// recountTold is how many URLs take long enough to be told of: with one pattern two to
// three seconds.
const recountTold = 1_000_000

// recount has the budgets of patterns as earlier runs have left them. The state has no
// counters for them, as the patterns may be others now.
func (c *Crawler) recount(ctx context.Context) error {
	if !c.state.resumed || len(c.cfg.Scope.Budgets) == 0 {
		return nil
	}
	store := c.state.store
	if n := store.Left().Known; n >= recountTold && c.cfg.Log != nil {
		c.cfg.Log.Info("counting the URLs of earlier runs for scope.budgets", slog.Int64("urls", n))
	}
	err := c.pipe.Recount(func(yield func(string, error) bool) {
		for u, err := range store.URLs() {
			if ctx.Err() != nil || !yield(u, err) {
				return
			}
		}
	})
	return stateError(c.state.dir, err)
}

func spellings(urls []canonical.URL) []string {
	all := make([]string, len(urls))
	for i, u := range urls {
		all[i] = u.String()
	}
	return all
}

// noting notes in the state when all seeds are there. Those that were cut short by a limit,
// by Stop or by the end of ctx are not all.
func (c *Crawler) noting(ctx context.Context, seeds iter.Seq[canonical.URL]) iter.Seq[canonical.URL] {
	return func(yield func(canonical.URL) bool) {
		for u := range seeds {
			if !yield(u) {
				return
			}
		}
		// Discovery has taken the last one out of our hands. When it looks up again it has
		// stored it.
		c.pipe.Revise()
		select {
		case <-c.pipe.Halted():
			return
		default:
		}
		if !c.stopped.Load() && ctx.Err() == nil {
			c.state.seeded()
		}
	}
}

// seal ends the last batch of a run: what was told of tries and seeds since the one before,
// what Reload has changed, and why it came to its end. While it is open, learned rates could not be saved.
func (c *Crawler) seal() error {
	if c.state == nil {
		return nil
	}
	c.reloading.Lock()
	settings := c.inForce
	c.reloading.Unlock()
	err := c.state.keep(settings)
	end, _ := c.pipe.End()
	c.state.ended(end)
	c.state.store.Commit(nil)
	return err
}

// answeredBefore reports whether an earlier run found a seed to crawl from, or whether there
// was nothing to ask for.
func (c *Crawler) answeredBefore() bool {
	return c.fleet != nil && c.fleet.answered() || c.state != nil && (c.state.pages > 0 || c.state.resumed && c.state.store.Left().Queued == 0)
}

// Checkpoint waits until all that was written so far is on the disk, with the state of the
// crawl as of then, so that a copy of the directory and of the sinks' files is one of a crawl
// that can be resumed. Without a state it does nothing. It may be called at any time.
func (c *Crawler) Checkpoint(ctx context.Context) error {
	if c.state == nil {
		return nil
	}
	return stateError(c.state.dir, c.state.store.Flush(ctx))
}
