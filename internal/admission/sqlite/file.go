package sqlite

import (
	"errors"
	"fmt"

	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// schemaVersion is the version of the tables below. Who changes them adds to it, and to
// migrate what leads there from the version before.
const schemaVersion = 1

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
	db *sqlitedb.DB

	begin, commit, rollback *sqlitedb.Stmt
	get, put, drop          *sqlitedb.Stmt // one row
	bound, sweep            *sqlitedb.Stmt // of a cleanup
	list                    *sqlitedb.Stmt // of a step of keys
	version                 *sqlitedb.Stmt // changes when another connection has written
}

// open opens the file, or makes it, and prepares the statements. Others may be about to
// do the same, so that its error may be IsBusy. To wait is our own business: see acquire.
func open(path string, durable bool) (*file, error) {
	db, err := sqlitedb.Open(path, sqlitedb.Config{Durable: durable, BusyTimeout: -1})
	if err != nil {
		return nil, err
	}
	f := &file{db: db}
	if err := f.setUp(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return f, nil
}

func (f *file) setUp() error {
	if err := f.db.Exec(logLimit); err != nil {
		return err
	}
	if err := f.prepareAll(map[**sqlitedb.Stmt]string{
		&f.begin: "BEGIN IMMEDIATE", &f.commit: "COMMIT", &f.rollback: "ROLLBACK",
	}); err != nil {
		return err
	}
	if err := f.migrate(); err != nil {
		return err
	}
	return f.prepareAll(map[**sqlitedb.Stmt]string{
		&f.get: `SELECT tokens, count, previous, window_start FROM rate_limit_entries WHERE key = ?`,
		&f.put: `INSERT INTO rate_limit_entries (key, tokens, count, previous, window_start, expires_at, created_at)
			VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET tokens = excluded.tokens, count = excluded.count,
			previous = excluded.previous, window_start = excluded.window_start, expires_at = excluded.expires_at`,
		&f.drop:    `DELETE FROM rate_limit_entries WHERE key = ?`,
		&f.bound:   boundQuery,
		&f.list:    `SELECT key FROM rate_limit_entries WHERE key > ? ORDER BY key LIMIT ?`,
		&f.sweep:   sweepQuery,
		&f.version: `PRAGMA data_version`,
	})
}

func (f *file) prepareAll(queries map[**sqlitedb.Stmt]string) (err error) {
	for at, query := range queries {
		if *at, err = f.db.Prepare(query); err != nil {
			return err
		}
	}
	return nil
}

// migrate makes the tables if they are not there, and checks that they are ours and can
// be written.
func (f *file) migrate() error {
	if err := f.begin.Run(); err != nil {
		return err
	}
	return f.finish(f.checkSchema)
}

func (f *file) checkSchema() error {
	found, err := f.db.QueryText(`SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema
		WHERE name IN ('rate_limit_entries', 'rate_limit_schema') ORDER BY name)`)
	switch {
	case err != nil:
		return err
	case found == "":
		return f.db.Exec(schema)
	case found == "rate_limit_entries":
		return fmt.Errorf("%s: its table rate_limit_entries is of another program: name another file", f.db.Path())
	}
	version, err := f.db.QueryInt(`SELECT max(version) FROM rate_limit_schema`)
	if err != nil {
		return err
	}
	if version != schemaVersion {
		return fmt.Errorf("%s: its rate limits are of schema version %d, and this program knows %d: use the program that wrote it, or name another file",
			f.db.Path(), version, schemaVersion)
	}
	// Of a file that cannot be written SQLite begins an immediate transaction all the same.
	// This writes nothing, but has to be allowed to.
	return f.db.Exec(`DELETE FROM rate_limit_entries WHERE key IS NULL`)
}

// finish does what is left of the transaction that has begun, and commits. After an error
// the file is as it was.
func (f *file) finish(do func() error) error {
	err := do()
	if err == nil {
		err = f.commit.Run()
	}
	if err != nil {
		_ = f.rollback.Run() // of many failures SQLite has done that itself, and says so
	}
	return err
}
