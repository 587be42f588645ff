package resilience

import (
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// Schedule returns the delay after a failure: func(attempt int, prev time.Duration, random Source) time.Duration.
// attempt is the number of the failure, from 1; prev is the delay before, or 0 at the first failure. A result of zero
// or less means no delay. A Schedule must be safe for concurrent use, as those of this package are.
type Schedule = backoff.Schedule

// Constant returns a Schedule whose delay is always d; zero or less means no delay.
func Constant(d time.Duration) Schedule { return backoff.Constant(d) }

// Decorrelated returns a Schedule with random delays between base and three times the delay before, and at most limit.
func Decorrelated(base, limit time.Duration) Schedule { return backoff.Decorrelated(base, limit) }

// Exponential returns a Schedule with the delays base, 2·base, 4·base and so on, each at most limit.
func Exponential(base, limit time.Duration) Schedule { return backoff.Exponential(base, limit) }

// FullJitter returns a Schedule with random delays between zero and the delay of Exponential.
func FullJitter(base, limit time.Duration) Schedule { return backoff.FullJitter(base, limit) }

// Jittered returns a Schedule with random delays between zero and the delay of s (full jitter).
func Jittered(s Schedule) Schedule { return backoff.Jittered(s) }

// Linear returns a Schedule with the delays base, 2·base, 3·base and so on, each at most limit.
func Linear(base, limit time.Duration) Schedule { return backoff.Linear(base, limit) }

// Source is a source of random numbers. Its one method, Int64N(n int64) int64, returns a uniform number in [0, n) for n
// of 1 or more, as that of rand.Rand in math/rand/v2 does. A Source that policies share must be safe for concurrent
// use.
type Source = backoff.Source

// State is the state of a breaker: [Closed], which is the zero State, [Open] or [HalfOpen]. Its String, which is also
// its text in JSON, is "closed", "open" or "half_open"; UnmarshalText accepts these and no other text.
type State = breaker.State

// The states of a breaker.
const (
	Closed   = breaker.Closed   // calls pass
	Open     = breaker.Open     // calls are refused
	HalfOpen = breaker.HalfOpen // one probe at a time passes
)
