package job

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/records/sink"
)

func TestFilesOfAWorker(t *testing.T) {
	dir := t.TempDir()
	cfg := config.Default()
	cfg.Fleet.Redis, cfg.Fleet.Job, cfg.Fleet.Worker = "redis://127.0.0.1:1", "j", "w1"
	cfg.Output.Path, cfg.Stats.Path, cfg.WARC.Dir = dir+"/", "stats-{worker}.jsonl", "arch"
	require.NoError(t, layOut(&cfg))
	require.Equal(t, filepath.Join(dir, "records-w1.jsonl"), cfg.Output.Path)
	require.Equal(t, "stats-w1.jsonl", cfg.Stats.Path)
	require.Equal(t, filepath.Join("arch", "w1"), cfg.WARC.Dir)
	require.Empty(t, cfg.State.Dir, "it is kept in Redis")
	require.NoError(t, layOut(&cfg))
	require.Equal(t, filepath.Join("arch", "w1"), cfg.WARC.Dir, "it is done once")

	cfg.Fleet.Worker = ""
	settleWorker(&cfg)
	require.Regexp(t, `^[A-Za-z0-9.-]{1,50}-\d+$`, cfg.Fleet.Worker)
	alone := config.Default()
	alone.Output.Path = "a-{worker}.jsonl"
	settleWorker(&alone)
	require.Equal(t, "a-{worker}.jsonl", alone.Output.Path)
}

func TestGoingOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records-w1.jsonl")
	record := `{"url":"http://a.test/","fetched_at":"2026-11-22T10:00:00Z","text":"` + strings.Repeat("x", 100_000) + `"}` + "\n"
	how, whole, cut, err := goingOn(path)
	require.NoError(t, err)
	require.Zero(t, cut)
	require.Zero(t, how, "there is nothing to go on behind")
	for _, half := range []string{"", record[:99_000], record[:1]} {
		require.NoError(t, os.WriteFile(path, []byte(record+record+half), 0o600))
		how, whole, cut, err = goingOn(path)
		require.NoError(t, err)
		require.Equal(t, sink.Resume, how)
		require.EqualValues(t, 2*len(record), whole)
		require.EqualValues(t, len(half), cut)
	}
	require.NoError(t, os.WriteFile(path, []byte("dear diary\n"), 0o600))
	_, _, _, err = goingOn(path)
	require.ErrorContains(t, err, "is not the records of a crawl")
}

// A file is gone on with if it was named after the process, not if its name looks like it;
// and only one process at a time has it.
func TestOwnFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	record := `{"url":"http://a.test/","fetched_at":"2026-11-22T10:00:00Z"}` + "\n"
	begin := func(output string) (*Job, error) {
		cfg := config.Default()
		cfg.Fleet.Redis, cfg.Fleet.Job, cfg.Fleet.Worker = "redis://127.0.0.1:1", "j", "2"
		cfg.Output.Path, cfg.WARC.Dir, cfg.Log.Level = output, "arch", "error"
		j := &Job{Options: Options{Streams: cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, Settings: &cfg}}
		j.openLog()
		return j, j.open()
	}
	require.NoError(t, os.WriteFile("pages-2021.jsonl", []byte(record), 0o600))
	_, err := begin("pages-2021.jsonl")
	require.ErrorContains(t, err, "exists and is not empty")
	require.ErrorContains(t, err, "with {worker} in its name")

	for range 2 {
		require.NoError(t, os.WriteFile("pages-2.jsonl", []byte(record+record[:9]), 0o600))
		j, err := begin("pages-{worker}.jsonl")
		require.NoError(t, err)
		_, err = begin("pages-{worker}.jsonl")
		require.ErrorContains(t, err, "another process called 2 is writing pages-2.jsonl: give each a fleet.worker name of its own")
		_, err = begin("others-{worker}.jsonl")
		require.ErrorContains(t, err, "another process called 2 is writing arch/2")
		require.NoError(t, j.abandon())
		text, err := os.ReadFile("pages-2.jsonl")
		require.NoError(t, err)
		require.Equal(t, record, string(text))
	}
}
