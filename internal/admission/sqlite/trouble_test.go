package sqlite_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/sqlite"
)

func TestConfigErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "not", "there")
	for _, tc := range []struct {
		cfg  sqlite.Config
		want string
	}{
		{sqlite.Config{}, "Path is empty: name the file"},
		{sqlite.Config{Path: "a\x00b"}, `Path is "a\x00b": leave out the NUL`},
		{sqlite.Config{Path: filepath.Join(missing, "limits.db")}, "make the directory " + missing},
	} {
		r, err := sqlite.New(tc.cfg)
		require.Nil(t, r)
		require.ErrorContains(t, err, tc.want)
	}
}

func garbage(n int) []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// What is no database of ours is refused, and stays as it is to the last byte.
func TestForeignFiles(t *testing.T) {
	database := func(script string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			must(shell(t, path).Exec(script))
		}
	}
	bytes := func(b []byte) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, b, 0o600)) }
	}
	for _, tc := range []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"text", bytes([]byte(strings.Repeat("a log, and no database\n", 100))), "it is no SQLite database: name another file, or move this one away"},
		{"one byte", bytes([]byte("x")), "it is no SQLite database: name another file, or move this one away"},
		{"511 bytes", bytes(garbage(511)), "it is no SQLite database"},
		{"512 bytes", bytes(garbage(512)), "it is no SQLite database"},
		{"garbage", bytes(garbage(1 << 16)), "it is no SQLite database"},
		{"directory", func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, "it cannot be opened"},
		{"other table", database(`CREATE TABLE rate_limit_entries (id INTEGER)`), "its table rate_limit_entries is of another program"},
		{"newer", database(`CREATE TABLE rate_limit_entries (x); CREATE TABLE rate_limit_schema (version INTEGER);
			INSERT INTO rate_limit_schema VALUES (1), (2)`), "schema version 2, and this program knows 1"},
		{"no version", database(`CREATE TABLE rate_limit_schema (version INTEGER)`), "schema version 0, and this program knows 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			tc.make(t, path)
			before, _ := os.ReadFile(path)
			_, err := sqlite.New(sqlite.Config{Path: path})
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, path)
			if after, _ := os.ReadFile(path); !strings.HasPrefix(string(before), "SQLite") {
				require.Equal(t, before, after)
			}
		})
	}
}

// Damage within the file is an error of the decisions it concerns, and decides nothing.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	r := must(sqlite.New(sqlite.Config{Path: path}))
	fill(t, r, 2000)
	require.NoError(t, r.Close())
	whole := must(os.ReadFile(path))
	head := 3 * 4096 // with the schema and the roots of the two tables
	require.NoError(t, os.WriteFile(path, append(bytes.Clone(whole[:head]), garbage(len(whole)-head)...), 0o600))

	r = open(t, sqlite.Config{Path: path})
	_, err := r.Take(t.Context(), "0", []admission.Plan{wide}, 1)
	require.ErrorContains(t, err, "it is damaged: restore it from a copy, with its -wal, or move it away, with its -wal and -shm")
}

// A disk that is full is an error; nothing is charged, not to those in the same batch, and
// nothing is lost. With room again, all goes on.
func TestFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	r := open(t, sqlite.Config{Path: path})
	take(t, r, "key", 1, narrow)
	require.NoError(t, r.Exec(t.Context(), `PRAGMA max_page_count = 1`)) // which is as many as there are
	vast := strings.Repeat("k", 1<<20)
	_, err := r.Take(t.Context(), vast, []admission.Plan{narrow, wide}, 1)
	require.ErrorContains(t, err, "there is no room for it: free some on its disk")
	require.ErrorContains(t, err, "; nothing was charged")
	require.ErrorContains(t, err, path)

	unlock := lock(t, path)
	failed := make(chan error, 2)
	for _, key := range []string{"key", vast} {
		go func() {
			_, err := r.Take(t.Context(), key, []admission.Plan{narrow}, 1)
			failed <- err
		}()
	}
	require.Eventually(t, func() bool { return sqlite.Waiting(r) == 2 }, time.Minute, time.Millisecond)
	unlock()
	require.ErrorContains(t, <-failed, "no room")
	require.ErrorContains(t, <-failed, "no room")

	require.EqualValues(t, 998, take(t, r, "key", 1, narrow).Remaining)
	require.NoError(t, r.Exec(t.Context(), `PRAGMA max_page_count = 1000000`))
	require.EqualValues(t, 999, take(t, r, vast, 1, narrow).Remaining)
	require.EqualValues(t, 998, take(t, open(t, sqlite.Config{Path: path}), "key", 0, narrow).Remaining)
}

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

func replace(t *testing.T, path string, keys int) {
	other := filepath.Join(t.TempDir(), "other.db")
	r := must(sqlite.New(sqlite.Config{Path: other}))
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
