package disk

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Again is what a new round is about.
type Again struct {
	// Since: URLs last answered then or later are not visited again; those refused or unanswered are. Zero: all are.
	Since time.Time
	// Meta is set together with it, as by SetMeta. Nil sets nothing.
	Meta map[string]string
}

// Again begins a new round: visited URLs are queued again, each with its last visit that says what was there. It is
// durable on return, or not begun, and Left and Round speak of the new round. Call it before a frontier is made;
// earlier calls belong to the round before. Queued URLs stay so. If ctx ends first its error is returned, and the
// round begins nevertheless.
//
// It takes one pass over all visits, sorted by URL.
func (s *Store) Again(ctx context.Context, a Again) error {
	return s.await(ctx, func(w *writer) error {
		if err := w.f.db.Transact(func() error { return w.beginRound(&a) }); err != nil {
			return fmt.Errorf("begin a round: %w", err)
		}
		// What is known of hosts is of the round before.
		w.hosts = newHosts(w.f)
		return w.restore()
	})
}

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

func (w *writer) beginRound(a *Again) error {
	now := w.s.cfg.Clock.Now()
	since := int64(math.MaxInt64)
	if !a.Since.IsZero() {
		since = a.Since.UnixMilli()
	}
	if err := w.f.db.Exec(placeQuery); err != nil {
		return err
	}
	if err := w.f.db.Exec(fmt.Sprintf(dueQuery, since)); err != nil {
		return err
	}
	if err := w.f.db.Exec(returnQuery); err != nil {
		return err
	}
	if err := w.f.db.Exec(fmt.Sprintf(`INSERT INTO rounds SELECT max(round) + 1, %d, (SELECT count(*) FROM queue) FROM rounds`, now.UnixMilli())); err != nil {
		return err
	}
	for key, value := range a.Meta {
		if err := w.f.putMetaRow(key, value); err != nil {
			return err
		}
		w.s.noteMeta(key, value)
	}
	return nil
}

// Guess stores, as part of the batch, what is known of a usual place of a sitemap, replacing what was stored before.
func (s *Store) Guess(g frontier.Guess) {
	o := op{kind: opGuess, text: g.URL.String(), flag: g.Absent}
	if l := g.Link; l != nil {
		o.n, o.from, o.depth, o.hops = 1, l.FoundOn, l.Depth, l.Hops
	}
	s.tell(o)
}

// TakeGuesses returns, once, the first [frontier.MaxGuesses] stored when the state was opened, or at Again. Safe for
// concurrent use.
func (s *Store) TakeGuesses() []frontier.Guess {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.guesses
	s.guesses = nil
	return taken
}

func (f *file) putGuessRow(o *op) error {
	q := f.putGuess
	q.Text(1, o.text)
	q.Int(2, integer(o.flag))
	for i, v := range []int64{o.from, int64(o.depth), int64(o.hops)} {
		intOrNull(q, 3+i, v, o.n == 0)
	}
	return q.Run()
}

// readGuesses reads the first most of them and skips invalid rows: links to those are not followed.
func readGuesses(db *sqlitedb.DB, most int) (all []frontier.Guess, err error) {
	return all, each(db, `SELECT g.url, g.absent, g.referrer, g.depth, g.hops, r.url FROM guesses g LEFT JOIN urls r ON r.id = g.referrer`, func(q *sqlitedb.Stmt) error {
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

// fingerprintAs is the fingerprint of a row of urls: that of its URL, but for a page where a sitemap was looked for
// before, whose row comes earlier.
func (s *Store) fingerprintAs(url []byte, page bool) (uint64, error) {
	fp := fingerprintOf(url, s.key)
	if !page || !frontier.EndsAsUsual(url) {
		return fp, nil
	}
	known, err := s.index.Has(fp)
	if known {
		fp = frontier.AsPage(fp)
	}
	return fp, err
}
