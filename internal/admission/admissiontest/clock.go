package admissiontest

import (
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Clock is a clock moved by hand, back too, which no other clock of a test can be. Its
// timers run in real time: those who wait for an answer, or to gather a batch, are to get
// it though the clock stands still. It is safe for concurrent use.
type Clock struct {
	clock.Clock              // the system's, for its timers
	after       atomic.Int64 // nanoseconds after start
}

// start is no border of any window that the suite uses but those of whole milliseconds.
var start = time.Date(2026, 3, 4, 5, 6, 7, 890e6, time.UTC)

// NewClock returns a clock that stands somewhere in 2026, at a whole millisecond.
func NewClock() *Clock { return &Clock{Clock: clock.System()} }

// Now is where the clock stands.
func (c *Clock) Now() time.Time { return start.Add(time.Duration(c.after.Load())) }

// Since is the time from t to where the clock stands, less than zero if it was moved back.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Move moves the clock by d, which may be less than zero. Repositories count in
// microseconds; the suite moves it by whole ones.
func (c *Clock) Move(d time.Duration) { c.after.Add(int64(d)) }

// Set moves the clock to t, which is within 292 years.
func (c *Clock) Set(t time.Time) { c.after.Store(int64(t.Sub(start))) }
