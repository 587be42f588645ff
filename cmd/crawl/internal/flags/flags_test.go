package flags

import (
	"os"
	"path/filepath"
	"testing"

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

func again(s *Settings, env []string) (*config.Loaded, error) {
	return Again(s.FileIn(env), func() (*config.Loaded, error) { return s.Load(env) })()
}
