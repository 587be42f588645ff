package watch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/clock/clocktest"
)

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
	var links []string
	for i := range pages {
		links = append(links, fmt.Sprintf("/%d", i))
		s.set(links[i], text("Text of "+names[i]))
	}
	s.set("/", text("Home", links...))
	w := watched(t, dir, clk, true, 0, s.URL)
	w.round(0)
	for i := range pages {
		s.set(links[i], text("Another text of "+names[i]))
	}
	clk.Advance(time.Hour)
	w.mu.Lock()
	require.NoError(t, w.store.db.Exec(`CREATE TRIGGER killed BEFORE DELETE ON held BEGIN SELECT RAISE(ABORT, 'killed'); END`))
	w.mu.Unlock()
	_, _, err := w.Round(t.Context(), true, func(ctx context.Context, _ *crawl.Crawler, run func(context.Context) error) error { return run(ctx) })
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
