package assembly

import (
	"bytes"
	"context"
	"iter"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/pipeline"
)

// turn is a page that a loop looks at. The crawl counts it as under way until the loop is done with it.
type turn struct {
	page *pipeline.Page
	over chan struct{}
}

// Pages crawls like [Crawler.Run] and yields each page as it is visited. An error is yielded once, last, with a nil
// page. A loop that is left stops the crawl.
func (c *Crawler) Pages(ctx context.Context, seeds ...string) iter.Seq2[*pipeline.Page, error] {
	return func(yield func(*pipeline.Page, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		turns := make(chan turn)
		var err error // of the run, once turns is closed
		var running sync.WaitGroup
		running.Go(func() {
			defer close(turns)
			err = c.start(ctx, turns, seeds, nil)
		})
		// However the loop is left, a panic in it included, nothing is left running.
		defer running.Wait()
		defer cancel()
		for t := range turns {
			more := yield(t.page, nil)
			if close(t.over); !more {
				c.leave(running.Wait)
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// leave stops a crawl whose loop was left, and waits for its end. What is under way has a second.
func (c *Crawler) leave(wait func()) {
	close(c.left)
	c.Stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait()
	}()
	timer := c.clk.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-timer.C():
		c.pipe.Cut()
	case <-ended:
	}
	<-ended
}

// handle passes a page to OnPage, and to who ranges over Pages, to keep.
func (c *Crawler) handle(ctx context.Context, page *pipeline.Page) error {
	if c.cfg.OnPage != nil {
		if err := c.cfg.OnPage(ctx, page); err != nil {
			return err
		}
	}
	page.Body = bytes.Clone(page.Body) // all else is this page's alone, or its record's, which nobody changes
	t := turn{page, make(chan struct{})}
	select {
	case c.turns <- t:
	case <-c.left:
		return pipeline.ErrNotHandled
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-t.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
