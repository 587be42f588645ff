// Package clocktest has a clock that stands still until a test moves it.
//
// Prefer a testing/synctest bubble, where the system clock is already fake and knows by itself when every goroutine
// waits. A [Fake] is for what bubbles cannot do: benchmarks, simulations, and tables of exact instants.
package clocktest

import (
	"slices"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Fake is a clock that the test moves. It is safe for concurrent use.
type Fake struct {
	mu     sync.Mutex
	cond   sync.Cond
	now    time.Time
	timers []*timer // pending, in the order they were armed
}

var _ clock.Clock = (*Fake)(nil)

// NewFake returns a clock that shows start.
func NewFake(start time.Time) *Fake {
	f := &Fake{now: start}
	f.cond.L = &f.mu
	return f
}

// Now returns the time to which the clock was last moved.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Since returns the time by which the clock has been moved past t.
func (f *Fake) Since(t time.Time) time.Duration { return f.Now().Sub(t) }

// Advance moves the clock forward by d and fires every timer due by then, each at its own instant and in order, so that
// a timer armed by the receiver of an earlier one fires too. It panics if d is negative: time does not go back.
func (f *Fake) Advance(d time.Duration) {
	if d < 0 {
		panic("clocktest: Advance by a negative duration")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.now.Add(d)
	for {
		t := f.nextLocked(end)
		if t == nil {
			break
		}
		if t.at.After(f.now) {
			f.now = t.at
		}
		f.removeLocked(t)
		t.ch <- f.now
	}
	f.now = end
}

// BlockUntil returns when at least n timers are pending. A test calls it before it moves the clock, to know that the
// goroutines under test are waiting.
func (f *Fake) BlockUntil(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.timers) < n {
		f.cond.Wait()
	}
}

// nextLocked returns the earliest timer due no later than end, among equals the one armed first.
func (f *Fake) nextLocked(end time.Time) *timer {
	var next *timer
	for _, t := range f.timers {
		if !t.at.After(end) && (next == nil || t.at.Before(next.at)) {
			next = t
		}
	}
	return next
}

func (f *Fake) removeLocked(t *timer) bool {
	i := slices.Index(f.timers, t)
	if i >= 0 {
		f.timers = slices.Delete(f.timers, i, i+1)
	}
	return i >= 0
}

func (f *Fake) armLocked(t *timer, d time.Duration) {
	t.at = f.now.Add(d)
	if d <= 0 {
		t.ch <- f.now
		return
	}
	f.timers = append(f.timers, t)
	f.cond.Broadcast()
}

// NewTimer returns a timer that fires when the clock has been moved by d.
func (f *Fake) NewTimer(d time.Duration) clock.Timer {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &timer{f: f, ch: make(chan time.Time, 1)}
	f.armLocked(t, d)
	return t
}

type timer struct {
	f  *Fake
	ch chan time.Time
	at time.Time
}

func (t *timer) C() <-chan time.Time { return t.ch }

func (t *timer) Stop() bool {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	return t.stopLocked()
}

func (t *timer) Reset(d time.Duration) bool {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	was := t.stopLocked()
	t.f.armLocked(t, d)
	return was
}

// stopLocked disarms the timer and drops a value not yet received.
func (t *timer) stopLocked() bool {
	select {
	case <-t.ch:
	default:
	}
	return t.f.removeLocked(t)
}
