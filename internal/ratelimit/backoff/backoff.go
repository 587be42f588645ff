// Package backoff says how long to wait before another try.
//
// The delay before try n+1 is random between nothing and a ceiling that doubles
// with each failure ("full jitter"). Spreading over the whole range, instead of
// around a value, is what keeps clients that failed together from returning
// together. Nothing here sleeps or keeps state: a [Policy] is a pure function of
// the attempt and of a source of randomness. The engine knows no other; for callers
// who choose, a [Schedule] is any of the usual ways to wait.
package backoff

import (
	"math"
	"math/rand/v2"
	"time"
)

// Source yields a uniform number in [0, n), as [rand.Rand] does. Whoever shares one
// between goroutines sees to its locking.
type Source interface{ Int64N(n int64) int64 }

// Policy bounds the delays. It is a value, safe for concurrent use.
type Policy struct {
	Base time.Duration // ceiling of the first delay; zero or less means no delay ever
	Max  time.Duration // ceiling of every delay; zero or less means none but the largest Duration
}

// Ceiling is the longest delay after failure number attempt, counted from 1:
// min(Max, Base*2^(attempt-1)). An attempt below 1 needs no delay. No attempt
// overflows.
func (p Policy) Ceiling(attempt int) time.Duration {
	if attempt < 1 || p.Base <= 0 {
		return 0
	}
	limit := p.Max
	if limit <= 0 {
		limit = math.MaxInt64
	}
	// Shifting the limit down, not the base up, cannot overflow.
	if n := attempt - 1; n < 63 && p.Base <= limit>>n {
		return p.Base << n
	}
	return limit
}

// Delay is a random time in [0, Ceiling(attempt)]. A nil rnd means the process-wide
// source, which is safe for concurrent use.
func (p Policy) Delay(attempt int, rnd Source) time.Duration {
	return uniform(p.Ceiling(attempt), rnd)
}

// Spread is d and a random time in [0, by] on top. It is the jitter for a delay
// that somebody asked for, a Retry-After: it never subtracts. A nil rnd means the
// process-wide source.
func Spread(d, by time.Duration, rnd Source) time.Duration {
	return d + uniform(min(by, math.MaxInt64-max(d, 0)), rnd)
}

func uniform(limit time.Duration, rnd Source) time.Duration {
	if limit <= 0 {
		return 0
	}
	n := int64(limit)
	if n < math.MaxInt64 {
		n++ // the limit itself is in range
	}
	if rnd == nil {
		return time.Duration(rand.Int64N(n))
	}
	return time.Duration(rnd.Int64N(n))
}
