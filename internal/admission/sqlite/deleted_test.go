//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/sqlite"
)

// TestDeleted: whoever deletes the file makes all begin anew, and not each by himself.
func TestDeleted(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, path string){
		"with all beside it": func(t *testing.T, path string) {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				require.NoError(t, os.Remove(path+suffix))
			}
		},
		"alone":       func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"moved away":  func(t *testing.T, path string) { require.NoError(t, os.Rename(path, path+".old")) },
		"replaced":    func(t *testing.T, path string) { replace(t, path, 7) },
		"and changed": func(t *testing.T, path string) { replace(t, path, 2000) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits.db")
			one := open(t, sqlite.Config{Path: path})
			for range 10 {
				take(t, one, "key", 1, narrow)
			}
			remove(t, path)
			two := open(t, sqlite.Config{Path: path})
			for i := range int64(10) {
				require.EqualValues(t, 999-2*i, take(t, one, "key", 1, narrow).Remaining)
				require.EqualValues(t, 998-2*i, take(t, two, "key", 1, narrow).Remaining)
			}
			require.NoError(t, two.Close())
			require.EqualValues(t, 979, take(t, one, "key", 1, narrow).Remaining)
			require.EqualValues(t, 978, take(t, open(t, sqlite.Config{Path: path}), "key", 1, narrow).Remaining)
		})
	}
}

// replace puts a file of other keys in the place of path.
func replace(t *testing.T, path string, keys int) {
	other := filepath.Join(t.TempDir(), "other.db")
	r, err := sqlite.New(sqlite.Config{Path: other})
	require.NoError(t, err)
	fill(t, r, keys)
	require.NoError(t, r.Close())
	for _, suffix := range []string{"-wal", "-shm"} {
		require.NoError(t, os.Remove(path+suffix))
	}
	require.NoError(t, os.Rename(other, path))
}

// TestDeletedElsewhere: a relative path means what it did in the beginning.
func TestDeletedElsewhere(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	r := open(t, sqlite.Config{Path: "limits.db"})
	take(t, r, "key", 1, narrow)
	t.Chdir(t.TempDir())
	require.EqualValues(t, 998, take(t, r, "key", 1, narrow).Remaining)
	require.NoError(t, os.Remove(filepath.Join(here, "limits.db")))
	require.EqualValues(t, 999, take(t, r, "key", 1, narrow).Remaining)
	require.FileExists(t, filepath.Join(here, "limits.db"))
}

// TestDirectoryIsGone: it is an error, and no longer one when there is a directory again.
func TestDirectoryIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "here")
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "limits.db")
	r := open(t, sqlite.Config{Path: path})
	take(t, r, "key", 1, narrow)
	require.NoError(t, os.RemoveAll(dir))
	for range 3 {
		_, err := r.Take(t.Context(), "key", []admission.Plan{narrow}, 1)
		require.ErrorContains(t, err, "make the directory "+dir)
	}
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.EqualValues(t, 999, take(t, r, "key", 1, narrow).Remaining)
	require.NoError(t, os.RemoveAll(dir))
	_, err := r.Take(t.Context(), "key", []admission.Plan{narrow}, 1)
	require.Error(t, err)
	require.NoError(t, r.Close(), "there is nothing to close")
}
