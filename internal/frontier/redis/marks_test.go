//go:build unix

package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/lab/redistest"
)

// restore has a server be as it was when dump was taken of its partition.
func restore(t *testing.T, server *redistest.Server, job string, then map[string]string) {
	t.Helper()
	c := redistest.Client(t, server.Addr)
	defer c.Close()
	keys, err := server.Do(t, "KEYS", root(job, 0)+"*").AsStrSlice()
	require.NoError(t, err)
	require.NoError(t, c.Do(context.Background(), c.B().Del().Key(keys...).Build()).Error())
	for key, value := range then {
		require.NoError(t, c.Do(context.Background(), c.B().Restore().Key(key).Ttl(0).SerializedValue(value).Build()).Error())
	}
}

// A server, or the one that has taken its place, has lost the last writes that it had acknowledged. It gets them again
// when their URLs are found again, whether something else was added meanwhile or not.
func TestSetback(t *testing.T) {
	for _, adds := range []bool{true, false} {
		t.Run(fmt.Sprintf("adds=%v", adds), func(t *testing.T) {
			r := newRig(t)
			server := redistest.Redis.Shared(t)
			a := r.open()
			known := func(url string) bool { return a.Known(item(t, url).URL.Fingerprint(a.Key())) }
			put(t, a, "http://a.test/1")
			flush(t, a)
			then := dump(t, server, r.cfg.Job)
			put(t, a, "http://a.test/2")
			flush(t, a)
			a.checkMarks(t.Context())
			require.True(t, known("http://a.test/1"))
			require.True(t, known("http://a.test/2"))

			restore(t, server, r.cfg.Job, then)
			if adds {
				put(t, a, "http://a.test/3")
				flush(t, a)
			} else {
				r.until(func() bool { return a.counts.setbacks.Load() > 0 })
			}
			require.False(t, known("http://a.test/2"), "it is not")
			put(t, a, "http://a.test/1", "http://a.test/2", "http://a.test/3")
			flush(t, a)
			activate(t, a, 1)
			urls, _ := load(t, a, "a.test", 9)
			require.ElementsMatch(t, []string{"http://a.test/1", "http://a.test/2", "http://a.test/3"}, urls)
			a.checkMarks(t.Context())
			require.EqualValues(t, 1, a.counts.setbacks.Load(), "it was lost once")
			require.True(t, known("http://a.test/2"))
		})
	}
}

// Leases are renewed while the server of some partition does not say whether it has lost anything.
func TestSilentAboutLosses(t *testing.T) {
	r := newRig(t)
	a := r.open()
	put(t, a, "http://a.test/1")
	activate(t, a, 1)
	var asked atomic.Bool
	watched(a, func(ctx context.Context, commands []rueidis.Completed) {
		if commands[0].Commands()[0] == "GET" {
			asked.Store(true)
			<-ctx.Done()
		}
	})
	r.until(asked.Load)
	held, end := tenureOf(a, "a.test"), r.clk.Now().Add(r.cfg.Lease)
	r.until(func() bool { return !held.Over(end) })
	require.NoError(t, held.Err())
	require.Zero(t, a.counts.setbacks.Load())
}

// The number of a process that has added nothing for long may be gone, and nothing was lost.
func TestOldMark(t *testing.T) {
	r := newRig(t)
	server := redistest.Redis.Shared(t)
	a := r.open()
	put(t, a, "http://a.test/1")
	flush(t, a)
	key := a.markKey(0)
	left, err := server.Do(t, "PTTL", key).AsInt64()
	require.NoError(t, err)
	require.Greater(t, left, markFor.Milliseconds())
	a.seen.mu.Lock()
	a.marks[0].at = noon.Add(-markFor)
	a.seen.mu.Unlock()
	server.Do(t, "DEL", key)
	a.checkMarks(t.Context())
	put(t, a, "http://a.test/2")
	flush(t, a)
	require.Zero(t, a.counts.setbacks.Load())
	server.Do(t, "DEL", key)
	a.checkMarks(t.Context())
	require.EqualValues(t, 1, a.counts.setbacks.Load())
	put(t, a, "http://a.test/3")
	flush(t, a)
	require.NoError(t, a.Close())
	there, err := server.Do(t, "EXISTS", key).AsInt64()
	require.NoError(t, err)
	require.Zero(t, there, "nothing is left of a process that has gone")
}

// A server that has lost, as in a failover, that hosts were returned has them as the session's for as long as that is
// renewed, though the process knows nothing of them: it lets the session end, and they go on with whoever asks.
func TestReturnsThatAreLost(t *testing.T) {
	r := newRig(t)
	server := redistest.Redis.Shared(t)
	a := r.open()
	put(t, a, "http://a.test/1", "http://b.test/1")
	require.Len(t, activate(t, a, 2).Hosts, 2)
	renewed := func() {
		t.Helper()
		require.NoError(t, a.renew(t.Context()))
	}
	renewed()
	flush(t, a)
	then := dump(t, server, r.cfg.Job)
	a.Deactivate("a.test", time.Time{})
	renewed() // whether the return is on its way or has been taken in, nothing is amiss
	flush(t, a)
	renewed()
	require.NotNil(t, tenureOf(a, "b.test"))

	restore(t, server, r.cfg.Job, then)
	renewed()
	require.Nil(t, tenureOf(a, "b.test"), "of what else it has, it cannot know whether that is true")
	r.clk.Advance(r.cfg.Lease + time.Millisecond)
	activate(t, a, 2)          // which ends the session
	r.clk.Advance(time.Second) // the gap of a host of which nothing is known
	require.ElementsMatch(t, []string{"a.test", "b.test"}, names(activate(t, a, 2)))
}
