package disk

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

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
	db, err := sqlitedb.Open(s.path, sqlitedb.Config{ReadOnly: true})
	require.NoError(t, err)
	defer db.Close()
	wants := []struct {
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
	require.Len(t, shown, len(wants), "docs/reference/state.md shows others")
	for i, want := range wants {
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
	db, err := sqlitedb.Open(s.path, sqlitedb.Config{ReadOnly: true})
	require.NoError(t, err)
	defer db.Close()
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
