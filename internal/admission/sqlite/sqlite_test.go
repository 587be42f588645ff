package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/admissiontest"
	"github.com/treadlight/crawl/internal/admission/sqlite"
	"github.com/treadlight/crawl/internal/clock/clocktest"
	_ "github.com/treadlight/crawl/internal/store/sqlitedb/engine"
)

// TestMain is also the main of the processes that tests start.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, cfg sqlite.Config) *sqlite.Repository {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "limits.db")
	}
	r := must(sqlite.New(cfg))
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func shell(t testing.TB, path string) *sql.DB {
	t.Helper()
	db := must(sql.Open("sqlite", path))
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// What tests of all repositories ask for, and ask.
var (
	bucket, fixed, sliding = admissiontest.Bucket, admissiontest.Fixed, admissiontest.Sliding
	take                   = admissiontest.Take
)

func TestConformance(t *testing.T) {
	admissiontest.Run(t, func(t *testing.T, clk *admissiontest.Clock) admission.Repository {
		return open(t, sqlite.Config{Clock: clk})
	}, admissiontest.Options{})
}

var day = time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC)

type row struct {
	Key                                        string
	Count, Previous                            int64
	Tokens                                     any
	WindowStart, ExpiresAt, CreatedAt, Version int64
}

func rows(t testing.TB, path string) []row {
	t.Helper()
	found := must(shell(t, path).Query(`SELECT key, count, previous, tokens, window_start, expires_at, created_at, version
		FROM rate_limit_entries, rate_limit_schema ORDER BY key`))
	defer found.Close()
	var all []row
	for found.Next() {
		var r row
		require.NoError(t, found.Scan(&r.Key, &r.Count, &r.Previous, &r.Tokens, &r.WindowStart, &r.ExpiresAt, &r.CreatedAt, &r.Version))
		all = append(all, r)
	}
	require.NoError(t, found.Err())
	return all
}

// The stored form is a promise to other programs that read it, and to later versions.
func TestStoredForm(t *testing.T) {
	path, clk := filepath.Join(t.TempDir(), "limits.db"), admissiontest.NewClock()
	r := open(t, sqlite.Config{Path: path, Clock: clk})
	at := func(d time.Duration) int64 { return day.Add(d).UnixMicro() }
	b, f, s := bucket("b", 5, 0.1), fixed("f", 5, time.Minute), sliding("s", 5, time.Minute)

	clk.Set(day.Add(250 * time.Millisecond))
	take(t, r, "a:b", 2, b, f, s)
	take(t, r, "", 1, fixed("brief", 5, time.Millisecond))
	require.Equal(t, []row{
		{"b:a:b", 0, 0, 3.0, at(250 * time.Millisecond), at(50250 * time.Millisecond), at(250 * time.Millisecond), 1},
		{"brief:", 1, 0, nil, at(250 * time.Millisecond), at(1250 * time.Millisecond), at(250 * time.Millisecond), 1},
		{"f:a:b", 2, 0, nil, at(0), at(60250 * time.Millisecond), at(250 * time.Millisecond), 1},
		{"s:a:b", 2, 0, nil, at(0), at(120250 * time.Millisecond), at(250 * time.Millisecond), 1},
	}, rows(t, path))

	clk.Set(day.Add(70 * time.Second))
	take(t, r, "a:b", 1, s)
	clk.Set(day.Add(50 * time.Second)) // what is for the future is kept from then on
	take(t, r, "a:b", 1, s)
	require.Contains(t, rows(t, path),
		row{"s:a:b", 2, 2, nil, at(time.Minute), at(180 * time.Second), at(250 * time.Millisecond), 1})

	clk.Set(day.Add(time.Hour))
	take(t, r, "a:b", 1, fixed("b", 5, time.Minute)) // the bucket's name is a window's now
	require.Contains(t, rows(t, path),
		row{"b:a:b", 1, 0, nil, at(time.Hour), at(61 * time.Minute), at(250 * time.Millisecond), 1})
}

// A denial and a look write nothing, not even to the log.
func TestDenialsWriteNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	r := open(t, sqlite.Config{Path: path})
	take(t, r, "key", 1, narrow)
	before := sizeOf(path + "-wal")
	for range 10 {
		require.False(t, take(t, r, "key", 1000, narrow).Allowed)
		require.True(t, take(t, r, "key", 0, wide).Allowed)
	}
	require.Equal(t, before, sizeOf(path+"-wal"))
}

func sizeOf(path string) int64 {
	info := must(os.Stat(path))
	return info.Size()
}

// What was used is used after a restart too; also if the clock was set back meanwhile,
// by less than the plan remembers.
func TestReopen(t *testing.T) {
	path, clk := filepath.Join(t.TempDir(), "limits.db"), admissiontest.NewClock()
	plans := []admission.Plan{bucket("b", 10, 1e-3), fixed("f", 10, 24*time.Hour), sliding("s", 10, 24*time.Hour)}
	long, brief := plans, bucket("brief", 10, 1)
	for i, move := range []time.Duration{0, time.Second, -time.Hour, time.Hour} {
		clk.Move(move)
		r := must(sqlite.New(sqlite.Config{Path: path, Clock: clk}))
		for _, p := range long {
			res := take(t, r, "key", 10, p)
			require.Equal(t, i == 0, res.Allowed, "%s after a move of %v: %+v", p.Name, move, res)
		}
		require.Equal(t, i != 1, take(t, r, "key", 10, brief).Allowed, "after a move of %v", move)
		require.NoError(t, r.Close())
	}
}

// A name is only a name: SQLite gives a meaning to these.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{":memory:", "a?mode=memory", "a#b", "a%20b", "a b", "a&vfs=none", "ä", "'a'", "file:a"} {
		r, err := sqlite.New(sqlite.Config{Path: filepath.Join(dir, name)})
		require.NoError(t, err, name)
		take(t, r, "key", 10, narrow)
		require.NoError(t, r.Close())
		require.Equal(t, fs.FileMode(0o600), must(os.Stat(filepath.Join(dir, name))).Mode().Perm(), "keys are personal data")
		r = must(sqlite.New(sqlite.Config{Path: filepath.Join(dir, name)}))
		require.EqualValues(t, 990, take(t, r, "key", 0, narrow).Remaining)
		require.NoError(t, r.Close())
	}
	left := must(os.ReadDir(dir))
	require.Len(t, left, 9, "files were left beside the databases")

	t.Chdir(dir)
	r := open(t, sqlite.Config{Path: "relative.db"})
	take(t, r, "key", 1, narrow)
	must(os.Stat(filepath.Join(dir, "relative.db")))
}

// A file that already holds other things keeps them.
func TestSharedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all.db")
	db := shell(t, path)
	must(db.Exec(`CREATE TABLE urls (url TEXT); INSERT INTO urls VALUES ('a')`))
	take(t, open(t, sqlite.Config{Path: path}), "key", 1, narrow)
	var url string
	require.NoError(t, db.QueryRow(`SELECT url FROM urls`).Scan(&url))
	require.Equal(t, "a", url)
}

// What SQLite was told to do is what makes the promises about crashes and power cuts.
func TestSettings(t *testing.T) {
	r := open(t, sqlite.Config{})
	for query, want := range map[string]string{
		"PRAGMA synchronous": "1", "PRAGMA journal_mode": "wal", "PRAGMA busy_timeout": "0",
		"PRAGMA journal_size_limit": "4096000",
	} {
		require.Equal(t, want, must(r.Ask(t.Context(), query)), query)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func keysOf(t testing.TB, path string) []string {
	t.Helper()
	var keys []string
	for _, r := range rows(t, path) {
		keys = append(keys, r.Key)
	}
	return keys
}

// A row goes a minute after it is over, and not before.
func TestCleanup(t *testing.T) {
	path, clk := filepath.Join(t.TempDir(), "limits.db"), admissiontest.NewClock()
	r := open(t, sqlite.Config{Path: path, Clock: clk})
	clk.Set(day)
	take(t, r, "k", 1, bucket("b", 10, 1), fixed("f", 10, time.Minute), sliding("s", 10, time.Minute), fixed("x", 1, time.Millisecond))
	for _, tc := range []struct {
		at      time.Duration
		removed int64
		left    []string
	}{
		{0, 0, []string{"b:k", "f:k", "s:k", "x:k"}},
		{61*time.Second - time.Microsecond, 0, []string{"b:k", "f:k", "s:k", "x:k"}},
		{61 * time.Second, 1, []string{"b:k", "f:k", "s:k"}},
		{70*time.Second - time.Microsecond, 0, []string{"b:k", "f:k", "s:k"}},
		{70 * time.Second, 1, []string{"f:k", "s:k"}},
		{2 * time.Minute, 1, []string{"s:k"}},
		{3*time.Minute - time.Microsecond, 0, []string{"s:k"}},
		{3 * time.Minute, 1, nil},
	} {
		clk.Set(day.Add(tc.at))
		removed := must(r.Cleanup(t.Context()))
		require.Equal(t, tc.removed, removed, "at %v", tc.at)
		require.Equal(t, tc.left, keysOf(t, path), "at %v", tc.at)
	}
}

// What a clock wrote that was years ahead counts for none, and does not stay for years.
func TestCleanupOfTheFuture(t *testing.T) {
	path, clk := filepath.Join(t.TempDir(), "limits.db"), admissiontest.NewClock()
	r := open(t, sqlite.Config{Path: path, Clock: clk})
	plans := []admission.Plan{bucket("b", 10, 1), fixed("f", 10, time.Hour), sliding("s", 10, time.Hour)}
	clk.Set(day.AddDate(20, 0, 0))
	take(t, r, "wrong", 1, plans...)
	clk.Set(day.Add(30 * time.Minute))
	take(t, r, "ahead", 1, plans...)
	clk.Set(day)
	take(t, r, "right", 1, plans...)
	require.Equal(t, int64(4), must(r.Cleanup(t.Context())))
	require.Equal(t, []string{"b:right", "f:ahead", "f:right", "s:ahead", "s:right"}, keysOf(t, path))
}

// Steps go through the whole table, whatever its keys are, and neither skip a row nor take one that still counts.
func TestCleanupSteps(t *testing.T) {
	for _, n := range []int{0, 1, sqlite.CleanupStep - 1, sqlite.CleanupStep, sqlite.CleanupStep + 1, 2*sqlite.CleanupStep + 500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			path, clk := filepath.Join(t.TempDir(), "limits.db"), admissiontest.NewClock()
			r := open(t, sqlite.Config{Path: path, Clock: clk})
			fill(t, r, n)
			clk.Move(time.Hour)
			require.EqualValues(t, n/2, must(r.Cleanup(t.Context())))
			require.Len(t, keysOf(t, path), n-n/2)
			for _, r := range rows(t, path) {
				require.Equal(t, "wide:", r.Key[:5])
			}
		})
	}
}

func fill(t *testing.T, r *sqlite.Repository, n int) {
	t.Helper()
	brief := fixed("brief", 1<<30, time.Second)
	odd := []string{"", "\x00", "\xff", "'", "é", "\U0010ffff"}
	done := make(chan error, n)
	for i := range n {
		plan := wide
		if i%2 == 1 {
			plan = brief
		}
		go func() {
			_, err := r.Take(context.Background(), odd[i%len(odd)]+fmt.Sprint(i), []admission.Plan{plan}, 1)
			done <- err
		}()
	}
	for range n {
		require.NoError(t, <-done)
	}
}

// Run cleans up at once and every hour, goes on after an error, and ends with ctx.
func TestRun(t *testing.T) {
	clk := clocktest.NewFake(day)
	type outcome struct {
		removed int64
		err     error
	}
	outcomes := make(chan outcome, 1)
	r := open(t, sqlite.Config{Clock: clk, OnCleanup: func(removed int64, err error) { outcomes <- outcome{removed, err} }})
	brief := fixed("brief", 1, time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	require.Equal(t, outcome{}, <-outcomes)
	for range 3 {
		take(t, r, "key", 1, brief)
		clk.BlockUntil(1)
		clk.Advance(time.Hour - time.Nanosecond)
		require.Empty(t, outcomes)
		clk.Advance(time.Nanosecond)
		require.Equal(t, outcome{removed: 1}, <-outcomes)
	}
	clk.BlockUntil(1)
	require.NoError(t, r.Exec(t.Context(), `ALTER TABLE rate_limit_entries RENAME TO gone`))
	clk.Advance(time.Hour)
	require.ErrorContains(t, (<-outcomes).err, "no such table")
	clk.BlockUntil(1)
	require.NoError(t, r.Exec(t.Context(), `ALTER TABLE gone RENAME TO rate_limit_entries`))
	clk.Advance(time.Hour)
	require.Equal(t, outcome{}, <-outcomes)
	clk.BlockUntil(1)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestRunOfAClosed(t *testing.T) {
	r := open(t, sqlite.Config{})
	require.NoError(t, r.Close())
	require.True(t, errors.Is(r.Run(t.Context()), admission.ErrClosed))
}
