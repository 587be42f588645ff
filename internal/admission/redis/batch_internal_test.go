package redis

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
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
