package integration_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
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
	c, err := newOver(cfg, dial)
	require.NoError(t, err)
	require.NoError(t, c.Run(t.Context(), "http://a.test/"))
}

// round opens another round and crawls it to its end, or to its limit.
func round(t *testing.T, dir string, dial dialer, again assembly.Again, change func(*assembly.Config)) (map[string]string, *assembly.Crawler) {
	t.Helper()
	st, err := assembly.OpenAgain(assembly.StateConfig{Dir: dir}, again)
	require.NoError(t, err)
	out := &ledger{}
	cfg := st.Config()
	cfg.Sinks = []crawl.Sink{out}
	if change != nil {
		change(&cfg)
	}
	c, err := newOver(cfg, dial)
	require.NoError(t, err)
	require.NoError(t, c.Run(t.Context()))
	return changesOf(out.list), c
}

func changesOf(records []crawl.Record) map[string]string {
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
		st, err := assembly.OpenState(assembly.StateConfig{Dir: dir})
		require.NoError(t, err)
		c, err := newOver(st.Config(), net.DialContext)
		require.NoError(t, err)
		c.Stop()
		require.NoError(t, c.Run(t.Context()))
		require.NoError(t, opens(assembly.Again{Unfinished: true}))
		err = opens(assembly.Again{})
		require.ErrorIs(t, err, crawl.ErrUnfinished)
		require.EqualError(t, err, dir+" holds a crawl that was interrupted: go on with it by 'crawl resume "+dir+"', or begin a round all the same with --unfinished")
		_, err = resumed(t, dir, net.DialContext, &ledger{}, func(cfg *assembly.Config) { cfg.MaxPages = 0 })
		require.NoError(t, err)

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
		st, err = assembly.OpenState(assembly.StateConfig{Dir: dir})
		require.NoError(t, err)
		require.Equal(t, 3, st.Round())
		queued, pages := st.Left()
		require.Equal(t, [2]int64{2, 3}, [2]int64{queued, pages}, "pages of this round count")
		require.NoError(t, st.Close())
		out := &ledger{list: make([]crawl.Record, 3)}
		_, err = resumed(t, dir, net.DialContext, out, func(cfg *assembly.Config) { cfg.MaxPages = 0 })
		require.NoError(t, err)
		for path, change := range changesOf(out.list[3:]) {
			require.NotContains(t, first, path)
			first[path] = change
		}
		require.Equal(t, map[string]string{
			"/": "304 unchanged", "/same": "200 changed", "/other": "304 unchanged", "/gone": "404 unchanged", "/added": "304 unchanged",
		}, first)
	})
}

// Pages that are new enough are not asked for, and a round without anything to do is none
// whose seeds cannot be reached.
func TestAgainMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := versions{"/": "1", "/a": "1"}
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": site})
		dir := filepath.Join(t.TempDir(), "state")
		kept(t, dir, net.DialContext, 0)
		time.Sleep(time.Hour)
		changes, c := round(t, dir, net.DialContext, assembly.Again{MaxAge: 2 * time.Hour}, nil)
		require.Empty(t, changes)
		require.Equal(t, "done", c.Snapshot().State.String())
		require.Zero(t, c.Snapshot().Requests)
		changes, _ = round(t, dir, net.DialContext, assembly.Again{MaxAge: time.Minute}, func(cfg *assembly.Config) { cfg.Fetch.Conditional = false })
		require.Equal(t, map[string]string{"/": "200 unchanged", "/a": "200 unchanged"}, changes)
	})
}

// A round that was asked for and did not begin leaves the state as it was; one that has begun
// is resumed with the settings it began with.
func TestAgainBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": versions{"/": "1"}})
		dir := filepath.Join(t.TempDir(), "state")
		kept(t, dir, net.DialContext, 0)
		st, err := assembly.OpenAgain(assembly.StateConfig{Dir: dir}, assembly.Again{})
		require.NoError(t, err)
		require.Equal(t, 2, st.Round())
		require.False(t, st.Done())
		require.NoError(t, st.Close())
		st, err = assembly.OpenState(assembly.StateConfig{Dir: dir})
		require.NoError(t, err)
		require.Equal(t, 1, st.Round())
		require.True(t, st.Done())
		require.NoError(t, st.Close())

		st, err = assembly.OpenAgain(assembly.StateConfig{Dir: dir}, assembly.Again{})
		require.NoError(t, err)
		cfg := st.Config()
		cfg.Output.Path = filepath.Join(dir, "records-2.jsonl")
		c, err := newOver(cfg, net.DialContext)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		st, err = assembly.OpenState(assembly.StateConfig{Dir: dir})
		require.NoError(t, err)
		require.Equal(t, 2, st.Round())
		require.False(t, st.Done())
		require.Equal(t, filepath.Join(dir, "records-2.jsonl"), st.Config().Output.Path)
		require.NoError(t, st.Close())

		_, err = assembly.OpenAgain(assembly.StateConfig{Dir: filepath.Join(dir, "none")}, assembly.Again{})
		require.True(t, errors.Is(err, os.ErrNotExist))
	})
}
