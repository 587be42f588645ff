package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/clock/clocktest"
)

// What the database keeps of a URL is bounded, however often it is visited.
func TestStateIsBounded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, databaseFile)
	s := must(openStore(path))
	const urls = 2000
	size := func() int64 {
		_, err := s.db.Checkpoint()
		require.NoError(t, err)
		info := must(os.Stat(path))
		return info.Size()
	}
	empty, first := size(), int64(0)
	for round := range 3 {
		require.NoError(t, s.transact(func() {
			for i := range urls {
				e := entry{id: int64(i + 1), url: fmt.Sprintf("https://www.example.com/section/%d/a-page-with-a-name-%d.html", i%50, i), state: live, visited: begin.Unix() + int64(round)}
				e.etag, e.modified, e.digest, e.word, e.told = `"5f3c-61a2b3c4d5e6f"`, "Mon, 02 Mar 2026 08:00:00 GMT", 1<<60+uint64(i), begin.Unix(), begin.Unix()
				for n := range 100 * (round + 1) {
					e.history.Observe(time.Hour<<(n%10), n%2 == 0)
				}
				s.put(&e)
			}
		}))
		if first == 0 {
			first = size()
		}
	}
	require.Less(t, (first-empty)/urls, int64(300), "bytes for each URL")
	require.Less(t, size(), first*11/10, "and no more after more visits")
	t.Logf("%d bytes for each URL, its text apart", (first-empty)/urls)
	require.NoError(t, s.db.Close())
}

// A damaged database is refused with a message.
func TestDamage(t *testing.T) {
	s := newSite(t, map[string]answer{"/": text("Home")})
	for what, sql := range map[string]string{
		"row 1 of urls":                 `UPDATE urls SET url = 'nonsense' WHERE id = 1`,
		"its history is too long":       `UPDATE urls SET history = zeroblob(99) WHERE id = 1`,
		"what is known of host":         `UPDATE hosts SET known = '[]'`,
		"of another version":            `PRAGMA user_version = 7`,
		"no such table: urls":           `DROP TABLE urls`,
		"row 1 of held: unexpected EOF": `UPDATE texts SET text = zeroblob(0); UPDATE urls SET digest = 1, etag = NULL`,
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			clk := clocktest.NewFake(begin)
			w := watched(t, dir, clk, true, 0, s.URL)
			w.round(0)
			require.NoError(t, w.store.db.Exec(sql))
			w.end()
			again, err := Open(Options{Dir: dir, Settings: w.o.Settings, Log: w.o.Log})
			if err == nil {
				_, _, err = again.Round(t.Context(), true, plainly)
				require.NoError(t, again.Close())
			}
			require.ErrorContains(t, err, what)
		})
	}
}

// A file that is no database is refused with a message, and left as it is.
func TestNoDatabase(t *testing.T) {
	for name, data := range map[string]string{"text": strings.Repeat("no database\n", 1000), "a part of one": "SQLite format 3\x00\x10\x00\x01\x01"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, databaseFile)
			require.NoError(t, os.WriteFile(path, []byte(data), 0o600))
			_, _, err := Saved(dir)
			require.ErrorContains(t, err, path)
			require.Equal(t, cli.CodeIO, cli.CodeOf(err))
			t.Log(err)
			is := must(os.ReadFile(path))
			require.Equal(t, data, string(is))
		})
	}
}

// askedContext ends once it was asked so many times whether it has.
type askedContext struct {
	context.Context

	left int
}

func (c *askedContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// heldBack is a watch of pages that have all changed, and whose changes are held as the round was killed.
func heldBack(t *testing.T, dir string, clk *clocktest.Fake, pages int) (*tried, *site) {
	s := newSite(t, map[string]answer{})
	s.setAll(pages, func(i int) answer { return text("Text of " + names[i]) })
	w := watched(t, dir, clk, true, 0, s.URL)
	w.round(0)
	s.setAll(pages, func(i int) answer { return text("Another text of " + names[i]) })
	clk.Advance(time.Hour)
	w.mu.Lock()
	require.NoError(t, w.store.db.Exec(`CREATE TRIGGER killed BEFORE DELETE ON held BEGIN SELECT RAISE(ABORT, 'killed'); END`))
	w.mu.Unlock()
	_, _, err := w.Round(t.Context(), true, plainly)
	require.ErrorContains(t, err, "killed")
	require.NoError(t, w.store.db.Exec(`DROP TRIGGER killed`))
	w.requireHeld(pages)
	return w, s
}

// requireHeld checks how many changes are held.
func (w *tried) requireHeld(n int, message ...any) {
	held, err := w.store.db.QueryInt(`SELECT count(*) FROM held`)
	require.NoError(w.t, err)
	require.EqualValues(w.t, n, held, message...)
}

// An interrupt ends the comparison of pages wherever it comes, and the next run tells what is held, once.
func TestTellIsInterrupted(t *testing.T) {
	const pages = 3
	dir, clk := t.TempDir(), clocktest.NewFake(begin)
	w, _ := heldBack(t, dir, clk, pages)
	ctx := &askedContext{Context: t.Context()}
	w.mu.Lock()
	counts := w.counts
	for asked := range 1 + 2*pages {
		ctx.left = asked
		require.NoError(t, w.tell(ctx, time.Time{}))
		w.requireHeld(pages, "after %d", asked)
		require.Equal(t, counts, w.counts)
	}
	w.mu.Unlock()
	w.end()
	w = watched(t, dir, clk, true, 0)
	defer w.end()
	_, told := w.round(0)
	require.Len(t, told, pages)
}

// What a killed round has held is told as it was read, although the next run compares another part of the pages.
func TestHeldBeforeAnotherSelect(t *testing.T) {
	dir, clk := t.TempDir(), clocktest.NewFake(begin)
	w, s := heldBack(t, dir, clk, 1)
	o := w.o
	w.end()
	o.Seeds, o.Select = nil, "title"
	opened, err := Open(o)
	require.NoError(t, err)
	opened.clock = clk
	w.Watch = opened
	require.NoError(t, w.Lines(w.file))
	defer w.end()
	counts, _ := w.round(time.Hour)
	require.Zero(t, counts.Changed)
	list := w.told()
	require.Len(t, list, 1)
	require.Equal(t, s.URL+"/0", list[0].URL)
	require.True(t, strings.Contains(list[0].Diff, "+Another text of Ann"), list[0].Diff)
}
