package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/record"
)

// mapped is a chain of pages, each of which links to one that robots.txt refuses, and a few
// sitemaps that know of nothing else.
func mapped() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		switch {
		case r.URL.Path == "/robots.txt":
			_, _ = io.WriteString(w, "User-agent: *\nDisallow: /no\nSitemap: /no.xml\n")
			for i := range 4 {
				fmt.Fprintf(w, "Sitemap: http://a.test/s%d.xml\n", i)
			}
		case strings.HasSuffix(r.URL.Path, ".xml"):
			w.Header().Set("Content-Type", "application/xml")
			_, _ = io.WriteString(w, "<urlset><url><loc>http://a.test/0</loc></url></urlset>")
		default:
			_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<a href=/no/%d>x</a><a href=/%d>y</a>", n, n+1)
		}
	})
}

// Wherever a crawl is interrupted, the budget of its host is that of one that was not: neither
// sitemaps nor what robots.txt refuses count for it.
func TestResumeCountsForTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": mapped()})
		cfg := assembly.DefaultConfig()
		cfg.MaxPagesPerHost = 6
		whole, _ := visitOver(t, cfg, net.DialContext, "http://a.test/0")
		for limit := int64(1); limit <= 7; limit++ {
			out := &ledger{}
			cfg.State.Dir, cfg.MaxPages, cfg.Sinks = filepath.Join(t.TempDir(), "state"), limit, []record.Sink{out}
			c := runOver(t, cfg, net.DialContext, "http://a.test/0")
			if limit < 7 {
				c = resumed(t, cfg.State.Dir, net.DialContext, out, func(cfg *assembly.Config) { cfg.MaxPages = 0 })
			}
			require.Equal(t, "done", c.Snapshot().State.String())
			var got, want []string
			for _, rec := range out.list {
				got = append(got, rec.URL)
			}
			for _, rec := range whole {
				want = append(want, rec.URL)
			}
			require.ElementsMatch(t, want, got, "interrupted after %d pages", limit)
		}
	})
}

// A crawl in three runs has the records of one: the settings and the seeds of the first
// run are those of the others, and max_pages counts the pages of all.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(12)})
		whole, _ := visitOver(t, assembly.DefaultConfig(), net.DialContext, "http://a.test/")

		dir := filepath.Join(t.TempDir(), "state")
		out := &ledger{}
		cfg := assembly.DefaultConfig()
		cfg.State.Dir, cfg.MaxPages, cfg.Output.Record = dir, 4, []string{"text"}
		cfg.Sinks = []record.Sink{out}
		runOver(t, cfg, net.DialContext, "http://a.test/")
		require.Len(t, out.list, 4)
		require.Positive(t, out.synced, "a sink is on its disk before the state says so")

		// A run that knows no more than the first ends where that ended.
		c := resumed(t, dir, net.DialContext, out, func(cfg *assembly.Config) {
			require.Equal(t, []string{"text"}, cfg.Output.Record, "the settings are those of the first run")
			require.Equal(t, dir, cfg.State.Dir)
		})
		require.Equal(t, "limit", c.Snapshot().State.String())
		require.Len(t, out.list, 4)

		resumed(t, dir, net.DialContext, out, func(cfg *assembly.Config) { cfg.MaxPages = 7 })
		require.Len(t, out.list, 7)

		// What was written behind the position is not there for the state: a crash.
		out.list = append(out.list, record.Record{URL: "http://a.test/lost"})
		c = resumed(t, dir, net.DialContext, out, func(cfg *assembly.Config) { cfg.MaxPages = 0 })
		require.Equal(t, "done", c.Snapshot().State.String())
		require.Equal(t, len(whole), len(byURL(t, out.list)))

		st := openState(t, dir)
		require.True(t, st.Done())
		queued, pages := st.Left()
		require.Equal(t, [2]int64{0, 13}, [2]int64{queued, pages})
		require.EqualValues(t, 13, st.Position("ledger").Records)
		require.NoError(t, st.Close())
		resumed(t, dir, net.DialContext, out, nil)
	})
}

// Where a seed has redirected to is in scope again when the crawl goes on.
func TestResumeKnowsRedirectedSeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{
			"a.test": http.RedirectHandler("http://b.test/", http.StatusFound), "b.test": star(3),
		})
		cfg := assembly.DefaultConfig()
		cfg.Robots.Enabled, cfg.MaxPages, cfg.State.Dir = false, 1, t.TempDir()
		out := &ledger{}
		cfg.Sinks = []record.Sink{out}
		runOver(t, cfg, net.DialContext, "http://a.test/")
		resumed(t, cfg.State.Dir, net.DialContext, out, func(cfg *assembly.Config) { cfg.MaxPages = 0 })
		require.Len(t, byURL(t, out.list), 5)
	})
}

func TestStateRefusals(t *testing.T) {
	dir := t.TempDir()
	_, err := assembly.OpenState(assembly.StateConfig{Dir: dir})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.EqualError(t, err, dir+" holds no crawl: name the directory that --state or --output was given")
	_, err = assembly.OpenState(assembly.StateConfig{})
	require.ErrorContains(t, err, "StateConfig.Dir is empty: name a directory")

	net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(3)})
	cfg := assembly.DefaultConfig()
	cfg.State.Dir, cfg.MaxPages, cfg.RateLimit.Strategy = dir, 1, "off"
	cfg.Dial = net.DialContext
	begin := func() (*assembly.Crawler, error) { return assembly.New(cfg) }
	c, err := begin()
	require.NoError(t, err)
	for _, open := range []func() error{
		func() error { _, err := begin(); return err },
		func() error { _, err := assembly.OpenState(assembly.StateConfig{Dir: dir}); return err },
		func() error { _, err := assembly.NewState(assembly.StateConfig{Dir: dir, Overwrite: true}); return err },
	} {
		err := open()
		require.EqualError(t, err, fmt.Sprintf("process %d has the crawl in %s under way: wait for its end, or end it", os.Getpid(), dir))
	}
	require.NoError(t, c.Run(t.Context(), "http://a.test/"))
	_, err = begin()
	require.ErrorIs(t, err, fs.ErrExist)
	require.EqualError(t, err, fmt.Sprintf("%s holds a crawl: go on with it by 'crawl resume %s', name another directory, or begin anew with --overwrite", dir, dir))
	var state *assembly.StateError
	require.ErrorAs(t, err, &state)
	require.Equal(t, dir, state.Dir)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
	cfg.Output.Overwrite = true
	c, err = begin()
	require.NoError(t, err, "anew means anew")
	require.NoError(t, c.Run(t.Context(), "http://a.test/"))
	require.FileExists(t, filepath.Join(dir, "mine"))

	cfg.MaxPages = 0
	c, err = begin()
	require.NoError(t, err)
	require.NoError(t, c.Run(t.Context(), "http://a.test/"))
	cfg.Output.Overwrite = false
	_, err = begin()
	require.ErrorIs(t, err, fs.ErrExist)
	require.EqualError(t, err, dir+" holds a crawl that is done: see what has changed since by 'crawl again "+dir+"', name another directory, or crawl anew with --overwrite")

	_, err = assembly.OpenState(assembly.StateConfig{Dir: filepath.Join(dir, "mine")})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.EqualError(t, err, filepath.Join(dir, "mine")+" is a file, which keeps no crawl: name the directory that --state or --output was given; a crawl without one was not kept, and one begun with -o DIR/ is")
}

// What was changed while a crawl ran holds when it goes on: who was asked to slow down does
// not get faster again by a resume.
func TestResumeKeepsWhatWasReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(3)})
		cfg := assembly.DefaultConfig()
		cfg.State.Dir, cfg.MaxPages = t.TempDir(), 2
		var c *assembly.Crawler
		cfg.Handle = func(context.Context, *pipeline.Page) error {
			slower := cfg.Settings
			slower.RateLimit.InitialRPS, slower.RateLimit.MaxRPS = 0.5, 0.5
			_, _, err := c.Reload(&slower)
			return err
		}
		c = newOver(t, cfg, net.DialContext)
		require.NoError(t, c.Run(t.Context(), "http://a.test/"))
		st := openState(t, cfg.State.Dir)
		require.InDelta(t, 0.5, float64(st.Config().RateLimit.MaxRPS), 0)
		require.NoError(t, st.Close())
	})
}

// Settings that this program does not know are those of another, which is named.
func TestResumeWithSettingsOfAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	st, err := assembly.NewState(assembly.StateConfig{Dir: dir, Version: "99.0"})
	require.NoError(t, err)
	cfg := st.Config()
	c := newOver(t, cfg, cfg.Dial)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Run(ctx, "http://127.0.0.1:1/"), context.Canceled)
	db, err := sqlitedb.Open(filepath.Join(dir, "state.db"), sqlitedb.Config{})
	require.NoError(t, err)
	require.NoError(t, db.Exec("UPDATE meta SET value = value || 'warp: 9' || char(10) WHERE key = 'settings'"))
	require.NoError(t, db.Close())
	for range 2 { // the name outlasts a program that could do nothing
		_, err = assembly.OpenState(assembly.StateConfig{Dir: dir, Version: "1.0"})
		require.ErrorContains(t, err, "its settings, which Treadlight 99.0 wrote: warp: is not a setting")
		require.ErrorContains(t, err, ": go on with that program")
	}
}

// A state in which nothing was ever kept is none: it is removed, or in nobody's way.
func TestStateThatNeverBegan(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		st, err := assembly.NewState(assembly.StateConfig{Dir: dir})
		require.NoError(t, err)
		killed := copyState(t, dir)
		require.NoError(t, st.Close())
		require.NoError(t, st.Close())
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)

		_, err = assembly.OpenState(assembly.StateConfig{Dir: killed})
		require.ErrorContains(t, err, "the crawl was given up before it began: begin it again as it was")
		require.ErrorIs(t, err, fs.ErrNotExist)
		st, err = assembly.NewState(assembly.StateConfig{Dir: killed})
		require.NoError(t, err)
		require.NoError(t, st.Close())
	}
	cfg := assembly.DefaultConfig()
	cfg.State.Dir = dir
	c := newOver(t, cfg, cfg.Dial)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	require.ErrorContains(t, c.Run(t.Context(), "http://a.test/"), "Run was called before")

	cfg.RateLimit.Remember = filepath.Join(dir, "missing", "hosts")
	c = newOver(t, cfg, cfg.Dial)
	require.ErrorContains(t, c.Run(t.Context(), "http://a.test/"), "make the directory first")
	st, err := assembly.OpenState(assembly.StateConfig{Dir: dir})
	require.NoError(t, err, "a run that fails gives the state back, with its seeds in it")
	require.False(t, st.Seeded())
	require.False(t, st.Done())
	require.NoError(t, st.Close())
}

// A state that fails ends the crawl with what is wrong and where.
func TestStateFails(t *testing.T) {
	net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(20)})
	cfg := assembly.DefaultConfig()
	cfg.State.Dir, cfg.RateLimit.Strategy = t.TempDir(), "off"
	out := &failing{}
	cfg.Sinks = []record.Sink{out}
	c := newOver(t, cfg, net.DialContext)
	err := c.Run(t.Context(), "http://a.test/")
	var state *assembly.StateError
	require.ErrorAs(t, err, &state)
	require.ErrorIs(t, err, errPower)
	require.ErrorContains(t, err, "the state of the crawl in "+cfg.State.Dir+": ")
}

var errPower = errors.New("no power")

type failing struct{ ledger }

func (*failing) Sync() error { return errPower }

// A handler may have the state kept, if there is one.
func TestCheckpointByAHandler(t *testing.T) {
	net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(3)})
	cfg := assembly.DefaultConfig()
	cfg.RateLimit.Strategy, cfg.Sinks = "off", []record.Sink{&ledger{}}
	for _, dir := range []string{"", t.TempDir()} {
		var c *assembly.Crawler
		cfg.State.Dir, cfg.Handle = dir, func(ctx context.Context, _ *pipeline.Page) error { return c.Checkpoint(ctx) }
		c = newOver(t, cfg, net.DialContext)
		require.NoError(t, c.Run(t.Context(), "http://a.test/"))
	}
}

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
