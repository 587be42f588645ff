package clock

import (
	"context"
	"math"
	"time"
)

// Forever is a wait that no timer ends.
const Forever = time.Duration(math.MaxInt64)

// Sleeper keeps one timer for all the waits of a goroutine. The zero Sleeper is ready.
type Sleeper struct{ timer Timer }

// Sleep lasts until d has passed, wake has something or ctx ends; the caller finds out which.
func (s *Sleeper) Sleep(ctx context.Context, clk Clock, wake <-chan struct{}, d time.Duration) {
	var fired <-chan time.Time
	switch {
	case d == Forever:
	case s.timer == nil:
		s.timer = clk.NewTimer(d)
		fired = s.timer.C()
	default:
		s.timer.Reset(d) // a value that it has fired meanwhile is gone by then
		fired = s.timer.C()
	}
	select {
	case <-fired:
	case <-wake:
	case <-ctx.Done():
	}
}

// Stop is for when the last wait is over.
func (s *Sleeper) Stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}
