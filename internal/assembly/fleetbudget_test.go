package assembly

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	tokens "github.com/treadlight/crawl/internal/admission/redis"
	"github.com/treadlight/crawl/internal/clock/clocktest"
)

// What a process tells of a rate is what it was over a quarter of a minute, and what goes at
// once when it begins, or is told a moment after, is none.
func TestRatesOfBudgets(t *testing.T) {
	begun := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var r rates
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
	require.LessOrEqual(t, len(r.marks), int(useOver/time.Second)+2)
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

// foreignTokens are tokens of which one key is another's.
type foreignTokens struct {
	admission.Repository
	failing bool
}

func (f *foreignTokens) Take(context.Context, string, []admission.Plan, int64) (admission.Result, error) {
	if f.failing {
		return admission.Result{}, fmt.Errorf("redis: within 1s: %w", &tokens.ForeignKeyError{Key: "rate_limiter:global:{crawl/j/global}"})
	}
	return admission.Result{Allowed: true}, nil
}

// Whose tokens cannot be counted is told which key to delete: at once, and then each minute.
func TestForeignKeyIsToldOf(t *testing.T) {
	clk := clocktest.NewFake(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	var said bytes.Buffer
	inner := &foreignTokens{}
	told := &tellingTokens{Repository: inner, log: slog.New(slog.NewTextHandler(&said, nil)), clk: clk}
	lines := func() int {
		_, _ = told.Take(t.Context(), "k", nil, 1)
		return strings.Count(said.String(), "\n")
	}
	require.Zero(t, lines())
	inner.failing = true
	require.Equal(t, 1, lines())
	require.Contains(t, said.String(), "redis-cli DEL 'rate_limiter:global:{crawl/j/global}'")
	clk.Advance(foreignEvery - time.Millisecond)
	require.Equal(t, 1, lines())
	clk.Advance(time.Millisecond)
	require.Equal(t, 2, lines())
}
