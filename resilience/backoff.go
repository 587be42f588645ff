package resilience

import (
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// Schedule returns the delay after a failure: func(attempt int, prev time.Duration, random Source) time.Duration, where
// attempt is the number of the failure, from 1, and prev the delay before, 0 for the first. A delay of zero or less is none.
// It is safe for concurrent use, as those of this package are.
type Schedule = backoff.Schedule

// Constant waits for d each time, or not at all if d is zero or less.
func Constant(d time.Duration) Schedule { return backoff.Constant(d) }

// Decorrelated waits for a random time between base and three times the delay before, at most limit.
func Decorrelated(base, limit time.Duration) Schedule { return backoff.Decorrelated(base, limit) }

// Exponential waits for base, 2·base, 4·base and so on, at most for limit.
func Exponential(base, limit time.Duration) Schedule { return backoff.Exponential(base, limit) }

// FullJitter waits for a random time between nothing and what Exponential would.
func FullJitter(base, limit time.Duration) Schedule { return backoff.FullJitter(base, limit) }

// Jittered waits for a random time between zero and the delay of s (full jitter).
func Jittered(s Schedule) Schedule { return backoff.Jittered(s) }

// Linear waits for base, 2·base, 3·base and so on, at most for limit.
func Linear(base, limit time.Duration) Schedule { return backoff.Linear(base, limit) }

// Source yields a uniform number in [0, n) by its one method, Int64N(n int64) int64, as rand.Rand of math/rand/v2 does. n is 1
// or more. What policies share must be safe for concurrent use.
type Source = backoff.Source

// State is where a breaker stands: [Closed], which is the zero State, [Open] or [HalfOpen]. Its String, which is its text in JSON
// too, is "closed", "open" or "half_open"; UnmarshalText reads that back and refuses any other.
type State = breaker.State

// The states.
const (
	Closed   = breaker.Closed   // calls pass
	Open     = breaker.Open     // calls are refused
	HalfOpen = breaker.HalfOpen // one probe at a time passes
)
