package job

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// refusal is an event as the engine tells it.
var refusal = crawl.Event{
	Time: time.Date(2026, 3, 1, 12, 0, 0, 250_000_000, time.UTC), Domain: "a.test", Cause: control.CauseRefused, State: breaker.Open,
	FromRPS: 19.4, HoldMS: 1200, Text: "the host refused at 19.4/s: nothing for 1.2s, then one trial",
}

const refusalLine = `{"time":"2026-03-01T12:00:00.250Z","host":"a.test","cause":"refused","state":"open",` +
	`"from_rps":19.4,"to_rps":0,"hold_ms":1200,"text":"the host refused at 19.4/s: nothing for 1.2s, then one trial"}` + "\n"

var quiet = slog.New(slog.DiscardHandler)

// brokenWriter fails with err.
type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// A line is in the file a second after its event at the latest, and all are at the end.
func TestEventsAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "events.jsonl")
		require.NoError(t, os.WriteFile(path, []byte("of an earlier crawl\n"), 0o600))
		e, err := openEvents(path, io.Discard, quiet)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.run(ctx)
		}()
		hook := e.hook()
		hook(refusal)
		time.Sleep(eventsFlush)
		synctest.Wait()
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "of an earlier crawl\n"+refusalLine, string(text))
		hook(refusal)
		<-done
		e.close()
		text, err = os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "of an earlier crawl\n"+refusalLine+refusalLine, string(text))
		require.Equal(t, "2 in "+path, e.summary())
	})
}

// A writer that hangs holds up no crawl: what it has no room for is counted, and said in
// the last line.
func TestEventsThatComeTooFast(t *testing.T) {
	var out bytes.Buffer
	e, err := openEvents("-", &out, quiet)
	require.NoError(t, err)
	hook := e.hook()
	for range eventsQueued + 7 { // nobody takes them yet, and none of these waits
		hook(refusal)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	e.run(ended)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, eventsQueued+1)
	var last droppedLine
	require.NoError(t, json.Unmarshal([]byte(lines[eventsQueued]), &last))
	require.Equal(t, "dropped", last.Cause)
	require.Equal(t, int64(7), last.Dropped)
	require.Equal(t, "7 events left out: they came faster than they could be written", last.Text)
	require.Equal(t, "1,024 in standard error, 7 left out", e.summary())
}

// wholeLines fails the test when it is handed half a line.
type wholeLines struct {
	t      *testing.T
	writes int
}

func (w *wholeLines) Write(p []byte) (int, error) {
	require.True(w.t, bytes.HasSuffix(p, []byte("}\n")))
	require.Less(w.t, len(p), eventsBuffer+1024)
	w.writes++
	return len(p), nil
}

func TestEventsAreWrittenInWholeLines(t *testing.T) {
	w := &wholeLines{t: t}
	e, err := openEvents("-", w, quiet)
	require.NoError(t, err)
	for range 5000 {
		e.add(refusal)
	}
	e.finish()
	require.Greater(t, w.writes, 5)
	require.Equal(t, int64(5000), e.written)
}

// A full disk is told once and stops nothing.
func TestEventsFull(t *testing.T) {
	var log bytes.Buffer
	e, err := openEvents("-", brokenWriter{syscall.ENOSPC}, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		e.hook()(refusal)
		e.run(ended)
	}
	require.Equal(t, 1, strings.Count(log.String(), "events are not written any more; the crawl goes on"), log.String())
	require.Contains(t, log.String(), "no space left on device")
	require.Equal(t, "0 in standard error, then no space left on device", e.summary())
}

func TestNoEvents(t *testing.T) {
	e, err := openEvents("", io.Discard, quiet)
	require.NoError(t, err)
	require.Nil(t, e.hook())
	e.run(t.Context())
	e.close()
	require.Empty(t, e.summary())
	_, err = openEvents(filepath.Join(t.TempDir(), "none", "events.jsonl"), io.Discard, quiet)
	require.ErrorContains(t, err, "open output.events: ")
	require.Equal(t, cli.CodeIO, cli.CodeOf(err))
}
