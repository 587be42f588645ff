package memory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// newDatabase is the memory at a path that is to be a database.
func newDatabase(t *testing.T, path string) *Database {
	t.Helper()
	p, err := At(Config{Path: path, Clock: clocktest.NewFake(now)})
	require.NoError(t, err)
	require.IsType(t, &Database{}, p)
	return p.(*Database)
}

func edit(t *testing.T, path, script string) {
	t.Helper()
	db, err := sqlitedb.Open(path, sqlitedb.Config{})
	require.NoError(t, err)
	require.NoError(t, errors.Join(db.Exec(script), db.Close()))
}

func loadPlace(t *testing.T, p Place) []ratelimit.HostMemory {
	t.Helper()
	hosts, damage, err := p.Load()
	require.NoError(t, err)
	require.Zero(t, damage)
	return hosts
}

// What holds of a memory holds whether it is a file or a database.
func TestPlaces(t *testing.T) {
	for _, name := range []string{"hosts.jsonl", "hosts.db", "HOSTS.SQLite"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			clk := clocktest.NewFake(now)
			open := func() Place { // as another process does
				p, err := At(Config{Path: path, Clock: clk, MaxHosts: 3})
				require.NoError(t, err)
				require.Equal(t, path, p.Path())
				return p
			}
			store := func(hosts ...ratelimit.HostMemory) {
				t.Helper()
				require.NoError(t, open().Save(t.Context(), slices.Values(hosts)))
			}
			require.Empty(t, loadPlace(t, open()), "of what does not exist")
			requireOnly(t, dir)
			told := host("b.test", 2*time.Hour, 1)
			told.Pause, told.RetryUntil, told.HeldUntil = 1500*time.Millisecond, now.Add(time.Minute), now.Add(time.Second)
			store(host("a.test", time.Hour, 1), told)
			newer := host("b.test", time.Hour, 2)
			store(host("a.test", 2*time.Hour, 9), host("c.test", 0, 3), host("gone.test", 24*time.Hour, 3), host("No name", 0, 1), newer)
			newer.RetryUntil = told.RetryUntil
			require.Equal(t, []ratelimit.HostMemory{host("c.test", 0, 3), host("a.test", time.Hour, 1), newer}, loadPlace(t, open()))
			store(host("d.test", time.Minute, 4))
			require.Equal(t, []ratelimit.HostMemory{host("c.test", 0, 3), host("d.test", time.Minute, 4), host("a.test", time.Hour, 1)}, loadPlace(t, open()),
				"of four those used last")
			requireOnly(t, dir, name)
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o600), info.Mode())
			clk.Advance(23*time.Hour + 30*time.Minute)
			store()
			require.Len(t, loadPlace(t, open()), 2, "what is a day old drops out")

			var wg sync.WaitGroup
			for w := range 3 {
				wg.Go(func() {
					p, err := At(Config{Path: path}) // whose time passes while it waits for the others
					m := ratelimit.HostMemory{Domain: fmt.Sprintf("%d.test", w), LastUsed: time.Now(), Learned: ratelimit.Learned{Rate: 1}}
					if err = errors.Join(err, p.Save(t.Context(), slices.Values([]ratelimit.HostMemory{m}))); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			last, err := At(Config{Path: path})
			require.NoError(t, err)
			require.Len(t, loadPlace(t, last), 3, "nobody's is lost")

			_, err = At(Config{Path: path, MaxHosts: -1})
			require.EqualError(t, err, "memory: MaxHosts = -1: want 1 or more")
			nowhere, err := At(Config{Path: filepath.Join(dir, "nowhere", name)})
			require.NoError(t, err)
			_, _, err = nowhere.Load()
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.ErrorContains(t, err, "make the directory first")
			require.Error(t, nowhere.Save(t.Context(), slices.Values([]ratelimit.HostMemory{})))
		})
	}
}

// What there is decides, and where there is nothing the name.
func TestAtGoesByWhatThereIs(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) Place {
		p, err := At(Config{Path: filepath.Join(dir, name), Clock: clocktest.NewFake(now)})
		require.NoError(t, err)
		return p
	}
	require.NoError(t, newDatabase(t, filepath.Join(dir, "x.db")).Save(t.Context(), slices.Values([]ratelimit.HostMemory{host("a.test", 0, 1)})))
	require.NoError(t, os.Rename(filepath.Join(dir, "x.db"), filepath.Join(dir, "hosts")))
	require.Len(t, loadPlace(t, at("hosts")), 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lines.db"), []byte(text(t, host("a.test", 0, 1))), 0o600))
	require.Len(t, loadPlace(t, at("lines.db")), 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty.db"), nil, 0o640))
	require.Empty(t, loadPlace(t, at("empty.db")))
	require.IsType(t, &Database{}, at("empty.db"))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "dir.db"), 0o700))
	_, _, err := at("dir.db").Load()
	require.ErrorContains(t, err, "dir.db is no regular file: name one")
}

// What is none of ours is refused, and stays as it is to the last byte.
func TestForeignDatabasesStay(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"another program's": {`CREATE TABLE rates (x); PRAGMA journal_mode = DELETE`, "it is a database, and no memory of hosts: name another file"},
		"another mark":      {`PRAGMA application_id = 1; CREATE TABLE t (x)`, "it is a database, and no memory of hosts"},
		"a later version": {
			TableSchema + fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = 2`, applicationID),
			"it is a memory of hosts of version 2, and this program writes version 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "other.db")
			edit(t, path, tc.script)
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			d := newDatabase(t, path)
			_, _, err = d.Load()
			require.ErrorContains(t, err, "read "+path+": "+tc.want)
			format, ours := errors.AsType[*FormatError](err)
			require.True(t, ours)
			require.Equal(t, name == "a later version", format.Version == 2)
			require.ErrorContains(t, d.Save(t.Context(), slices.Values([]ratelimit.HostMemory{host("a.test", 0, 1)})), tc.want)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, before, after)
		})
	}
}

// A row that is wrong costs its host, a page that is wrong all of them.
func TestDamagedDatabases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts.db")
	d := newDatabase(t, path)
	require.NoError(t, d.Save(t.Context(), slices.Values([]ratelimit.HostMemory{host("a.test", 0, 1), host("b.test", time.Second, 1), host("c.test", time.Minute, 1)})))
	edit(t, path, `UPDATE rates SET rate = -1 WHERE host <> 'a.test'`)
	hosts, damage, err := d.Load()
	require.NoError(t, err)
	require.Equal(t, []ratelimit.HostMemory{host("a.test", 0, 1)}, hosts)
	require.Equal(t, 2, damage.Lines)
	require.Equal(t, 2, damage.First)
	require.ErrorContains(t, damage.Err, "rate = -1: want 0 to 1e6 requests per second")

	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(whole[:100:100], []byte(strings.Repeat("\xff", len(whole)-100))...), 0o600))
	_, _, err = d.Load()
	require.True(t, sqlitedb.IsDamage(err), err)
	require.ErrorContains(t, err, "restore it from a copy")
	require.NoError(t, os.WriteFile(path, whole[:300], 0o600))
	_, _, err = d.Load()
	require.ErrorContains(t, err, "it is no SQLite database: name another file")
}

// A database at rest can be read where nothing can be written: it does not say that it has a log.
func TestDatabasesAtRestHaveNoLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts.db")
	for range 2 {
		require.NoError(t, newDatabase(t, path).Save(t.Context(), slices.Values([]ratelimit.HostMemory{host("a.test", 0, 1)})))
		db, err := sqlitedb.Open(path, sqlitedb.Config{ReadOnly: true})
		require.NoError(t, err)
		mode, err := db.QueryText("PRAGMA journal_mode")
		require.NoError(t, errors.Join(err, db.Close()))
		require.Equal(t, "delete", mode)
	}
}

// A kill in the middle of a transaction leaves what was there before.
func TestKilledSaveLeavesTheOldRows(t *testing.T) {
	const victim = "MEMORY_TEST_KILLED_WHILE_SAVING"
	if path := os.Getenv(victim); path != "" {
		_ = newDatabase(t, path).Save(t.Context(), func(func(ratelimit.HostMemory) bool) {})
		db, _ := sqlitedb.Open(path, sqlitedb.Config{})
		_ = db.Transact(func() error { // never returns
			table, _ := PrepareTable(db)
			_ = table.Merge([]ratelimit.HostMemory{host("b.test", 0, 1)}, now, 1)
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		})
	}
	path := filepath.Join(t.TempDir(), "hosts.db")
	d := newDatabase(t, path)
	require.NoError(t, d.Save(t.Context(), slices.Values([]ratelimit.HostMemory{host("a.test", 0, 1)})))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), victim+"="+path)
	require.Error(t, child.Run(), "it was not killed")
	require.FileExists(t, path+"-wal", "it was not writing")
	require.Equal(t, []ratelimit.HostMemory{host("a.test", 0, 1)}, loadPlace(t, d))
	require.NoError(t, d.Save(t.Context(), slices.Values([]ratelimit.HostMemory{host("c.test", 0, 1)})))
	require.Len(t, loadPlace(t, d), 2)
}
