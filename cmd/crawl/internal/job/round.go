package job

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/internal/records/sink"
)

// RoundPath is the file of the records of a round, beside that of the round before: the name
// of the first with the number behind it. What is no file, such as a pipe, takes them all.
func RoundPath(path string, round int) string {
	if info, err := os.Stat(path); path == sink.Stdout || err == nil && !info.Mode().IsRegular() {
		return path
	}
	dir, name := filepath.Split(path)
	ending := filepath.Ext(name)
	if strings.EqualFold(ending, ".gz") {
		ending = filepath.Ext(strings.TrimSuffix(name, ending)) + ending
	}
	if ending == name {
		ending = "" // a hidden file
	}
	name = strings.TrimSuffix(name, ending)
	if before := fmt.Sprintf("-%d", round-1); round > 2 {
		name = strings.TrimSuffix(name, before)
	}
	return fmt.Sprintf("%s%s-%d%s", dir, name, round, ending)
}

// checkRound reports what stands where the records of a new round are to go.
func (j *Job) checkRound() error {
	path := j.Settings.Output.Path
	if info, err := os.Stat(path); j.Again && path != sink.Stdout && err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		return exit.IO(fmt.Errorf("open --output: %s is there already, and round %d has its records there: move it away", path, j.state.Round()))
	}
	return nil
}

// tellRound says what a round that has just begun is about.
func (j *Job) tellRound() {
	if !j.Again {
		return
	}
	queued, _ := j.state.Left()
	j.log.Info("a new round begins", slog.Int("round", j.state.Round()), slog.Int64("due", queued), slog.String("output", j.Settings.Output.Path))
}

// logRound is the same for machines.
func logRound(log *slog.Logger, s *crawl.Snapshot) *slog.Logger {
	if s.Round == 0 {
		return log
	}
	return log.With(slog.Int("round", s.Round), slog.Any("changes", s.Changes))
}
