package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Checked is what [View.Check] has looked at.
type Checked struct {
	Rows  int64 // of URLs and visits
	Files int   // of records
}

// problems are queries for rows that contradict each other. They hold at any time, as commits are atomic.
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

// Check tells problem of each kind of damage that it finds: of SQLite's structure, of contradicting rows, of URLs not
// of their host, and of record files shorter than the state says. It reads everything, as of one instant, and changes
// nothing: some seconds for a million URLs. A flipped bit that leaves a valid number or path goes unseen. If ctx ends
// first it returns its error.
func (v View) Check(ctx context.Context, problem func(string)) (c Checked, err error) {
	err = v.read(func(db *sqlitedb.DB) (err error) {
		if err := db.Exec("BEGIN"); err != nil { // of reading: a crawl goes on meanwhile
			return err
		}
		defer func() { err = errors.Join(err, db.Exec("ROLLBACK")) }()
		settle := interruptedBy(ctx, db)
		defer func() { err = settle(err) }()
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

// interruptAgain is how often an interrupt is repeated: one that comes between two statements is lost.
const interruptAgain = 10 * time.Millisecond

// interruptedBy ends reads when ctx does. settle ends that, and returns its argument, or the error of ctx if that
// ended the reads.
func interruptedBy(ctx context.Context, db *sqlitedb.DB) (settle func(error) error) {
	on, leave := context.WithCancel(context.Background())
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		for err := error(nil); err == nil; err = clock.Sleep(on, clock.System(), interruptAgain) {
			db.Interrupt()
		}
	})
	return func(err error) error {
		leave()
		if stop() {
			return err
		}
		<-ended // or it might come upon a connection that is closed
		if err != nil {
			return ctx.Err()
		}
		return nil
	}
}

func checkStructure(db *sqlitedb.DB, problem func(string)) error {
	return db.Each(`PRAGMA integrity_check(20)`, func(q *sqlitedb.Stmt) error {
		for text := range strings.Lines(q.ColumnText(0)) { // of a damaged tree several, below a heading
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

// What the names of the records' formats and destinations say of their files.
const (
	archiveFormat  = "warc" // a directory of them
	standardOutput = "-"    // there is none
)

// checkFiles looks at the files of records that are beside the state, or where they are named.
func (v View) checkFiles(db *sqlitedb.DB, problem func(string)) (files int, err error) {
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
