//go:build unix

package redis

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
	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// Whose tokens cannot be counted is told which key to delete: at once, and then each minute.
func TestForeignKeyIsToldOf(t *testing.T) {
	clk := clocktest.NewFake(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	var said bytes.Buffer
	failing := false
	told := &shared{now: clk.Now, log: slog.New(slog.NewTextHandler(&said, nil)), take: func(context.Context, string, []admission.Plan, int64) (admission.Result, error) {
		if failing {
			return admission.Result{}, fmt.Errorf("redis: within 1s: %w", &ForeignKeyError{Key: "rate_limiter:global:{crawl/j/global}"})
		}
		return admission.Result{Allowed: true}, nil
	}}
	lines := func() int {
		_, _ = told.Take(t.Context(), "k", ratelimit.SharedBucket{}, 1)
		return strings.Count(said.String(), "\n")
	}
	require.Zero(t, lines())
	failing = true
	require.Equal(t, 1, lines())
	require.Contains(t, said.String(), "redis-cli DEL 'rate_limiter:global:{crawl/j/global}'")
	clk.Advance(foreignEvery - time.Millisecond)
	require.Equal(t, 1, lines())
	clk.Advance(time.Millisecond)
	require.Equal(t, 2, lines())
}
