package backoff

import (
	"math"
	"time"
)

// Schedule is the delay after failure number attempt, counted from 1, when the delay
// before that one was prev, 0 for the first. A nil rnd means the process-wide source.
// It keeps no state and is safe for concurrent use as far as rnd is. No attempt and no
// prev overflows, and no delay is negative.
type Schedule func(attempt int, prev time.Duration, rnd Source) time.Duration

// Constant waits for d each time, or not at all if d is zero or less.
func Constant(d time.Duration) Schedule {
	p := Policy{Base: d, Max: d}
	return func(attempt int, _ time.Duration, _ Source) time.Duration { return p.Ceiling(attempt) }
}

// Linear waits for base, 2·base, 3·base and so on, at most for limit. A limit of zero or
// less means none.
func Linear(base, limit time.Duration) Schedule {
	p := Policy{Base: base, Max: limit}
	return func(attempt int, _ time.Duration, _ Source) time.Duration {
		return p.times(attempt)
	}
}

// Exponential waits for base, 2·base, 4·base and so on, at most for limit. A limit of
// zero or less means none.
func Exponential(base, limit time.Duration) Schedule {
	p := Policy{Base: base, Max: limit}
	return func(attempt int, _ time.Duration, _ Source) time.Duration { return p.Ceiling(attempt) }
}

// FullJitter waits for a random time between nothing and what [Exponential] would.
func FullJitter(base, limit time.Duration) Schedule {
	p := Policy{Base: base, Max: limit}
	return func(attempt int, _ time.Duration, rnd Source) time.Duration { return p.Delay(attempt, rnd) }
}

// Decorrelated waits for a random time between base and three times the delay before,
// at most for limit: it grows as [Exponential] does, but by chance, so that clients that
// started together drift apart for good. A limit of zero or less means none; one below
// base is the delay each time. A base of zero or less means no delay ever.
func Decorrelated(base, limit time.Duration) Schedule {
	if limit <= 0 {
		limit = math.MaxInt64
	}
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

// Jittered waits for a random time between nothing and what s would: full jitter for
// any schedule. The next call of s is told the random delay, not the whole one.
func Jittered(s Schedule) Schedule {
	return func(attempt int, prev time.Duration, rnd Source) time.Duration {
		return uniform(s(attempt, prev, rnd), rnd)
	}
}

// times is min(Max, Base·attempt), as Ceiling is for powers of two.
func (p Policy) times(attempt int) time.Duration {
	if attempt < 1 || p.Base <= 0 {
		return 0
	}
	limit := p.Max
	if limit <= 0 {
		limit = math.MaxInt64
	}
	if int64(attempt) > int64(limit/p.Base) {
		return limit
	}
	return p.Base * time.Duration(attempt)
}
