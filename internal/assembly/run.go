package assembly

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"

	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/scope"
)

// Check reports whether every seed is a URL to begin from. The error joins one [ErrSeed] for
// each that is not.
func Check(seeds ...string) error {
	_, err := parseSeeds(seeds)
	return err
}

func parseSeed(s string) (canonical.URL, error) {
	u, err := canonical.ParseTyped(s)
	if err != nil {
		return u, fmt.Errorf("%w: %w", ErrSeed, err)
	}
	return u, nil
}

func parseSeeds(seeds []string) ([]canonical.URL, error) {
	urls := make([]canonical.URL, len(seeds))
	errs := make([]error, len(seeds))
	for i, s := range seeds {
		urls[i], errs[i] = parseSeed(s)
	}
	return urls, errors.Join(errs...)
}

// Run crawls from the seeds until everything in scope is visited, a limit of the settings is
// reached, or [Crawler.Stop] is called. A Crawler runs once.
func (c *Crawler) Run(ctx context.Context, seeds ...string) error {
	return c.start(ctx, nil, seeds, nil)
}

// RunSeq is Run with more seeds behind the first, that come as the crawl goes. One of them that is
// no URL is logged and left out.
func (c *Crawler) RunSeq(ctx context.Context, more iter.Seq[string], first ...string) error {
	return c.start(ctx, nil, first, func(yield func(canonical.URL) bool) {
		for s := range more {
			u, err := parseSeed(s)
			if err != nil {
				c.log.Warn("a seed is left out", slog.Any("error", err))
				continue
			}
			c.named.addLate(ctx, u)
			if !yield(u) {
				return
			}
		}
	})
}

// start lets one run have the crawler: another one must not get as far as run, which at its end
// closes the client of both.
func (c *Crawler) start(ctx context.Context, pages chan *pipeline.Page, first []string, later iter.Seq[canonical.URL]) error {
	urls, err := parseSeeds(first)
	if err != nil {
		return err
	}
	if c.began.Swap(true) {
		return errors.New("Run was called before: build a new Crawler for another crawl")
	}
	if pages != nil {
		c.pages = pages
		c.pipe.Handle(c.handle)
	}
	return c.run(ctx, urls, later)
}

// run crawls from the first seeds and those that come later; nil: there are none of these.
func (c *Crawler) run(ctx context.Context, first []canonical.URL, later iter.Seq[canonical.URL]) error {
	c.policies.logTo(c.cfg.Log)
	defer c.policies.close()
	defer c.named.lookups.Wait() //nolint:errcheck // there is no error
	defer c.id.resolver.Close()
	defer c.client.Close()
	c.tracer.Start()
	defer c.tracer.Close()
	starting, done := c.starting(ctx)
	defer done()
	if c.fleet != nil {
		c.admitSeeds(starting, first)
		return c.fleet.run(ctx, func() error { return c.crawl(ctx, chain(first, later)) })
	}
	if c.state == nil {
		c.admitSeeds(starting, first)
		return c.crawl(ctx, chain(first, later))
	}
	first, err := c.resume(starting, first, later != nil)
	if starting.Err() != nil && errors.Is(err, starting.Err()) {
		err = ctx.Err() // else the pipeline ends at once, and says why
	}
	if err == nil {
		err = c.crawl(ctx, c.noteSeeded(ctx, chain(first, later)))
	}
	return c.state.end(err)
}

// starting is ctx for what comes before the crawl itself. It ends also with Stop, and when MaxTime
// is over, which counts from now or from Config.Began.
func (c *Crawler) starting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.stopped, cancel)
	if c.cfg.MaxTime <= 0 || c.fleet != nil { // that of a fleet counts from when its job was made
		return ctx, func() { stop(); cancel() }
	}
	began := c.cfg.Began
	if began.IsZero() {
		began = c.clk.Now()
	}
	c.pipe.CountFrom(began)
	limit := c.clk.NewTimer(c.cfg.MaxTime - c.clk.Since(began))
	go func() {
		defer limit.Stop()
		select {
		case <-limit.C():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { stop(); cancel() }
}

// admitSeeds takes all of them into the scope before the first page is judged by them, and allows
// what they name.
func (c *Crawler) admitSeeds(ctx context.Context, seeds []canonical.URL) {
	c.named.add(ctx, seeds...)
	for _, u := range seeds {
		c.scope.AddSeed(u)
	}
}

// chain is the first seeds and then the others.
func chain(first []canonical.URL, later iter.Seq[canonical.URL]) iter.Seq[canonical.URL] {
	return func(yield func(canonical.URL) bool) {
		for _, u := range first {
			if !yield(u) {
				return
			}
		}
		if later != nil {
			later(yield)
		}
	}
}

// crawl runs the pipeline, with what goes on beside it, and tells its end.
func (c *Crawler) crawl(ctx context.Context, seeds iter.Seq[canonical.URL]) error {
	leave, err := c.startMemory(ctx)
	if err != nil {
		return err
	}
	err = c.pipe.Run(ctx, seeds)
	noted := c.noteEnd()
	leave()
	if err = cmp.Or(err, noted); err != nil {
		return err
	}
	switch end, reason := c.pipe.End(); end {
	case pipeline.EndBlocked, pipeline.EndUnruled:
		return fmt.Errorf("%w: %s", ErrBlocked, reason)
	case pipeline.EndDone:
		excluded := c.pipe.Snapshot().OutOfScope[scope.Excluded.String()]
		if c.pipe.Answered() == 0 && excluded == 0 && !c.answeredBefore() {
			return ErrUnreachable
		}
	}
	return nil
}

// answeredBefore reports whether an earlier run found a seed to crawl from, or whether there
// was nothing to ask for.
func (c *Crawler) answeredBefore() bool {
	return c.fleet != nil && c.fleet.answered() || c.state != nil && (c.state.pages > 0 || c.state.resumed && c.state.store.Left().Queued == 0)
}

// Stop ends a crawl in order: nothing new is begun, and what is under way is finished, or
// cancelled when the Grace of the settings is over.
func (c *Crawler) Stop() {
	c.stop()
	c.pipe.Stop()
}

// Halted is closed when no more seeds are wanted.
func (c *Crawler) Halted() <-chan struct{} { return c.pipe.Halted() }

// Stopping is closed when the crawl is to end within the Grace of the settings.
func (c *Crawler) Stopping() <-chan struct{} { return c.pipe.Stopping() }

// Snapshot tells the state of the crawl, at any time before, during and after it.
func (c *Crawler) Snapshot() pipeline.Snapshot { return c.pipe.Snapshot() }

// Pages crawls like [Crawler.Run] and yields each page as it is visited. An error is yielded once,
// last, with a nil page.
func (c *Crawler) Pages(ctx context.Context, seeds ...string) iter.Seq2[*pipeline.Page, error] {
	return func(yield func(*pipeline.Page, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		pages := make(chan *pipeline.Page)
		var err error // of the run, once pages is closed
		var running sync.WaitGroup
		running.Go(func() {
			defer close(pages)
			err = c.start(ctx, pages, seeds, nil)
		})
		// However the loop is left, a panic in it included, nothing is left running.
		defer running.Wait()
		defer cancel()
		for page := range pages {
			if !yield(page, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// handle passes a page to who ranges over Pages, and to OnPage.
func (c *Crawler) handle(ctx context.Context, page *pipeline.Page) error {
	own := *page
	own.Body = bytes.Clone(page.Body)
	own.Links, own.Resources = slices.Clone(page.Links), slices.Clone(page.Resources)
	select {
	case c.pages <- &own:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.cfg.OnPage != nil {
		return c.cfg.OnPage(ctx, page)
	}
	return nil
}
