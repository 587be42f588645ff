package flags

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/config"
)

// A file that cannot be read twice, or that is just being written, does not reset the user's settings to the defaults.
func TestLoadAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		file := filepath.Join(dir, "conf.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	for _, tc := range []struct{ name, file, want string }{
		{"device or pipe", os.DevNull, "can be read only once"},
		{"empty", write(""), "is empty"},
		{"gone", filepath.Join(dir, "gone.yaml"), "no such file"},
	} {
		_, err := again(&Settings{File: tc.file}, nil)
		require.ErrorContains(t, err, tc.want, tc.name)
	}
	file := write("ratelimit: {max_rps: 3}")
	for _, s := range []*Settings{{File: file}, {}} {
		loaded, err := again(s, []string{"CRAWL_CONFIG=" + file})
		require.NoError(t, err)
		require.InDelta(t, 3, loaded.Config.RateLimit.MaxRPS, 0)
	}
	loaded, err := again(&Settings{File: write("{}")}, nil)
	require.NoError(t, err)
	require.InDelta(t, 10, loaded.Config.RateLimit.MaxRPS, 0)
}

// A flag is no value of the flag before it, unless it stands behind "="; a file is no host.
func TestSwallowedFlagsAndFiles(t *testing.T) {
	cmd := &cobra.Command{Use: "crawl"}
	AddAll(cmd, false)
	warc := "--warc needs a DIR, and was followed by the flag -o; a value of that name is --warc=-o"
	for _, tc := range []struct{ args, want string }{
		{"--warc -o a.jsonl http://a.test", warc},
		{"-q --warc -o", warc},
		{"-o --rate=5 a", "--output needs a FILE, and was followed by the flag --rate=5; a value of that name is --output=--rate=5"},
		{"--warc=-o -o - --rate -1 --exclude -not-a-flag -q -o", ""},
		{"-- --warc -o", ""},
		{"--resume --warc", ""},
	} {
		err := CheckSwallowed(cmd, strings.Fields(tc.args))
		if tc.want == "" {
			require.NoError(t, err, tc.args)
		} else {
			require.EqualError(t, err, tc.want, tc.args)
		}
	}
	for _, arg := range []string{"a.jsonl", "pages.csv", "x.warc", "x.json", "x.xml", "README.md", "x.txt"} {
		require.ErrorContains(t, CheckSeeds(cmd, []string{arg}), arg+" is no URL: an output goes to -o")
	}
	require.NoError(t, CheckSeeds(cmd, []string{"www.point.md", "a.test", "http://a.jsonl", "a.test/x.json", "localhost"}))
}

func again(s *Settings, env []string) (*config.Loaded, error) {
	s.args = func() []string { return nil }
	return Again(s.FileIn(env), func() (*config.Loaded, error) { return s.Load(env) })()
}

// A time that is none is told as it was typed, not in hours.
func TestDurationIsToldAsTyped(t *testing.T) {
	var d duration
	require.EqualError(t, d.Set("1dx"), `invalid duration "1dx"`)
	require.NoError(t, d.Set("1d12h"))
	require.Equal(t, "36h0m0s", d.String())
}
