package sqlitedb_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/store/sqlitedb"
	_ "github.com/treadlight/crawl/internal/store/sqlitedb/engine"
)

// open opens a file that is closed when the test ends.
func open(t testing.TB, path string, cfg sqlitedb.Config) *sqlitedb.DB {
	t.Helper()
	db, err := sqlitedb.Open(path, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "t.db") }

// What is bound is what is read, whatever the text and however long.
func TestRoundTrip(t *testing.T) {
	db := open(t, newPath(t), sqlitedb.Config{})
	require.NoError(t, db.Exec(`CREATE TABLE t (i INTEGER, f REAL, a TEXT, b TEXT, n TEXT) STRICT`))
	rapid.Check(t, func(t *rapid.T) {
		i, f := rapid.Int64().Draw(t, "i"), rapid.Float64().Draw(t, "f")
		a := rapid.String().Draw(t, "a")
		b := strings.Repeat(rapid.SampledFrom([]string{"x", "é", "\x00"}).Draw(t, "b"), rapid.IntRange(0, 5000).Draw(t, "n"))
		require.NoError(t, db.Run(`INSERT INTO t VALUES (?, ?, ?, ?, ?)`, i, f, a, b, sqlitedb.Unless(a == "", a)))
		require.EqualValues(t, 1, db.Changes())
		found := 0
		require.NoError(t, db.Each(`SELECT * FROM t WHERE ?`, func(read *sqlitedb.Stmt) error {
			found++
			require.Equal(t, i, read.ColumnInt(0))
			require.Equal(t, f, read.ColumnFloat(1))
			require.Equal(t, a, read.ColumnText(2))
			require.Equal(t, b, string(read.ColumnBytes(3)))
			require.Equal(t, a == "", read.ColumnIsNull(4))
			require.Equal(t, a, read.ColumnText(4))
			return nil
		}, true))
		require.Equal(t, 1, found)
		require.NoError(t, db.Run(`DELETE FROM t WHERE ?`, true))
	})
}

// A statement can be run again after a run that failed, or that was not read to its end.
func TestRunsAgain(t *testing.T) {
	db := open(t, newPath(t), sqlitedb.Config{})
	require.NoError(t, db.Exec(`CREATE TABLE t (i INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2)`))
	insert := func(params ...any) error { return db.Run(`INSERT INTO t VALUES (?)`, params...) }
	require.ErrorContains(t, insert(1), "UNIQUE constraint failed: t.i")
	require.NoError(t, insert(3))
	require.ErrorContains(t, insert(3, 3), "column index out of range")
	require.NoError(t, insert(4))
	enough, found := errors.New("enough"), 0
	for range 2 {
		require.ErrorIs(t, db.Each(`SELECT i FROM t WHERE i > ? ORDER BY i`, func(read *sqlitedb.Stmt) error {
			found++
			require.EqualValues(t, 1, read.ColumnInt(0))
			return enough
		}, 0), enough)
	}
	require.Equal(t, 2, found)
	require.NoError(t, db.Each(`SELECT i FROM t WHERE i > ? ORDER BY i`, func(*sqlitedb.Stmt) error {
		found++
		return nil
	}, 0))
	require.Equal(t, 6, found)
}

// Runs allocate nothing.
func TestAllocations(t *testing.T) {
	db := open(t, newPath(t), sqlitedb.Config{})
	require.NoError(t, db.Exec(`CREATE TABLE t (i INTEGER PRIMARY KEY, a TEXT); BEGIN`))
	text, i := strings.Repeat("x", 100), int64(0)
	allocations := testing.AllocsPerRun(1000, func() {
		i++
		if err := db.Run(`INSERT INTO t VALUES (?, ?)`, i, text); err != nil {
			t.Fatal(err)
		}
	})
	require.Less(t, allocations, 0.5)
}

func TestQueries(t *testing.T) {
	db := open(t, newPath(t), sqlitedb.Config{CacheBytes: 1 << 20})
	for query, want := range map[string]int64{
		`SELECT 7`: 7, `SELECT NULL`: 0, `SELECT 1 WHERE 0`: 0, `SELECT max(5, 9)`: 9, fmt.Sprint(`SELECT `, math.MaxInt64): math.MaxInt64,
		`PRAGMA cache_size`: -1024, `PRAGMA synchronous`: 1,
	} {
		got, err := db.QueryInt(query)
		require.NoError(t, err)
		require.Equal(t, want, got, query)
	}
	text, err := db.QueryText(`SELECT 'a' || char(0) || 'b'`)
	require.NoError(t, err)
	require.Equal(t, "a\x00b", text)
	_, err = db.QueryInt(`SELECT FROM`)
	require.ErrorContains(t, err, "syntax error")
	require.ErrorContains(t, db.Exec(`SELECT 1; nonsense`), "syntax error")
	var rows []string
	stop := errors.New("no more")
	require.ErrorIs(t, db.Each(`SELECT ? || value FROM json_each('[1, 2, 3]') WHERE value < ?`, func(s *sqlitedb.Stmt) error {
		if rows = append(rows, s.ColumnText(0)); len(rows) == 2 {
			return stop
		}
		return nil
	}, "x", int64(9)), stop)
	require.Equal(t, []string{"x1", "x2"}, rows)
	require.ErrorContains(t, db.Each(`SELECT FROM`, nil), "syntax error")
	_, err = sqlitedb.Open(db.Path(), sqlitedb.Config{Accept: func(*sqlitedb.DB) error { return stop }})
	require.ErrorIs(t, err, stop)
	require.ErrorContains(t, db.Each(`SELECT * FROM nowhere`, nil), db.Path()+": no such table: nowhere (1)")
}

// A query with parameters may run again, also for each of its own rows, after an error, and after its table was changed.
func TestEachAgain(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "a.db"), sqlitedb.Config{})
	defer db.Close()
	require.NoError(t, db.Exec(`CREATE TABLE t (v INTEGER)`))
	for v := range int64(3) {
		require.NoError(t, db.Run(`INSERT INTO t VALUES (?)`, v))
	}
	const query = `SELECT v FROM t WHERE v >= ? ORDER BY v`
	var got []int64
	collect := func(s *sqlitedb.Stmt) error { got = append(got, s.ColumnInt(0)); return nil }
	require.NoError(t, db.Each(query, func(s *sqlitedb.Stmt) error { return db.Each(query, collect, s.ColumnInt(0)) }, int64(1)))
	require.Equal(t, []int64{1, 2, 2}, got)
	failed := errors.New("row")
	require.ErrorIs(t, db.Each(query, func(*sqlitedb.Stmt) error { return failed }, int64(0)), failed)
	require.NoError(t, db.Exec(`DROP TABLE t`))
	require.ErrorContains(t, db.Each(query, collect, int64(0)), "no such table")
	require.NoError(t, db.Exec(`CREATE TABLE t (v INTEGER); INSERT INTO t VALUES (7)`))
	got = nil
	require.NoError(t, db.Each(query, collect, int64(0)))
	require.Equal(t, []int64{7}, got)
}

// A file of ours is its owner's alone, and one that was there keeps its mode.
func TestModeOfTheFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // which has no such modes
	}
	path := newPath(t)
	require.NoError(t, open(t, path, sqlitedb.Config{}).Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.Chmod(path, 0o640))
	require.NoError(t, open(t, path, sqlitedb.Config{}).Close())
	info, err = os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	short, text := filepath.Join(dir, "short"), filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(short, []byte("x"), 0o600))
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("no database\n", 100)), 0o600))
	for path, want := range map[string]string{
		short:                           "it is no SQLite database: name another file, or move this one away",
		text:                            "it is no SQLite database: name another file, or move this one away",
		dir:                             "it cannot be opened",
		filepath.Join(dir, "no", "t"):   "make the directory " + filepath.Join(dir, "no"),
		filepath.Join(dir, "a\x00b"):    "leave out the NUL",
		filepath.Join(short, "no", "t"): "it cannot be opened",
	} {
		db, err := sqlitedb.Open(path, sqlitedb.Config{})
		require.Nil(t, db)
		require.ErrorContains(t, err, want, path)
		require.False(t, sqlitedb.IsBusy(err))
	}
	got, err := os.ReadFile(text)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("no database\n", 100), string(got))
}

func TestReadOnly(t *testing.T) {
	path := newPath(t)
	_, err := sqlitedb.Open(path, sqlitedb.Config{ReadOnly: true})
	require.ErrorContains(t, err, "it cannot be opened")
	require.NoFileExists(t, path)
	db := open(t, path, sqlitedb.Config{})
	require.NoError(t, db.Exec(`CREATE TABLE t (i)`))
	reader := open(t, path, sqlitedb.Config{ReadOnly: true})
	require.ErrorContains(t, reader.Exec(`INSERT INTO t VALUES (1)`), "it cannot be written")
	n, err := reader.QueryInt(`SELECT count(*) FROM t`)
	require.NoError(t, err)
	require.Zero(t, n)
}

// A file of another program has the mode that it wants, and keeps it from those who only look.
func TestReadOnlyLeavesTheMode(t *testing.T) {
	path := newPath(t)
	db := open(t, path, sqlitedb.Config{})
	require.NoError(t, db.Exec(`CREATE TABLE t (i); PRAGMA journal_mode = DELETE`))
	require.NoError(t, db.Close())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	reader := open(t, path, sqlitedb.Config{ReadOnly: true})
	n, err := reader.QueryInt(`SELECT count(*) FROM sqlite_schema`)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.NoError(t, reader.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// A lock of another connection is waited for, as long as is said.
func TestBusy(t *testing.T) {
	path := newPath(t)
	a := open(t, path, sqlitedb.Config{})
	b := open(t, path, sqlitedb.Config{BusyTimeout: -1})
	require.NoError(t, a.Exec(`CREATE TABLE t (i); BEGIN IMMEDIATE`))
	err := b.Exec(`BEGIN IMMEDIATE`)
	require.True(t, sqlitedb.IsBusy(err), "%v", err)
	require.ErrorContains(t, err, "another process has its lock: have it end its transaction")
	b.SetBusyTimeout(time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- b.Exec(`INSERT INTO t VALUES (1)`) }()
	require.NoError(t, a.Exec(`COMMIT`))
	require.NoError(t, <-ended)
}

// What SQLite takes for a database is one, also while another connection has it to itself.
func TestIsDatabase(t *testing.T) {
	there := newPath(t)
	db := open(t, there, sqlitedb.Config{})
	require.NoError(t, db.Exec(`CREATE TABLE t (i); PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE`))
	file := func(content []byte) string {
		path := newPath(t)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	for _, tc := range []struct {
		name, path string
		want       bool
		err        string
	}{
		{name: "locked", path: there, want: true},
		{name: "empty", path: file(nil), want: true}, // as SQLite sees it
		{name: "short", path: file([]byte("hosts\n"))},
		{name: "text", path: file(bytes.Repeat([]byte("hosts\n"), 1000))},
		{name: "nothing there", path: newPath(t), err: "unable to open"},
		{name: "a directory", path: t.TempDir(), err: "unable to open"},
	} {
		is, err := sqlitedb.IsDatabase(tc.path)
		require.Equal(t, tc.want, is, tc.name)
		if tc.err == "" {
			require.NoError(t, err, tc.name)
		} else {
			require.ErrorContains(t, err, tc.err, tc.name)
		}
	}
}

// A checkpoint empties the log, unless somebody reads what is in it.
func TestCheckpoint(t *testing.T) {
	path := newPath(t)
	db := open(t, path, sqlitedb.Config{BusyTimeout: -1})
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		require.NoError(t, err)
		return info.Size()
	}
	require.NoError(t, db.Exec(`CREATE TABLE t (i)`))
	require.Positive(t, size())
	reader := open(t, path, sqlitedb.Config{})
	require.NoError(t, reader.Exec(`BEGIN; SELECT * FROM t`))
	whole, err := db.Checkpoint()
	require.NoError(t, err)
	require.False(t, whole)
	require.NoError(t, reader.Exec(`COMMIT`))
	whole, err = db.Checkpoint()
	require.NoError(t, err)
	require.True(t, whole)
	require.Zero(t, size())
}

func TestCloseTwice(t *testing.T) {
	db := open(t, newPath(t), sqlitedb.Config{})
	require.NoError(t, db.Run(`SELECT 1 WHERE ?`, false))
	require.NoError(t, db.Close())
	require.NoError(t, db.Close())
}
