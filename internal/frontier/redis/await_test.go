//go:build unix

package redis

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

// until waits for what another goroutine does, while time goes on.
func (r *rig) until(done func() bool) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { r.clk.Advance(awaitEvery); return done() }, redistest.Patience, time.Millisecond)
}

// Who brings no URLs waits for the job, then for its first URL, and is told when all is done.
func TestAwait(t *testing.T) {
	r := newRig(t)
	r.cfg.now = nil // other processes are heard of by the server's clock
	told, over := make(chan bool, 8), make(chan error, 1)
	await := func(ctx context.Context) {
		go func() {
			over <- Await(ctx, r.cfg.Redis, r.cfg.Job, time.Hour, r.clk, func(there bool) { told <- there })
		}()
	}
	await(t.Context())
	require.False(t, <-told, "there is no job")
	s := r.open(func(c *Config) { c.Seeding = true })
	r.until(func() bool { return len(told) > 0 })
	require.True(t, <-told, "there is one without URLs")
	require.Empty(t, over)

	seed := item(t, "http://a.test/")
	seed.Seed = true
	s.Put("a.test", seed, seed.URL.Fingerprint(s.Key()), true)
	flush(t, s)
	r.until(func() bool { return len(over) > 0 })
	require.NoError(t, <-over)
	require.Empty(t, told, "nothing is told twice")

	// All that is there is done, but the first process may bring more.
	activate(t, s, 1)
	_, got := load(t, s, "a.test", 9)
	require.Len(t, got.Items, 1)
	s.Done("a.test", &got.Items[0], frontier.Visit{})
	flush(t, s)
	await(t.Context())
	r.until(func() bool { return len(over) > 0 })
	require.NoError(t, <-over)
	joiner := r.open(func(c *Config) { c.Join, c.Worker = true, "w2" })
	require.False(t, activate(t, joiner, 1).Complete)

	s.Seeded()
	r.until(func() bool { return activate(t, joiner, 1).Complete })
	await(t.Context())
	r.until(func() bool { return len(over) > 0 })
	require.ErrorIs(t, <-over, frontier.ErrComplete)

	ctx, cancel := context.WithCancel(t.Context())
	r.cfg.Job += "-none"
	await(ctx)
	require.False(t, <-told)
	cancel()
	require.ErrorIs(t, <-over, context.Canceled)
}

// A server that is not there is told of at once; one that goes away is waited for, so long.
func TestAwaitWithoutServer(t *testing.T) {
	srv := redistest.Redis.Start(t)
	r := rigOn(t, srv.Addr)
	told, over := make(chan bool, 1), make(chan error, 1)
	go func() {
		over <- Await(t.Context(), r.cfg.Redis, r.cfg.Job, time.Minute, r.clk, func(bool) { told <- true })
	}()
	<-told
	srv.Stop()
	r.until(func() bool { return len(over) > 0 })
	require.ErrorContains(t, <-over, "not answered within 1m0s")
	require.ErrorContains(t, Await(t.Context(), r.cfg.Redis, r.cfg.Job, time.Hour, r.clk, nil), "redis: connect to")
}
