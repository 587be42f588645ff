package disk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// View reads the committed state without a lock, also during a crawl. It is safe for concurrent use.
type View struct{ path string }

// Page is what a state knows about a URL, or that it does not know it.
type Page struct {
	State    string    `json:"state"` // "queued" in this round, "visited" or "unknown"
	Depth    int       `json:"depth,omitempty"`
	Seed     bool      `json:"seed,omitempty"`
	Referrer string    `json:"referrer,omitempty"` // empty for a seed
	QueuedAt time.Time `json:"queued_at,omitzero"`
	// The fields below are those of the latest visit. Zero means that there was none.
	VisitedAt time.Time `json:"visited_at,omitzero"`
	Round     int       `json:"round,omitempty"`
	Status    int       `json:"status,omitempty"`
	Class     string    `json:"class,omitempty"` // class of its error
	Change    string    `json:"change,omitempty"`
}

// Look finds the state in a directory. The error is [ErrMissing] if there is none; any other says why the program
// cannot read it.
func Look(dir string) (View, error) {
	v := View{filepath.Join(dir, databaseName)}
	if !exists(v.path) {
		return v, fmt.Errorf("%s: %w", dir, ErrMissing)
	}
	return v, v.read(func(db *sqlitedb.DB) error {
		version, err := checkVersion(db, "this program")
		if err == nil && version == 0 {
			err = fmt.Errorf("%s: %w", dir, ErrMissing)
		}
		return err
	})
}

// read runs do with a connection of its own, which sees what is committed.
func (v View) read(do func(*sqlitedb.DB) error) error {
	db, err := sqlitedb.Open(v.path, sqlitedb.Config{ReadOnly: true, Accept: checkOwner})
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

func (v View) each(query string, row func(*sqlitedb.Stmt) error, params ...any) error {
	return v.read(func(db *sqlitedb.DB) error { return db.Each(query, row, params...) })
}

var errStop = errors.New("no more rows are wanted")

// stream yields rows as the caller consumes them; a slow caller lets the log grow. An error is yielded last.
func stream[T any](v View, query string, row func(*sqlitedb.Stmt) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		err := v.each(query, func(q *sqlitedb.Stmt) error {
			one, err := row(q)
			if err == nil && !yield(one, nil) {
				err = errStop
			}
			return err
		})
		if err != nil && !errors.Is(err, errStop) {
			var none T
			yield(none, err)
		}
	}
}

// Meta returns a value that was set, or an empty string if none was.
func (v View) Meta(key string) (value string, err error) {
	err = v.each(`SELECT value FROM meta WHERE key = ?`, func(q *sqlitedb.Stmt) error {
		value = q.ColumnText(0)
		return nil
	}, key)
	return value, err
}

// Seeds yields the seeds in the order in which they were put: URL, ID, hops, and when each was queued.
func (v View) Seeds() iter.Seq2[frontier.Item, error] {
	return stream(v, `SELECT id, hops, queued_at, url FROM urls WHERE seed = 1 ORDER BY id`, func(q *sqlitedb.Stmt) (it frontier.Item, err error) {
		it = frontier.Item{ID: q.ColumnInt(0), Found: frontier.Found{Seed: true, Hops: uint8(q.ColumnInt(1))}, Queued: time.UnixMilli(q.ColumnInt(2))}
		if it.URL, err = canonical.Parse(q.ColumnText(3)); err != nil {
			err = fmt.Errorf("%s: row %d of urls: %w", v.path, it.ID, err)
		}
		return it, err
	})
}

// URLs yields all URLs in the order of their IDs, as [canonical.URL.String] returns them. It takes half a second per
// million.
func (v View) URLs() iter.Seq2[string, error] {
	return stream(v, `SELECT url FROM urls ORDER BY id`, func(q *sqlitedb.Stmt) (string, error) { return q.ColumnText(0), nil })
}

// Visited is a page that a host answered.
type Visited struct {
	URL   string // as [canonical.URL.String] returns it
	Depth int
	Seed  bool
}

// Answered yields the pages that were answered with a status of 200 to 399 at their latest visit, in the order of their
// IDs.
func (v View) Answered() iter.Seq2[Visited, error] {
	return stream(v, `SELECT u.url, u.depth, u.seed FROM urls u JOIN latest v ON v.url = u.id
		WHERE u.kind IS NULL AND (v.status BETWEEN 200 AND 399) ORDER BY u.id`, func(q *sqlitedb.Stmt) (Visited, error) {
		return Visited{q.ColumnText(0), int(q.ColumnInt(1)), q.ColumnInt(2) != 0}, nil
	})
}

// CountVisits counts the pages visited in this round, and those of them that the host served, as new content or as
// unchanged. Refused URLs do not count. It reads all visits.
func (v View) CountVisits() (visited, given int64, err error) {
	err = v.each(`SELECT count(*), coalesce(sum(status BETWEEN 200 AND 299 OR status = 304), 0) FROM visits
		WHERE refused IS NULL AND round = (SELECT max(round) FROM rounds)
		AND url NOT IN (SELECT id FROM urls WHERE kind IS NOT NULL)`, func(q *sqlitedb.Stmt) error {
		visited, given = q.ColumnInt(0), q.ColumnInt(1)
		return nil
	})
	return visited, given, err
}

// Page returns what is known about a URL, which must be as [canonical.URL.String] returns it. It reads all URLs and
// visits, which takes seconds for ten million.
func (v View) Page(url string) (Page, error) {
	var id int64
	p := Page{State: "unknown"}
	err := v.each(`SELECT u.depth, u.seed, coalesce(r.url, ''), u.queued_at,
		iif(u.id > (SELECT url FROM placed) AND NOT EXISTS (SELECT 1 FROM visits v WHERE v.url = u.id)
			OR EXISTS (SELECT 1 FROM places p WHERE p.host = u.host AND p.rank = u.rank AND p.url = u.id), 'queued', 'visited'),
		u.id FROM urls u LEFT JOIN urls r ON r.id = u.referrer WHERE u.url = ? LIMIT 1`, func(q *sqlitedb.Stmt) error {
		p.Depth, p.Seed, p.Referrer = int(q.ColumnInt(0)), q.ColumnInt(1) != 0, q.ColumnText(2)
		p.QueuedAt, p.State, id = time.UnixMilli(q.ColumnInt(3)).UTC(), q.ColumnText(4), q.ColumnInt(5)
		return nil
	}, url)
	if err != nil || id == 0 {
		return p, err
	}
	return p, v.each(`SELECT at, round, status, coalesce(class, ''), coalesce(change, '') FROM visits WHERE url = ? ORDER BY id DESC LIMIT 1`, func(q *sqlitedb.Stmt) error {
		p.VisitedAt, p.Round, p.Status = time.UnixMilli(q.ColumnInt(0)).UTC(), int(q.ColumnInt(1)), int(q.ColumnInt(2))
		p.Class, p.Change = q.ColumnText(3), q.ColumnText(4)
		return nil
	}, id)
}

// Checked counts what [View.Check] has examined.
type Checked struct {
	Rows  int64 // URLs and visits
	Files int   // files of records
}

// problems lists queries for rows that contradict each other. They hold at any time, as commits are atomic.
var problems = []struct{ what, query string }{
	{"a URL is of a host that is not there", `SELECT u.id FROM urls u LEFT JOIN hosts h ON h.id = u.host WHERE h.id IS NULL`},
	{"a URL was found on a page that is not there, or later than it", `SELECT u.id FROM urls u LEFT JOIN urls r ON r.id = u.referrer
		WHERE u.referrer <> 0 AND (r.id IS NULL OR r.id > u.id)`},
	{"a URL is counted that is not there, or the other way round, at host", `SELECT h.id FROM hosts h
		LEFT JOIN (SELECT host, count(*) AS n FROM urls GROUP BY host) c ON c.host = h.id WHERE h.known <> coalesce(c.n, 0)`},
	{"a visit is of a URL that is not there", `SELECT v.id FROM visits v LEFT JOIN urls u ON u.id = v.url WHERE u.id IS NULL`},
	{"a visit is of a round that is not there, or has a status or a time that cannot be", `SELECT v.id FROM visits v
		WHERE v.round NOT IN (SELECT round FROM rounds) OR v.status NOT BETWEEN 0 AND 999 OR v.at <= 0 OR v.bytes < 0 OR v.retries < 0`},
	{"a URL to visit is not there, or is another's", `SELECT p.url FROM places p LEFT JOIN urls u ON u.id = p.url
		WHERE u.id IS NULL OR u.host <> p.host OR u.rank <> p.rank`},
}

// Check calls problem for each kind of damage that it finds: in SQLite's structure, between rows that contradict each
// other, URLs that are not of their host, and files of records that are shorter than the state says. It reads
// everything, as of one instant, and changes nothing; it takes some seconds for a million URLs. It does not see a
// flipped bit that leaves a valid number or path. If ctx ends first, Check returns its error.
func (v View) Check(ctx context.Context, problem func(string)) (c Checked, err error) {
	err = v.read(func(db *sqlitedb.DB) (err error) {
		if err := db.Exec("BEGIN"); err != nil { // a read transaction: a crawl can write meanwhile
			return err
		}
		defer func() { err = errors.Join(err, db.Exec("ROLLBACK")) }()
		ended := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(ended)
			db.Interrupt()
		})
		defer func() {
			if !stop() {
				<-ended // otherwise Interrupt could meet a closed connection
				err = ctx.Err()
			}
		}()
		for _, step := range []func(*sqlitedb.DB, func(string)) error{checkStructure, checkRows, checkURLs} {
			if err = ctx.Err(); err == nil {
				err = step(db, problem)
			}
			if err != nil {
				return err
			}
		}
		if c.Rows, err = db.QueryInt(`SELECT (SELECT count(*) FROM urls) + (SELECT count(*) FROM visits)`); err != nil {
			return err
		}
		c.Files, err = v.checkFiles(db, problem)
		return err
	})
	return c, err
}

func checkStructure(db *sqlitedb.DB, problem func(string)) error {
	return db.Each(`PRAGMA integrity_check(20)`, func(q *sqlitedb.Stmt) error {
		for text := range strings.Lines(q.ColumnText(0)) { // a damaged tree gives several lines, below a heading
			if text = strings.TrimSpace(text); text != "ok" && !strings.HasPrefix(text, "*** in database") {
				problem(text)
			}
		}
		return nil
	})
}

func checkRows(db *sqlitedb.DB, problem func(string)) error {
	for _, p := range problems {
		n, first := 0, int64(0)
		if err := db.Each(p.query, func(q *sqlitedb.Stmt) error {
			if n++; n == 1 {
				first = q.ColumnInt(0)
			}
			return nil
		}); err != nil {
			return err
		}
		if n > 0 {
			problem(fmt.Sprintf("%s: rows %d, the first %d", p.what, n, first))
		}
	}
	return nil
}

func checkURLs(db *sqlitedb.DB, problem func(string)) error {
	n, first := 0, ""
	err := db.Each(`SELECT u.url, h.name, u.id FROM urls u JOIN hosts h ON h.id = u.host`, func(q *sqlitedb.Stmt) error {
		text := q.ColumnText(0)
		u, err := canonical.Parse(text)
		if err == nil && u.String() == text && u.Host() == q.ColumnText(1) {
			return nil
		}
		if n++; n == 1 {
			first = fmt.Sprintf("%d, %q of %q", q.ColumnInt(2), text, q.ColumnText(1))
		}
		return nil
	})
	if n > 0 {
		problem(fmt.Sprintf("a URL is none, or not of its host: rows %d, the first %s", n, first))
	}
	return err
}

// A format and a destination of records that stand for no single file.
const (
	archiveFormat  = "warc" // its destination is a directory of files
	standardOutput = "-"    // no file
)

// checkFiles checks the files of records. A relative path is looked up in the directory of the state.
func (v View) checkFiles(db *sqlitedb.DB, problem func(string)) (files int, err error) {
	embedded := false
	if err := db.Each(`SELECT value FROM meta WHERE key = ?`, func(q *sqlitedb.Stmt) error {
		embedded = q.ColumnText(0) != ""
		return nil
	}, MetaEmbedded); err != nil || embedded {
		return 0, err
	}
	positions, err := readPositions(db)
	for path, p := range positions {
		if p.Format == archiveFormat || path == standardOutput {
			continue
		}
		at := path
		if !filepath.IsAbs(at) {
			at = filepath.Join(filepath.Dir(v.path), at)
		}
		info, statErr := os.Stat(at)
		switch {
		case statErr != nil:
			problem(fmt.Sprintf("records that the state knows are gone: %v", statErr))
		case info.Mode().IsRegular() && info.Size() < p.Bytes:
			problem(fmt.Sprintf("%s has %d bytes, and the state knows %d", at, info.Size(), p.Bytes))
		default:
			files++
		}
	}
	return files, err
}
