package testsite

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// limiter is the law a host applies. It takes instants and reads no clock; its host
// guards it. A request that is refused changes nothing, as in nginx: hammering a
// limiter neither helps nor hurts.
//
// By rate it is GCRA: each admitted request moves the theoretical arrival time tat
// one interval on, and a request is admitted up to burst intervals ahead of it. This
// is nginx's excess = max(0, excess - r*dt + 1) <= burst with excess kept as the
// time at which it will be used up, which is exact in nanoseconds.
type limiter struct {
	interval  time.Duration // zero: no limit by rate
	tolerance time.Duration
	tat       clock.Instant

	window   time.Duration // zero: no limit by window
	requests int
	current  int64 // which window used is about
	used     int

	concurrent int // zero: no limit by concurrency
	open       int
}

func newLimiter(cfg Limit) limiter {
	l := limiter{window: cfg.Window, requests: cfg.Requests, concurrent: cfg.Concurrent}
	if cfg.Rate > 0 {
		l.interval = interval(cfg.Rate)
		l.tolerance = time.Duration(cfg.Burst) * l.interval
	}
	return l
}

// unknown is the answer of a limiter that cannot tell when it will admit again: an
// open request may end at any time.
const unknown clock.Instant = -1

// check reports whether a request at now would be admitted, and if not, when one would be,
// or unknown. It charges nothing.
func (l *limiter) check(now clock.Instant) (ok bool, ready clock.Instant) {
	if l.window > 0 && int64(now)/int64(l.window) != l.current {
		l.current, l.used = int64(now)/int64(l.window), 0
	}
	if l.concurrent > 0 && l.open >= l.concurrent {
		return false, unknown
	}
	ready = l.ready(now)
	return ready <= now, ready
}

// take charges a request that check has just let through. It must be released when it
// is over.
func (l *limiter) take(now clock.Instant) {
	if l.interval > 0 {
		l.tat = max(now, l.tat).Add(l.interval)
	}
	l.used++
	l.open++
}

// ready is when rate and window would both admit. It changes nothing.
func (l *limiter) ready(now clock.Instant) clock.Instant {
	ready := now
	if l.interval > 0 {
		ready = max(ready, l.tat.Add(-l.tolerance))
	}
	if l.window > 0 && l.used >= l.requests {
		ready = max(ready, clock.Instant((l.current+1)*int64(l.window)))
	}
	return ready
}

// release tells that an admitted request is over.
func (l *limiter) release() { l.open-- }
