package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

type slowPlace struct {
	memory.Place
	failing bool
	saved   int
}

func (p *slowPlace) Save(ctx context.Context, _ iter.Seq[ratelimit.HostMemory]) error {
	if err := clock.Sleep(ctx, clock.System(), time.Second); err != nil {
		return err
	}
	if p.failing {
		return errors.New("no room")
	}
	p.saved++
	return nil
}

// A save that the end of a crawl breaks off is no trouble: the last one makes it good. One that
// fails is told once while the crawl runs, and once at its end.
func TestKeeperSaysWhatIsNotKept(t *testing.T) {
	for _, tc := range []struct {
		failing     bool
		told, saved int
	}{{false, 0, 1}, {true, 2, 0}} {
		synctest.Test(t, func(t *testing.T) {
			l, err := ratelimit.New(ratelimit.DefaultConfig())
			require.NoError(t, err)
			var said bytes.Buffer
			place, pauses := &slowPlace{failing: tc.failing}, make(chan struct{}, 1)
			k := &memory.Keeper{Places: []memory.Place{place}, Limiter: l, Clock: clock.System(), Log: slog.New(slog.NewTextHandler(&said, nil)), Pauses: pauses}
			ctx, end := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); k.Run(ctx) }()
			pauses <- struct{}{} // it saves at once
			if tc.failing {
				time.Sleep(10 * time.Minute)
			} else {
				time.Sleep(500 * time.Millisecond)
			}
			end()
			<-done
			k.SaveLast(context.WithoutCancel(ctx))
			require.Equal(t, tc.told, strings.Count(said.String(), "level=WARN"), said.String())
			require.Equal(t, tc.saved, place.saved)
		})
	}
}

// What places know is recalled, the newer entry of a host first; what is damaged is told.
func TestKeeperRecalls(t *testing.T) {
	l, err := ratelimit.New(ratelimit.DefaultConfig())
	require.NoError(t, err)
	dir, used := t.TempDir(), time.Now().UTC()
	var places []memory.Place
	for i, rate := range []float32{1, 2} {
		d, err := memory.At(memory.Config{Path: filepath.Join(dir, fmt.Sprint(i))})
		require.NoError(t, err)
		m := ratelimit.HostMemory{Domain: "a.test", LastUsed: used.Add(time.Duration(i-2) * time.Minute), Learned: ratelimit.Learned{Rate: rate}}
		require.NoError(t, d.Save(t.Context(), slices.Values([]ratelimit.HostMemory{m})))
		places = append(places, d)
	}
	db, err := sqlitedb.Open(places[0].Path(), sqlitedb.Config{})
	require.NoError(t, err)
	require.NoError(t, errors.Join(db.Exec(`INSERT INTO rates VALUES ('b.test', 0, -1, 0, NULL, NULL)`), db.Close()))
	var said bytes.Buffer
	k := &memory.Keeper{Places: places, Limiter: l, Clock: clock.System(), Log: slog.New(slog.NewTextHandler(&said, nil))}
	require.NoError(t, k.Recall())
	m, _, ok := l.MemoryOf("a.test")
	require.True(t, ok)
	require.Equal(t, float32(2), m.Rate)
	require.Contains(t, said.String(), "damaged_rows=1 first=2")
	require.Contains(t, said.String(), "going on from what earlier crawls have learned\" hosts=1")
	d, err := memory.At(memory.Config{Path: dir})
	require.NoError(t, err)
	k.Places = []memory.Place{d}
	require.ErrorContains(t, k.Recall(), "is no regular file")
}

// Only a pause that is worth a save asks for one; all events are told.
func TestNotePauses(t *testing.T) {
	pauses, told := make(chan struct{}, 1), 0
	hear := memory.NotePauses(pauses, func(ratelimit.Event) { told++ })
	for _, e := range []ratelimit.Event{{HoldMS: 999}, {HoldMS: 5000, Cause: control.CauseCrawlDelay}} {
		hear(e)
		require.Empty(t, pauses)
	}
	hear(ratelimit.Event{HoldMS: 1000, Cause: control.CauseRetryAfter})
	hear(ratelimit.Event{HoldMS: 1000, Cause: control.CauseRetryAfter})
	require.Len(t, pauses, 1)
	require.Equal(t, 4, told)
	memory.NotePauses(pauses, nil)(ratelimit.Event{})
}
