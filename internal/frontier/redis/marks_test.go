package redis

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

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

// A server that has lost the last that it acknowledged has it again when that is found again,
// whether the loss shows when something else is added or nothing is.
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
			rouse(t, a, 1)
			urls, _ := load(t, a, "a.test", 9)
			require.ElementsMatch(t, []string{"http://a.test/1", "http://a.test/2", "http://a.test/3"}, urls)
			a.checkMarks(t.Context())
			require.EqualValues(t, 1, a.counts.setbacks.Load(), "it was lost once")
			require.True(t, known("http://a.test/2"))
		})
	}
}

// Of a process that has added nothing for long nothing is kept, and nothing was lost.
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
