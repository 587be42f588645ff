package simulate

import (
	"context"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// forever is later than the end of every run, with room for sums.
const forever = clock.Instant(1 << 61)

// virtual is the time of one run. Only its driver moves it and only its driver's
// goroutine reads it, so it needs no lock.
type virtual struct{ now clock.Instant }

// epoch is where runs begin: 2026. Any date will do.
func epoch() time.Time { return time.Unix(1_767_225_600, 0).UTC() }

func (v *virtual) Now() time.Time                  { return epoch().Add(time.Duration(v.now)) }
func (v *virtual) Since(t time.Time) time.Duration { return v.Now().Sub(t) }

// NewTimer returns a timer that never fires: nobody waits in a run.
func (v *virtual) NewTimer(time.Duration) clock.Timer { return idle{} }

type idle struct{}

func (idle) C() <-chan time.Time      { return nil }
func (idle) Stop() bool               { return true }
func (idle) Reset(time.Duration) bool { return true }

// impatient is the context of a caller who takes a permit now or not at all. Its
// deadline is the present; and where the engine would wait for an answer, of which
// it cannot know the time, the context ends as soon as somebody begins to wait for
// its end. One goroutine would wait for itself otherwise.
type impatient struct {
	clock   *virtual
	ended   chan struct{} // closed
	waiting bool          // somebody has begun to wait
}

func newImpatient(v *virtual) *impatient {
	c := &impatient{clock: v, ended: make(chan struct{})}
	close(c.ended)
	return c
}

func (c *impatient) Deadline() (time.Time, bool) { return c.clock.Now(), true }
func (c *impatient) Value(any) any               { return nil }

func (c *impatient) Done() <-chan struct{} {
	c.waiting = true
	return c.ended
}

func (c *impatient) Err() error {
	if c.waiting {
		return context.DeadlineExceeded
	}
	return nil
}
