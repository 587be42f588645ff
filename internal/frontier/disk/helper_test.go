package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/frontier"
	_ "github.com/treadlight/crawl/internal/store/sqlitedb/engine"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// roleVariable has the test binary play a part of a test instead of running tests.
const roleVariable = "FRONTIER_DISK_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

const testKey = 7

func testItem(t testing.TB, id int64, url string) *frontier.Item {
	t.Helper()
	u, err := canonical.Parse(url)
	require.NoError(t, err)
	return &frontier.Item{URL: u, ID: id, Queued: time.UnixMilli(1_700_000_000_000 + id)}
}

// items are those that were put, by their states and IDs.
var items = map[string]map[int64]frontier.Item{}

func put(s *Store, it *frontier.Item, dormant bool) {
	if items[s.path] == nil {
		items[s.path] = map[int64]frontier.Item{}
	}
	items[s.path][it.ID] = *it
	s.Put(it.URL.Host(), it, it.URL.Fingerprint(s.Key()), dormant)
}

func done(s *Store, id int64, v frontier.Visit) {
	it := items[s.path][id]
	it.ID = id
	s.Done(it.URL.Host(), &it, v)
}

func spent(s *Store, it *frontier.Item) { s.Spent(it.URL.Host(), it) }

func openState(t testing.TB, dir string, cfg Config) *Store {
	t.Helper()
	s, err := Open(dir, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func reopen(t testing.TB, s *Store) *Store {
	t.Helper()
	require.NoError(t, s.Close())
	return openState(t, filepath.Dir(s.path), s.cfg)
}

// answer is the next one, or the end of the test.
func answer(t testing.TB, s *Store) frontier.Answer {
	t.Helper()
	select {
	case a := <-s.Answers():
		return a
	case <-s.Failed():
		require.NoError(t, s.Err())
	case <-time.After(time.Minute):
		require.Fail(t, "no answer came")
	}
	return frontier.Answer{}
}

func flush(t testing.TB, s *Store) {
	t.Helper()
	s.Commit(nil)
	require.NoError(t, s.Flush(t.Context()))
}

func loadAll(t testing.TB, s *Store, host string) []frontier.Item {
	t.Helper()
	s.Load(host, frontier.Place{Rank: -1 << 31}, 1000)
	s.Commit(nil)
	return answer(t, s).Items
}

func urls(items []frontier.Item) []string {
	var all []string
	for _, it := range items {
		all = append(all, fmt.Sprintf("%d %s", it.ID, it.URL))
	}
	return all
}

// wantFailed waits for the store to fail.
func wantFailed(t testing.TB, s *Store) {
	t.Helper()
	select {
	case <-s.Failed():
	case <-time.After(time.Minute):
		require.Fail(t, "the store has not failed")
	}
}

func look(t testing.TB, dir string) View {
	t.Helper()
	v, err := Look(dir)
	require.NoError(t, err)
	return v
}

func pageOf(t testing.TB, v View, url string) Page {
	t.Helper()
	p, err := v.Page(url)
	require.NoError(t, err)
	return p
}
