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

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// TestTokensAreForThoseWhoWait: a caller that has left takes no token of a lease from the one who still waits.
func TestTokensAreForThoseWhoWait(t *testing.T) {
	r, err := New(Config{Redis: rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}}, Deadline: time.Hour, Lease: time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	plans := []admission.Plan{{Name: "p", Kind: admission.KindTokenBucket, Capacity: 10, TokensPerSecond: 1}}
	now := r.instant()
	l := &line{plans: plans, until: now.Add(time.Hour), left: 1, states: []admission.State{plans[0].Fresh(0)}, sight: sight{sent: now, received: now}}
	b := &batch{callers: 2, landed: make(chan struct{}, 1), done: make(chan struct{})}
	l.flying, l.waiting = 1, b
	sh := r.local.shard("ann")
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err = r.wait(gone, sh, "ann", l, b)
	require.ErrorIs(t, err, context.Canceled)
	sh.mu.Lock()
	sh.landLocked("ann", l)
	sh.mu.Unlock()
	r.depart(t.Context(), sh, "ann", l, b)
	res, err := r.wait(t.Context(), sh, "ann", l, b)
	require.NoError(t, err)
	require.True(t, res.Allowed)
	require.Equal(t, Statistics{Leased: 1}, r.Statistics(), "no command is sent")
	require.Zero(t, l.left)
	require.Zero(t, l.flying)
	require.Nil(t, l.waiting)
}

// TestNoKeysNoDenials: where no key is remembered, Redis is asked again after a denial, even while another command about
// the key is in flight.
func TestNoKeysNoDenials(t *testing.T) {
	for keys, remembered := range map[int]bool{-1: false, 1: true} {
		r, err := New(Config{Redis: rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}}, Deadline: time.Hour, Keys: keys})
		require.NoError(t, err)
		defer func() { require.NoError(t, r.Close()) }()
		p := admission.Plan{Name: "p", Kind: admission.KindTokenBucket, Capacity: 10, TokensPerSecond: 0.001}
		plans := []admission.Plan{p}
		sh, e, now := r.local.shard("ann"), &entry{}, r.instant()
		sh.aloft["ann"] = e
		l := e.line(plans)
		l.flying = 2
		empty, _ := p.Take(p.Fresh(1), 1, 10)
		sh.mu.Lock()
		sh.learnLocked("ann", l, &answer{states: []admission.State{empty}, taken: denied, now: 1}, sight{1, now, now}, false)
		sh.landLocked("ann", l)
		sh.mu.Unlock()
		_, err = r.Take(t.Context(), "ann", plans, 2)
		require.Equal(t, remembered, err == nil, "Redis does not answer: %v", err)
	}
}

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
