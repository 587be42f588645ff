package admissiontest

import (
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Clock is a clock moved by hand, back too, which no other clock of a test can be. Its
// timers run in real time: those who wait for an answer, or to gather a batch, are to get
// it though the clock stands still. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

var _ clock.Clock = (*Clock)(nil)

// start is no border of any window that the suite uses but those of whole milliseconds.
var start = time.Date(2026, 3, 4, 5, 6, 7, 890e6, time.UTC)

// NewClock returns a clock that stands somewhere in 2026, at a whole millisecond.
func NewClock() *Clock { return &Clock{now: start} }

// Now is where the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Since is the time from t to where the clock stands, less than zero if it was moved back.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Move moves the clock by d, which may be less than zero. Repositories count in
// microseconds; the suite moves it by whole ones.
func (c *Clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Set moves the clock to t.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// NewTimer returns a timer of the system's clock.
func (c *Clock) NewTimer(d time.Duration) clock.Timer { return clock.System().NewTimer(d) }
