package disk

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// tellingVisit selects visits that say what is at a URL: a complete answer, or the answer that there is nothing. It
// holds until the next such visit; failures and refusals say nothing about the page.
const tellingVisit = `class IS NULL AND status BETWEEN 200 AND 399 OR status IN (404, 410)`

// dueQuery queues visited URLs again. The last visit of a URL is the one with the largest id; the lowest bit of that
// maximum is whether it had a status.
const dueQuery = `INSERT OR IGNORE INTO places (host, rank, url, attempts, returns, strikes, visit)
	SELECT u.host, u.rank, u.id, 0, 0, 0, v.telling
	FROM (SELECT url, max(id * 2 + (status > 0)) %% 2 AS answered, max(at) AS at, max(iif(` + tellingVisit + `, id, NULL)) AS telling
		FROM visits GROUP BY url) v CROSS JOIN urls u ON u.id = v.url
	WHERE NOT v.answered OR v.at < %d`

// returnQuery resets the count of refused pages: a refused URL is queued again, and counts for its host until it is
// refused again.
const returnQuery = `UPDATE hosts SET refused = 0 WHERE refused > 0`

func (w *writer) beginRound(since int64, meta map[string]string) error {
	now := w.s.cfg.clock.Now().UnixMilli()
	if err := w.f.db.Exec(placeQuery + ";" + fmt.Sprintf(dueQuery, since) + ";" + returnQuery + fmt.Sprintf(`;
		INSERT INTO rounds SELECT max(round) + 1, %d, (SELECT count(*) FROM queue) FROM rounds`, now)); err != nil {
		return err
	}
	for key, value := range meta {
		if err := w.f.db.Run(queries.putMeta, key, value); err != nil {
			return err
		}
	}
	return nil
}

// replay adds to the fingerprint index the committed URLs that it lacks.
func (s *Store) replay(db *sqlitedb.DB) error {
	mark, last := s.index.Mark(), s.committed.Load()
	s.index.Committed(last)
	if mark == 0 && last > int64(s.cfg.maxPending) {
		s.cfg.Log.Info("building the fingerprint index from the database", "path", s.path, "urls", last)
	}
	// In a damaged table IDs may be out of order.
	return db.Each(`SELECT u.id, u.url, u.kind, r.request FROM urls u LEFT JOIN requests r ON r.url = u.id
		WHERE u.id > ? AND u.id <= ? ORDER BY u.id`, func(q *sqlitedb.Stmt) error {
		id := q.ColumnInt(0)
		if id <= mark || id > last {
			return sqlitedb.Damage(s.path, fmt.Sprintf("row %d of urls stands behind row %d", id, mark))
		}
		mark = id
		kind, url := frontier.Page, q.ColumnText(1)
		if !q.ColumnIsNull(2) {
			kind = frontier.Sitemap
		}
		return s.index.Add(frontier.Identity(fingerprintOf(url, s.key), url, q.ColumnText(3), kind), id)
	}, mark, last)
}

// fingerprintOf returns what [canonical.URL.Fingerprint] returns for a URL in the database, which is canonical.
func fingerprintOf(url string, key uint64) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(key)
	_, _ = d.WriteString(url) // a hash never returns an error
	return d.Sum64()
}
