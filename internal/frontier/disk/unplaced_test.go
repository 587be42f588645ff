package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
)

// killed is the state as another process finds it when that of s was killed.
func killed(t *testing.T, s *Store) *Store {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Dir(s.path))))
	return openState(t, dir, s.cfg)
}

// A URL has no row in places until somebody asks for its host, or says something of it that
// urls does not: and is queued all the same, to who reads and to who comes after a kill.
func TestUnplaced(t *testing.T) {
	const placed = `SELECT coalesce(group_concat(url), '') FROM places`
	for name, tc := range map[string]struct {
		act            func(t *testing.T, s *Store)
		placed, queued string
	}{
		"nothing": {func(*testing.T, *Store) {}, "", "1,2,3,4"},
		"visited": {func(_ *testing.T, s *Store) { done(s, 2, frontier.Visit{Status: 200}) }, "", "1,3,4"},
		"loaded":  {func(t *testing.T, s *Store) { loadAll(t, s, "a.test") }, "1,3", "1,2,3,4"},
		"spent":   {func(t *testing.T, s *Store) { it := testItem(t, 4, "http://b.test/4"); it.Attempt = 1; spent(s, it) }, "4", "1,2,3,4"},
		"unasked": {func(t *testing.T, s *Store) { loadAll(t, s, "never.test") }, "", "1,2,3,4"},
		"all done": {func(_ *testing.T, s *Store) {
			for id := range int64(4) {
				done(s, id+1, frontier.Visit{})
			}
		}, "", ""},
		"loaded and visited": {func(t *testing.T, s *Store) {
			loadAll(t, s, "a.test")
			done(s, 1, frontier.Visit{Status: 200})
			done(s, 4, frontier.Visit{Status: 200})
		}, "3", "2,3"},
		"spent and visited": {func(t *testing.T, s *Store) {
			it := testItem(t, 4, "http://b.test/4")
			it.Attempt = 1
			spent(s, it)
			done(s, 4, frontier.Visit{Status: 200})
			done(s, 4, frontier.Visit{Status: 200})
		}, "", "1,2,3"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openState(t, t.TempDir(), Config{})
			for id := range int64(4) {
				put(s, testItem(t, id+1, fmt.Sprintf("http://%s/%d", []string{"a.test", "b.test"}[id%2], id+1)), false)
			}
			flush(t, s)
			tc.act(t, s)
			flush(t, s)
			require.Equal(t, tc.placed, askText(t, s, placed))
			const queued = `SELECT coalesce(group_concat(url), '') FROM (SELECT url FROM queue ORDER BY url)`
			require.Equal(t, tc.queued, askText(t, s, queued))
			require.Equal(t, tc.queued, askText(t, s, `SELECT coalesce(group_concat(id), '') FROM (SELECT id FROM pages WHERE state = 'queued' ORDER BY id)`))
			v := look(t, filepath.Dir(s.path))
			p := pageOf(t, v, "http://b.test/2")
			require.Equal(t, p.VisitedAt.IsZero() && p.Status == 0 && name != "all done", p.State == "queued")

			for _, next := range []*Store{killed(t, s), reopen(t, s)} {
				const sorted = `SELECT coalesce(group_concat(url), '') FROM (SELECT url FROM places ORDER BY url)`
				require.Equal(t, tc.queued, askText(t, next, sorted), "whoever comes next writes them")
				require.Equal(t, tc.queued, askText(t, next, queued))
				require.EqualValues(t, ask(t, next, `SELECT count(*) FROM places`), next.Left().Queued)
			}
		})
	}
}

// A URL whose row a person has deleted is not queued any more, to anybody.
func TestPlaceDeleted(t *testing.T) {
	dir := closedState(t, 2)
	require.NoError(t, openState(t, dir, Config{}).Close()) // which writes the rows
	edit(t, filepath.Join(dir, databaseName), `DELETE FROM places WHERE url = 1`)
	for range 2 {
		s := openState(t, dir, Config{})
		require.EqualValues(t, 1, s.Left().Queued)
		for _, query := range []string{`SELECT group_concat(url) FROM queue`, `SELECT group_concat(id) FROM pages WHERE state = 'queued'`} {
			require.Equal(t, "2", askText(t, s, query), query)
		}
		v := look(t, dir)
		for id, queued := range map[int]bool{1: false, 2: true} {
			p := pageOf(t, v, fmt.Sprintf("http://a.test/%d", id))
			require.Equal(t, queued, p.State == "queued", id)
		}
		require.NoError(t, s.Close())
	}
}

// Rows are written all at once when there are enough of them, apart from those of URLs that are visited by then;
// whatever instant a kill comes at, nothing is lost.
func TestRowsArePlacedTogether(t *testing.T) {
	cfg := Config{linger: time.Hour, unplaced: 32}
	s := openState(t, t.TempDir(), cfg)
	var id int64
	batch := func(n int) (places int64) {
		t.Helper()
		for range n {
			id++
			put(s, testItem(t, id, fmt.Sprintf("http://h%d.test/%d", id%7, id)), false)
		}
		flush(t, s)
		queued := id - ask(t, s, `SELECT count(*) FROM visits`)
		require.Equal(t, queued, ask(t, s, `SELECT count(*) FROM queue`))
		require.Equal(t, queued, killed(t, s).Left().Queued)
		return ask(t, s, `SELECT count(*) FROM places`)
	}
	require.Zero(t, batch(cfg.unplaced-1))
	done(s, 3, frontier.Visit{Status: 200})
	require.Zero(t, batch(0))
	require.EqualValues(t, cfg.unplaced-1, batch(1))
	require.Equal(t, id, ask(t, s, `SELECT url FROM placed`))
	done(s, 4, frontier.Visit{Status: 200})
	require.EqualValues(t, cfg.unplaced-2, batch(5))
	require.EqualValues(t, id-2, batch(3*cfg.unplaced))
	require.Equal(t, id, ask(t, s, `SELECT url FROM placed`))
	require.EqualValues(t, id-2, reopen(t, s).Left().Queued)
}
