package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline/frontier"
)

// ticking is a crawl of three pages a second that began when the bubble did.
func ticking() func() crawl.Snapshot {
	began := time.Now()
	return func() crawl.Snapshot {
		elapsed := time.Since(began).Seconds()
		return crawl.Snapshot{ElapsedSeconds: elapsed, Pages: int64(3 * elapsed), Bytes: 2048}
	}
}

// On a terminal a line changes twice a second and is gone in the end.
func TestStatusLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, b := screen(80)
		ctx, cancel := context.WithTimeout(t.Context(), 1700*time.Millisecond)
		defer cancel()
		progress(ctx, term, slog.New(slog.DiscardHandler), ticking())
		require.Equal(t, clearLine+"0.5s  1 page  2.0/s  0 queued  0 active  2.0 KiB"+
			clearLine+"1s  3 pages  3.0/s  0 queued  0 active  2.0 KiB"+
			clearLine+"1s  4 pages  2.7/s  0 queued  0 active  2.0 KiB"+
			clearLine, b.String())
	})
}

// A log is not mostly progress.
func TestProgressInALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		term := newTerminal(&b, nil, false)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		progress(ctx, term, newLogger(term, &config.Log{Level: "info"}), ticking())
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		require.Len(t, lines, 2)
		require.Contains(t, lines[1], "Z progress  elapsed=20s pages=60 pages_per_second=3.0 queued=0")
	})
}

// A snapshot that takes long is taken seldom.
func TestSlowSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, _ := screen(80)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		taken := 0
		progress(ctx, term, slog.New(slog.DiscardHandler), func() crawl.Snapshot {
			taken++
			time.Sleep(100 * time.Millisecond)
			return crawl.Snapshot{}
		})
		require.Equal(t, 29, taken, "one in 2.1s after the first")
	})
}

// The rate is that of the last five seconds, not of a half: at a page a second half of
// them have none.
func TestPace(t *testing.T) {
	var p pace
	var got float64
	for i := 1; i <= 40; i++ {
		s := crawl.Snapshot{ElapsedSeconds: float64(i) / 2, Pages: int64(i / 2)}
		got = p.since(&s, paceSamples)
	}
	require.InDelta(t, 1, got, 0.001)
	require.Len(t, p.samples, paceSamples+1)
	require.Zero(t, new(pace).since(&crawl.Snapshot{}, 1), "at the very start there is no rate")
}

func TestStatusParts(t *testing.T) {
	s := busy()
	s.Frontier.Leased = 64
	require.Equal(t, []string{
		"1h02m", "1,547 pages", "9.5/s", "814 queued", "64 active", "13 errors", "117.7 MiB",
		"asked.example: idle for 1m35s: Retry-After",
	}, statusParts(s, 9.5))
	s.Hosts = []frontier.HostState{{Host: "a.test", Queued: 1, Reason: "learned", Until: noon.Add(time.Minute)}}
	require.Len(t, statusParts(s, 0), 7, "a pace is no trouble")
}
