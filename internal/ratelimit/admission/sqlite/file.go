package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	modernc "modernc.org/sqlite"
)

// schemaVersion is the version of the tables below. Who changes them adds to it, and to
// migrate what leads there from the version before.
const schemaVersion = 1

// leastPage is the least size of an SQLite page, and so of a database: its file format's.
const leastPage = 512

// logLimit is how large the log stays that a long reader has kept from being moved into
// the file: as many bytes as it has when SQLite moves it by itself, a thousand pages.
const logLimit = "PRAGMA journal_size_limit = 4096000"

// The rows lie in the tree of the key itself: with a tree of row ids beside it, each
// decision would search twice and write two pages.
const schema = `
CREATE TABLE rate_limit_entries (
	key          TEXT    NOT NULL PRIMARY KEY,
	count        INTEGER NOT NULL,
	previous     INTEGER NOT NULL,
	tokens       REAL,
	window_start INTEGER NOT NULL,
	expires_at   INTEGER NOT NULL,
	created_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE rate_limit_schema (version INTEGER NOT NULL) STRICT;
INSERT INTO rate_limit_schema VALUES (1);
`

// file is an open database with its statements. Its methods must not be called at the
// same time.
type file struct {
	path string
	info os.FileInfo // which file it is, whatever its name
	conn driver.Conn

	begin, commit, rollback *statement
	get, put, drop          *statement // one row
	bound, sweep            *statement // of a cleanup
	version                 *statement // changes when another connection has written
}

// open opens the file, or makes it, and prepares the statements. Others may be about to
// do the same, so that its error may be isBusy.
func open(path string, durable bool) (_ *file, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		createPrivate(path)
	case info.Size() > 0 && info.Size() < leastPage: // which SQLite takes for nothing, and overwrites
		return nil, fmt.Errorf("%s: %s", path, notADatabase)
	}
	info, _ = os.Stat(path) // before it is opened: if it is replaced meanwhile, that shows
	conn, err := new(modernc.Driver).Open(uri(path))
	if err != nil {
		return nil, explain(path, err)
	}
	f := &file{path: path, info: info, conn: conn}
	if err = f.setUp(durable); err != nil {
		return nil, errors.Join(explain(path, err), f.close())
	}
	if f.info == nil { // it was SQLite that made it
		f.info, _ = os.Stat(path)
	}
	return f, nil
}

// gone reports whether the file was deleted or replaced. SQLite would go on with the one
// that has no name any more, and count for this process alone. Closing does not harm what
// stands in its place: SQLite looks, too, before it deletes the log beside it.
func (f *file) gone() bool {
	info, err := os.Stat(f.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return f.info != nil && !os.SameFile(info, f.info)
}

// createPrivate makes an empty file that only its owner can read. It is made under another
// name, because to close a file that SQLite has open gives its locks up. Where that does
// not work, for what reason ever, SQLite makes the file, or says why it cannot.
func createPrivate(path string) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".rate-limit-*")
	if err != nil {
		return
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // an empty file that stays does no harm
	if tmp.Close() == nil {
		_ = os.Link(tmp.Name(), path) // which never replaces one that another made meanwhile
	}
}

// uri is the path in a form in which none of its characters mean anything.
func uri(path string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") { // of Windows, with a drive
		slashed = "/" + slashed
	}
	return (&url.URL{Scheme: "file", Path: slashed}).String()
}

func (f *file) setUp(durable bool) error {
	// To wait is our own business: see acquire.
	if err := f.run("PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	if err := f.useWAL(); err != nil {
		return err
	}
	if err := f.run(logLimit); err != nil {
		return err
	}
	synchronous := "PRAGMA synchronous = NORMAL"
	if durable {
		synchronous = "PRAGMA synchronous = FULL"
	}
	if err := f.run(synchronous); err != nil {
		return err
	}
	if err := f.prepareAll(map[**statement]string{
		&f.begin: "BEGIN IMMEDIATE", &f.commit: "COMMIT", &f.rollback: "ROLLBACK",
	}); err != nil {
		return err
	}
	if err := f.migrate(); err != nil {
		return err
	}
	return f.prepareAll(map[**statement]string{
		&f.get: `SELECT tokens, count, previous, window_start FROM rate_limit_entries WHERE key = ?`,
		&f.put: `INSERT INTO rate_limit_entries (key, tokens, count, previous, window_start, expires_at, created_at)
			VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET tokens = excluded.tokens, count = excluded.count,
			previous = excluded.previous, window_start = excluded.window_start, expires_at = excluded.expires_at`,
		&f.drop:    `DELETE FROM rate_limit_entries WHERE key = ?`,
		&f.bound:   boundQuery,
		&f.sweep:   sweepQuery,
		&f.version: `PRAGMA data_version`,
	})
}

// useWAL has writers append to a log: then a commit is one write, and a reader, say a
// person with a shell, does not keep it from happening.
func (f *file) useWAL() error {
	mode := make([]driver.Value, 1)
	if _, err := f.row("PRAGMA journal_mode = WAL", mode); err != nil {
		return err
	}
	if mode[0] != "wal" {
		return fmt.Errorf("its file system has no memory that processes can share (journal mode %v): move it to a local disk", mode[0])
	}
	return nil
}

// migrate makes the tables if they are not there, and checks that they are ours and can
// be written.
func (f *file) migrate() error {
	if err := f.begin.exec(); err != nil {
		return err
	}
	err := f.checkSchema()
	if err == nil {
		err = f.commit.exec()
	}
	if err != nil {
		f.abort()
	}
	return err
}

func (f *file) checkSchema() error {
	found := make([]driver.Value, 1)
	if _, err := f.row(`SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema
		WHERE name IN ('rate_limit_entries', 'rate_limit_schema') ORDER BY name)`, found); err != nil {
		return err
	}
	switch found[0] {
	case nil:
		return f.run(schema)
	case "rate_limit_entries":
		return errors.New("its table rate_limit_entries is of another program: name another file")
	}
	if _, err := f.row(`SELECT max(version) FROM rate_limit_schema`, found); err != nil {
		return err
	}
	if found[0] != int64(schemaVersion) {
		return fmt.Errorf("its rate limits are of schema version %v, and this program knows %d: use the program that wrote it, or name another file",
			found[0], schemaVersion)
	}
	// Of a file that cannot be written SQLite begins an immediate transaction all the same.
	// This writes nothing, but has to be allowed to.
	return f.run(`DELETE FROM rate_limit_entries WHERE key IS NULL`)
}

// lock begins the transaction. Its error may be isBusy.
func (f *file) lock() error { return explain(f.path, f.begin.exec()) }

// fail ends the transaction and says why.
func (f *file) fail(err error) error {
	f.abort()
	return explain(f.path, err)
}

// abort ends a transaction that failed. Of many failures SQLite has ended it itself, and
// then says so by an error.
func (f *file) abort() { _ = f.rollback.exec() }

// close gives the file back. The last one of all processes to close it moves the log into it.
func (f *file) close() error {
	var errs []error
	for _, s := range []*statement{f.begin, f.commit, f.rollback, f.get, f.put, f.drop, f.bound, f.sweep, f.version} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	errs = append(errs, f.conn.Close())
	return explain(f.path, errors.Join(errs...))
}

func (f *file) prepareAll(queries map[**statement]string) (err error) {
	for at, query := range queries {
		if *at, err = f.prepare(query); err != nil {
			return err
		}
	}
	return nil
}

func (f *file) prepare(query string) (*statement, error) {
	s, err := f.conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	return &statement{Stmt: s}, nil
}

// run runs statements that are needed once.
func (f *file) run(script string) error {
	s, err := f.prepare(script)
	if err != nil {
		return err
	}
	return errors.Join(s.exec(), s.Close())
}

// row runs a query that is needed once.
func (f *file) row(query string, dest []driver.Value) (bool, error) {
	s, err := f.prepare(query)
	if err != nil {
		return false, err
	}
	found, err := s.row(dest)
	return found, errors.Join(err, s.Close())
}
