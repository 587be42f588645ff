package job

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// lineFile is a file that JSON lines are appended to, or a standard stream, which stays open.
type lineFile struct {
	name string    // for messages; empty means that nothing is written
	w    io.Writer // nil if there is no file, and after a failed write of --stats
	file *os.File  // to close; nil for a standard stream
}

// openLines opens what a flag or setting names: nothing if path is empty, the given stream if it is -, or a file.
func openLines(what, path, streamName string, stream io.Writer) (lineFile, error) {
	switch path {
	case "":
		return lineFile{}, nil
	case "-":
		return lineFile{name: streamName, w: stream}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return lineFile{}, cli.Open(what, err)
	}
	return lineFile{path, f, f}, nil
}

// statsWriter writes snapshots as JSON, one per line: every interval, on SIGUSR1, and once at the end. Without --stats
// it does nothing. It is safe for concurrent use once snapshot is set.
type statsWriter struct {
	snapshot func() pipeline.Snapshot

	mu sync.Mutex // guards what follows
	lineFile
}

func openStats(path string, stdout io.Writer) (*statsWriter, error) {
	f, err := openLines("--stats", path, "standard output", stdout)
	return &statsWriter{lineFile: f}, err
}

func (s *statsWriter) close() error {
	if s == nil || s.file == nil {
		return nil
	}
	if err := s.file.Close(); err != nil {
		return cli.IOf("close --stats: %w", err)
	}
	return nil
}

// write appends one line, in a single write so that a reader never sees half of it. Only the first failure is returned;
// after it nothing is written.
func (s *statsWriter) write() error {
	if s.name == "" {
		return nil
	}
	snap := s.snapshot()
	line, err := json.Marshal(&snap)
	if err != nil {
		return fmt.Errorf("encode snapshot: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil {
		return nil
	}
	if _, err := s.w.Write(append(line, '\n')); err != nil {
		s.w = nil
		return cli.Write("--stats "+s.name, cli.Cause(err))
	}
	return nil
}

// run writes a line every interval until ctx ends.
func (s *statsWriter) run(ctx context.Context, every time.Duration) error {
	for s.name != "" && clock.Sleep(ctx, clock.System(), every) == nil {
		if err := s.write(); err != nil {
			return err
		}
	}
	return nil
}

const (
	eventsQueued = 1024        // events that may wait to be written
	eventsFlush  = time.Second // how long an event may stay in memory
	eventsBuffer = 64 << 10    // bytes; a fuller buffer is written at once
)

// eventsWriter writes events as JSON, one per line. The crawl never waits for it: an event that finds the queue full is
// counted and dropped. After a failed write no more events are written, and the crawl goes on. Without output.events it
// does nothing.
type eventsWriter struct {
	lineFile
	log     *slog.Logger
	queue   chan ratelimit.Event
	dropped atomic.Int64

	// Only run uses these, and others once it has returned.
	buf     bytes.Buffer
	waiting int64 // events in buf
	written int64 // events in the file
	failed  error // the first failure; nothing is written after it
}

func openEvents(path string, stderr io.Writer, log *slog.Logger) (*eventsWriter, error) {
	f, err := openLines("output.events", path, "standard error", stderr)
	return &eventsWriter{lineFile: f, log: log, queue: make(chan ratelimit.Event, eventsQueued)}, err
}

// hook returns a function that queues an event without waiting. It returns nil without output.events; the engine then
// does not even format events.
func (e *eventsWriter) hook() func(ratelimit.Event) {
	if e.name == "" {
		return nil
	}
	return func(event ratelimit.Event) {
		select {
		case e.queue <- event:
		default:
			e.dropped.Add(1)
		}
	}
}

// run writes queued events until ctx ends, then those that are left, and at last how many were dropped.
func (e *eventsWriter) run(ctx context.Context) {
	if e.name == "" {
		return
	}
	timer := clock.System().NewTimer(eventsFlush)
	defer timer.Stop()
	for {
		select {
		case event := <-e.queue:
			e.add(event)
		case <-timer.C():
			e.flush()
			timer.Reset(eventsFlush)
		case <-ctx.Done():
			e.finish()
			return
		}
	}
}

func (e *eventsWriter) finish() {
	for range len(e.queue) {
		e.add(<-e.queue)
	}
	if n := e.dropped.Load(); n > 0 {
		e.addLine(droppedLine{
			Time: stamp(clock.System().Now()), Cause: "dropped", Dropped: n,
			Text: cli.Plural(n, "event") + " left out: they came faster than they could be written",
		})
	}
	e.flush()
}

type droppedLine struct {
	Time    string `json:"time"`
	Cause   string `json:"cause"`
	Dropped int64  `json:"dropped"`
	Text    string `json:"text"`
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func (e *eventsWriter) add(event ratelimit.Event) {
	e.addLine(struct { // the format has a fixed number of digits
		Time string `json:"time"`
		ratelimit.Event
	}{stamp(event.Time), event})
	e.waiting++
	if e.buf.Len() >= eventsBuffer {
		e.flush()
	}
}

func (e *eventsWriter) addLine(line any) {
	text, err := json.Marshal(line)
	if err != nil { // no value of these types fails to encode
		panic(fmt.Sprintf("encode event: %v", err))
	}
	e.buf.Write(append(text, '\n'))
}

// flush writes whole lines in one call, so that a reader never sees half of one.
func (e *eventsWriter) flush() {
	if e.failed == nil && e.buf.Len() > 0 {
		_, err := e.w.Write(e.buf.Bytes())
		if e.fail(err); err == nil {
			e.written += e.waiting
		}
	}
	e.waiting = 0
	e.buf.Reset()
}

func (e *eventsWriter) fail(err error) {
	if err == nil || e.failed != nil {
		return
	}
	e.failed = cli.Cause(err)
	e.log.Warn("events are not written any more; the crawl goes on", slog.String("file", e.name), slog.Any("error", e.failed))
}

func (e *eventsWriter) close() {
	if e != nil && e.file != nil {
		e.fail(e.file.Close())
	}
}

// summary returns, in words, how many events were written and where, how many were dropped, and the failure if there
// was one. It may be called after run has returned.
func (e *eventsWriter) summary() string {
	if e.name == "" {
		return ""
	}
	text := cli.Count(e.written) + " in " + e.name
	if n := e.dropped.Load(); n > 0 {
		text += ", " + cli.Count(n) + " left out"
	}
	if e.failed != nil {
		text += fmt.Sprintf(", then %v", e.failed)
	}
	return text
}
