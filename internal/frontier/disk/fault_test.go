package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/seen"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

func garbage(n int) []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

func closedState(t *testing.T, n int64) string {
	t.Helper()
	s := openState(t, t.TempDir(), Config{})
	putMany(t, s, 1, n)
	require.NoError(t, s.Close())
	return filepath.Dir(s.path)
}

// What is no state of ours is refused, and stays as it is to the last byte.
func TestForeignFiles(t *testing.T) {
	sql := func(script string) func(*testing.T, string) {
		return func(t *testing.T, path string) { edit(t, path, script) }
	}
	content := func(b []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, b, 0o600)) }
	}
	for _, tc := range []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"text", content([]byte(strings.Repeat("a log, and no database\n", 100))), "it is no SQLite database: name another file, or move this one away"},
		{"one byte", content([]byte("x")), "it is no SQLite database"},
		{"garbage", content(garbage(1 << 16)), "it is no SQLite database"},
		{"directory", func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, "it cannot be opened"},
		{"other program", sql(`CREATE TABLE meta (x)`), "it is a database of another program: name another directory"},
		{"other mark", sql(`PRAGMA application_id = 1; CREATE TABLE t (x)`), "it is a database of another program"},
		{"without a log", sql(`CREATE TABLE t (x); PRAGMA journal_mode = DELETE`), "it is a database of another program"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, databaseName)
			tc.make(t, path)
			before, _ := os.ReadFile(path)
			_, err := Open(dir, Config{})
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, path)
			if bytes.HasPrefix(before, []byte("SQLite")) {
				_, err = Open(dir, Config{Mode: Create})
				require.ErrorContains(t, err, tc.want, "nor is it a crawl to go on with")
				require.ErrorContains(t, Remove(dir), tc.want)
			}
			after, _ := os.ReadFile(path)
			require.Equal(t, before, after)
			require.NoFileExists(t, filepath.Join(dir, lockName))
		})
	}
}

// One that another program is using may have nothing but its log so far.
func TestForeignLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, databaseName)
	db, err := sqlitedb.Open(path, sqlitedb.Config{})
	require.NoError(t, err)
	require.NoError(t, db.Exec(`CREATE TABLE t (x); INSERT INTO t VALUES (7)`))
	require.ErrorContains(t, Remove(dir), "it is a database of another program: name another directory")
	_, err = Open(dir, Config{})
	require.ErrorContains(t, err, "it is a database of another program")
	require.NoFileExists(t, filepath.Join(dir, lockName))
	n, err := db.QueryInt(`SELECT x FROM t`)
	require.NoError(t, err)
	require.EqualValues(t, 7, n)
	require.NoError(t, db.Close())
}

// A state of another version is refused, and says which program writes it.
func TestVersions(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, databaseName)
	edit(t, path, fmt.Sprintf(`PRAGMA application_id = %d`, applicationID)) // version 0: made, and no more
	_, err := Look(dir)
	require.ErrorIs(t, err, ErrMissing)
	s := openState(t, dir, Config{})
	putMany(t, s, 1, 3)
	require.NoError(t, s.Close())
	s = openState(t, dir, Config{})
	require.Len(t, loadAll(t, s, "a.test"), 3)
	require.NoError(t, s.Close())

	for _, other := range []int{1, version - 1, version + 1} {
		edit(t, path, fmt.Sprintf(`PRAGMA user_version = %d; UPDATE meta SET value = 'crawl 9.9' WHERE key = 'program'`, other))
		want := fmt.Sprintf("its schema has version %d, as crawl 9.9 writes it, and crawl 1.0 knows 8: use the former, or name another directory", other)
		_, err := Open(dir, Config{Program: "crawl 1.0"})
		require.ErrorContains(t, err, want)
		_, err = Look(dir)
		require.ErrorContains(t, err, fmt.Sprintf("version %d", other))
	}
	edit(t, path, `DROP TABLE meta`)
	_, err = Open(dir, Config{})
	require.ErrorContains(t, err, "version 9")
}

// A database of which a part is missing or wrong is refused, or fails when it comes there,
// and says what it is.
func TestDamage(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(whole []byte) []byte
		want   string
	}{
		"end missing":    {func(b []byte) []byte { return b[:len(b)-4096] }, "it is damaged: restore it from a copy"},
		"most missing":   {func(b []byte) []byte { return b[:5000] }, "it is damaged: restore it from a copy"},
		"head only":      {func(b []byte) []byte { return b[:600] }, "it is damaged: restore it from a copy"},
		"rows":           {func(b []byte) []byte { return append(b[:20*4096:20*4096], garbage(len(b)-20*4096)...) }, "it is damaged: restore it from a copy"},
		"pages mixed up": {swapped("http://a.test/1000", "http://a.test/4000"), "it is damaged: restore it from a copy"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := closedState(t, 5000)
			path := filepath.Join(dir, databaseName)
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, tc.damage(whole), 0o600))
			s, err := Open(dir, Config{})
			if err == nil {
				s.Load("a.test", frontier.Place{Rank: -1}, 5000)
				s.Commit(nil)
				wantFailed(t, s)
				err = s.Close()
			}
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, path)
		})
	}
}

func swapped(one, other string) func([]byte) []byte {
	return func(b []byte) []byte {
		const size = 4096
		b = slices.Clone(b)
		i, j := bytes.Index(b, []byte(one))/size*size, bytes.Index(b, []byte(other))/size*size
		was := slices.Clone(b[i : i+size])
		copy(b[i:i+size], b[j:j+size])
		copy(b[j:j+size], was)
		return b
	}
}

// A row that cannot be believed stops the crawl, by its name, and is not passed over: its
// URL would be lost.
func TestDamagedRows(t *testing.T) {
	for script, want := range map[string]string{
		`UPDATE urls SET url = 'mailto:x' WHERE id = 2`:             "row 2 of urls: ",
		`UPDATE urls SET url = 'HTTP://a.test/2' WHERE id = 2`:      "row 2 of urls: its URL is not canonical",
		`UPDATE urls SET depth = 1 << 40 WHERE id = 2`:              "row 2 of urls: a figure is out of range",
		`UPDATE places SET attempts = -1 WHERE url = 2`:             "row 2 of urls: a figure is out of range",
		`UPDATE urls SET kind = 'feed' WHERE id = 2`:                `row 2 of urls: its kind is "feed"`,
		`DELETE FROM urls WHERE id = 2`:                             "row 2 of urls: ",
		`UPDATE meta SET value = 'x' WHERE key = 'fingerprint_key'`: "fingerprint_key in meta",
		`DROP TABLE places`:                                         "no such table: places",
	} {
		dir := closedState(t, 3)
		require.NoError(t, openState(t, dir, Config{}).Close()) // which writes the rows of places
		edit(t, filepath.Join(dir, databaseName), script)
		s, err := Open(dir, Config{})
		if err == nil {
			s.Load("a.test", frontier.Place{Rank: -1}, 10)
			s.Commit(nil)
			wantFailed(t, s)
			err = s.Close()
		}
		require.ErrorContains(t, err, want, script)
		require.ErrorContains(t, err, databaseName, script)
	}
}

// What is said to help helps at once: the row of places is there, though nobody had asked for
// the host before.
func TestDamagedRowCanBeDeleted(t *testing.T) {
	dir := t.TempDir()
	s := openState(t, dir, Config{})
	putMany(t, s, 1, 3)
	flush(t, s)
	require.Zero(t, ask(t, s, `SELECT count(*) FROM places`))
	edit(t, s.path, `UPDATE urls SET url = 'mailto:x' WHERE id = 2`)
	s.Load("a.test", frontier.Place{Rank: -1}, 10)
	s.Commit(nil)
	wantFailed(t, s)
	require.ErrorContains(t, s.Err(), "row 2 of urls: ")
	require.ErrorContains(t, s.Err(), "delete its row in places")
	require.ErrorIs(t, s.Close(), s.Err())
	edit(t, s.path, `DELETE FROM places WHERE url = 2`)
	require.Len(t, loadAll(t, openState(t, dir, Config{}), "a.test"), 2)
}

// What is written to a file that has lost its name would be lost.
func TestDeletedWhileRunning(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"deleted":     os.Remove,
		"log deleted": func(path string) error { return os.Remove(path + "-wal") },
		"moved":       func(path string) error { return os.Rename(path, path+"2") },
		"unlocked":    func(path string) error { return os.Remove(filepath.Join(filepath.Dir(path), lockName)) },
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+"2"), os.WriteFile(path, []byte("x"), 0o600))
		},
	} {
		test := func(t *testing.T, asked bool) {
			s := openState(t, t.TempDir(), Config{})
			putMany(t, s, 1, 1)
			flush(t, s)
			require.NoError(t, s.Owned())
			require.NoError(t, spoil(s.path))
			if asked { // before anything is written
				require.ErrorContains(t, s.Owned(), "it was deleted, moved or replaced while it was in use")
			} else {
				putMany(t, s, 2, 1)
			}
			wantFailed(t, s)
			require.ErrorContains(t, s.Err(), "it was deleted, moved or replaced while it was in use")
			require.ErrorIs(t, s.Owned(), s.Err())
			require.ErrorIs(t, s.Close(), s.Err())
		}
		t.Run(name, func(t *testing.T) { test(t, false) })
		t.Run(name+", asked", func(t *testing.T) { test(t, true) })
	}
}

// The fingerprint index is derived: without it, with a damaged one or with that of another
// crawl, all URLs are known as before.
func TestIndexIsDerived(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"deleted": func(dir string) error { return os.RemoveAll(filepath.Join(dir, seenName)) },
		"damaged": func(dir string) error { return spoilRuns(dir, garbage(100)) },
		"empty":   func(dir string) error { return spoilRuns(dir, nil) },
		"too new": func(dir string) error { // a copy of the database from before
			path := filepath.Join(dir, databaseName)
			db, err := sqlitedb.Open(path, sqlitedb.Config{})
			if err != nil {
				return err
			}
			return errors.Join(db.Exec(`DELETE FROM urls WHERE id > 50; DELETE FROM places WHERE url > 50`), db.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openState(t, t.TempDir(), Config{memtableFPs: 16})
			putMany(t, s, 1, 100)
			flush(t, s)
			rows := int64(100)
			// The index writes rows only when another is added, and one run at a time: where the mark stops depends on the time.
			for end := time.Now().Add(time.Minute); s.index.Mark() <= 50; rows++ {
				require.True(t, time.Now().Before(end), "the mark is %d after %d rows", s.index.Mark(), rows)
				putMany(t, s, rows+1, 1)
				flush(t, s)
			}
			require.NoError(t, s.Close())
			require.NoError(t, spoil(filepath.Dir(s.path)))
			s = openState(t, filepath.Dir(s.path), Config{memtableFPs: 16})
			for i := int64(1); i <= rows+1; i++ {
				u := testItem(t, i, fmt.Sprintf("http://a.test/%d", i)).URL
				require.Equal(t, i <= s.Left().LastID, s.Known(u.Fingerprint(s.Key())), i)
			}
		})
	}
}

func runs(t testing.TB, s *Store) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(s.path), seenName, "*"))
	require.NoError(t, err)
	return files
}

func spoilRuns(dir string, with []byte) error {
	return filepath.WalkDir(filepath.Join(dir, seenName), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		if with == nil {
			return os.Truncate(path, 0)
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		_, err = f.WriteAt(with, max(0, info.Size()-int64(len(with))-1))
		return errors.Join(err, f.Close())
	})
}

// An index that turns out to be damaged in the middle of a crawl ends it, and is made anew by the next.
func TestIndexDamagedWhileRunning(t *testing.T) {
	s := openState(t, t.TempDir(), Config{memtableFPs: 16, linger: time.Hour})
	putMany(t, s, 1, 50)
	flush(t, s)
	require.Eventually(t, func() bool { return s.index.Mark() == 16 }, time.Minute, time.Millisecond)
	known := func(id int64) uint64 {
		return testItem(t, id, fmt.Sprintf("http://a.test/%d", id)).URL.Fingerprint(s.Key())
	}
	require.NoError(t, spoilRuns(filepath.Dir(s.path), garbage(3000)))
	require.True(t, s.Known(known(51)) || s.Known(known(1)))
	require.ErrorIs(t, s.Err(), seen.ErrDamaged)
	require.ErrorIs(t, s.Close(), seen.ErrDamaged)
	require.Empty(t, runs(t, s))
	s = openState(t, filepath.Dir(s.path), Config{})
	for id := int64(1); id <= 51; id++ {
		require.Equal(t, id <= 50, s.Known(known(id)), id)
	}
}

// A store that fails while the writer has much to do takes nothing more in.
func TestFailureInTheMiddle(t *testing.T) {
	for range 20 {
		s := openState(t, t.TempDir(), Config{maxPending: 16})
		broken := errors.New("broken")
		for i := range int64(10) {
			putMany(t, s, 1+10*i, 10)
		}
		s.fail(broken)
		s.fail(errors.New("a later reason"))
		putMany(t, s, 1001, 10)
		s.Load("a.test", frontier.Place{}, 1)
		s.Commit(nil)
		require.ErrorIs(t, s.Flush(t.Context()), broken)
		err := s.Close()
		require.ErrorIs(t, err, broken)
		require.NotContains(t, err.Error(), "later")
		require.Zero(t, openState(t, filepath.Dir(s.path), Config{}).Left().Known%10, "whole batches")
	}
}
