package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// At its floor a law takes a slow host as it is. How long failures took says nothing of that: only responses move the
// target.
func TestOnlyAnswersMoveTheTarget(t *testing.T) {
	for class, moves := range map[outcome.Class]bool{
		outcome.OK: true, outcome.Of(404, nil): true,
		outcome.Timeout: false, outcome.Of(408, nil): false, outcome.Of(504, nil): false, outcome.Of(503, nil): false, outcome.Of(429, nil): false,
	} {
		a := newAIMD(config(t), Host{Start: 0.1, Floor: 0.1, Ceiling: 500})
		hear := func(at time.Duration, class outcome.Class, latency time.Duration) {
			sent := clock.Instant(at)
			a.observe(sent, Observation{SentAt: sent, Class: class, Latency: latency, Floor: 0.1, Ceiling: 0.1})
		}
		for i := range 60 {
			hear(time.Duration(i)*time.Second, outcome.OK, 10*time.Millisecond)
		}
		was := a.target()
		for i := range 10 {
			hear(time.Duration(100+i)*time.Second, class, 30*time.Second)
		}
		require.Equal(t, moves, a.target() > was, "%v: from %v to %v", class, was, a.target())
	}
}
