package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// endless is a page, and a calendar without an end.
func endless() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/{$}", page(anchors("/cal/1", "/about")))
	mux.Handle("/about", page("about"))
	mux.HandleFunc("/cal/{day}", func(w http.ResponseWriter, r *http.Request) {
		day := 0
		_, _ = fmt.Sscan(r.PathValue("day"), &day)
		page(anchors(fmt.Sprintf("/cal/%d", day+1), fmt.Sprintf("/cal/%d", day+2), "/"))(w, r)
	})
	return mux
}

// days counts the records of calendars.
func days(list []crawl.Record) (n int) {
	for i := range list {
		if strings.Contains(list[i].URL, "/cal/") {
			n++
		}
	}
	return n
}

// Whatever instant a process is killed at, the runs together have what the budgets allow.
func TestBudgetsOfAllRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": endless(), "b.test": endless()})
		dir := filepath.Join(t.TempDir(), "state")
		var mu sync.Mutex
		var copies []string
		out := &ledger{}
		cfg := assembly.DefaultConfig()
		cfg.State.Dir, cfg.Sinks, cfg.Concurrency = dir, []crawl.Sink{out}, 1
		cfg.Scope.Budgets = []string{`4 ^http://a\.test/cal/`, `3/crawl /cal/`}
		cfg.OnPage = func(context.Context, *crawl.Page) error {
			mu.Lock()
			defer mu.Unlock()
			copies = append(copies, copyState(t, dir))
			return nil
		}
		c, err := newOver(cfg, net.DialContext)
		require.NoError(t, err)
		require.NoError(t, c.Run(t.Context(), "http://a.test/", "http://b.test/"))
		require.Equal(t, 4+3, days(out.list))
		require.Len(t, byURL(t, out.list), 4+3+2*2)
		require.Positive(t, c.Snapshot().Dropped["budget"])
		early := copyState(t, copies[2])
		for i, dir := range copies {
			again := &ledger{list: append([]crawl.Record(nil), out.list...)}
			_, err := resumed(t, dir, net.DialContext, again, nil)
			require.NoError(t, err)
			require.Equal(t, content(out.list), content(again.list), "copy %d", i)
		}
		// Patterns may be others when a crawl goes on, and what is there counts for them.
		again := &ledger{list: append([]crawl.Record(nil), out.list...)}
		_, err = resumed(t, early, net.DialContext, again, func(cfg *assembly.Config) {
			cfg.Scope.Budgets = []string{`9/crawl /cal/`}
		})
		require.NoError(t, err)
		require.Equal(t, 9, days(again.list))
	})
}

// A crawl that is stopped as it goes on has lost nothing, and asked for nothing.
func TestStopBeforeACrawlGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": endless()})
		out := &ledger{}
		cfg := assembly.DefaultConfig()
		cfg.State.Dir, cfg.Sinks, cfg.MaxPages = t.TempDir(), []crawl.Sink{out}, 2
		cfg.Scope.Budgets = []string{`5 /cal/`}
		c, err := newOver(cfg, net.DialContext)
		require.NoError(t, err)
		require.NoError(t, c.Run(t.Context(), "http://a.test/"))

		st, err := assembly.OpenState(assembly.StateConfig{Dir: cfg.State.Dir})
		require.NoError(t, err)
		cfg = st.Config()
		cfg.Sinks, cfg.MaxPages = []crawl.Sink{out}, 0
		c, err = newOver(cfg, net.DialContext)
		require.NoError(t, err)
		c.Stop()
		require.NoError(t, c.Run(t.Context()))
		require.Len(t, out.list, 2)
		require.Zero(t, c.Snapshot().Requests)

		_, err = resumed(t, cfg.State.Dir, net.DialContext, out, func(cfg *assembly.Config) { cfg.MaxPages = 0 })
		require.NoError(t, err)
		require.Equal(t, 5, days(out.list))
		byURL(t, out.list)
	})
}
