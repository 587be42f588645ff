package disk

import (
	"math"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Guess stores what is known of a place where a sitemap usually is, as part of the batch, and
// takes the place of what was stored of it before.
func (s *Store) Guess(g frontier.Guess) {
	o := op{kind: opGuess, text: g.URL.String(), flag: g.Absent}
	if l := g.Link; l != nil {
		o.n, o.from, o.depth, o.hops = 1, l.FoundOn, l.Depth, l.Hops
	}
	s.tell(o)
}

// TakeGuesses are the first [frontier.MaxGuesses] of those that were stored when the state was opened, or at
// Again. The store lets go of them: who asks again has none. It is safe to call from any goroutine.
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
	if o.n == 0 {
		q.Null(3)
		q.Null(4)
		q.Null(5)
	} else {
		q.Int(3, o.from)
		q.Int(4, int64(o.depth))
		q.Int(5, int64(o.hops))
	}
	return q.Run()
}

// readGuesses reads the first most of them. A row that somebody has made of what is no such place is as good
// as none: a link to there is not followed then, and nothing else is lost.
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

// fingerprintAs is the fingerprint under which a row of urls is known: that of its URL, but for a
// page where a sitemap was looked for before, whose row comes earlier.
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
