package ratelimit

import (
	"math"
	"math/bits"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// rate is a pace in millionths of a request per second. As an integer it makes
// tokens exact: a nanosecond at one millionth of a request per second is 1e-15 of
// a token, and that is the unit in which a [bucket] counts.
type rate int64

const (
	perSecond rate  = 1e6  // one request per second
	token     int64 = 1e15 // one request
)

func rateOf(rps float64) rate { return rate(math.Round(rps * float64(perSecond))) }

// rateEvery is the pace of one request in d, rounded down and at least the slowest.
func rateEvery(d time.Duration) rate { return max(1, rate(token/int64(d))) }

func (r rate) interval() time.Duration { return time.Duration(token / int64(max(r, 1))) }

func (r rate) rps() float64 { return float64(r) / float64(perSecond) }

// bucket is a token bucket that fills continuously and loses nothing to rounding:
// what is granted in any span is at most its capacity and the sum of rate over
// time. The capacity comes with each call, since a host's rules are shared. Its
// owner serialises the calls.
type bucket struct {
	level int64 // in 1e-15 tokens, up to the capacity
	at    clock.Instant
	rate  rate // more than zero
}

// levelAt is the level at now, which is bucket.at or later. It changes nothing.
func (b *bucket) levelAt(now clock.Instant, capacity int64) int64 {
	missing := uint64(max(capacity-b.level, 0)) // a capacity may shrink below the level
	// 128 bits: a century of nanoseconds at any rate must not wrap around.
	hi, lo := bits.Mul64(uint64(now-b.at), uint64(b.rate))
	if hi != 0 || lo >= missing {
		return capacity
	}
	return b.level + int64(lo)
}

func (b *bucket) advance(now clock.Instant, capacity int64) {
	b.level = b.levelAt(now, capacity)
	b.at = now
}

func (b *bucket) take() { b.level -= token }

// when is the earliest instant, no earlier than from, at which the n-th token from
// now on can be spent, if each is spent as soon as it is there and none before from.
// For the first it is exact; each further one may come a nanosecond later, when a
// full bucket turns the rest of a nanosecond away. It changes nothing.
func (b *bucket) when(from clock.Instant, capacity int64, n int) clock.Instant {
	from = max(from, b.at)
	level := b.levelAt(from, capacity)
	hi, lo := bits.Mul64(uint64(n), uint64(token))
	lo, borrow := bits.Sub64(lo, uint64(level), 0)
	if hi < borrow || hi == 0 && lo == 0 {
		return from // the level covers n
	}
	hi -= borrow
	if hi >= uint64(b.rate) {
		return forever
	}
	wait, rest := bits.Div64(hi, lo, uint64(b.rate))
	if rest > 0 {
		wait++ // to the first whole nanosecond that has it
	}
	if wait > uint64(forever-max(from, 0)) {
		return forever
	}
	return from.Add(time.Duration(wait))
}

// never and forever lie before and after every instant the engine meets. They are
// far enough from the ends of the range to add or subtract any delay to them.
const (
	never   = clock.Instant(math.MinInt64 / 2)
	forever = clock.Instant(math.MaxInt64 / 2)
)
