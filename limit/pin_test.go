package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
)

func pinned(t *testing.T, cfg KeyedConfig[string]) (*Keyed[string], *clocktest.Fake) {
	t.Helper()
	clk := clocktest.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	k, err := NewKeyed(cfg, WithClock(clk))
	require.NoError(t, err)
	return k, clk
}

// A pinned limiter stays while it is full and others come; unpinned it stays until it is.
func TestPinHoldsALimiter(t *testing.T) {
	k, clk := pinned(t, KeyedConfig[string]{Limit: Spec{Permits: 2, Per: time.Second}, MaxKeys: 2})
	a, err := k.Pin("a")
	require.NoError(t, err)
	require.True(t, k.TryAcquire("b"))
	clk.Advance(time.Hour)
	for _, key := range []string{"c", "d", "e"} {
		require.True(t, k.TryAcquire(key))
		clk.Advance(time.Hour)
	}
	k.Sweep()
	require.True(t, a.Limiter.TryAcquireN(2))
	require.False(t, k.TryAcquire("a"), "it is the same limiter")
	again, err := k.Pin("a")
	require.NoError(t, err)
	require.Same(t, a.Limiter, again.Limiter)
	again.Unpin()
	a.Unpin()
	k.Sweep()
	require.False(t, k.TryAcquire("a"), "it is not full yet")
	clk.Advance(time.Second)
	k.Sweep()
	require.Zero(t, k.Len())
	Pinned[string]{}.Unpin()
}

func TestPinBeyondMaxKeys(t *testing.T) {
	k, _ := pinned(t, KeyedConfig[string]{Limit: Spec{Permits: 1, Per: time.Second}, MaxKeys: 1})
	a, err := k.Pin("a")
	require.NoError(t, err)
	b, err := k.Pin("b")
	require.NoError(t, err)
	c, err := k.Pin("c")
	require.NoError(t, err)
	require.NotSame(t, a.Limiter, b.Limiter)
	require.Same(t, b.Limiter, c.Limiter, "those beyond share one")
	b.Unpin()
	c.Unpin()
	a.Unpin()

	k, _ = pinned(t, KeyedConfig[string]{Limit: Spec{Permits: 1, Per: time.Second}, MaxKeys: 1, Overflow: OverflowDeny})
	_, err = k.Pin("a")
	require.NoError(t, err)
	_, err = k.Pin("b")
	require.ErrorIs(t, err, ErrTooManyKeys)
	require.NoError(t, k.Close())
	_, err = k.Pin("b")
	require.ErrorIs(t, err, ErrClosed)
}
