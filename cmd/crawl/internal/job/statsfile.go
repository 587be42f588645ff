package job

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/internal/clock"
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
		return nil, exit.Open("--stats", err)
	}
	return &statsWriter{name: path, file: f, w: f}, nil
}

// close closes the file. Standard output stays open: it is not ours.
func (s *statsWriter) close() error {
	if s.file == nil {
		return nil
	}
	if err := s.file.Close(); err != nil {
		return exit.IO(fmt.Errorf("close --stats: %w", err))
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
		return exit.Write("--stats "+s.name, exit.Cause(err))
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
