package disk

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeUntilFull has the kernel refuse to write beyond a size of a file, as a disk does
// that is full: in the midst of a page, a transaction or a checkpoint.
func writeUntilFull(s *Store) error {
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	limited := before
	limited.Cur = 150_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited); err != nil {
		return err
	}
	for b := int64(1); s.Err() == nil; b++ {
		writeBatch(s, b)
	}
	fmt.Println("committed", s.Counts().Known/perBatch)
	if err := s.Close(); err != nil {
		fmt.Println("failed", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return nil
}

// A disk that fills up stops the crawl, which says so, and keeps what is committed.
func TestDiskFillsUp(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "full", dir)
	told := p.told(t, 1)
	require.Positive(t, told)
	require.True(t, p.out.Scan())
	require.Contains(t, p.out.Text(), filepath.Join(dir, databaseName))
	require.Contains(t, p.out.Text(), "it cannot be read or written: look after its disk")
	require.Contains(t, p.out.Text(), "file too large")
	require.Contains(t, p.out.Text(), "what was committed before is kept")
	require.NoError(t, p.cmd.Wait())
	require.Equal(t, told, wantWholeBatches(t, dir))
}

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

// What cannot be written is an error when it is opened, not at the first commit.
func TestReadOnly(t *testing.T) {
	root, err := os.MkdirTemp("", "state") // since t.TempDir is in a directory of its owner's only
	require.NoError(t, err)
	defer os.RemoveAll(root)
	require.NoError(t, os.Chmod(root, 0o755))
	dir := filepath.Join(root, "state")
	s, err := Open(dir, Config{})
	require.NoError(t, err)
	putMany(t, s, 1, 1)
	require.NoError(t, s.Close())
	path := filepath.Join(dir, databaseName)
	for _, tc := range []struct {
		name            string
		file, lock, dir os.FileMode
		dirName         string
		want            string
	}{
		{"file", 0o444, 0o666, 0o777, dir, path + ": it cannot be written: make it and its directory writable for this user"},
		{"directory", 0o666, 0o666, 0o555, dir, "writable for this user"},
		{"lock", 0o666, 0o444, 0o777, dir, "make it and its directory writable for this user"},
		{"not to be read", 0, 0o666, 0o777, dir, "writable for this user"},
		{"not to be made", 0o666, 0o666, 0o777, filepath.Join(root, "new"), "name a directory that can be made"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.NoError(t, os.Chmod(path, tc.file))
			require.NoError(t, os.Chmod(filepath.Join(dir, lockName), tc.lock))
			require.NoError(t, os.Chmod(dir, tc.dir))
			asNobody(t, func() { _, err = Open(tc.dirName, Config{}) })
			require.ErrorContains(t, err, tc.want)
		})
	}
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.Chmod(filepath.Join(dir, lockName), 0o600))
	require.EqualValues(t, 1, openState(t, dir, Config{}).Left().Known)
}
