package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/enum"
)

// ErrCircuitOpen is what a [CircuitOpenError] is: the domain's breaker lets nobody
// pass at present. The request was not sent and has not failed.
var ErrCircuitOpen = errors.New("circuit open")

// ErrTooManyWaiters means that Config.MaxWaiters calls wait for the domain already.
var ErrTooManyWaiters = errors.New("too many waiters")

// CircuitOpenError is a denial by a domain's breaker. It is [ErrCircuitOpen].
type CircuitOpenError struct {
	Domain string
	Until  time.Time // when it is worth asking again
}

func (e *CircuitOpenError) Error() string {
	return fmt.Sprintf("acquire %s: circuit open until %s", e.Domain, e.Until.Format(time.TimeOnly))
}

// Unwrap makes the error an ErrCircuitOpen.
func (e *CircuitOpenError) Unwrap() error { return ErrCircuitOpen }

// WaitError is the answer to a caller whose context ends before its turn comes; it
// is given at once instead of after a wait in vain. It is [context.DeadlineExceeded].
type WaitError struct {
	Domain string
	Wait   time.Duration // until the permit could have been had
	Limit  Limit         // what would have been waited for
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("acquire %s: the next permit in %v (%v) comes after the deadline", e.Domain, e.Wait, e.Limit)
}

// Unwrap makes the error a context.DeadlineExceeded.
func (e *WaitError) Unwrap() error { return context.DeadlineExceeded }

// Limit is what a request waits for. The zero Limit is [LimitNone].
type Limit uint8

// The limits, from none to the widest.
const (
	LimitNone       Limit = iota // nothing: it may go
	LimitStart                   // the rate a host starts with: nothing has been learned yet
	LimitLearned                 // the rate that was learned
	LimitCrawlDelay              // robots.txt
	LimitRetryAfter              // Retry-After
	LimitRule                    // the user: a delay, or the ceiling of the rate
	LimitBreaker                 // an open breaker, or a half-open one whose probe is out
	LimitGlobal                  // the rate of all domains together
	LimitShared                  // the rate of the domains behind one address, or of one registrable domain

	LimitCap               // a cap of the user's rule for the domain
	LimitQuota             // the quota of the user's rule: it is used up
	LimitGlobalConcurrency // the requests that all domains together may have out
	LimitGlobalBytes       // the bytes per second of all domains together
)

var limitNames = []string{"none", "start", "learned", "crawl_delay", "retry_after", "rule", "breaker", "global", "shared", "cap", "quota", "global_concurrency", "global_bytes"}

// String is the name that logs and snapshots carry.
func (l Limit) String() string { return enum.Name(limitNames, "limit", l) }

// MarshalText writes the name, so that JSON shows it.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads a name back.
func (l *Limit) UnmarshalText(text []byte) error { return enum.Parse(limitNames, "limit", text, l) }
