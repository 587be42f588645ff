package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
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

// A server that comes back without the last writes that it had acknowledged gets them again when their URLs are found
// again, whether anything was added meanwhile or not. A server that has always been there has lost nothing.
func TestSetback(t *testing.T) {
	for _, adds := range []bool{true, false} {
		t.Run(fmt.Sprintf("adds=%v", adds), func(t *testing.T) {
			server := redistest.Redis.Start(t)
			r := realTime(rigOn(t, server.Addr))
			a := r.open()
			beat := func(until func() bool) {
				t.Helper()
				require.Eventually(t, func() bool { frontier.Signal(a.stir); return until() }, redistest.Patience, time.Millisecond)
			}
			known := func(url string) bool { return a.Known(item(t, url).URL.Fingerprint(a.Key())) }
			put(t, a, "http://a.test/1")
			flush(t, a)
			server.Do(t, "SAVE")
			put(t, a, "http://a.test/2")
			flush(t, a)
			beats := a.counts.heartbeats.Load()
			beat(func() bool { return a.counts.heartbeats.Load() > beats+2 })
			require.True(t, known("http://a.test/1"))
			require.True(t, known("http://a.test/2"))

			server.Stop()
			if adds {
				put(t, a, "http://a.test/3")
			}
			server.Restart(t)
			beat(func() bool { return a.counts.setbacks.Load() > 0 })
			require.False(t, known("http://a.test/2"), "it is not")
			put(t, a, "http://a.test/1", "http://a.test/2", "http://a.test/3")
			flush(t, a)
			activate(t, a, 1)
			urls, _ := load(t, a, "a.test", 9)
			require.ElementsMatch(t, []string{"http://a.test/1", "http://a.test/2", "http://a.test/3"}, urls)
			beats = a.counts.heartbeats.Load()
			beat(func() bool { return a.counts.heartbeats.Load() > beats+2 })
			require.EqualValues(t, 1, a.counts.setbacks.Load(), "it was lost once")
			require.True(t, known("http://a.test/2"))
		})
	}
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
