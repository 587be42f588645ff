package pipeline

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// A paused crawl asks for nothing and does not end, whatever it has left to do, and goes on
// where it was; a seed that comes meanwhile is visited then.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if r.URL.Path == "/" {
				html(w, links(20))
			}
		})
		net := fetchtest.Serve(t, map[string]http.Handler{"h.test": page, "late.test": page})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.Robots = nil
		w.Scope.AddSeed(parse(t, "http://late.test/"))
		p := w.build(t)
		require.False(t, p.Pause(), "there is nothing to pause before Run")
		ended := make(chan error, 1)
		go func() { ended <- w.run(t.Context(), t, p, "http://h.test/") }()
		time.Sleep(3 * time.Second)
		require.True(t, p.Pause())
		synctest.Wait()
		before := asked.Load()
		require.Positive(t, before)
		require.Less(t, before, int64(21))
		time.Sleep(time.Hour)
		require.Equal(t, before, asked.Load(), "requests of a paused crawl")
		require.True(t, p.AddSeed(parse(t, "http://late.test/")))
		time.Sleep(time.Hour)
		require.Equal(t, before, asked.Load(), "requests of a paused crawl")
		require.Equal(t, int64(1), p.discovery.frontier.Counts().Queued-(21-before))

		require.True(t, p.Unpause())
		require.NoError(t, <-ended)
		requireEnd(t, p, EndDone)
		require.Len(t, w.out.byURL(t), 2*21)
		require.False(t, p.Pause(), "it is over")
		require.False(t, p.AddSeed(parse(t, "http://late.test/more")))
	})
}

// A paused crawl that is stopped ends, and so does one that pauses with nothing left to do
// as soon as it may go on.
func TestPausedCrawlsEnd(t *testing.T) {
	for name, stop := range map[string]bool{"stopped": true, "nothing left": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := fetchtest.Serve(t, map[string]http.Handler{"h.test": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(time.Second)
					html(w, "x")
				})})
				w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
				w.Robots = nil
				p := w.build(t)
				ended := make(chan error, 1)
				go func() { ended <- w.run(t.Context(), t, p, "http://h.test/") }()
				time.Sleep(time.Millisecond)
				require.True(t, p.Pause())
				time.Sleep(time.Minute)
				require.Empty(t, ended)
				if stop {
					p.Stop()
				} else {
					require.True(t, p.Unpause())
				}
				require.NoError(t, <-ended)
				require.Len(t, w.out.byURL(t), 1)
			})
		})
	}
}

// Bounds that are set while what is under way is finished wake nobody: the end has been chosen,
// and an instant in the past would be waited for over and over.
func TestBoundsOfACrawlThatStops(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	d := &discovery{ending: ending{began: began}}
	d.bound(3, time.Minute)
	require.Equal(t, began.Add(time.Minute), d.deadline)
	d.hurried, d.deadline = true, time.Time{}
	d.bound(3, time.Second)
	require.Zero(t, d.deadline)
}
