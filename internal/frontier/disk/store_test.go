package disk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// another is the database as another process has it open.
func another(t testing.TB, s *Store, cfg sqlitedb.Config) *sqlitedb.DB {
	t.Helper()
	db, err := sqlitedb.Open(s.path, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// ask is the answer of another process, say a person's shell, to a query of one number.
func ask(t testing.TB, s *Store, query string) int64 {
	t.Helper()
	db, err := sqlitedb.Open(s.path, sqlitedb.Config{ReadOnly: true})
	require.NoError(t, err)
	defer db.Close()
	v, err := db.QueryInt(query)
	require.NoError(t, err)
	return v
}

func askText(t testing.TB, s *Store, query string) string {
	t.Helper()
	db, err := sqlitedb.Open(s.path, sqlitedb.Config{ReadOnly: true})
	require.NoError(t, err)
	defer db.Close()
	v, err := db.QueryText(query)
	require.NoError(t, err)
	return v
}

func edit(t testing.TB, path, script string) {
	t.Helper()
	db, err := sqlitedb.Open(path, sqlitedb.Config{})
	require.NoError(t, err)
	require.NoError(t, db.Exec(script))
	require.NoError(t, db.Close())
}

func putMany(t testing.TB, s *Store, first, n int64) {
	t.Helper()
	for i := first; i < first+n; i++ {
		put(s, testItem(t, i, fmt.Sprintf("http://a.test/%d", i)), false)
	}
	s.Commit(nil)
}

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "state")
	_, err := Open(dir, Config{Mode: Resume})
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, dir)
	require.NoDirExists(t, dir, "nothing is made where nothing is found")

	s := openState(t, dir, Config{Mode: Create, key: testKey, Program: "crawl 1"})
	putMany(t, s, 1, 1)
	require.NoError(t, s.Close())
	_, err = Open(dir, Config{Mode: Create})
	require.ErrorIs(t, err, ErrExists)

	s = openState(t, dir, Config{Mode: Resume, key: testKey + 1, Program: "crawl 2"})
	require.EqualValues(t, testKey, s.Key(), "the key is that of the crawl")
	require.Equal(t, "crawl 2", s.Meta("program"))
	require.NotEmpty(t, s.Meta("created"))
	require.Equal(t, frontier.Left{Queued: 1, Known: 1, LastID: 1}, s.Left())
	require.NoError(t, s.Close())

	require.NoError(t, os.Truncate(s.path, 0))
	_, err = Open(dir, Config{Mode: Resume})
	require.ErrorIs(t, err, ErrMissing, "an empty file")
	edit(t, s.path, `PRAGMA user_version = 0`)
	_, err = Open(dir, Config{Mode: Resume})
	require.ErrorIs(t, err, ErrMissing, "a file without tables")
	openState(t, dir, Config{Mode: Create})
}

func TestKeysAreDrawn(t *testing.T) {
	a, b := openState(t, t.TempDir(), Config{}), openState(t, t.TempDir(), Config{})
	require.NotZero(t, a.Key())
	require.NotEqual(t, a.Key(), b.Key())
}

// Values may be set by anybody while the frontier ends its batches.
func TestValuesAreSetBesideTheFrontier(t *testing.T) {
	s := openState(t, t.TempDir(), Config{})
	set := make(chan struct{})
	go func() {
		defer close(set)
		for i := range 100 {
			s.SetMeta(fmt.Sprint("key", i), "x")
		}
	}()
	for i := range int64(100) {
		putMany(t, s, i+1, 1)
		s.Commit(nil)
	}
	<-set
	s.Commit(nil)
	s = reopen(t, s)
	require.Len(t, s.MetaBelow("key"), 100)
	require.EqualValues(t, 100, s.Left().Known)
}

// A question is answered with all that its batch has told, which is committed no earlier for it.
func TestQuestionWithinABatch(t *testing.T) {
	s := openState(t, t.TempDir(), Config{linger: time.Hour})
	putMany(t, s, 1, 2)
	require.NoError(t, s.Flush(t.Context()))
	done(s, 1, frontier.Visit{})
	require.Equal(t, []string{"2 http://a.test/2"}, urls(loadAll(t, s, "a.test")))
	require.EqualValues(t, 2, ask(t, s, `SELECT count(*) FROM queue`))
	require.Equal(t, Counts{Queued: 2, Known: 2, Hosts: 1}, s.Counts())
	flush(t, s)
	require.EqualValues(t, 1, ask(t, s, `SELECT count(*) FROM queue`))
	require.Equal(t, Counts{Queued: 1, Done: 1, Known: 2, Hosts: 1}, s.Counts())
}

// Batches wait for the Linger to be over, and not longer.
func TestLinger(t *testing.T) {
	clk := clocktest.NewFake(time.Unix(1_700_000_000, 0))
	s := openState(t, t.TempDir(), Config{clock: clk, maxPending: 100})
	for round := range int64(3) {
		putMany(t, s, 1+10*round, 1)
		clk.BlockUntil(1)
		require.EqualValues(t, round, ask(t, s, `SELECT count(*) FROM urls`))
		require.Len(t, loadAll(t, s, "a.test"), int(round)+1, "a question does not wait")
		require.EqualValues(t, round, ask(t, s, `SELECT count(*) FROM urls`))
		clk.BlockUntil(1) // the question has stopped the timer, and another follows
		clk.Advance(s.cfg.linger)
		require.Eventually(t, func() bool { return s.Counts().Known == round+1 }, time.Minute, time.Millisecond)
	}
	putMany(t, s, 100, 50) // as many as are worth a transaction
	require.Eventually(t, func() bool { return s.Counts().Known == 53 }, time.Minute, time.Millisecond)
}

// Without a linger each batch is committed as soon as may be.
func TestNoLinger(t *testing.T) {
	s := openState(t, t.TempDir(), Config{linger: -1})
	putMany(t, s, 1, 1)
	require.Eventually(t, func() bool { return s.Counts().Known == 1 }, time.Minute, time.Millisecond)
}

// While another process has the database locked, what is told waits and the store says
// that it is enough; then it says that there is room.
func TestRoom(t *testing.T) {
	s := openState(t, t.TempDir(), Config{maxPending: 16})
	db := another(t, s, sqlitedb.Config{})
	require.NoError(t, db.Exec("BEGIN IMMEDIATE"))
	for i := int64(0); s.Ready(); i += 2 {
		require.Less(t, i, int64(100))
		putMany(t, s, 1+i, 1)
	}
	require.NoError(t, db.Exec("ROLLBACK"))
	for !s.Ready() {
		<-s.Room()
	}
	flush(t, s)
	require.True(t, s.Ready())
}

// Sinks are synced before positions in them are committed, and only then.
func TestSync(t *testing.T) {
	broken := errors.New("out.jsonl: the disk is gone")
	var syncs int
	var err error
	s := openState(t, t.TempDir(), Config{Sync: func() error { syncs++; return err }})
	putMany(t, s, 1, 1)
	flush(t, s)
	require.Zero(t, syncs)
	p := frontier.Position{Path: "out.jsonl", Format: "jsonl", Bytes: 1000, Records: 10}
	s.Commit([]frontier.Position{p})
	flush(t, s)
	require.Equal(t, 1, syncs)
	require.EqualValues(t, 1000, ask(t, s, `SELECT bytes FROM sinks`))

	err = broken
	done(s, 1, frontier.Visit{})
	s.Commit([]frontier.Position{{Path: "out.jsonl", Format: "jsonl", Bytes: 2000, Records: 20}})
	wantFailed(t, s)
	require.ErrorIs(t, s.Err(), broken)
	require.ErrorIs(t, s.Flush(t.Context()), broken)
	require.ErrorIs(t, s.Close(), broken)
	s = openState(t, filepath.Dir(s.path), Config{})
	require.Equal(t, []frontier.Position{p}, s.Positions())
	require.Equal(t, frontier.Left{Queued: 1, Known: 1, LastID: 1}, s.Left())
}

// A visit is kept with what became of it; a second end of the same URL is none.
func TestVisits(t *testing.T) {
	s := openState(t, t.TempDir(), Config{})
	it := testItem(t, 1, "http://a.test/")
	put(s, it, false)
	it.Attempt, it.Returns, it.URLFailures = 2, 3, 1
	spent(s, it)
	flush(t, s)
	require.EqualValues(t, 231, ask(t, s, `SELECT attempts*100 + returns*10 + strikes FROM queue`))
	s.Done("a.test", it, frontier.Visit{At: time.UnixMilli(5), Status: 404, Class: "client_error", Bytes: 6})
	done(s, 1, frontier.Visit{Status: 500})
	spent(s, it)
	done(s, 0, frontier.Visit{})
	spent(s, &frontier.Item{Kind: frontier.Robots})
	done(s, 99, frontier.Visit{})
	flush(t, s)
	require.EqualValues(t, 1, ask(t, s, `SELECT count(*) FROM visits`))
	require.EqualValues(t, 1, ask(t, s, `SELECT count(*) FROM visits WHERE url = 1 AND at = 5 AND status = 404
		AND class = 'client_error' AND bytes = 6 AND retries = 2`))
	require.EqualValues(t, 1, ask(t, s, `SELECT count(*) FROM broken WHERE status = 404 AND url = 'http://a.test/'`))
	require.EqualValues(t, 1, ask(t, s, `SELECT count(*) FROM pages WHERE state = 'done' AND host = 'a.test'`))
}

// Nobody who takes answers, and nobody who waits for an end, keeps Close from ending.
func TestCloseWithAnswersLeft(t *testing.T) {
	s := openState(t, t.TempDir(), Config{})
	putMany(t, s, 1, 1)
	for range 600 { // more than there is room for
		s.Load("a.test", frontier.Place{}, 1)
	}
	s.Commit(nil)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Flush(t.Context()), ErrClosed)
	s.Put("a.test", testItem(t, 9, "http://a.test/9"), 9, false) // does nothing
}

func TestFlushGivesUp(t *testing.T) {
	s := openState(t, t.TempDir(), Config{})
	db := another(t, s, sqlitedb.Config{})
	require.NoError(t, db.Exec("BEGIN IMMEDIATE"))
	putMany(t, s, 1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Flush(ctx), context.Canceled)
	require.NoError(t, db.Exec("ROLLBACK"))
}

// The log is moved into the database when it is long, and on demand, and is gone at the end.
func TestLogIsBounded(t *testing.T) {
	const limit = 1 << 20
	s := openState(t, t.TempDir(), Config{walBytes: limit, maxPending: 2000})
	size := func() int64 {
		info, err := os.Stat(s.path + "-wal")
		require.NoError(t, err)
		return info.Size()
	}
	for i := range int64(200) {
		for j := range int64(100) {
			it := testItem(t, 1+i*100+j, fmt.Sprintf("http://%d.test/%s/%d", i%10, strings.Repeat("x", 100), i*100+j))
			put(s, it, false)
		}
		s.Commit(nil)
		for !s.Ready() {
			<-s.Room()
		}
		require.Less(t, size(), int64(2*limit))
	}
	flush(t, s)
	require.Zero(t, size())
	require.NoError(t, s.Close())
	require.NoFileExists(t, s.path+"-wal")
}

// Until then nothing is moved, however many commits there are: SQLite's own habit is to do it at
// a thousand pages.
func TestShortLogIsLeft(t *testing.T) {
	s := openState(t, t.TempDir(), Config{maxPending: 16})
	size := func(path string) int64 {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Size()
	}
	before := size(s.path)
	var id int64
	for id < 1600 {
		for range 32 {
			id++
			put(s, testItem(t, id, fmt.Sprintf("http://a.test/%s/%d", strings.Repeat("x", canonical.MaxLength-100), id)), false)
		}
		s.Load("a.test", frontier.Place{Rank: math.MaxInt32}, 1) // each answer knows of what was told
		s.Commit(nil)
		answer(t, s)
	}
	require.Greater(t, size(s.path+"-wal"), int64(10<<20))
	require.Equal(t, before, size(s.path))
}

// A process that reads for long keeps the log from being emptied, and nothing else.
func TestReaderHoldsUpNobody(t *testing.T) {
	s := openState(t, t.TempDir(), Config{walBytes: 10_000, linger: -1})
	putMany(t, s, 1, 10)
	flush(t, s)
	db := another(t, s, sqlitedb.Config{ReadOnly: true})
	require.NoError(t, db.Exec("BEGIN; SELECT count(*) FROM urls"))
	for i := range int64(20) {
		putMany(t, s, 100+100*i, 100)
		flush(t, s)
	}
	n, err := db.QueryInt(`SELECT count(*) FROM urls`)
	require.NoError(t, err)
	require.EqualValues(t, 10, n, "it reads what was there when it began")
	require.NoError(t, db.Exec("COMMIT"))
	putMany(t, s, 5000, 1)
	flush(t, s)
	n, err = db.QueryInt(`SELECT count(*) FROM urls`)
	require.NoError(t, err)
	require.EqualValues(t, 2011, n)
}

func TestSeedsAndVisits(t *testing.T) {
	s := openState(t, t.TempDir(), Config{})
	for id := int64(1); id <= 5; id++ {
		it := testItem(t, id, fmt.Sprintf("http://a.test/%d", id))
		it.Seed, it.Hops = id%2 == 1, uint8(id)
		put(s, it, false)
	}
	for id, v := range map[int64]frontier.Visit{1: {}, 2: {Class: "robots", Refused: true}, 3: {Class: "timeout"}, 4: {Class: "timeout", Refused: true}} {
		done(s, id, v)
	}
	flush(t, s)
	var got []string
	for it, err := range s.Seeds() {
		require.NoError(t, err)
		require.True(t, it.Seed)
		got = append(got, fmt.Sprintf("%d %s %d", it.ID, it.URL, it.Hops))
	}
	require.Equal(t, []string{"1 http://a.test/1 1", "3 http://a.test/3 3", "5 http://a.test/5 5"}, got)
	for range s.Seeds() {
		break
	}
	got = nil
	for u, err := range s.URLs() {
		require.NoError(t, err)
		if got = append(got, u); u == "http://a.test/4" {
			break
		}
	}
	require.Equal(t, []string{"http://a.test/1", "http://a.test/2", "http://a.test/3", "http://a.test/4"}, got, "done or queued")
	n, given, err := s.CountVisits()
	require.NoError(t, err)
	require.EqualValues(t, 2, n, "for want of robots.txt, whose class may be any")
	require.EqualValues(t, 0, given)
	require.NoError(t, s.Close())
	edit(t, s.path, `UPDATE urls SET url = 'x' WHERE id = 3`)
	var last error
	for _, err := range s.Seeds() {
		last = err
	}
	require.ErrorContains(t, last, "row 3 of urls")
	require.NoError(t, os.WriteFile(s.path, []byte("x"), 0o600))
	_, _, err = s.CountVisits()
	require.ErrorContains(t, err, "no SQLite database")
	for _, err := range s.Seeds() {
		require.ErrorContains(t, err, "no SQLite database")
	}
	for _, err := range s.URLs() {
		require.ErrorContains(t, err, "no SQLite database")
	}
}

var ratesNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func learned(name string, age time.Duration, rate float32) ratelimit.HostMemory {
	return ratelimit.HostMemory{Domain: name, LastUsed: ratesNow.Add(-age), Learned: ratelimit.Learned{Rate: rate}}
}

func saveRates(t *testing.T, s *Store, hosts ...ratelimit.HostMemory) {
	t.Helper()
	require.NoError(t, s.Rates().Save(t.Context(), slices.Values(hosts)))
}

func loadRates(t *testing.T, s *Store) []ratelimit.HostMemory {
	t.Helper()
	hosts, damage, err := s.Rates().Load()
	require.NoError(t, err)
	require.Zero(t, damage)
	return hosts
}

func ratesConfig() Config { return Config{clock: clocktest.NewFake(ratesNow), maxRates: 3} }

// What a limiter learned is there in the next process, though no batch was committed.
func TestRates(t *testing.T) {
	s := openState(t, t.TempDir(), ratesConfig())
	a := learned("a.test", time.Second, 4.85)
	a.Pause, a.RetryUntil, a.HeldUntil = 1500*time.Millisecond, ratesNow.Add(time.Minute+time.Microsecond), ratesNow.Add(time.Second)
	put(s, testItem(t, 1, "http://a.test/"), false)
	saveRates(t, s, learned("b.test:8080", time.Minute, 1), a, learned("old.test", 25*time.Hour, 1), learned("d.test", 3*time.Hour, 1))
	saveRates(t, s, learned("c.test", 2*time.Hour, 1)) // and there is room for three
	require.Equal(t, s.path, s.Rates().Path())
	s = reopen(t, s)
	require.Zero(t, s.Left().Known)
	a.RetryUntil = ratesNow.Add(time.Minute + time.Millisecond) // never earlier than it was
	require.Equal(t, []ratelimit.HostMemory{a, learned("b.test:8080", time.Minute, 1), learned("c.test", 2*time.Hour, 1)}, loadRates(t, s))
}
