package job

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
	_ "github.com/treadlight/crawl/sqlite" // states need it
)

func TestLayOut(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("there", 0o777))
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	for _, tc := range []struct {
		output, format, state string // as the user gives them
		records, dir          string // the resulting files
	}{
		{"-", "jsonl", "", "-", ""},
		{"-", "jsonl", "s", "-", "s"},
		{"file", "jsonl", "", "file", ""},
		{"new", "jsonl", "", "new", ""},
		{"new/", "jsonl", "", "new/records.jsonl", "new"},
		{"deep/er/", "csv", "", "deep/er/records.csv", "deep/er"},
		{"there", "urls", "", "there/records.txt", "there"},
		{"there/", "jsonl", "s", "there/records.jsonl", "s"},
		{"./", "jsonl", "", "records.jsonl", "."},
	} {
		t.Run(tc.output+" "+tc.state, func(t *testing.T) {
			cfg := config.Default()
			cfg.Output.Path, cfg.Output.Format, cfg.State.Dir = tc.output, tc.format, tc.state
			require.NoError(t, layOut(&cfg))
			require.Equal(t, tc.records, cfg.Output.Path)
			require.Equal(t, tc.dir, cfg.State.Dir)
			if tc.dir != "" && tc.state == "" {
				require.DirExists(t, tc.dir)
			}
			require.NoError(t, layOut(&cfg), "it is done once")
			require.Equal(t, tc.records, cfg.Output.Path)
		})
	}
	cfg := config.Default()
	cfg.Output.Path = "file/"
	require.ErrorContains(t, layOut(&cfg), "open --output: mkdir file")
	cfg.Output.Path, cfg.Stats.Path = "there/", "there/records.jsonl"
	err := layOut(&cfg)
	require.ErrorContains(t, err, "is output.path as well; change --stats or --output")
	require.Equal(t, cli.CodeUsage, cli.CodeOf(err))
}

func TestShellWord(t *testing.T) {
	for s, want := range map[string]string{
		"out/a_b-1.x": "out/a_b-1.x",
		"a b":         "'a b'",
		"it's":        `'it'\''s'`,
		"$HOME":       "'$HOME'",
		"-d":          "'./-d'",
		"":            "''",
		"ä":           "'ä'",
	} {
		require.Equal(t, want, cli.ShellWord(s))
	}
}

// The name of the records in the state does not change when both are moved together, or when the working directory
// changes.
func TestRecordsName(t *testing.T) {
	require.Equal(t, "x.jsonl", recordsName(nil, "x.jsonl"))
	dir := t.TempDir()
	st := must(assembly.NewState(assembly.StateConfig{Dir: dir}))
	defer func() { require.NoError(t, st.Close()) }()
	require.Equal(t, "-", recordsName(st, "-"))
	require.Equal(t, "records.csv", recordsName(st, filepath.Join(dir, "records.csv")))
	require.Equal(t, "sub/records.csv", recordsName(st, dir+"/sub/../sub/records.csv"))
	beside := filepath.Join(filepath.Dir(dir), "x.jsonl")
	require.Equal(t, beside, recordsName(st, beside))
	t.Chdir(dir)
	require.Equal(t, "x.jsonl", recordsName(st, "x.jsonl"))
}

func TestGoOn(t *testing.T) {
	st := must(assembly.NewState(assembly.StateConfig{Dir: filepath.Join(t.TempDir(), "a b")}))
	defer func() { require.NoError(t, st.Close()) }()
	command := "crawl resume '" + st.Dir() + "'"
	for _, tc := range []struct {
		end    pipeline.End
		reason string
		want   string
	}{
		{pipeline.EndNone, "", ""},
		{pipeline.EndDone, "", ""},
		{pipeline.EndInterrupted, "asked to stop", command},
		{pipeline.EndBlocked, "", command},
		{pipeline.EndFailed, "", command},
		{pipeline.EndLimit, "max_time 1s reached", command},
		{pipeline.EndLimit, "max_pages 5 reached", command + " --max-pages 10"},
	} {
		require.Equal(t, tc.want, (&Job{state: st}).goOn(tc.end, tc.reason))
		require.Empty(t, (&Job{}).goOn(tc.end, tc.reason))
	}
}

func TestRoundPath(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		path  string
		round int
		want  string
	}{
		{"records.jsonl", 2, "records-2.jsonl"},
		{"a/records-2.jsonl", 3, "a/records-3.jsonl"},
		{"a.b/records", 2, "a.b/records-2"},
		{"year-2.csv", 2, "year-2-2.csv"}, // the 2 is part of the user's name
		{"records-9.csv", 10, "records-10.csv"},
		{"records-19.csv", 10, "records-19-10.csv"},
		{".hidden", 2, ".hidden-2"},
		{"-", 2, "-"},
		{os.DevNull, 7, os.DevNull},
		{filepath.Join(dir, "x.jsonl"), 2, filepath.Join(dir, "x-2.jsonl")},
	} {
		require.Equal(t, tc.want, RoundPath(tc.path, tc.round), tc.path)
	}
}

// A worker appends to its records in each format, and the documentation of records names the format.
func TestEveryFormat(t *testing.T) {
	page := must(os.ReadFile("../../../../docs/reference/records.md"))
	for _, spec := range sink.Formats() {
		require.Contains(t, string(page), "| `"+string(spec.Format)+"` |")
		if !spec.Lines() {
			continue
		}
		path := filepath.Join(t.TempDir(), "records"+spec.Ending())
		w := must(sink.Open(path, sink.Config{Format: spec.Format}))
		require.NoError(t, w.Write(&record.Record{URL: "http://a.test/", Kind: "page", Status: 200}))
		require.NoError(t, w.Close())
		how, whole, err := goingOn(path, sink.Config{Format: spec.Format})
		require.NoError(t, err)
		require.Equal(t, sink.Resume, how)
		require.Equal(t, w.Position(), whole)
	}
}

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
	how, _, err := goingOn(path, sink.Config{Format: sink.JSONL})
	require.NoError(t, err)
	require.Zero(t, how, "there is nothing to go on behind")
	for _, half := range []string{"", record[:99_000], record[:1]} {
		require.NoError(t, os.WriteFile(path, []byte(record+record+half), 0o600))
		how, whole, err := goingOn(path, sink.Config{Format: sink.JSONL})
		require.NoError(t, err)
		require.Equal(t, sink.Resume, how)
		require.EqualValues(t, 2*len(record), whole)
	}
	require.NoError(t, os.WriteFile(path, []byte("dear diary\n"), 0o600))
	_, _, err = goingOn(path, sink.Config{Format: sink.JSONL})
	require.ErrorContains(t, err, "is no file of jsonl")
}

// A process appends to a file that is named after it, but not to one whose name only looks like that. Only one process
// at a time has the file.
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
		text := must(os.ReadFile("pages-2.jsonl"))
		require.Equal(t, record, string(text))
	}
}

// must returns v, and panics for an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
