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
	_ "github.com/treadlight/crawl/internal/store/sqlitedb/engine"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func host(name string, age time.Duration, rate float32) ratelimit.HostMemory {
	return ratelimit.HostMemory{Domain: name, LastUsed: now.Add(-age), Learned: ratelimit.Learned{Rate: rate}}
}

func newDatabase(t *testing.T, path string) *Database {
	t.Helper()
	d, err := At(Config{Path: path, Clock: clocktest.NewFake(now)})
	require.NoError(t, err)
	return d
}

func save(t *testing.T, d *Database, hosts ...ratelimit.HostMemory) {
	t.Helper()
	require.NoError(t, d.Save(t.Context(), slices.Values(hosts)))
}

func requireOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, len(names))
	for i, e := range entries {
		require.Equal(t, names[i], e.Name())
	}
}

func edit(t *testing.T, path, script string) {
	t.Helper()
	db, err := sqlitedb.Open(path, sqlitedb.Config{})
	require.NoError(t, err)
	require.NoError(t, errors.Join(db.Exec(script), db.Close()))
}

func load(t *testing.T, p *Database) []ratelimit.HostMemory {
	t.Helper()
	hosts, damage, err := p.Load()
	require.NoError(t, err)
	require.Zero(t, damage)
	return hosts
}

func TestMergesAndForgets(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "hosts.db")
	clk := clocktest.NewFake(now)
	open := func() *Database { // as another process does
		d, err := At(Config{Path: path, Clock: clk, MaxHosts: 3})
		require.NoError(t, err)
		require.Equal(t, path, d.Path())
		return d
	}
	require.Empty(t, load(t, open()), "of what does not exist")
	requireOnly(t, dir)
	told := host("b.test", 2*time.Hour, 1)
	told.Pause, told.RetryUntil, told.HeldUntil = 1500*time.Millisecond, now.Add(time.Minute), now.Add(time.Second)
	save(t, open(), host("a.test", time.Hour, 1), told)
	newer := host("b.test", time.Hour, 2)
	save(t, open(), host("a.test", 2*time.Hour, 9), host("c.test", 0, 3), host("gone.test", 24*time.Hour, 3), host("No name", 0, 1), newer)
	newer.RetryUntil = told.RetryUntil
	require.Equal(t, []ratelimit.HostMemory{host("c.test", 0, 3), host("a.test", time.Hour, 1), newer}, load(t, open()))
	save(t, open(), host("d.test", time.Minute, 4))
	require.Equal(t, []ratelimit.HostMemory{host("c.test", 0, 3), host("d.test", time.Minute, 4), host("a.test", time.Hour, 1)}, load(t, open()),
		"of four those used last")
	requireOnly(t, dir, "hosts.db")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	clk.Advance(23*time.Hour + 30*time.Minute)
	save(t, open())
	require.Len(t, load(t, open()), 2, "what is a day old drops out")

	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			d, err := At(Config{Path: path}) // whose time passes while it waits for the others
			m := ratelimit.HostMemory{Domain: fmt.Sprintf("%d.test", w), LastUsed: time.Now(), Learned: ratelimit.Learned{Rate: 1}}
			if err = errors.Join(err, d.Save(t.Context(), slices.Values([]ratelimit.HostMemory{m}))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	last, err := At(Config{Path: path})
	require.NoError(t, err)
	require.Len(t, load(t, last), 3, "nobody's is lost")
}

func TestWrongConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		"memory: Path is empty: name a file":                 {},
		"memory: MaxHosts = -1: want 1 or more":              {Path: "x", MaxHosts: -1},
		"memory: MaxWait = -1ns: want a duration above zero": {Path: "x", MaxWait: -1},
	} {
		_, err := At(cfg)
		require.EqualError(t, err, want)
	}
}

func TestPathsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	nowhere := newDatabase(t, filepath.Join(dir, "nowhere", "hosts"))
	_, _, err := nowhere.Load()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "make the directory first")
	require.Error(t, nowhere.Save(t.Context(), slices.Values([]ratelimit.HostMemory{})))
	_, _, err = newDatabase(t, dir).Load()
	require.EqualError(t, err, dir+" is no regular file: name one, or one that does not exist yet")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o640))
	empty := newDatabase(t, filepath.Join(dir, "empty"))
	require.Empty(t, load(t, empty), "as somebody may have made it to set its mode")
	save(t, empty, host("a.test", 0, 1))
	info, err := os.Stat(empty.Path())
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o640), info.Mode())
}

// A mistyped name costs nobody a file.
func TestOtherFilesStay(t *testing.T) {
	for content, want := range map[string]string{
		`{"url":"https://a.test/"}` + "\n": "it is no memory of hosts: name another file, or one that does not exist yet",
		strings.Repeat("x", 1<<17):         "it is no memory of hosts",
	} {
		path := filepath.Join(t.TempDir(), "pages.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		_, _, err := newDatabase(t, path).Load()
		require.ErrorContains(t, err, "read "+path+": ")
		require.ErrorContains(t, err, want)
		err = newDatabase(t, path).Save(t.Context(), slices.Values([]ratelimit.HostMemory{host("a.test", 0, 1)}))
		require.ErrorContains(t, err, want)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(data))
	}
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
	save(t, d, host("a.test", 0, 1), host("b.test", time.Second, 1), host("c.test", time.Minute, 1))
	edit(t, path, `UPDATE rates SET rate = -1 WHERE host <> 'a.test'`)
	hosts, damage, err := d.Load()
	require.NoError(t, err)
	require.Equal(t, []ratelimit.HostMemory{host("a.test", 0, 1)}, hosts)
	require.Equal(t, 2, damage.Rows)
	require.Equal(t, 2, damage.First)
	require.ErrorContains(t, damage.Err, "rate = -1: want 0 to 1e6 requests per second")

	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(whole[:100:100], []byte(strings.Repeat("\xff", len(whole)-100))...), 0o600))
	_, _, err = d.Load()
	require.ErrorContains(t, err, "restore it from a copy")
	require.NoError(t, os.WriteFile(path, whole[:300], 0o600))
	_, _, err = d.Load()
	require.ErrorContains(t, err, "it is no memory of hosts: name another file")
}

// A database at rest can be read where nothing can be written: it does not say that it has a log.
func TestDatabasesAtRestHaveNoLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts.db")
	for range 2 {
		save(t, newDatabase(t, path), host("a.test", 0, 1))
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
		db, _ := sqlitedb.Open(path, sqlitedb.Config{NoLog: true})
		_ = db.Transact(func() error { // never returns
			_ = MergeTable(db, []ratelimit.HostMemory{host("b.test", 0, 1)}, now, 1)
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		})
	}
	path := filepath.Join(t.TempDir(), "hosts.db")
	d := newDatabase(t, path)
	save(t, d, host("a.test", 0, 1))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), victim+"="+path)
	require.Error(t, child.Run(), "it was not killed")
	require.FileExists(t, path+"-journal", "it was not writing")
	require.Equal(t, []ratelimit.HostMemory{host("a.test", 0, 1)}, load(t, d))
	save(t, d, host("c.test", 0, 1))
	require.Len(t, load(t, d), 2)
}

// Crawls that make the file and save at the same time lose nothing and do not disturb each other.
func TestSavesAtOnce(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "hosts.db")
		var all sync.WaitGroup
		errs := make([]error, 6)
		for i := range 2 {
			all.Go(func() {
				for n := i; n < len(errs); n += 2 {
					hosts := []ratelimit.HostMemory{host(fmt.Sprintf("%d.test", n), 0, 1)}
					errs[n] = newDatabase(t, path).Save(t.Context(), slices.Values(hosts))
				}
			})
		}
		all.Wait()
		require.NoError(t, errors.Join(errs...))
		require.Len(t, load(t, newDatabase(t, path)), len(errs))
	}
}
