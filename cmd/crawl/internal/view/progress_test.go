package view

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier"
)

// ticking is a crawl of three pages a second that began when the bubble did.
func ticking() Crawl {
	began := time.Now()
	return Crawl{
		Snapshot: func() crawl.Snapshot {
			elapsed := time.Since(began).Seconds()
			return crawl.Snapshot{Time: time.Now(), ElapsedSeconds: elapsed, Pages: int64(3 * elapsed), Bytes: int64(2048 * elapsed)}
		},
		Paused: func() bool { return false },
	}
}

// On a terminal a line changes twice a second and is gone in the end.
func TestStatusLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, b := screen()
		ctx, cancel := context.WithTimeout(t.Context(), 1700*time.Millisecond)
		defer cancel()
		Progress(ctx, term, slog.New(slog.DiscardHandler), ticking(), time.Second)
		require.Equal(t, cli.ClearLine+"0.5s  1 page  2.0/s  0 queued  0 active  1.0 KiB"+
			cli.ClearLine+"1s  3 pages  3.0/s  0 queued  0 active  2.0 KiB"+
			cli.ClearLine+"1s  4 pages  2.7/s  0 queued  0 active  3.0 KiB"+
			cli.ClearLine, b.String())
	})
}

// A log has a line every stats.interval, and each line has the same fields in the same
// order, whatever they are: scripts read them.
func TestProgressInALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		term := cli.NewTerminal(&b, []string{"TERM=dumb"}, "auto")
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		halted, began := make(chan struct{}), time.Now()
		c := Crawl{Paused: func() bool { return time.Since(began) > 15*time.Second }, Halted: halted, Snapshot: func() crawl.Snapshot {
			s := *busy()
			s.Time = time.Now()
			return s
		}}
		time.AfterFunc(25*time.Second, func() { close(halted) })
		Progress(ctx, term, cli.NewLogger(term, &config.Log{}, slog.LevelInfo), c, 10*time.Second)
		golden(t, "progress.golden", regexp.MustCompile(`(?m)^\S+`).ReplaceAllString(b.String(), "TIME"))
	})
}

// A snapshot that takes long is taken seldom.
func TestSlowSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, _ := screen()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		taken := 0
		Progress(ctx, term, slog.New(slog.DiscardHandler), Crawl{Snapshot: func() crawl.Snapshot {
			taken++
			time.Sleep(100 * time.Millisecond)
			return crawl.Snapshot{}
		}}, time.Second)
		require.Equal(t, 29, taken, "one in 2.1s after the first")
	})
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
