package limit

import (
	"math/bits"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// SlidingWindow is the sliding-window counter. It counts per window as [FixedWindow]
// does, and supposes that the permits of the window before were spread evenly over it: it
// grants a permit while the estimate before it, previous·(1−elapsed/window) + current, is
// below Permits, and n as if they were asked for one after another. So a client that asks
// Permits times per window, evenly, is never refused. It needs no more memory than two
// numbers, and is wrong by as much as the supposition is.
//
// The estimate is of the window that ends with the present nanosecond: elapsed includes
// it. Who comes exactly one window after a burst finds a permit.
type SlidingWindow struct {
	core
	state counter
}

var _ Weighted = (*SlidingWindow)(nil)

// NewSlidingWindow returns a limiter whose first window begins now, after an empty one.
func NewSlidingWindow(cfg WindowConfig, opts ...Option) (*SlidingWindow, error) {
	set, err := rateSettings(KindSlidingWindow, cfg.Permits, cfg.Per, opts)
	if err != nil {
		return nil, err
	}
	return newSlidingWindow(set, cfg), nil
}

func newSlidingWindow(set *settings, cfg WindowConfig) *SlidingWindow {
	l := &SlidingWindow{state: counter{max: cfg.Permits, per: cfg.Per}}
	l.init(set, &l.state)
	return l
}

// counter is the algorithm of SlidingWindow, on the same grid as that of FixedWindow.
type counter struct {
	start             clock.Instant // of the current window
	previous, current int64         // each up to max
	max               int64
	per               time.Duration
}

// advance moves on by whole windows. After one the current count becomes the previous
// one; after more than one nothing of it is in view any more.
func (c *counter) advance(now clock.Instant) {
	passed := now.Sub(c.start)
	if passed < c.per {
		return
	}
	c.previous = 0
	if passed-c.per < c.per { // not 2·per, which may be past the range
		c.previous = c.current
	}
	c.current = 0
	c.start = c.start.Add(passed - passed%c.per)
}

func (c *counter) take(now clock.Instant, n int64) bool {
	if c.wait(now, n) > 0 {
		return false
	}
	c.current += n
	return true
}

// wait solves the admission rule for elapsed. In this window what is left of previous must
// be less than room = max−current−(n−1); if there is no room, the next window begins with
// current as previous, and what is asked of that one is the same question.
func (c *counter) wait(now clock.Instant, n int64) time.Duration {
	c.advance(now)
	elapsed := now.Sub(c.start)
	if room := c.max - c.current - (n - 1); room > 0 {
		return max(0, c.fades(c.previous, room)-elapsed)
	}
	return addWaits(c.per-elapsed, c.fades(c.current, c.max-(n-1)))
}

// fades is how far into a window less than room, which is above 0, counts of the one
// before: the first nanosecond e with previous·(per−e−1) < room·per.
func (c *counter) fades(previous, room int64) time.Duration {
	if previous <= room {
		return 0
	}
	hi, lo := bits.Mul64(uint64(room), uint64(c.per))
	q, rest := bits.Div64(hi, lo, uint64(previous)) // below per, as room is below previous
	if rest > 0 {
		q++
	}
	return c.per - time.Duration(q)
}

// available rounds what is left of the previous count down, as the rule does: a permit is
// there while the estimate before it is below max.
func (c *counter) available(now clock.Instant) int64 {
	c.advance(now)
	left := c.per - now.Sub(c.start) - 1
	hi, lo := bits.Mul64(uint64(c.previous), uint64(left))
	fading, _ := bits.Div64(hi, lo, uint64(c.per)) // below previous, as left is below per
	return max(0, c.max-c.current-int64(fading))
}

func (c *counter) standing(now clock.Instant) Standing {
	left := c.available(now)
	return Standing{Limit: c.max, Window: c.per, Left: left, Lasts: part(c.per, left, c.max)}
}

func (c *counter) clone() algorithm {
	d := *c
	return &d
}
