package integration_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/record"
)

// versions is a site of pages that have a version each, and tells it.
type versions map[string]string

func (v versions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	version, found := v[r.URL.Path]
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", `"`+version+`"`)
	if r.Header.Get("If-None-Match") == `"`+version+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<title>%s %s</title>", r.URL.Path, version)
	for _, path := range slices.Sorted(maps.Keys(v)) { // or no two answers were the same
		fmt.Fprintf(w, "<a href=%s>x</a>", path)
	}
}

// kept crawls a site for the first time, in a state.
func kept(t *testing.T, dir string, dial dialer, limit int64) {
	t.Helper()
	cfg := assembly.DefaultConfig()
	cfg.State.Dir, cfg.MaxPages, cfg.Sitemaps.Enabled = dir, limit, false
	runOver(t, cfg, dial, "http://a.test/")
}

// round opens another round and crawls it to its end, or to its limit.
func round(t *testing.T, dir string, dial dialer, again assembly.Again, change func(*assembly.Config)) (map[string]string, *assembly.Crawler) {
	t.Helper()
	st := openAgain(t, dir, again)
	out := &ledger{}
	cfg := st.Config()
	cfg.Sinks = []record.Sink{out}
	if change != nil {
		change(&cfg)
	}
	c := runOver(t, cfg, dial)
	return changesOf(out.list), c
}

func changesOf(records []record.Record) map[string]string {
	changes := map[string]string{}
	for _, rec := range records {
		changes[rec.URL[len("http://a.test"):]] = fmt.Sprintf("%d %s", rec.Status, rec.Change)
	}
	return changes
}

// Rounds over a state on disk, one of which is interrupted by a limit and resumed.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := versions{"/": "1", "/same": "1", "/other": "1", "/gone": "1"}
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": site})
		dir := filepath.Join(t.TempDir(), "state")
		kept(t, dir, net.DialContext, 2)

		opens := func(again assembly.Again) error {
			st, err := assembly.OpenAgain(assembly.StateConfig{Dir: dir}, again)
			if err == nil {
				err = st.Close()
			}
			return err
		}
		require.NoError(t, opens(assembly.Again{}), "a limit was reached")
		st := openState(t, dir)
		c := newOver(t, st.Config(), net.DialContext)
		c.Stop()
		require.NoError(t, c.Run(t.Context()))
		require.NoError(t, opens(assembly.Again{Unfinished: true}))
		err := opens(assembly.Again{})
		require.ErrorIs(t, err, crawl.ErrUnfinished)
		require.EqualError(t, err, dir+" holds a crawl that was interrupted: go on with it by 'crawl resume "+dir+"', or begin a round all the same with --unfinished")
		resumed(t, dir, net.DialContext, &ledger{}, func(cfg *assembly.Config) { cfg.MaxPages = 0 })

		site["/other"], site["/added"] = "2", "1"
		delete(site, "/gone")
		var changes map[string]string
		changes, c = round(t, dir, net.DialContext, assembly.Again{}, nil)
		require.Equal(t, map[string]string{
			"/": "304 unchanged", "/same": "304 unchanged", "/other": "200 changed", "/gone": "404 gone", "/added": "200 new",
		}, changes)
		require.Equal(t, map[string]int64{"unchanged": 2, "changed": 1, "gone": 1, "new": 1}, c.Snapshot().Changes)

		// The third round in two runs, whose records together are those of a round.
		site["/same"] = "2"
		first, c := round(t, dir, net.DialContext, assembly.Again{}, func(cfg *assembly.Config) { cfg.MaxPages = 3 })
		require.Equal(t, "limit", c.Snapshot().State.String())
		require.Len(t, first, 3)
		st = openState(t, dir)
		require.Equal(t, 3, st.Round())
		queued, pages := st.Left()
		require.Equal(t, [2]int64{2, 3}, [2]int64{queued, pages}, "pages of this round count")
		require.NoError(t, st.Close())
		out := &ledger{list: make([]record.Record, 3)}
		resumed(t, dir, net.DialContext, out, func(cfg *assembly.Config) { cfg.MaxPages = 0 })
		for path, change := range changesOf(out.list[3:]) {
			require.NotContains(t, first, path)
			first[path] = change
		}
		require.Equal(t, map[string]string{
			"/": "304 unchanged", "/same": "200 changed", "/other": "304 unchanged", "/gone": "404 unchanged", "/added": "304 unchanged",
		}, first)
	})
}

// A round that was asked for and did not begin leaves the state as it was; one that has begun
// is resumed with the settings it began with.
func TestAgainBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": versions{"/": "1"}})
		dir := filepath.Join(t.TempDir(), "state")
		kept(t, dir, net.DialContext, 0)
		st := openAgain(t, dir, assembly.Again{})
		require.Equal(t, 2, st.Round())
		require.False(t, st.Done())
		require.NoError(t, st.Close())
		st = openState(t, dir)
		require.Equal(t, 1, st.Round())
		require.True(t, st.Done())
		require.NoError(t, st.Close())

		st = openAgain(t, dir, assembly.Again{})
		cfg := st.Config()
		cfg.Output.Path = filepath.Join(dir, "records-2.jsonl")
		c := newOver(t, cfg, net.DialContext)
		require.NoError(t, c.Close())
		st = openState(t, dir)
		require.Equal(t, 2, st.Round())
		require.False(t, st.Done())
		require.Equal(t, filepath.Join(dir, "records-2.jsonl"), st.Config().Output.Path)
		require.NoError(t, st.Close())

		_, err := assembly.OpenAgain(assembly.StateConfig{Dir: filepath.Join(dir, "none")}, assembly.Again{})
		require.True(t, errors.Is(err, os.ErrNotExist))
	})
}

// What a crawl is let in by is not handed on with its archives, whatever the field is called.
func TestArchivesOpenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Setenv("SECRET_OF_TEST", "hunter2-env")
		var mu sync.Mutex
		got := http.Header{}
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			got = r.Header.Clone()
			mu.Unlock()
			w.Header().Set("Content-Type", "text/html")
		})})
		dir := t.TempDir()
		cfg := assembly.DefaultConfig()
		cfg.Fetch.Headers = []string{"X-Plain: plain", "X-Odd: ${SECRET_OF_TEST}", "X-Api-Key: hunter2-key"}
		cfg.Hosts = []config.Host{{Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 1, Headers: []string{"X-Site: hunter2-site"}, Auth: "reader:hunter2"}}
		archive, err := assembly.OpenArchive(assembly.ArchiveConfig{Dir: dir, Settings: cfg.Settings})
		require.NoError(t, err)
		cfg.Archives = []record.Sink{archive}
		runOver(t, cfg, net.DialContext, "http://a.test/")
		require.NoError(t, archive.Close())
		require.Equal(t, []string{"plain", "hunter2-env", "hunter2-key", "hunter2-site", "Basic cmVhZGVyOmh1bnRlcjI="}, []string{
			got.Get("X-Plain"), got.Get("X-Odd"), got.Get("X-Api-Key"), got.Get("X-Site"), got.Get("Authorization"),
		})

		files, err := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
		require.NoError(t, err)
		f, err := os.Open(files[0])
		require.NoError(t, err)
		gz, err := gzip.NewReader(f)
		require.NoError(t, err)
		text, err := io.ReadAll(gz)
		require.NoError(t, errors.Join(err, f.Close()))
		require.Contains(t, string(text), "X-Plain: plain\r\n")
		require.Contains(t, string(text), "X-Odd: xxx\r\n")
		require.NotContains(t, string(text), "hunter2")
		require.NotContains(t, string(text), "cmVhZGVyOmh1bnRlcjI=")
	})
}

// What comes before the first request counts for MaxTime, and Stop ends it: here name servers that do
// not answer, in a new crawl, one that goes on and a new round.
func TestTheStartOfACrawlEndsInTime(t *testing.T) {
	silent := func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, way := range []string{"max_time", "stop"} {
		for _, what := range []string{"new", "resume", "again"} {
			t.Run(what+"/"+way, bubble(func(t *testing.T) {
				cfg, out := unpaced(), &records{}
				cfg.Sinks, cfg.State.Dir, cfg.Robots.Enabled, cfg.Sitemaps.Enabled = []record.Sink{out}, filepath.Join(t.TempDir(), "state"), false, false
				if what != "new" {
					net := fetchtest.Serve(t, map[string]http.Handler{"a.test": page(anchors("/a", "/b"))})
					cfg.MaxPages = 1
					runOver(t, cfg, net.DialContext, "http://a.test/")
					open := assembly.OpenState
					if what == "again" {
						open = func(cfg assembly.StateConfig) (*assembly.State, error) {
							return assembly.OpenAgain(cfg, assembly.Again{})
						}
					}
					st, err := open(assembly.StateConfig{Dir: cfg.State.Dir})
					require.NoError(t, err)
					cfg = st.Config()
					cfg.Sinks, cfg.MaxPages = []record.Sink{out}, 0
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

				st := openState(t, cfg.State.Dir)
				require.False(t, st.Seeded(), "the seeds are kept for the next run")
				require.NoError(t, st.Close())
			}))
		}
	}
}

// MaxTime counts from when the run began, also where that was before Run.
func TestMaxTimeCountsFromWhenTheRunBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": endless()})
		for began, want := range map[time.Duration]bool{time.Minute: false, 50 * time.Second: true, 0: true} {
			cfg := assembly.DefaultConfig()
			cfg.MaxTime, cfg.Began = time.Minute, time.Now().Add(-began)
			c, out := recorded(t, cfg, net.DialContext)
			from := time.Now()
			require.NoError(t, c.Run(t.Context(), "http://a.test/"))
			require.Equal(t, want, len(out.list) > 0, began)
			require.LessOrEqual(t, time.Since(from), time.Minute-began+cfg.Grace)
			require.Equal(t, "limit", c.Snapshot().State.String())
		}
	})
}
