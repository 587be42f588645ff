package integration_test

import (
	"context"
	"net/http"
	"net/netip"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// What comes before the first request counts for MaxTime, and Stop ends it: here name servers that do
// not answer, in a new crawl, one that goes on and a new round.
func TestTheStartOfACrawlEndsInTime(t *testing.T) {
	silent := func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, way := range []string{"max_time", "stop"} {
		for _, what := range []string{"new", "resume", "again"} {
			t.Run(what+"/"+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg, out := unpaced(), &records{}
					cfg.Sinks, cfg.State.Dir, cfg.Robots.Enabled, cfg.Sitemaps.Enabled = []crawl.Sink{out}, filepath.Join(t.TempDir(), "state"), false, false
					if what != "new" {
						net := fetchtest.Serve(t, map[string]http.Handler{"a.test": page(anchors("/a", "/b"))})
						cfg.MaxPages = 1
						c, err := newOver(cfg, net.DialContext)
						require.NoError(t, err)
						require.NoError(t, c.Run(t.Context(), "http://a.test/"))
						open := assembly.OpenState
						if what == "again" {
							open = func(cfg assembly.StateConfig) (*assembly.State, error) {
								return assembly.OpenAgain(cfg, assembly.Again{})
							}
						}
						st, err := open(assembly.StateConfig{Dir: cfg.State.Dir})
						require.NoError(t, err)
						cfg = st.Config()
						cfg.Sinks, cfg.MaxPages = []crawl.Sink{out}, 0
					}
					cfg.MaxTime = time.Hour
					if way == "max_time" {
						cfg.MaxTime = time.Second
					}
					c, err := newResolving(cfg, silent)
					require.NoError(t, err)
					if way == "stop" {
						time.AfterFunc(time.Second, c.Stop)
					}
					from, before := time.Now(), len(out.list)
					require.NoError(t, c.Run(t.Context(), "http://b.test/", "http://c.test/"))
					require.Equal(t, time.Second, time.Since(from))
					want := "limit"
					if way == "stop" {
						want = "interrupted"
					}
					require.Equal(t, want, c.Snapshot().State.String())
					require.Len(t, out.list, before, "nothing was asked for")

					st, err := assembly.OpenState(assembly.StateConfig{Dir: cfg.State.Dir})
					require.NoError(t, err)
					require.False(t, st.Seeded(), "the seeds are kept for the next run")
					require.NoError(t, st.Close())
				})
			})
		}
	}
}

// MaxTime counts from when the run began, also where that was before Run.
func TestMaxTimeCountsFromWhenTheRunBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": endless()})
		for began, want := range map[time.Duration]bool{time.Minute: false, 50 * time.Second: true, 0: true} {
			out := &records{}
			cfg := assembly.DefaultConfig()
			cfg.Sinks, cfg.MaxTime = []crawl.Sink{out}, time.Minute
			cfg.Began = time.Now().Add(-began)
			c, err := newOver(cfg, net.DialContext)
			require.NoError(t, err)
			from := time.Now()
			require.NoError(t, c.Run(t.Context(), "http://a.test/"))
			require.Equal(t, want, len(out.list) > 0, began)
			require.LessOrEqual(t, time.Since(from), time.Minute-began+cfg.Grace)
			require.Equal(t, "limit", c.Snapshot().State.String())
		}
	})
}
