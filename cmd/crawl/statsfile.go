package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/pipeline"
)

// statsWriter writes snapshots as JSON, one per line: every interval, on SIGUSR1, and
// once at the end. Without --stats it does nothing. It is safe for concurrent use once
// snapshot is set.
type statsWriter struct {
	snapshot func() crawl.Snapshot
	name     string   // for messages; empty without --stats
	file     *os.File // what to close; nil for standard output

	mu sync.Mutex // guards what follows
	w  io.Writer  // nil without --stats, and after a failure
}

// openStats opens the file of --stats.
func openStats(path string, stdout io.Writer) (*statsWriter, error) {
	switch path {
	case "":
		return &statsWriter{}, nil
	case "-":
		return &statsWriter{name: "standard output", w: stdout}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, openError("--stats", err)
	}
	return &statsWriter{name: path, file: f, w: f}, nil
}

// close closes the file. Standard output stays open: it is not ours.
func (s *statsWriter) close() error {
	if s.file == nil {
		return nil
	}
	if err := s.file.Close(); err != nil {
		return ioError(fmt.Errorf("close --stats: %w", err))
	}
	return nil
}

// write adds one line, in a single write so that a reader never sees half of it.
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
		s.w = nil // one failure is told once
		return writeError("--stats "+s.name, cause(err))
	}
	return nil
}

// run writes a line every interval until ctx ends.
func (s *statsWriter) run(ctx context.Context, every time.Duration) error {
	if s.name == "" {
		return nil
	}
	for clock.Sleep(ctx, clock.System(), every) == nil {
		if err := s.write(); err != nil {
			return err
		}
	}
	return nil
}

// savedSnapshot is a snapshot as a stats file has it.
type savedSnapshot struct {
	crawl.Snapshot
	State *pipeline.End `json:"state"` // nil: the line is something else
}

// statsTail is how much of the end of a stats file is read: a day of it is hundreds of
// megabytes, and a snapshot, with its 50 hosts at most, well below 100 KiB.
const statsTail = 1 << 20

// lastSnapshot reads the last line of a stats file. A line cut off by a crash is passed
// over when there is a whole one before it.
func lastSnapshot(r io.Reader) (*crawl.Snapshot, error) {
	if seeker, ok := r.(io.Seeker); ok {
		// What cannot seek, a pipe, stays where it is and is read from its beginning;
		// what is shorter than the tail does too.
		_, _ = seeker.Seek(-statsTail, io.SeekEnd)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, cause(err)
	}
	var problem error
	for line := range linesFromEnd(data) {
		var saved savedSnapshot
		err := json.Unmarshal(line, &saved)
		if err == nil && saved.State == nil {
			err = errors.New("it has no state")
		}
		if err != nil {
			problem = cmp.Or(problem, err) // of the newest line
			continue
		}
		saved.Snapshot.State = *saved.State
		return &saved.Snapshot, nil
	}
	if problem != nil {
		return nil, fmt.Errorf("not a stats file, as `crawl --stats FILE` writes it: %w", problem)
	}
	return nil, errors.New("the file is empty: it is what `crawl --stats FILE` writes")
}

// linesFromEnd yields the lines that are not empty, the last one first.
func linesFromEnd(data []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			at := bytes.LastIndexByte(data, '\n')
			line := bytes.TrimSpace(data[at+1:])
			if len(line) > 0 && !yield(line) {
				return
			}
			data = data[:max(at, 0)]
		}
	}
}
