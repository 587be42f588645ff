package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// history tells how many requests a host admitted in any span of the past, by the time when they were sent. It keeps
// the curve of the count over time as a few points between which it is straight, the oldest first. When a point is
// added, the one that is needed least is dropped: the point whose count the straight line between its neighbours misses
// by the fewest requests per second of its age. So a constant rate takes two points, while the ends of a pause stay,
// and a long span is measured as exactly as a short one.
type history [points]point

// point is a point of the curve. The zero point is right too: nothing was sent before the clock's zero.
type point struct {
	at tick   // when an admitted request was sent
	n  uint32 // requests that were sent up to then, it included
}

// tick is an instant in sixteenths of a second since the clock's zero; it lasts for eight years.
type tick uint32

// points is how many points are kept.
const points = 16

// ticksPerSecond is the resolution of the points.
const ticksPerSecond = 16

// tickOf returns the tick in which an instant is; zero for an earlier one than the clock's zero.
func tickOf(i clock.Instant) tick {
	return tick(min(max(i, 0)/clock.Instant(time.Second/ticksPerSecond), math.MaxUint32))
}

// add counts an admitted request that was sent at the instant. There is at most one point in a second.
func (h *history) add(sent clock.Instant) {
	at, last := tickOf(sent), points-1
	for i := last; i >= 0 && h[i].at >= at; i-- {
		h[i].n++ // its response came after those of later requests
	}
	if at <= h[last].at {
		return
	}
	p := point{at, h[last].n + 1}
	if at-h[last-1].at < ticksPerSecond {
		h[last] = p
		return
	}
	drop, least := 0, math.Inf(1)
	for i := 1; i < last; i++ {
		missed := math.Abs(float64(h[i].n)-line(h[i-1], h[i+1], h[i].at)) / float64(at-h[i].at)
		if missed < least {
			drop, least = i, missed
		}
	}
	copy(h[drop:], h[drop+1:])
	h[last] = p
}

// line returns the count at a time on the straight line through two points.
func line(a, b point, at tick) float64 {
	if b.at <= a.at {
		return float64(b.n)
	}
	return float64(a.n) + float64(b.n-a.n)*float64(at-a.at)/float64(b.at-a.at)
}

// until returns how many requests were sent up to a tick, included.
func (h *history) until(at tick) float64 {
	for i := points - 1; i > 0; i-- {
		switch a, b := h[i-1], h[i]; {
		case at >= b.at:
			return float64(b.n)
		case at >= a.at: // requests are counted whole: one that ended a pause was sent at its end
			return math.Floor(line(a, b, at))
		}
	}
	return float64(h[0].n)
}

// between returns how many admitted requests were sent after the first instant, up to the second.
func (h *history) between(from, to clock.Instant) float64 {
	return max(h.until(tickOf(to))-h.until(tickOf(from)), 0)
}
