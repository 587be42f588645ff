package summary

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// kept makes the state of a crawl in two rounds, whose rows are written by hand.
func kept(t *testing.T, sinks string) string {
	t.Helper()
	dir := t.TempDir()
	s, err := disk.Open(dir, disk.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	db, err := sqlitedb.Open(filepath.Join(dir, "state.db"), sqlitedb.Config{})
	require.NoError(t, err)
	require.NoError(t, db.Exec(`
		INSERT OR REPLACE INTO rounds VALUES (1, 1000, 0), (2, 2000, 3);
		INSERT INTO hosts (id, name, known) VALUES (1, 'a.test', 3);
		INSERT INTO urls (id, host, rank, depth, hops, seed, referrer, queued_at, url) VALUES
			(1, 1, 1, 0, 0, 1, 0, 5, 'http://a.test/'), (2, 1, 2, 1, 0, 0, 1, 5, 'http://a.test/b'), (3, 1, 3, 1, 0, 0, 1, 5, 'http://a.test/c');
		INSERT INTO places (host, rank, url, attempts, returns, strikes) VALUES (1, 3, 3, 0, 0, 0);
		INSERT INTO visits (url, at, status, class, bytes, retries, round, change, digest) VALUES
			(1, 10, 200, NULL, 5, 0, 1, NULL, x'01'), (2, 20, 200, NULL, 5, 0, 1, NULL, x'02'),
			(1, 2030, 200, NULL, 6, 0, 2, 'changed', x'03'), (2, 2040, 404, NULL, 7, 1, 2, 'gone', NULL), (3, 2050, 0, 'robots', 0, 0, 2, NULL, NULL);
		INSERT INTO rates VALUES ('a.test', 5, 2.5, 3000000000, NULL, NULL), ('b.test', 5, 0.5, 0, NULL, NULL), ('c.test', 5, 0, 0, NULL, NULL);
		`+sinks))
	require.NoError(t, db.Close())
	return dir
}

// What a state without records can tell is told, of each round apart.
func TestStateAlone(t *testing.T) {
	for _, sinks := range []string{
		"", "INSERT INTO sinks VALUES ('archive', 'warc', 1, 1);", "INSERT INTO sinks VALUES ('records.jsonl', 'jsonl', 1, 1);",
	} {
		dir := kept(t, sinks)
		s := read(t, dir, Config{})
		require.Equal(t, Source{Path: filepath.Join(dir, "state.db"), Format: "state"}, s.Source)
		require.Equal(t, 2, s.Crawl.Round)
		require.EqualValues(t, 1, s.Crawl.Queued)
		require.EqualValues(t, 3, s.Crawl.Known)
		require.EqualValues(t, 2000, s.Crawl.Began.UnixMilli())
		require.Equal(t, []Rate{{Host: "b.test", PerSecond: 0.5}, {Host: "a.test", PerSecond: 2.5, Pause: 3}}, s.Crawl.Rates)
		require.Equal(t, []Count{{"200", 1}, {"404", 1}, {"none", 1}}, s.Statuses)
		require.Equal(t, []BrokenLink{{URL: "http://a.test/b", Status: 404, Pages: 1, Referrers: []string{"http://a.test/"}}}, s.Broken.Listed)
		require.EqualValues(t, 1, s.Refused.Total)
		require.EqualValues(t, 1, s.Changes.Changed.Total)
		require.Empty(t, s.Types, "nothing is known of types")
		require.Zero(t, s.Untitled.Total, "nor of titles")
		require.EqualValues(t, 2030, s.From.UnixMilli())

		s = read(t, dir, Config{Round: 1})
		require.Equal(t, 1, s.Crawl.Round)
		require.EqualValues(t, 2, s.Pages)
		require.Zero(t, s.Broken.Total)
		_, err := Read(t.Context(), dir, Config{Round: 3})
		require.ErrorContains(t, err, "there is no round 3: the latest is 2")
	}
}

// The records of a round have its number in their name, and are beside the state unless
// that says where.
func TestRecordsOfAState(t *testing.T) {
	first, second := written(t, sink.JSONL, site()...), written(t, sink.JSONL, page("http://a.test/", 200))
	dir := kept(t, "INSERT INTO sinks VALUES ('pages.jsonl', 'jsonl', 1, 1), ('pages-2.jsonl', 'jsonl', 1, 1);")
	require.NoError(t, os.Rename(first, filepath.Join(dir, "pages.jsonl")))
	require.NoError(t, os.Rename(second, filepath.Join(dir, "pages-2.jsonl")))
	s := read(t, dir, Config{})
	require.EqualValues(t, 1, s.Pages)
	require.EqualValues(t, 1, s.Crawl.Queued)
	s = read(t, dir, Config{Round: 1})
	require.EqualValues(t, 14, s.URLs)

	elsewhere := written(t, sink.CSV, site()...)
	s = read(t, kept(t, "DELETE FROM rounds WHERE round = 2; INSERT INTO sinks VALUES ('"+elsewhere+"', 'csv', 1, 1);"), Config{})
	require.Equal(t, "csv", s.Source.Format)
	require.EqualValues(t, 14, s.URLs)
}

func TestDirectoriesWithoutState(t *testing.T) {
	dir := t.TempDir()
	_, err := Read(t.Context(), dir, Config{})
	require.ErrorContains(t, err, "neither state.db nor records.jsonl is there")
	require.NoError(t, os.Rename(written(t, sink.JSONL, site()...), filepath.Join(dir, "records.jsonl")))
	require.EqualValues(t, 14, read(t, dir, Config{}).URLs)
	_, err = Read(t.Context(), dir, Config{Round: 2})
	require.Error(t, err)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "state.db"), []byte("this is no database at all, but a text of some length"), 0o600))
	_, err = Read(t.Context(), dir, Config{})
	require.ErrorContains(t, err, "state.db")
}

// A database of another program is not taken for one of an older version.
func TestForeignState(t *testing.T) {
	dir := t.TempDir()
	db, err := sqlitedb.Open(filepath.Join(dir, "state.db"), sqlitedb.Config{})
	require.NoError(t, err)
	require.NoError(t, db.Exec("CREATE TABLE t (x)"))
	require.NoError(t, db.Close())
	_, err = Read(t.Context(), dir, Config{})
	require.ErrorContains(t, err, "state.db: it is no state of a crawl: name another directory")
}

func TestOldState(t *testing.T) {
	dir := kept(t, "PRAGMA user_version = 2;")
	_, err := Read(t.Context(), dir, Config{})
	require.ErrorContains(t, err, "'crawl resume' brings it up to date")
}
