package flags

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What cannot be read twice, or is just being written, does not put the defaults in the place of what the user has
// laid down.
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
		_, err := (&Settings{File: tc.file}).LoadAgain(nil)
		require.ErrorContains(t, err, tc.want, tc.name)
	}
	file := write("ratelimit: {max_rps: 3}")
	for _, s := range []*Settings{{File: file}, {}} {
		loaded, err := s.LoadAgain([]string{"CRAWL_CONFIG=" + file})
		require.NoError(t, err)
		require.InDelta(t, 3, loaded.Config.RateLimit.MaxRPS, 0)
	}
	loaded, err := (&Settings{File: write("{}")}).LoadAgain(nil)
	require.NoError(t, err)
	require.InDelta(t, 10, loaded.Config.RateLimit.MaxRPS, 0)
}
