package ratelimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// TestHoldsWhatAHostSaysMayBeUnderWay: from the answer on that tells how many requests of a
// client may be under way at once, no more are, under each strategy.
func TestHoldsWhatAHostSaysMayBeUnderWay(t *testing.T) {
	for _, name := range control.Names() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := New(Config{Enabled: true, Strategy: name, InitialRPS: 1000, MaxRPS: 1000})
				require.NoError(t, err)
				take := func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					_, err := l.Acquire(ctx, "example.com")
					return err == nil
				}
				require.True(t, take())
				l.Feedback("example.com", Feedback{StatusCode: 200, Latency: time.Millisecond, Quota: header.Quota{InFlight: 3}})
				require.True(t, take())
				require.True(t, take())
				require.False(t, take(), "three are under way")
			})
		})
	}
}
