package job

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/internal/clock"
)

const (
	// eventsQueued is how many events may wait to be written. They come a few to each
	// refusal, so that this is a disk that hangs while hundreds of hosts refuse.
	eventsQueued = 1024
	// eventsFlush is the longest that an event is in memory only.
	eventsFlush = time.Second
	// eventsBuffer is the text that is written without waiting for that.
	eventsBuffer = 64 << 10
)

// eventsWriter writes events as JSON, one per line. The crawl never waits for it: what
// finds the queue full is counted and left out, and a file that fails costs the events
// and not the crawl. Without output.events it does nothing.
type eventsWriter struct {
	name    string   // for messages; empty without output.events
	file    *os.File // what to close; nil for standard error
	w       io.Writer
	queue   chan crawl.Event
	dropped atomic.Int64

	// Of run alone, and of others once it has returned.
	buf     bytes.Buffer
	waiting int64 // lines in buf
	written int64 // lines
	failed  error // the first; nothing is written after it
}

// openEvents opens the file of output.events. Like the file of --stats it is added to. For
// people's eyes, it may be standard error.
func openEvents(path string, stderr io.Writer) (*eventsWriter, error) {
	e := &eventsWriter{name: path, w: stderr, queue: make(chan crawl.Event, eventsQueued)}
	switch path {
	case "":
		return &eventsWriter{}, nil
	case "-":
		e.name = "standard error"
		return e, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, exit.Open("output.events", err)
	}
	e.file, e.w = f, f
	return e, nil
}

// hook is what takes the events; nil if nobody wants them, so that the engine does not
// even put them into words. It never waits: whoever fetches calls it, and a disk must
// not decide how fast that goes.
func (e *eventsWriter) hook() func(crawl.Event) {
	if e.queue == nil {
		return nil
	}
	return func(event crawl.Event) {
		select {
		case e.queue <- event:
		default:
			e.dropped.Add(1)
		}
	}
}

// run writes what comes until ctx ends, and then what is left. A failure is logged.
func (e *eventsWriter) run(ctx context.Context, log *slog.Logger) {
	if e.queue == nil {
		return
	}
	timer := clock.System().NewTimer(eventsFlush)
	defer timer.Stop()
	for {
		select {
		case event := <-e.queue:
			e.add(event, log)
		case <-timer.C():
			e.flush(log)
			timer.Reset(eventsFlush)
		case <-ctx.Done():
			e.finish(log)
			return
		}
	}
}

// finish writes what is left, and at the end how much is missing: a file that does not
// say so would pass for complete. The crawl is over, so nothing is added meanwhile.
func (e *eventsWriter) finish(log *slog.Logger) {
	for range len(e.queue) {
		e.add(<-e.queue, log)
	}
	if n := e.dropped.Load(); n > 0 {
		e.addLine(droppedLine{
			Time: stamp(clock.System().Now()), Cause: "dropped", Dropped: n,
			Text: human.Plural(n, "event") + " left out: they came faster than they could be written",
		})
	}
	e.flush(log)
}

// eventLine is an event as the file has it: every time as long as the others.
type eventLine struct {
	Time string `json:"time"`
	crawl.Event
}

// droppedLine is the last line of a file that is not complete.
type droppedLine struct {
	Time    string `json:"time"`
	Cause   string `json:"cause"`
	Dropped int64  `json:"dropped"`
	Text    string `json:"text"`
}

// stamp is RFC 3339 with milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// add takes one event. What was dropped has no place among those counted here.
func (e *eventsWriter) add(event crawl.Event, log *slog.Logger) {
	e.addLine(eventLine{stamp(event.Time), event})
	e.waiting++
	if e.buf.Len() >= eventsBuffer {
		e.flush(log)
	}
}

func (e *eventsWriter) addLine(line any) {
	text, err := json.Marshal(line)
	if err != nil { // no value of these types has one
		panic(fmt.Sprintf("encode event: %v", err))
	}
	e.buf.Write(append(text, '\n'))
}

// flush writes whole lines in one call, so that a reader never sees half of one.
func (e *eventsWriter) flush(log *slog.Logger) {
	if e.failed == nil && e.buf.Len() > 0 {
		_, err := e.w.Write(e.buf.Bytes())
		e.fail(err, log)
		if err == nil {
			e.written += e.waiting
		}
	}
	e.waiting = 0
	e.buf.Reset()
}

// fail notes and logs the first error. It does not end the crawl as a failure of the
// records or of --stats does: those are what it is run for.
func (e *eventsWriter) fail(err error, log *slog.Logger) {
	if err == nil || e.failed != nil {
		return
	}
	e.failed = exit.Cause(err)
	log.Warn("events are not written any more; the crawl goes on",
		slog.String("file", e.name), slog.Any("error", e.failed))
}

// close closes the file. Standard error stays open: it is not ours.
func (e *eventsWriter) close(log *slog.Logger) {
	if e.file != nil {
		e.fail(e.file.Close(), log)
	}
}

// summary is what the report says: how many events are where, and what is missing.
// It reads what run writes, and is for the time after that.
func (e *eventsWriter) summary() string {
	if e.queue == nil {
		return ""
	}
	text := fmt.Sprintf("%s in %s", human.Count(e.written), e.name)
	if n := e.dropped.Load(); n > 0 {
		text += fmt.Sprintf(", %s left out", human.Count(n))
	}
	if e.failed != nil {
		text += fmt.Sprintf(", then %v", e.failed)
	}
	return text
}
