package assembly

import (
	"context"
	"iter"
	"log/slog"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// resume brings back what earlier runs of the crawl had, if there were any, and notes what
// this one is about. It may end with ctx before it is done; nothing may be leased then. It returns
// the seeds to begin with: those given, and before them those of a run that ended before all of
// them were in the state.
func (c *Crawler) resume(ctx context.Context, given []canonical.URL, more bool) ([]canonical.URL, error) {
	early, err := parseSeeds(c.state.seeds)
	if err != nil {
		return nil, stateError(c.state.dir, err)
	}
	if err := c.named.restore(ctx, c.state); err != nil {
		return nil, err
	}
	for it, err := range c.state.store.Seeds() {
		if err != nil {
			return nil, stateError(c.state.dir, err)
		}
		if ctx.Err() != nil {
			break
		}
		c.readmit(it.URL, it.Hops == 0)
	}
	if err := c.recount(ctx); err != nil {
		return nil, err
	}
	seeds := make([]string, 0, len(early)+len(given))
	for _, u := range early {
		c.readmit(u, true)
		seeds = append(seeds, u.String())
	}
	c.admitSeeds(ctx, given) // before what they allow is kept
	for _, u := range given {
		seeds = append(seeds, u.String())
	}
	return append(early, given...), c.state.begin(ctx, c.cfg.Settings, seeds, more)
}

// readmit lets in what a seed of an earlier run let in. Credentials are for the hosts of those
// that were given, not of those they redirected to. No addresses are allowed but those that were
// then: the other seeds were public, or did not come from the user.
func (c *Crawler) readmit(u canonical.URL, given bool) {
	c.named.addresses.Shut(u.Hostname())
	if given {
		c.named.trust(u)
	}
	c.scope.AddSeed(u)
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
	if n := store.Left().Known; n >= recountTold {
		c.log.Info("counting the URLs of earlier runs for scope.budgets", slog.Int64("urls", n))
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

// noteSeeded notes in the state when all seeds are there. Those that were cut short by a limit,
// by Stop or by the end of ctx are not all.
func (c *Crawler) noteSeeded(ctx context.Context, seeds iter.Seq[canonical.URL]) iter.Seq[canonical.URL] {
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
		if c.stopped.Err() == nil && ctx.Err() == nil {
			// It becomes durable with the batch that ends next: to end one here would cut the
			// frontier's in two.
			c.state.store.SetMeta(metaAllSeeds, yes)
		}
	}
}

// noteEnd ends the last batch of a run: what was told of tries and seeds since the one before,
// what Reload has changed, and why it came to its end. While it is open, learned rates could not
// be saved.
func (c *Crawler) noteEnd() error {
	if c.state == nil {
		return nil
	}
	err := c.state.keep(c.changes.settings())
	end, _ := c.pipe.End()
	c.state.noteEnd(end)
	c.state.store.Commit(nil)
	return err
}

// Checkpoint waits until all that was written so far is on the disk, with the state of the
// crawl as of then. Without a state it does nothing.
func (c *Crawler) Checkpoint(ctx context.Context) error {
	if c.state == nil {
		return nil
	}
	return stateError(c.state.dir, c.state.store.Flush(ctx))
}
