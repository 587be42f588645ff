package job

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/live"
	"github.com/treadlight/crawl/internal/pipeline"
)

// forcedWithin is for how long a crawl that was interrupted twice may write what it has.
const forcedWithin = 2 * time.Second

// shutdownDeadline ends the process when a crawl that is to end has not within grace, whatever
// blocks: a pipe that nobody reads, a disk that does not answer, a page that takes long. What
// is not committed then is visited again by the resume, as after a kill. Its methods are safe
// for concurrent use.
type shutdownDeadline struct {
	grace time.Duration // zero = as long as it takes
	end   func(forced bool)

	mu     sync.Mutex // guards what follows
	timer  *time.Timer
	forced bool
}

// begin has the time run. It runs once, however often the crawl is told to end.
func (o *shutdownDeadline) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer == nil && o.grace > 0 {
		o.timer = time.AfterFunc(o.grace, o.over)
	}
}

// force leaves forcedWithin, and the exit code of a second interrupt.
func (o *shutdownDeadline) force() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forced = true
	if o.timer == nil || o.timer.Stop() {
		o.timer = time.AfterFunc(forcedWithin, o.over)
	}
}

// stop has nothing ended any more: the command has come to its end.
func (o *shutdownDeadline) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
}

func (o *shutdownDeadline) over() {
	o.mu.Lock()
	forced := o.forced
	o.mu.Unlock()
	o.end(forced)
}

// cutOff ends the process, with a word about it if that can be said.
func (j *Job) cutOff(c *crawl.Crawler, view *live.View, forced bool) {
	view.Abort()
	code := make(chan int, 1)
	told := make(chan struct{})
	go func() { // either may wait for what blocks
		defer close(told)
		final := c.Snapshot()
		if final.State == pipeline.EndDone { // but not on its disk
			final.State, final.Reason = pipeline.EndInterrupted, "its output was not written to the end"
		}
		code <- cutCode(final.State, forced)
		j.log.Warn("shutdown deadline passed: ending now; requests in flight are not recorded", slog.Duration("grace", j.Settings.Grace))
		j.cut.Store(true)
		_ = j.tell(&final) // there is nobody to tell of its failure
	}()
	late := time.After(4 * echoTime)
	select {
	case <-told:
	case <-late:
	}
	select {
	case n := <-code:
		os.Exit(n)
	default:
		os.Exit(cutCode(0, forced))
	}
}
