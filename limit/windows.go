package limit

import (
	"math/bits"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// WindowConfig is a number of permits in a window of time.
type WindowConfig struct {
	Permits int64         // how many there are per window; at least 1. Zero is an error.
	Per     time.Duration // the length of a window; positive. Zero is an error.
}

// FixedWindow grants so many permits in each window. Windows follow each other without gaps from
// the limiter's start, so around the border of two there can be twice as many.
type FixedWindow struct {
	core
	state counter
}

// SlidingWindow is the sliding-window counter. It counts per window as [FixedWindow] does, and supposes that the
// permits of the window before were spread evenly over it: it grants a permit while the estimate before it,
// previous·(1−elapsed/window) + current, is below Permits, and n as if they were asked for one after another. So a
// client that asks Permits times per window, evenly, is never refused. It is wrong by as much as the supposition is.
//
// The estimate is of the window that ends with the present nanosecond: elapsed includes it. Who
// comes exactly one window after a burst finds a permit.
type SlidingWindow struct {
	core
	state counter
}

var _, _ Weighted = (*FixedWindow)(nil), (*SlidingWindow)(nil)

// NewFixedWindow returns a limiter whose first window begins now.
func NewFixedWindow(cfg WindowConfig, opts ...Option) (*FixedWindow, error) {
	return of(Spec{Kind: KindFixedWindow, Permits: cfg.Permits, Per: cfg.Per}, opts, newFixedWindow)
}

func newFixedWindow(set *settings) *FixedWindow {
	l := &FixedWindow{state: counter{set: set}}
	l.init(set, &l.state)
	return l
}

// NewSlidingWindow returns a limiter whose first window begins now, after an empty one.
func NewSlidingWindow(cfg WindowConfig, opts ...Option) (*SlidingWindow, error) {
	return of(Spec{Kind: KindSlidingWindow, Permits: cfg.Permits, Per: cfg.Per}, opts, newSlidingWindow)
}

func newSlidingWindow(set *settings) *SlidingWindow {
	l := &SlidingWindow{state: counter{set: set}}
	l.init(set, &l.state)
	return l
}

// counter is the algorithm of both windows: of a fixed one the window before never counts.
type counter struct {
	start             clock.Instant // of the current window
	previous, current int64         // each up to max
	set               *settings
}

// advance moves on by whole windows, so that a late caller does not shift the grid.
func (c *counter) advance(now clock.Instant) {
	passed, per := now.Sub(c.start), c.set.spec.Per
	if passed < per {
		return
	}
	c.previous = 0
	if passed-per < per && c.set.spec.Kind == KindSlidingWindow { // not 2·per, which may be past the range
		c.previous = c.current
	}
	c.current = 0
	c.start = c.start.Add(passed - passed%per)
}

func (c *counter) take(now clock.Instant, n int64) bool {
	if c.wait(now, n) > 0 {
		return false
	}
	c.current += n
	return true
}

// wait solves the admission rule for elapsed. In this window what is left of previous must be
// less than room = max−current−(n−1); if there is no room, the next window begins with current as
// previous, and what is asked of that one is the same question.
func (c *counter) wait(now clock.Instant, n int64) time.Duration {
	c.advance(now)
	elapsed := now.Sub(c.start)
	if room := c.set.max - c.current - (n - 1); room > 0 {
		return max(0, c.fades(c.previous, room)-elapsed)
	}
	next := c.set.spec.Per - elapsed
	if c.set.spec.Kind == KindFixedWindow {
		return next
	}
	return addWaits(next, c.fades(c.current, c.set.max-(n-1)))
}

// fades is how far into a window less than room, which is above 0, counts of the one before: the
// first nanosecond e with previous·(per−e−1) < room·per.
func (c *counter) fades(previous, room int64) time.Duration {
	if previous <= room {
		return 0
	}
	hi, lo := bits.Mul64(uint64(room), uint64(c.set.spec.Per))
	q, rest := bits.Div64(hi, lo, uint64(previous)) // below per, as room is below previous
	if rest > 0 {
		q++
	}
	return c.set.spec.Per - time.Duration(q)
}

// available rounds what is left of the previous count down, as the rule does: a permit is there
// while the estimate before it is below max.
func (c *counter) available(now clock.Instant) int64 {
	c.advance(now)
	left := c.set.spec.Per - now.Sub(c.start) - 1
	hi, lo := bits.Mul64(uint64(c.previous), uint64(left))
	fading, _ := bits.Div64(hi, lo, uint64(c.set.spec.Per)) // below previous, as left is below per
	return max(0, c.set.max-c.current-int64(fading))
}

// standing has what is left of a fixed window last until one more would come with the next.
func (c *counter) standing(now clock.Instant) Standing {
	left, per := c.available(now), c.set.spec.Per
	s := Standing{Limit: c.set.max, Window: per, Left: left, Lasts: part(per, left, c.set.max)}
	if c.set.spec.Kind == KindFixedWindow {
		s.Lasts = part(per-now.Sub(c.start), left, left+1)
	}
	return s
}

func (c *counter) clone() algorithm {
	d := *c
	return &d
}
