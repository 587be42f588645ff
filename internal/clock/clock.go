// Package clock is the only package of Treadlight that reads the time or waits.
//
// Algorithms take an instant and never read a clock; code that has to wait does so through a [Clock]. The system clock
// is [System]; inside a testing/synctest bubble it follows the bubble's time. Code that cannot run in a bubble (a
// benchmark, a simulation) uses a [clocktest.Fake], which it moves itself.
//
// There are two kinds of time. A [time.Time] is used for what people and servers see: the moment a page was fetched,
// the end of a Retry-After. An [Instant] is used for state: nanoseconds since an epoch that its owner chose at the
// start. It takes 8 bytes instead of 24, is cheap to compare, and monotonic, so that setting the computer's clock
// neither frees nor blocks a host.
//
// [clocktest.Fake]: https://pkg.go.dev/github.com/treadlight/crawl/internal/clock/clocktest
package clock

import (
	"context"
	"math"
	"time"
)

// Instant is a point on a monotonic time line, in nanoseconds since its owner's epoch. Instants of different owners
// must not be compared. The zero Instant is the epoch itself; owners use it for "never" where that cannot be mistaken.
type Instant int64

// Add returns the instant d after i.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// AddClamped is Add for a d that a user or server chose and that may be huge: it returns the last instant that can be
// represented where Add would overflow to one long past.
func (i Instant) AddClamped(d time.Duration) Instant {
	if i > 0 && d > time.Duration(math.MaxInt64-i) {
		return math.MaxInt64
	}
	return i.Add(d)
}

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Clock tells the time and makes timers. Implementations are safe for concurrent use.
type Clock interface {
	// Now returns the wall time, with a monotonic reading if the clock has one.
	Now() time.Time
	// Since returns the monotonic time passed since t, which must come from Now of the same clock. It is cheaper than
	// Now: hot paths keep one epoch and call Since.
	Since(t time.Time) time.Duration
	// NewTimer returns a timer that fires once, d from now. It must be stopped when it is no longer needed.
	NewTimer(d time.Duration) Timer
}

// Timer is one pending wake-up. It behaves as a [time.Timer] does since Go 1.23:
// after Stop or Reset no stale value is received.
type Timer interface {
	// C receives the time at which the timer fired.
	C() <-chan time.Time
	// Stop prevents the timer from firing and reports whether it did.
	Stop() bool
	// Reset arms the timer again for d from now and reports whether it was pending.
	Reset(d time.Duration) bool
}

// System returns the computer's clock.
func System() Clock { return computers }

var computers Clock = system{}

// SetSystemForTest makes System return another clock, so that a test can give a process a wrong one. It must be called
// before anything else runs; back undoes it.
func SetSystemForTest(c Clock) (back func()) {
	computers = c
	return func() { computers = system{} }
}

type system struct{}

func (system) Now() time.Time                  { return time.Now() }
func (system) Since(t time.Time) time.Duration { return time.Since(t) }
func (system) NewTimer(d time.Duration) Timer  { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.Timer.C }

// Sleep waits for d on clk, or until ctx ends; then it returns ctx's error. If d is zero or less it returns at once,
// with the error of ctx if that has already ended.
func Sleep(ctx context.Context, clk Clock, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := clk.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Forever is a wait that no timer ends.
const Forever = time.Duration(math.MaxInt64)

// Sleeper keeps one timer for all the waits of a goroutine. The zero Sleeper is ready.
type Sleeper struct{ timer Timer }

// Sleep waits until d has passed, wake can be received from, or ctx ends. The caller has to find out which.
func (s *Sleeper) Sleep(ctx context.Context, clk Clock, wake <-chan struct{}, d time.Duration) {
	var fired <-chan time.Time
	switch {
	case d == Forever:
	case s.timer == nil:
		s.timer = clk.NewTimer(d)
		fired = s.timer.C()
	default:
		s.timer.Reset(d) // Reset drops a value of an earlier firing
		fired = s.timer.C()
	}
	select {
	case <-fired:
	case <-wake:
	case <-ctx.Done():
	}
}

// Stop stops the timer. Call it after the last Sleep.
func (s *Sleeper) Stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// Earlier returns the earlier of two times, of which zero means never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
