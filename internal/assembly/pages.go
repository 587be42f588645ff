package assembly

import (
	"context"
	"iter"
	"time"

	"github.com/treadlight/crawl/internal/pipeline"
)

// Pages crawls like [Crawler.Run] and yields each page as it is visited. A page counts as in flight until the body of
// the loop has ended for it. An error is yielded once, last, with a nil page. Leaving the loop stops the crawl.
func (c *Crawler) Pages(ctx context.Context, seeds ...string) iter.Seq2[*pipeline.Page, error] {
	return func(yield func(*pipeline.Page, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		pages := make(chan *pipeline.Page, pipeline.LoopRoom)
		var err error // error of the run, set before pages is closed
		go func() {
			defer close(pages)
			err = c.start(ctx, pages, seeds, nil)
		}()
		var page *pipeline.Page // the page that the body of the loop has
		// However the loop is left, even by a panic, nothing is left running.
		defer func() {
			cancel()
			if page != nil {
				page.Drop()
			}
			for page := range pages {
				page.Drop()
			}
		}()
		for next := range pages {
			if next.Late() {
				next.Drop()
				continue
			}
			page = next
			more := yield(page, nil)
			page = nil
			if next.Done(); !more {
				c.leave(pages)
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// leave stops a crawl whose loop was left, and waits for its end. After a second it cancels what is in flight.
func (c *Crawler) leave(pages <-chan *pipeline.Page) {
	c.Stop()
	timer := c.clk.NewTimer(time.Second)
	defer timer.Stop()
	for {
		select {
		case page, more := <-pages:
			if !more {
				return
			}
			page.Drop()
		case <-timer.C():
			c.pipe.Cut()
		}
	}
}
