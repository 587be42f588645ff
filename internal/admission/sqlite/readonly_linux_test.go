package sqlite_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission/sqlite"
)

const nobody = 65534

// asNobody runs f with a thread whose file accesses are nobody's, as root may do everything.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)
		if errno == 0 {
			f()
		}
		done <- errno
	}()
	require.Zero(t, <-done)
}

// A file or a directory that cannot be written is an error when it is opened, not at the first decision.
func TestReadOnly(t *testing.T) {
	dir, err := os.MkdirTemp("", "limits") // since t.TempDir is in a directory of its owner's only
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "limits.db")
	r := must(sqlite.New(sqlite.Config{Path: path}))
	take(t, r, "key", 1, narrow)
	require.NoError(t, r.Close())
	for _, tc := range []struct {
		name      string
		file, dir os.FileMode
		path      string
		want      string
	}{
		{"file", 0o444, 0o777, path, "it cannot be written: make it and its directory writable for this user"},
		{"file and directory", 0o444, 0o555, path, "writable for this user"},
		{"directory, no file", 0o444, 0o555, path + "2", "writable for this user"},
		{"not to be read", 0, 0o777, path, "writable for this user"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.NoError(t, os.Chmod(path, tc.file))
			require.NoError(t, os.Chmod(dir, tc.dir))
			asNobody(t, func() { _, err = sqlite.New(sqlite.Config{Path: tc.path}) })
			require.ErrorContains(t, err, tc.want)
		})
	}
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.Chmod(path, 0o600))
	require.EqualValues(t, 998, take(t, open(t, sqlite.Config{Path: path}), "key", 1, narrow).Remaining)
}
