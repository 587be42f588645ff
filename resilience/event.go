package resilience

import (
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// Event is something a policy did. The types below are all there are. In each, At is when
// it happened and Name the policy's, which may be empty.
type Event interface{ event() }

// RetryEvent says that a call failed and will be made again after a delay.
type RetryEvent struct {
	At      time.Time
	Name    string
	Attempt int           // which one failed, from 1
	Elapsed time.Duration // since the first was begun
	Delay   time.Duration // until the next
	Err     error         // of the failed one; nil if it was its value that failed
	Last    bool          // the next one is the last
}

// CircuitEvent says that a breaker changed its state.
type CircuitEvent struct {
	At       time.Time
	Name     string
	From, To breaker.State
	Forced   bool // by hand, not by results or by time
}

// TimeoutEvent says that the time for a call was up, or that for the use of its value.
type TimeoutEvent struct {
	At    time.Time
	Name  string
	After time.Duration // the time there was
}

// FallbackEvent says that a result was replaced.
type FallbackEvent struct {
	At   time.Time
	Name string
	Err  error // of the replaced result; nil if it was its value that failed
}

// BulkheadEvent says that a bulkhead had no place for a call.
type BulkheadEvent struct {
	At               time.Time
	Name             string
	Key              string // of the pool within an isolation
	InFlight, Queued int64  // in the pool, at that time
}

// HedgeEvent says that a further call was started beside those under way.
type HedgeEvent struct {
	At      time.Time
	Name    string
	Attempt int           // which one was started, from 2
	Delay   time.Duration // since the first was
	Failed  bool          // because another failed, not because it took long
}

// HedgeOutcomeEvent says which call of a hedge gave the result.
type HedgeOutcomeEvent struct {
	At       time.Time
	Name     string
	Attempts int // how many were started
	Winner   int // which one, from 1; zero if all failed
}

// RateLimitedEvent says that a limiter refused a call, or had it wait.
type RateLimitedEvent struct {
	At   time.Time
	Name string
	Key  string        // what was limited, a host for example
	Wait time.Duration // until it may go; zero means it is not known
	Err  error         // the refusal; nil if the call waited
}

func (RetryEvent) event()        {}
func (CircuitEvent) event()      {}
func (TimeoutEvent) event()      {}
func (FallbackEvent) event()     {}
func (BulkheadEvent) event()     {}
func (HedgeEvent) event()        {}
func (HedgeOutcomeEvent) event() {}
func (RateLimitedEvent) event()  {}
