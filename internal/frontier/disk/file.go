package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

type file struct {
	db  *sqlitedb.DB
	ids []identity // of the database files and of the lock
}

// openFile opens the database and makes its tables.
func openFile(path string, cfg *Config) (*file, error) {
	db, err := sqlitedb.Open(path, sqlitedb.Config{CacheBytes: cacheBytes, Accept: checkOwner})
	if err != nil {
		return nil, err
	}
	f := &file{db: db}
	if err := f.setUp(cfg); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return f, nil
}

// setUp prepares the file. It writes a row of meta each time, which shows whether the file is writable, and creates the
// log.
func (f *file) setUp(cfg *Config) error {
	if err := f.checkMode(cfg.Mode); err != nil {
		return err
	}
	if err := makeTables(f.db, cfg.Program); err != nil {
		return err
	}
	// The writer runs checkpoints by Config.walBytes. SQLite would run one at each commit beyond 4 MB and rewrite hot pages.
	if err := f.db.Exec("PRAGMA wal_autocheckpoint = 0"); err != nil {
		return err
	}
	if err := f.db.Transact(func() error { return f.db.Run(queries.putMeta, metaProgram, cfg.Program) }); err != nil {
		return err // the file cannot be written
	}
	for _, suffix := range []string{"", "-wal"} { // the log exists now
		id, err := identify(f.db.Path() + suffix)
		if err != nil {
			return err
		}
		f.ids = append(f.ids, id)
	}
	// Systems without locks have no lock file.
	if id, err := identify(filepath.Join(filepath.Dir(f.db.Path()), lockName)); err == nil {
		f.ids = append(f.ids, id)
	}
	return nil
}

// checkMode checks whether there is a state, as mode demands. A file without tables, as a kill during its creation
// leaves it, is none.
func (f *file) checkMode(mode Mode) error {
	tables, err := f.db.QueryInt(`SELECT count(*) FROM sqlite_schema`)
	switch {
	case err != nil:
		return err
	case mode == Create && tables > 0:
		return fmt.Errorf("%s: %w", filepath.Dir(f.db.Path()), ErrExists)
	case mode == Resume && tables == 0:
		return fmt.Errorf("%s: %w", filepath.Dir(f.db.Path()), ErrMissing)
	}
	return nil
}

// identity is a file and the name that it had when it was opened.
type identity struct {
	path string
	info fs.FileInfo
}

func identify(path string) (identity, error) {
	info, err := os.Stat(path)
	return identity{path, info}, err
}

// present checks that the files still have their names. Writes to a file that was deleted or replaced would be lost;
// and if the lock is gone, another process may have begun to write, so this one must end.
func present(ids []identity) error {
	for _, id := range ids {
		info, err := os.Stat(id.path)
		if err == nil && os.SameFile(info, id.info) {
			continue
		}
		fix := "put it back, or begin anew"
		if filepath.Base(id.path) == lockName {
			fix = "see that no other process has the crawl now"
		}
		return fmt.Errorf("%s: it was deleted, moved or replaced while it was in use: %s", id.path, fix)
	}
	return nil
}

var errForeign = errors.New("it is a database of another program: name another directory")

// queries has the statements that are run for each URL or each question. The tests examine how SQLite executes them.
var queries = struct {
	putURL, putRequest, putPlace, putPlaced, unqueue, visit, spent, load, urlOf, hostByName, countHost, putHost, putMeta, putSink string
}{
	putURL:     `INSERT INTO urls (id, host, rank, depth, hops, seed, referrer, queued_at, url, kind) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	putRequest: `INSERT INTO requests (url, request) VALUES (?, ?)`,
	putPlace:   `INSERT INTO places (host, rank, url, attempts, returns, strikes) VALUES (?, ?, ?, ?, ?, ?)`,
	putPlaced:  `UPDATE placed SET url = ?, visit = ?`,
	unqueue:    `DELETE FROM places WHERE host = ? AND rank = ? AND url = ?`,
	visit: `INSERT INTO visits (url, at, status, class, bytes, retries, round, change, etag, modified, digest, refused)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS BLOB), ?)`,
	spent: `UPDATE places SET attempts = ?, returns = ?, strikes = ? WHERE host = ? AND rank = ? AND url = ?`,
	// LEFT JOIN, so that a row of places is found even if its URL is missing.
	load: `SELECT q.rank, q.url, q.attempts, q.returns, q.strikes, u.depth, u.hops, u.seed, u.referrer, u.queued_at, u.url, u.kind,
		q.visit, v.at, v.status, v.bytes, v.etag, v.modified, v.digest, r.request
		FROM places q LEFT JOIN urls u ON u.id = q.url LEFT JOIN visits v ON v.id = q.visit LEFT JOIN requests r ON r.url = q.url
		WHERE q.host = ? AND (q.rank, q.url) > (?, ?) ORDER BY q.rank, q.url LIMIT ?`,
	urlOf:      `SELECT url FROM urls WHERE id = ?`,
	hostByName: `SELECT id, known, coalesce(dormant, 0), refused FROM hosts WHERE name = ?`,
	// Selects the number of URLs queued, and of those that are no pages (a host has few) the known and the queued.
	countHost: `SELECT (SELECT count(*) FROM places WHERE host = ?1), count(*), count(q.url)
		FROM urls u LEFT JOIN places q ON q.host = u.host AND q.rank = u.rank AND q.url = u.id
		WHERE u.host = ?1 AND u.kind IS NOT NULL`,
	putHost: `INSERT INTO hosts (id, name, known, dormant, refused) VALUES (?, ?, ?, nullif(?, 0), ?)
		ON CONFLICT (id) DO UPDATE SET known = excluded.known, dormant = excluded.dormant, refused = excluded.refused`,
	putMeta: `INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
	putSink: `INSERT INTO sinks (path, format, bytes, records) VALUES (?, ?, ?, ?)
		ON CONFLICT (path) DO UPDATE SET format = excluded.format, bytes = excluded.bytes, records = excluded.records`,
}
