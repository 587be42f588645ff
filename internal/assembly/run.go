package assembly

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/scope"
)

// parseSeed reads a URL as a person types it: a missing scheme means https.
func parseSeed(s string) (canonical.URL, error) {
	if err := checkScheme(s); err != nil {
		return canonical.URL{}, fmt.Errorf("%w: %q: %w", ErrSeed, s, err)
	}
	u, err := canonical.Parse(withScheme(s))
	if err != nil {
		return u, fmt.Errorf("%w: %w", ErrSeed, err)
	}
	return u, nil
}

// quotes are what people copy around URLs, from mails and from tables.
var quotes = [][2]string{{"<", ">"}, {`"`, `"`}, {"'", "'"}, {"“", "”"}, {"«", "»"}}

// unquoted is what a person typed without blanks and a pair of quotes around.
func unquoted(s string) string {
	s = strings.TrimSpace(s)
	for _, q := range quotes {
		if inner, ok := strings.CutPrefix(s, q[0]); ok {
			if inner, ok = strings.CutSuffix(inner, q[1]); ok {
				return strings.TrimSpace(inner)
			}
		}
	}
	return s
}

// noPages are schemes without "//", whose addresses would pass for a host and a port.
var noPages = regexp.MustCompile(`(?i)^(mailto|tel|sms|javascript|data|about|blob|urn|file):`)

// checkScheme refuses what cannot be meant for a URL of the web.
func checkScheme(s string) error {
	s = unquoted(s)
	switch scheme := noPages.FindString(s); {
	case scheme != "":
		return fmt.Errorf("%s addresses have no pages: give a URL with http or https", strings.ToLower(scheme))
	case strings.HasPrefix(s, `"`) || strings.HasPrefix(s, "'") || strings.HasPrefix(s, "“"):
		return errors.New("a quotation mark is in front, and none behind: take it off")
	case strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../"):
		return errors.New("it is the path of a file: give a URL, or --input-file for a list of them")
	case strings.HasPrefix(s, "http:/") && !strings.HasPrefix(s, "http://"), strings.HasPrefix(s, "https:/") && !strings.HasPrefix(s, "https://"),
		strings.HasPrefix(s, "http//"), strings.HasPrefix(s, "https//"):
		return errors.New("two slashes are missing, or the colon: write http:// or https://")
	}
	return nil
}

// withScheme is what a person typed with a scheme in front: https, or http for a port that is
// none of TLS, as other programs have it.
func withScheme(s string) string {
	s = unquoted(s)
	if strings.Contains(s, "://") || s == "" {
		return s
	}
	host, _, _ := strings.Cut(s, "/")
	if _, port, err := net.SplitHostPort(host); err == nil && port != "" && port != "443" && port != "8443" {
		return "http://" + s
	}
	return "https://" + s
}

// Check reports whether every seed is a URL to begin from. The error joins one
// [ErrSeed] for each that is not.
func Check(seeds ...string) error {
	_, err := parseSeeds(seeds)
	return err
}

func parseSeeds(seeds []string) ([]canonical.URL, error) {
	urls := make([]canonical.URL, len(seeds))
	errs := make([]error, len(seeds))
	for i, s := range seeds {
		urls[i], errs[i] = parseSeed(s)
	}
	return urls, errors.Join(errs...)
}

// Run crawls from the seeds until everything in scope is visited, a limit of the
// settings is reached, or [Crawler.Stop] is called, and then returns nil. A seed that
// is no URL is an error before anything is fetched. When ctx ends, Run gives up what is
// under way and returns its error. See [ErrUnreachable] and [ErrBlocked] for the rest.
// A Crawler runs once.
func (c *Crawler) Run(ctx context.Context, seeds ...string) error {
	return c.runAll(ctx, nil, seeds)
}

func (c *Crawler) runAll(ctx context.Context, pages chan *Page, seeds []string) error {
	urls, err := parseSeeds(seeds)
	if err != nil {
		return err
	}
	if err := c.begin(pages); err != nil {
		return err
	}
	return c.run(ctx, urls, nil)
}

// begin lets one run have the crawler. Another one must not get as far as run, which
// at its end closes the client of both.
func (c *Crawler) begin(pages chan *Page) error {
	if c.began.Swap(true) {
		return errors.New("Run was called before: build a new Crawler for another crawl")
	}
	if pages != nil {
		c.pages = pages
		c.pipe.Handle(c.handle)
	}
	return nil
}

// RunSeq is Run with more seeds behind the first, that come as the crawl goes: a million
// of them, or from a pipe. One of them that is no URL is logged and left out. A sequence
// that may have to wait for the next seed must end when ctx does, or when [Crawler.Halted]
// is closed: RunSeq waits for it. One that ends for want of what it reads from should call
// [Crawler.Stop] first, or the state will have it that these were all seeds.
func (c *Crawler) RunSeq(ctx context.Context, more iter.Seq[string], first ...string) error {
	urls, err := parseSeeds(first)
	if err != nil {
		return err
	}
	if err := c.begin(nil); err != nil {
		return err
	}
	log := c.cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return c.run(ctx, urls, func(yield func(canonical.URL) bool) {
		for s := range more {
			u, err := parseSeed(s)
			if err != nil {
				log.Warn("a seed is left out", slog.Any("error", err))
				continue
			}
			c.nameLate(ctx, u)
			if !yield(u) {
				return
			}
		}
	})
}

// run crawls from the first seeds and those that come later; nil: there are none of these.
func (c *Crawler) run(ctx context.Context, first []canonical.URL, later iter.Seq[canonical.URL]) error {
	c.chain.listen(c.cfg.Log)
	defer c.chain.close()
	defer c.settling.Wait() //nolint:errcheck // there is no error
	defer c.id.resolver.Close()
	defer c.client.Close()
	c.tracer.Start()
	defer c.tracer.Close()
	starting, done := c.starting(ctx)
	defer done()
	if c.fleet != nil {
		c.admitSeeds(starting, first)
		return c.runShared(ctx, func() error { return c.crawl(ctx, chainSeeds(first, later)) })
	}
	if c.state == nil {
		c.admitSeeds(starting, first)
		return c.crawl(ctx, chainSeeds(first, later))
	}
	first, err := c.resume(starting, first, later != nil)
	if starting.Err() != nil && errors.Is(err, starting.Err()) {
		err = ctx.Err() // else the pipeline ends at once, and says why
	}
	if err == nil {
		err = c.crawl(ctx, c.noting(ctx, chainSeeds(first, later)))
	}
	return c.state.end(err)
}

// starting is ctx for what comes before the crawl itself. It ends also with Stop, and when MaxTime
// is over, which counts from now or from Config.Began.
func (c *Crawler) starting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.start, cancel)
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

// admitSeeds lets all of them in before the first page is judged by them, and opens what they
// name.
func (c *Crawler) admitSeeds(ctx context.Context, seeds []canonical.URL) {
	c.name(ctx, seeds...)
	for _, u := range seeds {
		c.scope.AddSeed(u)
	}
}

// chainSeeds is the first seeds and then the others.
func chainSeeds(first []canonical.URL, later iter.Seq[canonical.URL]) iter.Seq[canonical.URL] {
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
	leave, err := c.attend(ctx)
	if err != nil {
		return err
	}
	err = c.pipe.Run(ctx, seeds)
	sealed := c.seal()
	leave()
	if err = cmp.Or(err, sealed); err != nil {
		return err
	}
	end, reason := c.pipe.End()
	switch {
	case end == pipeline.EndBlocked:
		return fmt.Errorf("%w: %s", ErrBlocked, reason)
	case end == pipeline.EndUnruled:
		return fmt.Errorf("%w: %s", ErrBlocked, reason)
	case end == pipeline.EndDone && c.pipe.Answered() == 0 && c.pipe.Snapshot().OutOfScope[scope.Excluded.String()] == 0 && !c.answeredBefore():
		return ErrUnreachable
	}
	return nil
}

// Stop ends a crawl in order: nothing new is begun, what is under way is finished and
// recorded, or cancelled when the Grace of the settings is over, and Run returns. It waits
// for an OnPage that does not heed its context and for a sink that blocks. Stop may be called
// at any time and more than once.
func (c *Crawler) Stop() {
	c.stopped.Store(true)
	c.halt()
	c.pipe.Stop()
}

// Halted is closed when no more seeds are wanted: a limit of the settings was reached,
// Stop was called, or the crawl is over.
func (c *Crawler) Halted() <-chan struct{} { return c.pipe.Halted() }

// Stopping is closed when the crawl is to end within the Grace of the settings, because Stop
// was called or MaxTime is over. It stays open if the crawl ends before that.
func (c *Crawler) Stopping() <-chan struct{} { return c.pipe.Stopping() }

// Snapshot tells the state of the crawl, at any time before, during and after it.
func (c *Crawler) Snapshot() Snapshot { return c.pipe.Snapshot() }

// Pages crawls like [Crawler.Run] and yields each page as it is visited. The page and
// its body belong to the caller. The crawl goes no faster than the loop takes pages,
// and leaving the loop ends it. An error is yielded once, last, with a nil page.
func (c *Crawler) Pages(ctx context.Context, seeds ...string) iter.Seq2[*Page, error] {
	return func(yield func(*Page, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		pages := make(chan *Page)
		var err error // of the run, once pages is closed
		var running sync.WaitGroup
		running.Go(func() {
			defer close(pages)
			err = c.runAll(ctx, pages, seeds)
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
func (c *Crawler) handle(ctx context.Context, page *Page) error {
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
