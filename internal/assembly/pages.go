package assembly

import (
	"context"
	"iter"
	"time"

	"github.com/treadlight/crawl/internal/pipeline"
)

// loop passes pages from the goroutines that handle them to the body of a loop, one after another.
type loop struct {
	pages chan *pipeline.Page
	done  chan error      // receives once for each page: nil, or pipeline.ErrDropped
	left  <-chan struct{} // closed when the loop takes no more pages
}

func (l *loop) handle(ctx context.Context, page *pipeline.Page) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case l.pages <- page:
		return <-l.done
	case <-l.left:
		return pipeline.ErrDropped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Pages crawls like [Crawler.Run] and yields each page as it is visited. A page counts as in flight until the body of
// the loop has ended for it. An error is yielded once, last, with a nil page. Leaving the loop stops the crawl.
func (c *Crawler) Pages(ctx context.Context, seeds ...string) iter.Seq2[*pipeline.Page, error] {
	return func(yield func(*pipeline.Page, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		left, leave := context.WithCancel(context.Background())
		l := loop{pages: make(chan *pipeline.Page), done: make(chan error), left: left.Done()}
		over := make(chan struct{})
		var err error // error of the run, set before over is closed
		go func() {
			defer close(over)
			err = c.start(ctx, l.handle, seeds, nil)
		}()
		inBody := false
		defer func() { // however the loop is left, even by a panic, nothing is left running
			cancel()
			leave()
			if inBody {
				l.done <- pipeline.ErrDropped
			}
			<-over
		}()
		for {
			select {
			case page := <-l.pages:
				inBody = true
				more := yield(page, nil)
				inBody = false
				l.done <- nil
				if !more {
					leave()
					c.stopSoon(over)
					return
				}
			case <-over:
				if err != nil {
					yield(nil, err)
				}
				return
			}
		}
	}
}

// stopSoon stops a crawl whose loop was left, and waits for its end. After a second it cancels what is in flight.
func (c *Crawler) stopSoon(over <-chan struct{}) {
	c.Stop()
	timer := c.clk.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C():
		c.pipe.Cut()
	}
}
