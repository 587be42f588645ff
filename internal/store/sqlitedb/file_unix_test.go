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

// A file that another took the place of is gone, and one that is only written to is not.
func TestGone(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(t *testing.T, path string)
		want bool
	}{
		"nothing": {func(*testing.T, string) {}, false},
		"written by another": {func(t *testing.T, path string) {
			require.NoError(t, open(t, path, sqlitedb.Config{}).Exec(`CREATE TABLE u (i)`))
		}, false},
		"another mode": {func(t *testing.T, path string) { require.NoError(t, os.Chmod(path, 0o640)) }, false},
		"deleted":      {func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, true},
		"moved away":   {func(t *testing.T, path string) { require.NoError(t, os.Rename(path, path+".old")) }, true},
		"replaced": {func(t *testing.T, path string) {
			other := newPath(t)
			require.NoError(t, open(t, other, sqlitedb.Config{}).Close())
			require.NoError(t, os.Rename(other, path))
		}, true},
		"its directory": {func(t *testing.T, path string) { require.NoError(t, os.RemoveAll(filepath.Dir(path))) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			made, found := open(t, path, sqlitedb.Config{}), open(t, path, sqlitedb.Config{})
			require.NoError(t, made.Exec(`CREATE TABLE t (i)`))
			require.False(t, made.Gone() || found.Gone())
			tc.do(t, path)
			require.Equal(t, tc.want, made.Gone())
			require.Equal(t, tc.want, found.Gone())
		})
	}
}

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
