//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlitedb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// A lock is had by one at a time, who is named to the others.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	require.NoError(t, os.WriteFile(path, []byte("99999999999999999999 of another program"), 0o600))
	unlock, err := sqlitedb.Lock(path)
	require.NoError(t, err, "that the file is there means nothing")
	_, err = sqlitedb.Lock(path)
	var inUse *sqlitedb.InUseError
	require.ErrorAs(t, err, &inUse)
	require.Equal(t, sqlitedb.InUseError{Path: path, PID: os.Getpid()}, *inUse)
	require.ErrorContains(t, err, fmt.Sprintf("%s: process %d has this lock: wait for its end, or end it", path, os.Getpid()))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = sqlitedb.Lock(path)
	require.ErrorContains(t, err, path+": another process has this lock")
	require.NoError(t, unlock())
	unlock, err = sqlitedb.Lock(path)
	require.NoError(t, err)
	require.NoError(t, unlock())
	_, err = sqlitedb.Lock(filepath.Join(path, "lock"))
	require.ErrorContains(t, err, "make it and its directory writable for this user")
}
