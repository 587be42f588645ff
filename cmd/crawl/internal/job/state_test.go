package job

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline"
)

func TestLayOut(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("there", 0o777))
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	for _, tc := range []struct {
		output, format, state string // as they are given
		records, dir          string // where they are then
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
	require.ErrorContains(t, err, "is where the records go as well; change --stats or --output")
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
		require.Equal(t, want, shellWord(s))
	}
}

// What a state calls the file of the records does not change when both are moved, or when
// another working directory is in use.
func TestRecordsName(t *testing.T) {
	require.Equal(t, "x.jsonl", recordsName(nil, "x.jsonl"))
	dir := t.TempDir()
	st, err := crawl.NewState(crawl.StateConfig{Dir: dir})
	require.NoError(t, err)
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
	st, err := crawl.NewState(crawl.StateConfig{Dir: filepath.Join(t.TempDir(), "a b")})
	require.NoError(t, err)
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
		{pipeline.EndLimit, "max_pages 5 reached", command + " --max-pages N"},
	} {
		require.Equal(t, tc.want, (&Job{state: st}).goOn(tc.end, tc.reason))
		require.Empty(t, (&Job{}).goOn(tc.end, tc.reason))
	}
}
