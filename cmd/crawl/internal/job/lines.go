package job

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
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

// lineFile is a file that lines of JSON are appended to, or a standard stream, which stays open. Lines wait in memory
// until they are flushed. After the first failure nothing more is written. The zero lineFile has no file. It is not safe for
// concurrent use.
type lineFile struct {
	name string // for messages; empty means that nothing is written
	w    io.Writer
	file *os.File                     // to close; nil for a standard stream
	lost func(file, failed slog.Attr) // called at the first failure; nil calls nothing

	buf     bytes.Buffer // lines that wait
	waiting int64        // how many these are
	written int64        // lines in the file
	failed  error        // the first failure
}

// openLines opens what a flag or setting names: nothing if path is empty, the given stream if it is -, or a file.
func openLines(what, path, streamName string, stream io.Writer) (*lineFile, error) {
	switch path {
	case "":
		return new(lineFile), nil
	case "-":
		return &lineFile{name: streamName, w: stream}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, cli.Open(what, err)
	}
	return &lineFile{name: path, w: f, file: f}, nil
}

// add adds a line to those that wait.
func (f *lineFile) add(line any) {
	to := json.NewEncoder(&f.buf)
	to.SetEscapeHTML(false) // URLs have an &
	f.fail(to.Encode(line))
	f.waiting++
}

// flush writes the lines that wait in one call, so that a reader never sees half of one.
func (f *lineFile) flush() {
	if f.failed == nil && f.buf.Len() > 0 {
		_, err := f.w.Write(f.buf.Bytes())
		if f.fail(err); err == nil {
			f.written += f.waiting
		}
	}
	f.waiting = 0
	f.buf.Reset()
}

func (f *lineFile) fail(err error) {
	if err == nil || f.failed != nil {
		return
	}
	if f.failed = cli.Cause(err); f.lost != nil {
		f.lost(slog.String("file", f.name), slog.Any("error", f.failed))
	}
}

func (f *lineFile) close() {
	if f.file != nil {
		f.fail(f.file.Close())
		f.file = nil
	}
}

// summary returns, in words, what was written and where, what else there is to say, and the failure if there was one; ""
// without a file.
func (f *lineFile) summary(written, more string) string {
	if f.name == "" {
		return ""
	}
	text := written + " in " + f.name + more
	if f.failed != nil {
		text += fmt.Sprintf(", then %v", f.failed)
	}
	return text
}

// statsWriter writes snapshots: every interval, on SIGUSR1, and once at the end. Without --stats it does nothing. It is
// safe for concurrent use once snapshot is set.
type statsWriter struct {
	snapshot func() pipeline.Snapshot

	mu sync.Mutex // guards what follows
	*lineFile
}

func openStats(path string, stdout io.Writer) (*statsWriter, error) {
	f, err := openLines("--stats", path, "standard output", stdout)
	return &statsWriter{lineFile: f}, err
}

// close returns an error if the file cannot be closed. A nil statsWriter has none.
func (s *statsWriter) close() error {
	if s == nil || s.lineFile == nil {
		return nil
	}
	told := s.failed != nil
	if s.lineFile.close(); s.failed != nil && !told {
		return cli.IOf("close --stats: %w", s.failed)
	}
	return nil
}

// write appends a line. Only the first failure is returned.
func (s *statsWriter) write() error {
	if s.name == "" {
		return nil
	}
	snap := s.snapshot()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return nil
	}
	s.add(&snap)
	s.flush()
	return cli.Write("--stats "+s.name, s.failed)
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

// eventsWriter writes events. The crawl never waits for it: an event that finds the queue full is counted and dropped.
// Without output.events it does nothing.
type eventsWriter struct {
	*lineFile // only run uses it, and others once run has returned

	queue   chan ratelimit.Event
	dropped atomic.Int64
}

func openEvents(path string, stderr io.Writer, log *slog.Logger) (*eventsWriter, error) {
	f, err := openLines("output.events", path, "standard error", stderr)
	if err != nil {
		return nil, err
	}
	f.lost = func(file, failed slog.Attr) {
		log.Warn("events are not written any more; the crawl goes on", file, failed)
	}
	return &eventsWriter{lineFile: f, queue: make(chan ratelimit.Event, eventsQueued)}, nil
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
	e.flush()
	if n := e.dropped.Load(); n > 0 {
		e.lineFile.add(droppedLine{
			Time: stamp(clock.System().Now()), Cause: "dropped", Dropped: n,
			Text: cli.Plural(n, "event") + " left out: they came faster than they could be written",
		})
		e.waiting = 0 // it is no event
		e.flush()
	}
}

type droppedLine struct {
	Time    string `json:"time"`
	Cause   string `json:"cause"`
	Dropped int64  `json:"dropped"`
	Text    string `json:"text"`
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func (e *eventsWriter) add(event ratelimit.Event) {
	e.lineFile.add(struct { // the format has a fixed number of digits
		Time string `json:"time"`
		ratelimit.Event
	}{stamp(event.Time), event})
	if e.buf.Len() >= eventsBuffer {
		e.flush()
	}
}

// summary tells how many events were written, and how many were dropped. It may be called after run has returned.
func (e *eventsWriter) summary() string {
	more := ""
	if n := e.dropped.Load(); n > 0 {
		more = ", " + cli.Count(n) + " left out"
	}
	return e.lineFile.summary(cli.Count(e.written), more)
}

// maxListed is how many URLs are remembered as listed, in some 10 MB. A menu links to the same ones on every page, so
// when there are more, all are forgotten, and listed again if they come again.
const maxListed = 1 << 18

// skippedFile lists the URLs that a crawl leaves out, with the reason: once for each reason. Without output.skipped it
// does nothing. The goroutine that writes records calls its hook, and others use it when the crawl has ended.
type skippedFile struct {
	*lineFile

	seed   maphash.Seed
	listed map[uint64]struct{} // URL and reason, hashed; at most maxListed
}

// skippedLine is a line of the file.
type skippedLine struct {
	URL      string `json:"url"`
	Reason   string `json:"reason"` // a name to count by
	Detail   string `json:"detail"` // the reason in words
	Referrer string `json:"referrer,omitempty"`
}

func openSkipped(path string, stderr *cli.Terminal, log *slog.Logger) (*skippedFile, error) {
	f, err := openLines("output.skipped", path, "standard error", stderr)
	if err != nil {
		return nil, err
	}
	f.lost = func(file, failed slog.Attr) {
		log.Warn("URLs that are left out are not listed any more; the crawl goes on", file, failed)
	}
	return &skippedFile{lineFile: f, seed: maphash.MakeSeed(), listed: make(map[uint64]struct{})}, nil
}

// hook returns a function that lists a URL. It returns nil without output.skipped; the crawl then collects none.
func (s *skippedFile) hook() func(pipeline.Skip) {
	if s.name == "" {
		return nil
	}
	return func(skip pipeline.Skip) {
		key := maphash.String(s.seed, skip.Reason+" "+skip.URL)
		if _, again := s.listed[key]; again || s.failed != nil {
			return
		}
		if len(s.listed) == maxListed {
			clear(s.listed)
		}
		s.listed[key] = struct{}{}
		s.add(skippedLine{URL: skip.URL, Reason: skip.Reason, Detail: skip.Detail, Referrer: skip.Referrer})
		s.flush()
	}
}

// summary tells how many URLs are listed. It may be called once the crawl has ended.
func (s *skippedFile) summary() string {
	return s.lineFile.summary(cli.Plural(s.written, "URL"), "")
}
