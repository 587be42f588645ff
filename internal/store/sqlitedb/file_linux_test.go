package sqlitedb_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// To look whether a file is a database leaves its locks to who has it open in this process. A file
// that is read and closed does not, which shows that the test would see it.
func TestIsDatabaseKeepsLocks(t *testing.T) {
	path := newPath(t)
	db := open(t, path, sqlitedb.Config{})
	require.NoError(t, db.Exec(`CREATE TABLE t (i)`))
	probe, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, probe.Close()) })
	locked := func() bool {
		const ofdGetLock = 36 // F_OFD_GETLK, which sees the locks of the same process too
		lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: 1 << 30, Len: 512}
		require.NoError(t, syscall.FcntlFlock(probe.Fd(), ofdGetLock, &lock))
		return lock.Type != syscall.F_UNLCK
	}
	require.True(t, locked())
	is, err := sqlitedb.IsDatabase(path)
	require.NoError(t, err)
	require.True(t, is)
	require.True(t, locked(), "after a look")
	_, err = os.ReadFile(path)
	require.NoError(t, err)
	require.False(t, locked(), "after it was read as a file")
}
