package resilience

import (
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// Schedule returns the delay after failure number attempt, from 1. prev is the delay before, 0 for the first.
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

// Source yields a uniform number in [0, n), as rand.Rand does.
type Source = backoff.Source

// State is where a breaker stands.
type State = breaker.State

// The states.
const (
	Closed   = breaker.Closed   // calls pass
	Open     = breaker.Open     // calls are refused
	HalfOpen = breaker.HalfOpen // one probe at a time passes
)
