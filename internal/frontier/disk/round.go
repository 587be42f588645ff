package disk

import (
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// A whole answer, or that there is nothing, holds until the next; failures and refusals say nothing of the page.
const tellingVisit = `class IS NULL AND status BETWEEN 200 AND 399 OR status IN (404, 410)`

// The last visit is the one with the largest id. Whether it had a status is in its lowest bit.
const dueQuery = `INSERT OR IGNORE INTO places (host, rank, url, attempts, returns, strikes, visit)
	SELECT u.host, u.rank, u.id, 0, 0, 0, v.telling
	FROM (SELECT url, max(id * 2 + (status > 0)) %% 2 AS answered, max(at) AS at, max(iif(` + tellingVisit + `, id, NULL)) AS telling
		FROM visits GROUP BY url) v CROSS JOIN urls u ON u.id = v.url
	WHERE NOT v.answered OR v.at < %d`

// What was refused is queued again, and counts for its host until it is refused again. What a page budget left out
// must be found anew.
var returnQuery = fmt.Sprintf(`UPDATE hosts SET returned = refused, refused = 0 WHERE refused > 0 OR returned > 0;
	UPDATE hosts SET returned = max(0, returned - left.n)
	FROM (SELECT u.host, count(*) AS n FROM visits v JOIN urls u ON u.id = v.url
		WHERE v.class = '%s' AND v.refused = 1 AND u.kind IS NULL AND v.round = (SELECT max(round) FROM rounds) GROUP BY u.host) AS left
	WHERE left.host = hosts.id`, frontier.HostPages)

func (w *writer) beginRound(since int64, meta map[string]string) error {
	now := w.s.cfg.clock.Now().UnixMilli()
	if err := w.f.db.Exec(placeQuery + ";" + fmt.Sprintf(dueQuery, since) + ";" + returnQuery + fmt.Sprintf(`;
		INSERT INTO rounds SELECT max(round) + 1, %d, (SELECT count(*) FROM queue) FROM rounds`, now)); err != nil {
		return err
	}
	for key, value := range meta {
		if err := w.f.putMetaRow(key, value); err != nil {
			return err
		}
	}
	return nil
}

func (f *file) putGuessRow(g *frontier.Guess) error {
	q := f.putGuess
	q.Text(1, g.URL.String())
	q.Int(2, integer(g.Absent))
	l, none := g.Link, g.Link == nil
	if none {
		l = new(frontier.Item)
	}
	for i, v := range []int64{l.FoundOn, int64(l.Depth), int64(l.Hops)} {
		intOrNull(q, 3+i, v, none)
	}
	return q.Run()
}

// readGuesses reads the first most of them and skips invalid rows: links to those are not followed.
func readGuesses(db *sqlitedb.DB, most int) (all []frontier.Guess, err error) {
	return all, db.Each(`SELECT g.url, g.absent, g.referrer, g.depth, g.hops, r.url FROM guesses g LEFT JOIN urls r ON r.id = g.referrer`, func(q *sqlitedb.Stmt) error {
		if len(all) == most {
			return nil
		}
		u, err := canonical.Parse(q.ColumnText(0))
		if err != nil || !frontier.IsUsual(u) {
			return nil //nolint:nilerr // see above
		}
		g := frontier.Guess{URL: u, Absent: q.ColumnInt(1) != 0}
		if !q.ColumnIsNull(2) {
			g.Link = &frontier.Item{URL: u, Found: frontier.Found{
				FoundOn: q.ColumnInt(2), Seed: q.ColumnInt(2) == 0, Referrer: q.ColumnText(5),
				Depth: int32(min(max(0, q.ColumnInt(3)), math.MaxInt32)), Hops: uint8(min(max(0, q.ColumnInt(4)), math.MaxUint8)),
			}}
		}
		all = append(all, g)
		return nil
	})
}

// replay brings the fingerprint index up to date with what is committed.
func (s *Store) replay(db *sqlitedb.DB) error {
	mark, last := s.index.Mark(), s.committed.Load()
	s.index.Committed(last)
	if mark == 0 && last > int64(s.cfg.maxPending) {
		s.cfg.Log.Info("building the fingerprint index from the database", "path", s.path, "urls", last)
	}
	// In a damaged table IDs may not ascend.
	return db.Each(`SELECT u.id, u.url, u.kind, r.request FROM urls u LEFT JOIN requests r ON r.url = u.id
		WHERE u.id > ? AND u.id <= ? ORDER BY u.id`, func(q *sqlitedb.Stmt) error {
		id := q.ColumnInt(0)
		if id <= mark || id > last {
			return sqlitedb.Damage(s.path, fmt.Sprintf("row %d of urls stands behind row %d", id, mark))
		}
		mark = id
		fp, err := s.fingerprintAs(q.ColumnBytes(1), q.ColumnText(3), q.ColumnIsNull(2))
		if err != nil {
			return err
		}
		return s.index.Add(fp, id)
	}, mark, last)
}

// fingerprintOf is [canonical.URL.Fingerprint] of a URL in the database, which is canonical.
func fingerprintOf(url []byte, key uint64) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(key)
	_, _ = d.Write(url) // a hash has nowhere to fail
	return d.Sum64()
}

// fingerprintAs is the fingerprint of a row of urls: that of its URL, but for a page where a sitemap was looked for
// before, whose row comes earlier.
func (s *Store) fingerprintAs(url []byte, request string, page bool) (uint64, error) {
	fp := frontier.WithRequest(fingerprintOf(url, s.key), request)
	if !page || request != "" || !frontier.EndsAsUsual(url) {
		return fp, nil
	}
	known, err := s.index.Has(fp)
	if known {
		fp = frontier.AsPage(fp)
	}
	return fp, err
}
