//go:build unix

package sink

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenFile(t *testing.T) {
	dir := t.TempDir()
	old := syscall.Umask(0)
	w, err := Open(filepath.Join(dir, "out"), Config{})
	syscall.Umask(old)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	info := must(os.Stat(filepath.Join(dir, "out")))
	require.Equal(t, os.FileMode(0o644), info.Mode())

	_, err = Open(filepath.Join(dir, "none", "out"), Config{})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, filepath.Join(dir, "none", "out"))
	_, err = Open(dir, Config{})
	require.Error(t, err)

	w = must(Open(Stdout, Config{Format: URLs}))
	require.Equal(t, os.Stdout, w.out)
	require.NoError(t, w.Close(), "nothing written, and standard output stays open")
	_, err = os.Stdout.Stat()
	require.NoError(t, err)
}

func TestNamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	w, err := Open(path, Config{Format: URLs}) // reading and writing: it does not wait for a reader
	require.NoError(t, err)
	require.NoError(t, w.Write(page(1)))
	require.NoError(t, w.Flush())
	got := make([]byte, 64)
	n, err := w.file.Read(got)
	require.NoError(t, err)
	require.Equal(t, "https://example.com/1\n", string(got[:n]))
	require.NoError(t, w.Close())
}
