// Package backoff says how long to wait before another try.
//
// The delay before try n+1 is random between nothing and a ceiling that doubles with each failure ("full jitter"),
// which keeps clients that failed together from returning together. That is [Policy], the only one that the engine
// knows; for callers who choose, a [Schedule] is any of the usual ways to wait. Nothing here sleeps or keeps state.
package backoff

import (
	"math"
	"math/rand/v2"
	"time"
)

// Source yields a uniform number in [0, n), as [rand.Rand]. A shared one needs its own lock. Nil means the
// process-wide source, safe for concurrent use.
type Source interface{ Int64N(n int64) int64 }

// Policy bounds the delays. It is a value, safe for concurrent use.
type Policy struct {
	Base time.Duration // ceiling of the first delay; zero or less means no delay ever
	Max  time.Duration // ceiling of every delay; zero or less means none but the largest Duration
}

func (p Policy) limit() time.Duration {
	if p.Max <= 0 {
		return math.MaxInt64
	}
	return p.Max
}

// Ceiling is the longest delay after failure number attempt, from 1: min(Max, Base*2^(attempt-1)), zero below 1,
// without overflow.
func (p Policy) Ceiling(attempt int) time.Duration {
	if attempt < 1 || p.Base <= 0 {
		return 0
	}
	// Shifting the limit down, not the base up, cannot overflow.
	if n := attempt - 1; n < 63 && p.Base <= p.limit()>>n {
		return p.Base << n
	}
	return p.limit()
}

// Delay is a random time in [0, Ceiling(attempt)].
func (p Policy) Delay(attempt int, rnd Source) time.Duration { return uniform(p.Ceiling(attempt), rnd) }

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

// Schedule returns the delay after failure number attempt, from 1; prev is the delay before, 0 for the first.
// Stateless, and as safe for concurrent use as rnd. No overflow, never negative.
type Schedule func(attempt int, prev time.Duration, rnd Source) time.Duration

// Constant waits for d each time, or not at all if d is zero or less.
func Constant(d time.Duration) Schedule { return Exponential(d, d) }

// Linear waits base, 2·base, 3·base and so on, at most limit; a limit of zero or less means none.
func Linear(base, limit time.Duration) Schedule {
	limit = Policy{Max: limit}.limit()
	return func(attempt int, _ time.Duration, _ Source) time.Duration {
		switch {
		case attempt < 1 || base <= 0:
			return 0
		case int64(attempt) > int64(limit/base):
			return limit
		}
		return base * time.Duration(attempt)
	}
}

// Exponential waits base, 2·base, 4·base and so on, at most limit; a limit of zero or less means none.
func Exponential(base, limit time.Duration) Schedule {
	p := Policy{Base: base, Max: limit}
	return func(attempt int, _ time.Duration, _ Source) time.Duration { return p.Ceiling(attempt) }
}

// FullJitter waits for a random time between nothing and what [Exponential] would.
func FullJitter(base, limit time.Duration) Schedule { return Jittered(Exponential(base, limit)) }

// Jittered waits a random time from zero to the delay of s, which is then told that random delay as prev.
func Jittered(s Schedule) Schedule {
	return func(attempt int, prev time.Duration, rnd Source) time.Duration {
		return uniform(s(attempt, prev, rnd), rnd)
	}
}

// Decorrelated waits a random time between base and three times the delay before, at most limit. A limit of zero or
// less means none; one below base is each delay. A base of zero or less means no delay.
func Decorrelated(base, limit time.Duration) Schedule {
	limit = Policy{Max: limit}.limit()
	base = min(max(base, 0), limit)
	return func(attempt int, prev time.Duration, rnd Source) time.Duration {
		if attempt < 1 || base <= 0 {
			return 0
		}
		top := limit
		if prev = max(prev, base); prev <= limit/3 {
			top = 3 * prev
		}
		return base + uniform(top-base, rnd)
	}
}
