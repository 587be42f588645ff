package sqlite

import (
	"errors"
	"fmt"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// schemaVersion is the version of the tables below. A change of them increments it and adds to migrate the step from
// the version before.
const schemaVersion = 1

// logLimit bounds the log's size after a long reader has kept it from being moved into the file. It is the size at
// which SQLite moves it anyway, a thousand pages.
const logLimit = "PRAGMA journal_size_limit = 4096000"

// The rows are stored in the tree of the key itself: with a separate tree of row ids, each decision would search twice
// and write two pages.
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

// A row is over when it expires. It is over too if it is for a time further in the future than it would be kept from
// then on: a wrong clock wrote it, and decisions ignore it. The last step has no last key and goes to the end, because
// blobs are greater than any text.
const sweepQuery = `DELETE FROM rate_limit_entries WHERE key > ? AND key <= ifnull(?, x'00')
	AND (expires_at <= ? OR 2 * window_start - expires_at > ?)`

// putQuery writes a row. created_at is set only when the row is new.
const putQuery = `INSERT INTO rate_limit_entries (key, tokens, count, previous, window_start, expires_at, created_at)
	VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET tokens = excluded.tokens, count = excluded.count,
	previous = excluded.previous, window_start = excluded.window_start, expires_at = excluded.expires_at`

// file is an open database, and the state of one transaction: each row is read once and written
// once, however many decisions use it. Its methods must not be called concurrently.
type file struct {
	db *sqlitedb.DB

	now    admission.Micros  // the same for all decisions of the transaction
	rows   map[string]*entry // by key
	dirty  []*entry          // the rows to write, in the order in which they were first charged
	states []admission.State
	places []*entry
}

type entry struct {
	key     string
	known   bool // there is a row with a valid state
	window  bool // the state is that of a window; for a plan of another kind it means nothing
	state   admission.State
	expires admission.Micros
	dirty   bool // it has to be written
}

// open opens the file, or creates it. Other processes may do the same at that moment, so
// that its error may be IsBusy. It does not wait for them; see acquire.
func open(path string) (*file, error) {
	db, err := sqlitedb.Open(path, sqlitedb.Config{BusyTimeout: -1})
	if err != nil {
		return nil, err
	}
	f := &file{db: db, rows: map[string]*entry{}}
	if err = db.Exec(logLimit); err == nil {
		err = db.Transact(f.checkSchema)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return f, nil
}

// checkSchema creates the tables if they are missing, and checks that they are ours and writable.
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
	// SQLite begins an immediate transaction even on a file that cannot be written. This statement deletes nothing, but
	// fails on such a file.
	return f.db.Exec(`DELETE FROM rate_limit_entries WHERE key IS NULL`)
}

// transact does jobs within the transaction that has begun. If one fails, all fail, and the file is unchanged. now must
// be read while the lock is held, so that processes with one clock write in the order of their times.
func (f *file) transact(jobs []*job, now admission.Micros) error {
	f.now = now
	clear(f.rows)
	clear(f.dirty)
	f.dirty = f.dirty[:0]
	return f.db.Finish(func() error {
		for _, j := range jobs {
			if err := j.do(f); err != nil {
				return err
			}
		}
		for _, e := range f.dirty {
			if err := f.write(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// rowKey returns the key of the row for a plan and a key. It is injective: a plan's name contains no colon.
func rowKey(p *admission.Plan, key string) string { return p.Name + ":" + key }

func (f *file) find(key string) (e *entry, err error) {
	if e = f.rows[key]; e != nil {
		return e, nil
	}
	e = &entry{key: key}
	f.rows[key] = e
	return e, f.db.Each(`SELECT tokens, count, previous, window_start FROM rate_limit_entries WHERE key = ?`, func(q *sqlitedb.Stmt) error {
		e.known, e.window = true, q.ColumnIsNull(0)
		e.state = admission.State{Tokens: q.ColumnFloat(0), Current: q.ColumnInt(1), Previous: q.ColumnInt(2), At: admission.Micros(q.ColumnInt(3))}
		return nil
	}, key)
}

func (f *file) take(key string, plans []admission.Plan, tokens int64) (admission.Result, error) {
	f.states, f.places = f.states[:0], f.places[:0]
	for i := range plans {
		p := &plans[i]
		e, err := f.find(rowKey(p, key))
		if err != nil {
			return admission.Result{}, err
		}
		state := p.Fresh(f.now)
		if e.known && e.window == (p.Window != 0) {
			state = e.state
		}
		f.states, f.places = append(f.states, state), append(f.places, e)
	}
	res := admission.TakeAll(f.states, plans, f.now, tokens)
	if !res.Allowed || tokens == 0 {
		return res, nil
	}
	for i, e := range f.places {
		p := &plans[i]
		if !e.dirty {
			f.dirty = append(f.dirty, e)
		}
		e.known, e.dirty, e.window, e.state = true, true, p.Window != 0, f.states[i]
		// It expires its plan's TTL after now or, if the clock went back, after the time of the state.
		e.expires = max(f.now, e.state.At) + admission.Micros(p.TTL().Microseconds())
	}
	return res, nil
}

func (f *file) write(e *entry) error {
	if !e.dirty { // it was removed after it was charged
		return nil
	}
	s := &e.state
	return f.db.Run(putQuery, e.key, sqlitedb.Unless(e.window, s.Tokens), s.Current, s.Previous, int64(s.At), int64(e.expires), int64(f.now))
}

func (f *file) remove(key string, plans []admission.Plan) error {
	for i := range plans {
		name := rowKey(&plans[i], key)
		if err := f.db.Run(`DELETE FROM rate_limit_entries WHERE key = ?`, name); err != nil {
			return err
		}
		if e := f.rows[name]; e != nil {
			e.dirty = false // it may have been charged before
		}
		f.rows[name] = &entry{key: name}
	}
	return nil
}

// keys returns the keys of the next rows, or none at the end.
func (f *file) keys(after string) (rows []string, err error) {
	err = f.db.Each(`SELECT key FROM rate_limit_entries WHERE key > ? ORDER BY key LIMIT ?`, func(q *sqlitedb.Stmt) error {
		rows = append(rows, q.ColumnText(0))
		return nil
	}, after, cleanupStep)
	return rows, err
}

// sweep does one step of a cleanup. last is the key at which it ended, "" at the end.
func (f *file) sweep(after string) (last string, removed int64, err error) {
	if err := f.db.Each(`SELECT key FROM rate_limit_entries WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?`, func(q *sqlitedb.Stmt) error {
		last = q.ColumnText(0)
		return nil
	}, after, cleanupStep-1); err != nil {
		return "", 0, err
	}
	if err := f.db.Run(sweepQuery, after, sqlitedb.Unless(last == "", last), int64(f.now-keepFor), int64(f.now+keepFor)); err != nil {
		return "", 0, err
	}
	return last, f.db.Changes(), nil
}
