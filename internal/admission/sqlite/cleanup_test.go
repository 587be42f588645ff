package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/admissiontest"
	"github.com/treadlight/crawl/internal/admission/sqlite"
	"github.com/treadlight/crawl/internal/clock/clocktest"
)

func keysOf(t testing.TB, path string) []string {
	t.Helper()
	var keys []string
	for _, r := range rows(t, path) {
		keys = append(keys, r.Key)
	}
	return keys
}

// A row goes a minute after it is over, and not before.
func TestCleanup(t *testing.T) {
	path, clk := filepath.Join(t.TempDir(), "limits.db"), admissiontest.NewClock()
	r := open(t, sqlite.Config{Path: path, Clock: clk})
	clk.Set(day)
	take(t, r, "k", 1, bucket("b", 10, 1), fixed("f", 10, time.Minute), sliding("s", 10, time.Minute), fixed("x", 1, time.Millisecond))
	for _, tc := range []struct {
		at      time.Duration
		removed int64
		left    []string
	}{
		{0, 0, []string{"b:k", "f:k", "s:k", "x:k"}},
		{61*time.Second - time.Microsecond, 0, []string{"b:k", "f:k", "s:k", "x:k"}},
		{61 * time.Second, 1, []string{"b:k", "f:k", "s:k"}},
		{70*time.Second - time.Microsecond, 0, []string{"b:k", "f:k", "s:k"}},
		{70 * time.Second, 1, []string{"f:k", "s:k"}},
		{2 * time.Minute, 1, []string{"s:k"}},
		{3*time.Minute - time.Microsecond, 0, []string{"s:k"}},
		{3 * time.Minute, 1, nil},
	} {
		clk.Set(day.Add(tc.at))
		removed, err := r.Cleanup(t.Context())
		require.NoError(t, err)
		require.Equal(t, tc.removed, removed, "at %v", tc.at)
		require.Equal(t, tc.left, keysOf(t, path), "at %v", tc.at)
	}
}

// What a clock wrote that was years ahead counts for none, and does not stay for years.
func TestCleanupOfTheFuture(t *testing.T) {
	path, clk := filepath.Join(t.TempDir(), "limits.db"), admissiontest.NewClock()
	r := open(t, sqlite.Config{Path: path, Clock: clk})
	plans := []admission.Plan{bucket("b", 10, 1), fixed("f", 10, time.Hour), sliding("s", 10, time.Hour)}
	clk.Set(day.AddDate(20, 0, 0))
	take(t, r, "wrong", 1, plans...)
	clk.Set(day.Add(30 * time.Minute))
	take(t, r, "ahead", 1, plans...)
	clk.Set(day)
	take(t, r, "right", 1, plans...)
	removed, err := r.Cleanup(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(4), removed)
	require.Equal(t, []string{"b:right", "f:ahead", "f:right", "s:ahead", "s:right"}, keysOf(t, path))
}

// Steps go through the whole table, whatever its keys are, and neither skip a row nor take one that still counts.
func TestCleanupSteps(t *testing.T) {
	for _, n := range []int{0, 1, sqlite.CleanupStep - 1, sqlite.CleanupStep, sqlite.CleanupStep + 1, 2*sqlite.CleanupStep + 500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			path, clk := filepath.Join(t.TempDir(), "limits.db"), admissiontest.NewClock()
			r := open(t, sqlite.Config{Path: path, Clock: clk})
			fill(t, r, n)
			clk.Move(time.Hour)
			removed, err := r.Cleanup(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, n/2, removed)
			require.Len(t, keysOf(t, path), n-n/2)
			for _, r := range rows(t, path) {
				require.Equal(t, "wide:", r.Key[:5])
			}
		})
	}
}

func fill(t *testing.T, r *sqlite.Repository, n int) {
	t.Helper()
	brief := fixed("brief", 1<<30, time.Second)
	odd := []string{"", "\x00", "\xff", "'", "é", "\U0010ffff"}
	done := make(chan error, n)
	for i := range n {
		plan := wide
		if i%2 == 1 {
			plan = brief
		}
		go func() {
			_, err := r.Take(context.Background(), odd[i%len(odd)]+fmt.Sprint(i), []admission.Plan{plan}, 1)
			done <- err
		}()
	}
	for range n {
		require.NoError(t, <-done)
	}
}

// Run cleans up at once and every hour, goes on after an error, and ends with ctx.
func TestRun(t *testing.T) {
	clk := clocktest.NewFake(day)
	type outcome struct {
		removed int64
		err     error
	}
	outcomes := make(chan outcome, 1)
	r := open(t, sqlite.Config{Clock: clk, OnCleanup: func(removed int64, err error) { outcomes <- outcome{removed, err} }})
	brief := fixed("brief", 1, time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	require.Equal(t, outcome{}, <-outcomes)
	for range 3 {
		take(t, r, "key", 1, brief)
		clk.BlockUntil(1)
		clk.Advance(time.Hour - time.Nanosecond)
		require.Empty(t, outcomes)
		clk.Advance(time.Nanosecond)
		require.Equal(t, outcome{removed: 1}, <-outcomes)
	}
	clk.BlockUntil(1)
	require.NoError(t, r.Exec(t.Context(), `ALTER TABLE rate_limit_entries RENAME TO gone`))
	clk.Advance(time.Hour)
	require.ErrorContains(t, (<-outcomes).err, "no such table")
	clk.BlockUntil(1)
	require.NoError(t, r.Exec(t.Context(), `ALTER TABLE gone RENAME TO rate_limit_entries`))
	clk.Advance(time.Hour)
	require.Equal(t, outcome{}, <-outcomes)
	clk.BlockUntil(1)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestRunOfAClosed(t *testing.T) {
	r := open(t, sqlite.Config{})
	require.NoError(t, r.Close())
	require.True(t, errors.Is(r.Run(t.Context()), admission.ErrClosed))
}
