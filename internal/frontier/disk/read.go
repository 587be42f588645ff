package disk

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// reader is another connection, which sees what is committed.
func (s *Store) reader() (*sqlitedb.DB, error) {
	return sqlitedb.Open(s.path, sqlitedb.Config{ReadOnly: true})
}

// errStop is that the caller wants no more rows.
var errStop = errors.New("no more rows are wanted")

// Seeds are the URLs that were put as seeds and are committed, whatever became of them, in
// their order: URL, ID, hops, and when each was queued. It is safe to call from any
// goroutine. An error is the last.
func (s *Store) Seeds() iter.Seq2[frontier.Item, error] {
	return func(yield func(frontier.Item, error) bool) {
		db, err := s.reader()
		if err != nil {
			yield(frontier.Item{}, err)
			return
		}
		err = seeds(db, func(it frontier.Item) bool { return yield(it, nil) })
		if err = errors.Join(err, db.Close()); err != nil {
			yield(frontier.Item{}, err)
		}
	}
}

// seeds calls see for each until it reports false.
func seeds(db *sqlitedb.DB, see func(frontier.Item) bool) error {
	err := each(db, `SELECT id, hops, queued_at, url FROM urls WHERE seed = 1 ORDER BY id`, func(q *sqlitedb.Stmt) (err error) {
		it := frontier.Item{ID: q.ColumnInt(0), Found: frontier.Found{Seed: true, Hops: uint8(q.ColumnInt(1))}, Queued: time.UnixMilli(q.ColumnInt(2))}
		if it.URL, err = canonical.Parse(q.ColumnText(3)); err != nil {
			return fmt.Errorf("%s: row %d of urls: %w", db.Path(), it.ID, err)
		}
		if !see(it) {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// URLs are all that were ever put and are committed, in the order of their IDs, as
// [canonical.URL.String] has them. They are read as the caller goes on, so it should do so
// briskly: the log of the database grows meanwhile. A million took half a second. It is
// safe to call from any goroutine. An error is the last.
func (s *Store) URLs() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		db, err := s.reader()
		if err != nil {
			yield("", err)
			return
		}
		err = each(db, `SELECT url FROM urls ORDER BY id`, func(q *sqlitedb.Stmt) error {
			if !yield(q.ColumnText(0), nil) {
				return errStop
			}
			return nil
		})
		if err = errors.Join(err, db.Close()); err != nil && !errors.Is(err, errStop) {
			yield("", err)
		}
	}
}

// CountVisits is how many pages this round has visited, as of the last commit, and how many of
// them the host gave, now or unchanged since; what was refused is none. It looks at all visits.
// It is safe to call from any goroutine.
func (s *Store) CountVisits() (visited, given int64, err error) {
	db, err := s.reader()
	if err != nil {
		return 0, 0, err
	}
	q, err := db.Prepare(`SELECT count(*), coalesce(sum(status BETWEEN 200 AND 299 OR status = 304), 0) FROM visits WHERE refused IS NULL AND round = ? AND url NOT IN (SELECT id FROM urls WHERE kind IS NOT NULL)`)
	if err == nil {
		q.Int(1, int64(s.Round()))
		if _, err = q.Step(); err == nil {
			visited, given = q.ColumnInt(0), q.ColumnInt(1)
		}
	}
	return visited, given, errors.Join(err, db.Close())
}
