package disk

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// View reads the committed state, also during a crawl, without a lock. A state of an earlier version is an error. It
// is not safe for concurrent use.
type View struct {
	db   *sqlitedb.DB
	path string
}

// Page is what a state has of a URL.
type Page struct {
	Kind     string // page, robots or sitemap
	Depth    int
	Seed     bool
	Referrer string // empty for a seed
	QueuedAt time.Time
	Queued   bool // it is still to be visited, in this round
	// Of the latest visit; zero if there was none.
	VisitedAt time.Time
	Round     int
	Status    int
	Class     string // of its error
	Change    string
}

// Look opens a view. The error is [ErrMissing] if there is no state.
func Look(dir string) (*View, error) {
	path := filepath.Join(dir, databaseName)
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file: %w", dir, ErrMissing)
	}
	if !exists(path) {
		return nil, fmt.Errorf("%s: %w", dir, ErrMissing)
	}
	db, err := sqlitedb.Open(path, sqlitedb.Config{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	version, err := checkOwner(db)
	if want := len(steps()); err == nil && version != want {
		err = fmt.Errorf("%s: its schema has version %d and this program reads %d: 'crawl resume' of the newer program brings it up to date", path, version, want)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &View{db, path}, nil
}

// Meta is a value that was set; empty if none was.
func (v *View) Meta(key string) (value string, err error) {
	err = each(v.db, `SELECT value FROM meta WHERE key = ?`, func(q *sqlitedb.Stmt) error {
		value = q.ColumnText(0)
		return nil
	}, key)
	return value, err
}

// Seeds calls see for each URL that was put as a seed, until it reports false.
func (v *View) Seeds(see func(frontier.Item) bool) error {
	if err := each(v.db, seedsQuery, until(seedRow(v.path), see)); !errors.Is(err, errStop) {
		return err
	}
	return nil
}

// Page is what is known of a URL, as [canonical.URL.String] has it, or nil. It reads all URLs and visits: seconds for
// ten million.
func (v *View) Page(url string) (*Page, error) {
	var id int64
	p := new(Page)
	err := each(v.db, `SELECT coalesce(u.kind, 'page'), u.depth, u.seed, coalesce(r.url, ''), u.queued_at,
		u.id > (SELECT url FROM placed) AND NOT EXISTS (SELECT 1 FROM visits v WHERE v.url = u.id)
			OR EXISTS (SELECT 1 FROM places p WHERE p.host = u.host AND p.rank = u.rank AND p.url = u.id),
		u.id FROM urls u LEFT JOIN urls r ON r.id = u.referrer WHERE u.url = ? LIMIT 1`, func(q *sqlitedb.Stmt) error {
		p.Kind, p.Depth, p.Seed, p.Referrer = q.ColumnText(0), int(q.ColumnInt(1)), q.ColumnInt(2) != 0, q.ColumnText(3)
		p.QueuedAt, p.Queued, id = time.UnixMilli(q.ColumnInt(4)), q.ColumnInt(5) != 0, q.ColumnInt(6)
		return nil
	}, url)
	if err != nil || id == 0 {
		return nil, err
	}
	return p, each(v.db, `SELECT at, round, status, coalesce(class, ''), coalesce(change, '') FROM visits WHERE url = ? ORDER BY id DESC LIMIT 1`, func(q *sqlitedb.Stmt) error {
		p.VisitedAt, p.Round, p.Status = time.UnixMilli(q.ColumnInt(0)), int(q.ColumnInt(1)), int(q.ColumnInt(2))
		p.Class, p.Change = q.ColumnText(3), q.ColumnText(4)
		return nil
	}, id)
}

// Close ends the view.
func (v *View) Close() error { return v.db.Close() }

// reader is another connection, which sees what is committed.
func (s *Store) reader() (*sqlitedb.DB, error) {
	return sqlitedb.Open(s.path, sqlitedb.Config{ReadOnly: true})
}

// errStop is that the caller wants no more rows.
var errStop = errors.New("no more rows are wanted")

// stream reads rows as the caller goes on; a slow caller lets the log grow. An error is the last.
func stream[T any](s *Store, query string, row func(*sqlitedb.Stmt) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		db, err := s.reader()
		if err == nil {
			err = errors.Join(each(db, query, until(row, func(v T) bool { return yield(v, nil) })), db.Close())
		}
		if err != nil && !errors.Is(err, errStop) {
			var none T
			yield(none, err)
		}
	}
}

// until hands rows on until it is told to stop.
func until[T any](row func(*sqlitedb.Stmt) (T, error), see func(T) bool) func(*sqlitedb.Stmt) error {
	return func(q *sqlitedb.Stmt) error {
		v, err := row(q)
		if err == nil && !see(v) {
			err = errStop
		}
		return err
	}
}

const seedsQuery = `SELECT id, hops, queued_at, url FROM urls WHERE seed = 1 ORDER BY id`

// seedRow reads a row of seedsQuery from a database at path.
func seedRow(path string) func(*sqlitedb.Stmt) (frontier.Item, error) {
	return func(q *sqlitedb.Stmt) (it frontier.Item, err error) {
		it = frontier.Item{ID: q.ColumnInt(0), Found: frontier.Found{Seed: true, Hops: uint8(q.ColumnInt(1))}, Queued: time.UnixMilli(q.ColumnInt(2))}
		if it.URL, err = canonical.Parse(q.ColumnText(3)); err != nil {
			err = fmt.Errorf("%s: row %d of urls: %w", path, it.ID, err)
		}
		return it, err
	}
}

// Seeds are the committed seeds in their order: URL, ID, hops, and when each was queued. Safe for concurrent use.
func (s *Store) Seeds() iter.Seq2[frontier.Item, error] {
	return stream(s, seedsQuery, seedRow(s.path))
}

// URLs are all committed URLs in the order of IDs, as [canonical.URL.String] has them: half a second a million. Safe
// for concurrent use.
func (s *Store) URLs() iter.Seq2[string, error] {
	return stream(s, `SELECT url FROM urls ORDER BY id`, func(q *sqlitedb.Stmt) (string, error) { return q.ColumnText(0), nil })
}

// CountVisits counts the pages visited in this round, as of the last commit, and those that the host gave, now or
// unchanged since. Refused URLs are none. It reads all visits. Safe for concurrent use.
func (s *Store) CountVisits() (visited, given int64, err error) {
	db, err := s.reader()
	if err != nil {
		return 0, 0, err
	}
	err = each(db, `SELECT count(*), coalesce(sum(status BETWEEN 200 AND 299 OR status = 304), 0) FROM visits
		WHERE refused IS NULL AND round = ? AND url NOT IN (SELECT id FROM urls WHERE kind IS NOT NULL)`, func(q *sqlitedb.Stmt) error {
		visited, given = q.ColumnInt(0), q.ColumnInt(1)
		return nil
	}, int64(s.Round()))
	return visited, given, errors.Join(err, db.Close())
}
