//go:build unix

package disk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// A view has what is committed, of a state that is in use as of one that is not.
func TestView(t *testing.T) {
	dir := t.TempDir()
	_, err := Look(dir)
	require.ErrorIs(t, err, ErrMissing)
	s := openState(t, dir, Config{})
	at := time.UnixMilli(1_700_000_000_000)
	seed := testItem(t, 1, "http://a.test/")
	seed.Seed, seed.Queued = true, at
	put(s, seed, false)
	put(s, testItem(t, 2, "http://a.test/x"), false)
	s.SetMeta("k", "v")
	done(s, 1, frontier.Visit{At: at, Status: 404, Class: "client_error"})
	s.Commit(nil)
	require.NoError(t, s.Flush(t.Context()))
	put(s, testItem(t, 3, "http://a.test/later"), false)

	for _, used := range []bool{true, false} {
		if !used {
			require.NoError(t, s.Close())
		}
		v := look(t, dir)
		p := pageOf(t, v, "http://a.test/")
		require.Equal(t, Page{State: "visited", Seed: true, QueuedAt: at.UTC(), VisitedAt: at.UTC(), Round: 1, Status: 404, Class: "client_error"}, p)
		p = pageOf(t, v, "http://a.test/x")
		require.Equal(t, "queued", p.State)
		require.Zero(t, p.Round)
		p = pageOf(t, v, "http://a.test/later")
		require.Equal(t, Page{State: "unknown"}, p, "nothing of it is committed")
		value, err := v.Meta("k")
		require.NoError(t, err)
		require.Equal(t, "v", value)
		value, err = v.Meta("none")
		require.NoError(t, err)
		require.Empty(t, value)
		var seeds []string
		for it, err := range v.Seeds() {
			require.NoError(t, err)
			seeds = append(seeds, it.URL.String())
		}
		require.Equal(t, []string{"http://a.test/"}, seeds)
	}
}

func check(t *testing.T, dir string) (wrong []string, c Checked) {
	t.Helper()
	v := look(t, dir)
	c, err := v.Check(t.Context(), func(problem string) { wrong = append(wrong, problem) })
	require.NoError(t, err)
	return wrong, c
}

func TestCheck(t *testing.T) {
	base := t.TempDir()
	s := openState(t, base, Config{})
	put(s, testItem(t, 1, "http://a.test/"), false)
	put(s, testItem(t, 2, "http://b.test/"), false)
	put(s, testItem(t, 3, "http://b.test/x?y=1"), false)
	done(s, 1, frontier.Visit{At: time.UnixMilli(1_700_000_000_000), Status: 200, Bytes: 5})
	s.Commit([]frontier.Position{{Path: "records.jsonl", Format: string(sink.JSONL), Bytes: 10, Records: 1}})
	require.NoError(t, os.WriteFile(filepath.Join(base, "records.jsonl"), []byte("123456789\n"), 0o600))
	flush(t, s)
	wrong, c := check(t, base) // while it is open
	require.Empty(t, wrong)
	require.Equal(t, Checked{Rows: 4, Files: 1}, c)
	require.NoError(t, s.Close())
	for name, tc := range map[string]struct{ edit, want string }{
		"host is gone":      {`DELETE FROM hosts WHERE id = 1`, "a URL is of a host that is not there: "},
		"another host":      {`UPDATE urls SET host = 2 WHERE id = 1`, "a URL is none, or not of its host: rows 1, the first 1, "},
		"count":             {`UPDATE hosts SET known = known + 1 WHERE id = 2`, "a URL is counted that is not there, or the other way round, at host: rows 1, the first 2"},
		"referrer":          {`UPDATE urls SET referrer = 99 WHERE id = 2`, "a URL was found on a page that is not there, or later than it: rows 1, the first 2"},
		"no URL":            {`UPDATE urls SET url = 'nothing' WHERE id = 3`, `a URL is none, or not of its host: rows 1, the first 3, "nothing" of`},
		"visit of nothing":  {`UPDATE visits SET url = 77`, "a visit is of a URL that is not there: rows 1,"},
		"status":            {`UPDATE visits SET status = 70000`, "a visit is of a round that is not there, or has a status or a time that cannot be: rows 1,"},
		"round":             {`UPDATE visits SET round = 9`, "a visit is of a round that is not there"},
		"place":             {`INSERT INTO places (host, rank, url, attempts, returns, strikes) VALUES (1, 0, 55, 0, 0, 0)`, "a URL to visit is not there, or is another's: rows 1, the first 55"},
		"records cut":       {`UPDATE sinks SET bytes = 11`, "records.jsonl has 10 bytes, and the state knows 11"},
		"records elsewhere": {`UPDATE sinks SET path = 'other.jsonl'`, "records that the state knows are gone: stat "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "copy")
			require.NoError(t, os.CopyFS(dir, os.DirFS(base)))
			edit(t, filepath.Join(dir, databaseName), tc.edit)
			wrong, _ := check(t, dir)
			require.NotEmpty(t, wrong)
			require.Contains(t, wrong[len(wrong)-1], tc.want)
		})
	}
}

// What SQLite finds by itself is told as it says it, and a check ends when it is to.
func TestCheckOfDamage(t *testing.T) {
	dir := closedState(t, 500)
	path := filepath.Join(dir, databaseName)
	edit(t, path, `PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, 'WHERE seed = 1', 'WHERE seed = 0') WHERE name = 'urls_seed'`)
	wrong, _ := check(t, dir)
	require.NotEmpty(t, wrong)
	require.Contains(t, wrong[0], "urls_seed")

	_, err := Look(path)
	require.EqualError(t, err, path+": there is no state of a crawl: name the directory of one")

	v := look(t, dir)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = v.Check(over, func(string) {})
	require.ErrorIs(t, err, context.Canceled)
	over, cancel = context.WithCancel(t.Context())
	_, err = v.Check(over, func(string) { cancel() })
	require.ErrorIs(t, err, context.Canceled, "with the first problem")
}

// exampleQueries are those of docs/reference/state.md, and what they find in the state of TestExampleQueries.
var exampleQueries = []struct {
	query string
	rows  [][]string
}{
	{`SELECT (SELECT count(*) FROM visits WHERE round = (SELECT max(round) FROM rounds)) AS done, (SELECT count(*) FROM queue) AS queued`, [][]string{{"2", "1"}}},
	{`SELECT status, class, url, referrer FROM broken ORDER BY url`, [][]string{{"404", "", "https://example.com/deep/page", "https://example.com/"}}},
	{`SELECT change, url, status FROM changes WHERE round = 2 AND change <> 'unchanged' ORDER BY change, url`, [][]string{
		{"changed", "https://example.com/", "200"}, {"gone", "https://example.com/deep/page", "404"},
	}},
	{`SELECT round, count(*) FILTER (WHERE change = 'new') AS new, count(*) FILTER (WHERE change = 'changed') AS changed,
  count(*) FILTER (WHERE change = 'gone') AS gone, count(*) FILTER (WHERE change = 'unchanged') AS unchanged
FROM visits WHERE round > 1 GROUP BY round`, [][]string{{"2", "0", "1", "1", "0"}}},
	{`SELECT url, count(*) AS times, max(visited_at) AS last FROM changes
WHERE change = 'changed' GROUP BY url ORDER BY times DESC, url LIMIT 20`, [][]string{{"https://example.com/", "1", "1970-01-01 00:01:00"}}},
	{`SELECT h.name, count(*) AS pages, count(v.etag) AS etags, count(v.modified) AS dates
FROM latest v JOIN urls u ON u.id = v.url JOIN hosts h ON h.id = u.host
WHERE v.status IN (200, 304) GROUP BY h.id ORDER BY pages DESC, h.name LIMIT 20`, [][]string{{"example.com", "2", "1", "0"}}},
	{`SELECT status, class, count(*) AS pages, sum(bytes) AS bytes
FROM latest GROUP BY status, class ORDER BY pages DESC`, [][]string{{"200", "", "2", "20"}, {"404", "", "1", "1"}}},
	{`SELECT h.name, h.known, count(*) AS queued
FROM queue q JOIN hosts h ON h.id = q.host GROUP BY q.host ORDER BY queued DESC LIMIT 20`, [][]string{{"example.com", "3", "1"}}},
	{`SELECT u.url, q.attempts FROM queue q JOIN urls u ON u.id = q.url
WHERE q.host = (SELECT id FROM hosts WHERE name = 'example.com') ORDER BY q.rank, q.url LIMIT 20`, [][]string{{"https://example.com/next", "0"}}},
	{`WITH RECURSIVE way(id, referrer, url) AS (
  SELECT id, referrer, url FROM urls WHERE url = 'https://example.com/deep/page'
  UNION ALL SELECT u.id, u.referrer, u.url FROM urls u JOIN way w ON u.id = w.referrer)
SELECT url FROM way`, [][]string{{"https://example.com/deep/page"}, {"https://example.com/"}}},
	{`SELECT depth, count(*) AS urls FROM urls GROUP BY depth`, [][]string{{"0", "2"}, {"1", "1"}}},
	{`SELECT datetime(at / 60000 * 60, 'unixepoch') AS minute, count(*) AS pages FROM visits GROUP BY at / 60000`, [][]string{{"1970-01-01 00:00:00", "3"}, {"1970-01-01 00:01:00", "2"}}},
	{`SELECT host, round(rate, 2) AS per_second, datetime(used / 1000, 'unixepoch') AS last_used
FROM rates ORDER BY rate DESC`, [][]string{{"example.com", "4.85", "2026-01-02 03:04:04"}}},
}

// The queries that users are shown find what they are for.
func TestExampleQueries(t *testing.T) {
	s := openState(t, t.TempDir(), ratesConfig())
	seed, page := testItem(t, 1, "https://example.com/"), testItem(t, 2, "https://example.com/deep/page")
	page.FoundOn, page.Depth = 1, 1
	put(s, seed, false)
	put(s, page, false)
	put(s, testItem(t, 3, "https://example.com/next"), false)
	for id := int64(1); id <= 3; id++ {
		done(s, id, frontier.Visit{At: time.UnixMilli(id), Status: 200, Bytes: 10})
	}
	flush(t, s)
	again(t, s, Again{})
	done(s, 1, frontier.Visit{At: time.UnixMilli(60_000), Status: 200, Bytes: 10, ETag: `"2"`, Change: frontier.Changed})
	done(s, 2, frontier.Visit{At: time.UnixMilli(60_001), Status: 404, Bytes: 1, Change: frontier.Gone})
	flush(t, s)
	saveRates(t, s, []ratelimit.HostMemory{learned("example.com", time.Second, 4.851)}...)
	db := another(t, s, sqlitedb.Config{ReadOnly: true})
	text, err := os.ReadFile("../../../docs/reference/state.md")
	require.NoError(t, err)
	var shown []string
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllSubmatch(text, -1) {
		for q := range strings.SplitSeq(string(block[1]), ";") {
			if q = strings.TrimSpace(q); q != "" {
				shown = append(shown, q)
			}
		}
	}
	require.Len(t, shown, len(exampleQueries), "docs/reference/state.md shows others")
	for i, want := range exampleQueries {
		require.Equal(t, shown[i], want.query, "docs/reference/state.md shows another")
		var got [][]string
		require.NoError(t, db.Each(want.query, func(q *sqlitedb.Stmt) error {
			row := make([]string, len(want.rows[0]))
			for i := range row {
				row[i] = q.ColumnText(i)
			}
			got = append(got, row)
			return nil
		}), want.query)
		require.Equal(t, want.rows, got, want.query)
	}
}

// The manual has a row for each table, which names each column, and the version of all this.
func TestManualNamesEveryColumn(t *testing.T) {
	s := openState(t, t.TempDir(), ratesConfig())
	db := another(t, s, sqlitedb.Config{ReadOnly: true})
	text, err := os.ReadFile("../../../docs/reference/state.md")
	require.NoError(t, err)
	require.Contains(t, string(text), fmt.Sprintf("is the version of all this, %d at present", version))
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		rows[row[1]] = row[2]
	}
	tables := 0
	require.NoError(t, db.Each(`SELECT t.name, group_concat(c.name, ' ') FROM sqlite_schema t, pragma_table_info(t.name) c
		WHERE t.type = 'table' GROUP BY t.name`, func(q *sqlitedb.Stmt) error {
		tables++
		row := rows[q.ColumnText(0)]
		require.NotEmpty(t, row, "docs/reference/state.md has no row for %s", q.ColumnText(0))
		if q.ColumnText(0) == "meta" {
			return nil // a key and a value, as it says
		}
		for column := range strings.FieldsSeq(q.ColumnText(1)) {
			require.Contains(t, row, "`"+column+"`", "docs/reference/state.md does not name a column of %s", q.ColumnText(0))
		}
		return nil
	}))
	require.Len(t, rows, tables, "docs/reference/state.md names a table that is not there")
}

// No statement that is run for each URL or each question looks at a whole table, or sorts.
func TestPlans(t *testing.T) {
	s := openState(t, t.TempDir(), Config{})
	require.NoError(t, s.Close())
	cfg := s.cfg
	f, err := openFile(s.path, &cfg)
	require.NoError(t, err)
	defer f.db.Close()
	searches := 0
	for _, q := range reflect.ValueOf(queries).Fields() {
		query := q.String()
		if query == queries.putPlaced { // of one row
			continue
		}
		require.NoError(t, f.db.Each("EXPLAIN QUERY PLAN "+query, func(s *sqlitedb.Stmt) error {
			plan := s.ColumnText(3)
			require.NotContains(t, plan, "TEMP B-TREE", query)
			if !strings.Contains(plan, "hosts_dormant") { // an index of those that are wanted
				require.NotContains(t, plan, "SCAN", query)
				searches++
			}
			return nil
		}))
	}
	require.Greater(t, searches, 5)
}
