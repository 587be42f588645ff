//go:build unix

package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/view"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
)

// heeded runs heed in a bubble. The function end ends it and waits for it.
func heeded(t *testing.T, log io.Writer, o signalActions) (signals chan<- os.Signal, ended <-chan struct{}, end func()) {
	sent, done := make(chan os.Signal), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		heed(ctx, sent, slog.New(slog.NewTextHandler(log, nil)), o)
	}()
	return sent, done, cancel
}

func noted(done *[]string) signalActions {
	var mu sync.Mutex
	note := func(what string) func() {
		return func() {
			mu.Lock()
			defer mu.Unlock()
			*done = append(*done, what)
		}
	}
	tell := note("tell")
	return signalActions{
		stop: note("stop"), force: note("force"), giveUp: note("give up"), tell: func() error { tell(); return errors.New("disk full") },
	}
}

// Each interrupt requests more than the one before, and SIGUSR1 requests none of it. A second interrupt counts unless
// it is an echo of the first, whatever the two signals are.
func TestHeed(t *testing.T) {
	const apart = 2 * echoTime
	for _, tc := range []struct {
		name string
		send []os.Signal
		gap  time.Duration // before each signal
		want []string
	}{
		{"once", []os.Signal{syscall.SIGTERM}, apart, []string{"stop"}},
		{"twice", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, apart, []string{"stop", "force"}},
		{"of two kinds", []os.Signal{os.Interrupt, syscall.SIGTERM}, apart, []string{"stop", "force"}},
		{"a person is there", []os.Signal{os.Interrupt, os.Interrupt}, apart, []string{"stop", "force"}},
		{"twice by timeout(1)", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, echoTime - 1, []string{"stop"}},
		{"its echo and a second", []os.Signal{os.Interrupt, os.Interrupt, os.Interrupt}, 3 * echoTime / 5, []string{"stop", "force"}},
		{
			"all",
			[]os.Signal{syscall.SIGUSR1, os.Interrupt, syscall.SIGUSR1, syscall.SIGTERM, syscall.SIGHUP, os.Interrupt},
			apart,
			[]string{"tell", "stop", "tell", "force", "give up", "give up"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var done []string
				var log bytes.Buffer
				signals, ended, end := heeded(t, &log, noted(&done))
				for _, s := range tc.send {
					time.Sleep(tc.gap)
					signals <- s
				}
				time.Sleep(time.Hour)
				end()
				<-ended
				require.Equal(t, tc.want, done)
				require.Equal(t, tc.name == "all", strings.Contains(log.String(), "disk full"))
			})
		})
	}
}

// The process ends when the time is over, once. A second signal leaves it no more than forcedWithin.
func TestOvertime(t *testing.T) {
	const grace = 30 * time.Second
	for _, tc := range []struct {
		name   string
		grace  time.Duration
		do     func(o *shutdownDeadline)
		after  time.Duration // zero means that the process does not end
		forced bool
	}{
		{"nothing happens", grace, func(*shutdownDeadline) {}, 0, false},
		{"it ends in time", grace, func(o *shutdownDeadline) { o.begin(); time.Sleep(grace - 1); o.stop() }, 0, false},
		{"it does not", grace, (*shutdownDeadline).begin, grace, false},
		{"it is told twice", grace, func(o *shutdownDeadline) { o.begin(); time.Sleep(grace / 2); o.begin() }, grace, false},
		{"as long as it takes", 0, (*shutdownDeadline).begin, 0, false},
		{"a second signal", grace, func(o *shutdownDeadline) { o.begin(); time.Sleep(time.Second); o.force() }, time.Second + forcedWithin, true},
		{"a second signal late", grace, func(o *shutdownDeadline) { o.begin(); time.Sleep(grace - 1); o.force() }, grace - 1 + forcedWithin, true},
		{"a second signal without grace", 0, func(o *shutdownDeadline) { o.begin(); o.force() }, forcedWithin, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var after []time.Duration
				began := time.Now()
				o := &shutdownDeadline{grace: tc.grace}
				o.end = func(forced bool) {
					after = append(after, time.Since(began))
					require.Equal(t, tc.forced, forced)
				}
				tc.do(o)
				time.Sleep(time.Hour)
				synctest.Wait()
				if tc.after == 0 {
					require.Empty(t, after)
					return
				}
				require.Equal(t, []time.Duration{tc.after}, after)
			})
		})
	}
}

// unread is a log into a pipe that nobody reads.
type unread struct{ gone chan struct{} }

func (u unread) Write([]byte) (int, error) { <-u.gone; return 0, io.ErrClosedPipe }

// Signals count even if the log blocks.
func TestHeedsThoughTheLogHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []string
		gone := make(chan struct{})
		signals, ended, end := heeded(t, unread{gone}, noted(&done))
		for range 3 {
			signals <- syscall.SIGTERM
			time.Sleep(time.Minute)
		}
		end()
		<-ended
		require.Equal(t, []string{"stop", "force", "give up"}, done)
		close(gone)
	})
}

// Signals count even if a report or a reload blocks. It is waited for once the crawl has ended.
func TestHeedsThoughTheReportHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []string
		gone, o := make(chan struct{}), noted(&done)
		o.giveUp = func() { done = append(done, "give up"); close(gone) }
		o.tell = func() error { <-gone; return nil }
		signals, ended, end := heeded(t, io.Discard, o)
		for range 20 { // more than the queue holds
			signals <- syscall.SIGUSR1
		}
		signals <- syscall.SIGTERM
		end() // what happens when the crawl ends
		synctest.Wait()
		signals <- syscall.SIGUSR1 // too late to be acted on, and no reason to panic
		synctest.Wait()
		select {
		case <-ended:
			t.Error("the report is still being written")
		default:
		}
		for range 2 {
			time.Sleep(2 * echoTime)
			signals <- syscall.SIGTERM
		}
		<-ended
		require.Equal(t, []string{"stop", "force", "give up"}, done)
	})
}

func TestWitness(t *testing.T) {
	var b bytes.Buffer
	lines := must(sink.New(&b, sink.Config{}))
	w := &destination{Durable: lines}
	failed := &record.Error{Class: "network", Message: "refused"}
	for _, r := range []record.Record{
		{URL: "http://fine.test/", Status: 200},
		{URL: "http://deep.test/x", Depth: 1, Error: failed},
	} {
		require.NoError(t, w.Write(&r))
	}
	require.Empty(t, w.failures())
	require.True(t, w.good)
	require.NoError(t, w.Write(&record.Record{URL: "http://answered.test/", Status: 503}))
	for _, host := range []string{"a", "b", "c", "d"} {
		require.NoError(t, w.Write(&record.Record{URL: "http://" + host + ".test/", Error: failed}))
	}
	require.NoError(t, w.Flush())
	require.Equal(t, "\nhttp://answered.test/: status 503 (unavailable)\nhttp://a.test/: refused\nhttp://b.test/: refused\nthe site is in trouble: try again later", w.failures())
	require.Equal(t, 7, strings.Count(b.String(), "\n"), "every record is passed on")
}

// What is written is read back: the last whole line, whatever else the file has.
func TestStatsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stats.json")
	s := must(openStats(path, io.Discard))
	snap := &pipeline.Snapshot{Hosts: []frontier.HostState{{Host: "a.test", Pages: 7}}}
	s.snapshot = func() pipeline.Snapshot { return *snap }
	padding := strings.Repeat("x", view.StatsTail/2)
	for i := range 5 { // more than the tail that is read
		snap.Pages, snap.Reason, snap.State = int64(i), padding, pipeline.EndInterrupted
		require.NoError(t, s.write())
	}
	must(s.file.WriteString(`{"pages":99,"sta`)) // a crash
	require.NoError(t, s.close())

	f := must(os.Open(path))
	defer f.Close()
	got, err := view.LastSnapshot(f)
	require.NoError(t, err)
	require.Equal(t, int64(4), got.Pages)
	require.Equal(t, pipeline.EndInterrupted, got.State)
	require.Equal(t, snap.Hosts, got.Hosts)
}

func TestStatsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		s := must(openStats("-", &b))
		s.snapshot = func() pipeline.Snapshot { return pipeline.Snapshot{} }
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		require.NoError(t, s.run(ctx, 10*time.Second))
		require.Equal(t, 3, strings.Count(b.String(), "\n"))
		require.NoError(t, s.close())
	})
}

// A full disk ends the writing, and is reported once.
func TestStatsFull(t *testing.T) {
	s := must(openStats("-", brokenWriter{syscall.ENOSPC}))
	s.snapshot = func() pipeline.Snapshot { return pipeline.Snapshot{} }
	err := s.run(t.Context(), time.Nanosecond)
	require.EqualError(t, err, "write --stats standard output: no space left on device: free some room there, or name another place")
	require.Equal(t, cli.CodeIO, cli.CodeOf(err))
	require.NoError(t, s.write())
}

// LastSnapshot returns a snapshot or an error. After any text, a snapshot that was appended is the one returned.
func FuzzLastSnapshot(f *testing.F) {
	f.Add([]byte("{\"state\":\"done\"}\n{\"state\":\"ru"))
	f.Add([]byte("\n\n[1]\x00\n"))
	f.Fuzz(func(t *testing.T, before []byte) {
		got, err := view.LastSnapshot(bytes.NewReader(before))
		require.Equal(t, err == nil, got != nil)
		line := must(json.Marshal(&pipeline.Snapshot{Pages: 42, State: pipeline.EndBlocked}))
		got, err = view.LastSnapshot(bytes.NewReader(append(append(before, '\n'), line...)))
		require.NoError(t, err)
		require.Equal(t, int64(42), got.Pages)
	})
}

// refusal is an event as the engine reports it.
var refusal = ratelimit.Event{
	Time: time.Date(2026, 3, 1, 12, 0, 0, 250_000_000, time.UTC), Domain: "a.test", Cause: control.CauseRefused, State: breaker.Open,
	FromRPS: 19.4, HoldMS: 1200, Text: "the host refused at 19.4/s: nothing for 1.2s, then one trial",
}

const refusalLine = `{"time":"2026-03-01T12:00:00.250Z","host":"a.test","cause":"refused","state":"open",` +
	`"from_rps":19.4,"to_rps":0,"hold_ms":1200,"text":"the host refused at 19.4/s: nothing for 1.2s, then one trial"}` + "\n"

var quiet = slog.New(slog.DiscardHandler)

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// A line is in the file at most a second after its event, and all lines are there at the end.
func TestEventsAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "events.jsonl")
		require.NoError(t, os.WriteFile(path, []byte("of an earlier crawl\n"), 0o600))
		e := must(openEvents(path, io.Discard, quiet))
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
		text := must(os.ReadFile(path))
		require.Equal(t, "of an earlier crawl\n"+refusalLine, string(text))
		hook(refusal)
		<-done
		e.close()
		text = must(os.ReadFile(path))
		require.Equal(t, "of an earlier crawl\n"+refusalLine+refusalLine, string(text))
		require.Equal(t, "2 in "+path, e.summary())
	})
}

// A writer that blocks does not hold up the crawl: events for which there is no room are counted, and the last line has
// their number.
func TestEventsThatComeTooFast(t *testing.T) {
	var out bytes.Buffer
	e := must(openEvents("-", &out, quiet))
	hook := e.hook()
	for range eventsQueued + 7 { // nothing reads the queue yet, and none of these blocks
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

// wholeLines is a writer that fails the test when it gets half a line.
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
	e := must(openEvents("-", w, quiet))
	for range 5000 {
		e.add(refusal)
	}
	e.finish()
	require.Greater(t, w.writes, 5)
	require.Equal(t, int64(5000), e.written)
}

// A full disk is reported once and stops nothing.
func TestEventsFull(t *testing.T) {
	var log bytes.Buffer
	e := must(openEvents("-", brokenWriter{syscall.ENOSPC}, slog.New(slog.NewTextHandler(&log, nil))))
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
