package ratelimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a process tells of a rate is what it was over a quarter of a minute, and what goes at
// once when it begins, or is told a moment after, is none.
func TestRatesOfBudgets(t *testing.T) {
	begun := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var r UseRates
	for _, step := range []struct {
		after time.Duration
		used  int64
		want  float64
	}{
		{0, 0, 0},
		{100 * time.Millisecond, 5, 5},
		{5 * time.Second, 105, 21},
		{5100 * time.Millisecond, 105, 105 / 5.1},
		{10 * time.Second, 205, 20.5},
		{15 * time.Second, 305, 305 / 15.0},
		{20 * time.Second, 405, 20},
		{35 * time.Second, 405, 0},
		{36 * time.Second, 420, 15 / 16.0},
	} {
		got := r.over(begun.Add(step.after), map[string]int64{"a": step.used})
		require.InDelta(t, step.want, got["a"], 1e-9, "%v", step.after)
	}
	for i := range 1000 {
		r.over(begun.Add(time.Minute+time.Duration(i)*100*time.Millisecond), map[string]int64{"a": 500})
	}
	require.LessOrEqual(t, len(r.marks), int(useSpan/time.Second)+2)
}

// Of scopes it is what the busiest were asked over a quarter of a minute, and others make place.
func TestKeepBusiest(t *testing.T) {
	scopes := map[string]float64{"a": 1, "b": 3, "c": 2, "d": 2}
	keepBusiest(scopes, 3)
	require.Equal(t, map[string]float64{"b": 3, "c": 2, "d": 2}, scopes)
	keepBusiest(scopes, 5)
	require.Len(t, scopes, 3)
	keepBusiest(scopes, 2)
	require.Equal(t, map[string]float64{"b": 3, "c": 2}, scopes)
}
