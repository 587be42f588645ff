package ratelimit

import (
	"math"
	"math/bits"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// rate is in millionths of a request per second, so that tokens are exact integers: a nanosecond at rate 1 brings
// 1e-15 tokens, the unit of a [bucket].
type rate int64

const (
	perSecond rate  = 1e6  // one request per second
	token     int64 = 1e15 // one request
)

func rateOf(rps float64) rate { return rate(math.Round(rps * float64(perSecond))) }

// rateEvery is the rate of one request per d, rounded down, and at least the slowest rate.
func rateEvery(d time.Duration) rate { return max(1, rate(token/int64(d))) }

func (r rate) interval() time.Duration { return time.Duration(token / int64(max(r, 1))) }

func (r rate) rps() float64 { return float64(r) / float64(perSecond) }

// bucket is an exact, continuous token bucket: in any span it grants at most its capacity and the integral of its
// rate. The capacity comes with each call. The owner serialises the calls.
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

// when returns the earliest instant, from or later, at which the n-th token is there, if each is spent at once. It is
// exact for the first; each further one may be a nanosecond late. It changes nothing.
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

// never and forever lie before and after every instant, with room to add any delay.
const (
	never   = clock.Instant(math.MinInt64 / 2)
	forever = clock.Instant(math.MaxInt64 / 2)
)
