package disk

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// check is what is wrong with a state, and what was looked at.
func check(t *testing.T, dir string) (wrong []string, c Checked) {
	t.Helper()
	v, err := Look(dir)
	require.NoError(t, err)
	c, err = v.Check(t.Context(), func(problem string) { wrong = append(wrong, problem) })
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

	v, err := Look(dir)
	require.NoError(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = v.Check(over, func(string) {})
	require.ErrorIs(t, err, context.Canceled)
}

// An interrupt ends the statement that is under way, and not only what comes after it; what was
// interrupted can be read again.
func TestCheckEndsInTheMiddle(t *testing.T) {
	v, err := Look(closedState(t, 500))
	require.NoError(t, err)
	over, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, v.read(func(db *sqlitedb.DB) error {
		settle := interruptedBy(over, db)
		cancel() // before the statement has begun, or while it goes on without an end
		return settle(db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n`))
	}), context.Canceled)
	c, err := v.Check(t.Context(), func(problem string) { t.Error(problem) })
	require.NoError(t, err)
	require.Positive(t, c.Rows)
}
