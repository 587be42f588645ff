package watch

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/watch/plan"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// store is the database of a watch: what is known of URLs and hosts, texts to compare with, and changes to report. What
// belongs together is written in one transaction. It is not safe for concurrent use.
//
// Most methods return no error. After the first one that fails the others do nothing and return nothing, until transact
// or failed returns the error.
type store struct {
	db      *sqlitedb.DB
	deflate *flate.Writer
	err     error // the first since the last failed
}

// schema is that of version 3. Times are in seconds since 1970; zero means never.
const schema = `
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE urls (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, state INTEGER NOT NULL, depth INTEGER NOT NULL, visited INTEGER NOT NULL,
	tried INTEGER NOT NULL, failures INTEGER NOT NULL, visits INTEGER NOT NULL, digest INTEGER NOT NULL, fresh INTEGER NOT NULL,
	word INTEGER NOT NULL, told INTEGER NOT NULL, url TEXT NOT NULL, etag TEXT, modified TEXT, history BLOB);
CREATE TABLE texts (url INTEGER PRIMARY KEY, text BLOB NOT NULL, title TEXT);
CREATE TABLE held (url INTEGER PRIMARY KEY, known TEXT NOT NULL, text BLOB NOT NULL);
CREATE TABLE hosts (name TEXT PRIMARY KEY, known TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE changes (id INTEGER PRIMARY KEY AUTOINCREMENT, change TEXT NOT NULL);
CREATE TABLE sinks (name TEXT PRIMARY KEY, change INTEGER NOT NULL, wait INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 3;`

// fromVersion2 makes the schema of a database of version 2 that of version 3.
const fromVersion2 = `ALTER TABLE texts ADD COLUMN title TEXT; PRAGMA user_version = 3;`

// openStore opens a database, or creates it.
func openStore(path string) (*store, error) {
	db, err := sqlitedb.Open(path, sqlitedb.Config{})
	if err != nil {
		return nil, err
	}
	version, err := db.QueryInt("PRAGMA user_version")
	change, known := map[int64]string{0: schema, 2: fromVersion2, 3: ""}[version]
	if err == nil && known {
		err = db.Transact(func() error { return db.Exec(change) })
	} else if err == nil {
		err = fmt.Errorf("%s is of another version of the program (%d): go on with that one, or begin anew in another directory", db.Path(), version)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	deflate, _ := flate.NewWriter(nil, flate.BestCompression) // the level is valid
	return &store{db: db, deflate: deflate}, nil
}

// failed returns the error of what was done since the last call.
func (s *store) failed() error {
	err := s.err
	s.err = nil
	return err
}

// stop fails if ctx has ended.
func (s *store) stop(ctx context.Context) { s.err = cmp.Or(s.err, ctx.Err()) }

// transact runs f in a transaction, which fails if a method fails.
func (s *store) transact(f func()) error {
	return s.db.Transact(func() error {
		f()
		return s.failed()
	})
}

// each is [sqlitedb.DB.Each] with the error kept.
func (s *store) each(query string, row func(*sqlitedb.Stmt) error, params ...any) {
	if s.err == nil {
		s.err = s.db.Each(query, row, params...)
	}
}

func (s *store) run(query string, params ...any) { s.each(query, nil, params...) }

// runJSON is run with v as JSON for a last parameter.
func (s *store) runJSON(query string, v any, params ...any) {
	text, err := json.Marshal(v)
	s.err = cmp.Or(s.err, err)
	s.run(query, append(params, string(text))...)
}

// value returns the text that a query finds, or "" if there is none.
func (s *store) value(query string, params ...any) (value string) {
	s.each(query, func(q *sqlitedb.Stmt) error {
		value = q.ColumnText(0)
		return nil
	}, params...)
	return value
}

func (s *store) meta(key string) string { return s.value(`SELECT value FROM meta WHERE key = ?`, key) }

const setMeta = `INSERT OR REPLACE INTO meta VALUES (?, ?)`

// load reads all hosts and then all URLs.
func (s *store) load(url func(*entry) error, hosts map[string]*host) error {
	s.each(`SELECT name, known FROM hosts`, func(q *sqlitedb.Stmt) error {
		h := &host{name: q.ColumnText(0), Spent: make(map[int64]int)}
		if err := json.Unmarshal(q.ColumnBytes(1), h); err != nil || h.Spent == nil {
			return sqlitedb.Damage(s.db.Path(), fmt.Sprintf("what is known of host %q", h.name))
		}
		hosts[h.name] = h
		return nil
	})
	s.each(`SELECT * FROM urls`, func(q *sqlitedb.Stmt) error {
		e := &entry{
			id: q.ColumnInt(0), kind: kind(q.ColumnInt(1)), state: state(q.ColumnInt(2)), depth: int32(q.ColumnInt(3)), visited: q.ColumnInt(4),
			tried: q.ColumnInt(5), failures: int32(q.ColumnInt(6)), visits: int32(q.ColumnInt(7)), digest: uint64(q.ColumnInt(8)), fresh: q.ColumnInt(9),
			word: q.ColumnInt(10), told: q.ColumnInt(11), url: q.ColumnText(12), etag: q.ColumnText(13), modified: q.ColumnText(14),
		}
		if err := unpackHistory(q.ColumnBytes(15), &e.history); err != nil {
			return sqlitedb.Damage(s.db.Path(), fmt.Sprintf("row %d of urls: %v", e.id, err))
		}
		return url(e)
	})
	return s.failed()
}

// put writes an entry.
func (s *store) put(e *entry) {
	s.run(`INSERT OR REPLACE INTO urls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULLIF(?, ''), NULLIF(?, ''), CAST(NULLIF(?, '') AS BLOB))`,
		e.id, int64(e.kind), int64(e.state), int64(e.depth), e.visited, e.tried, int64(e.failures), int64(e.visits), int64(e.digest), e.fresh, e.word, e.told,
		e.url, e.etag, e.modified, packHistory(&e.history))
}

// packHistory encodes a history in at most 80 bytes, without the zeros at its end.
func packHistory(h *plan.History) string {
	b, _ := binary.Append(nil, binary.LittleEndian, h) // the type has a fixed size
	return string(bytes.TrimRight(b, "\x00"))
}

func unpackHistory(b []byte, h *plan.History) error {
	whole := make([]byte, binary.Size(h))
	if len(b) > len(whole) {
		return errors.New("its history is too long")
	}
	copy(whole, b)
	_, _ = binary.Decode(whole, binary.LittleEndian, h) // whole has the right length
	if !h.Valid() {
		return errors.New("its history is none")
	}
	return nil
}

// putText writes the text of a page, compressed, and its title.
func (s *store) putText(id int64, lines []string, title string) {
	var b strings.Builder
	s.deflate.Reset(&b)
	_, _ = io.WriteString(s.deflate, strings.Join(lines, "\n"))
	_ = s.deflate.Close() // a Builder never fails
	s.run(`INSERT OR REPLACE INTO texts VALUES (?, CAST(? AS BLOB), ?)`, id, b.String(), title)
}

// lines returns the text of a page from one of the tables texts and held, or nil if there is none.
func (s *store) lines(table string, id int64) (lines []string) {
	s.each(`SELECT text FROM `+table+` WHERE url = ?`, func(q *sqlitedb.Stmt) error {
		text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(q.ColumnBytes(0))), 2*maxText))
		if lines = strings.Split(string(text), "\n"); err != nil {
			err = sqlitedb.Damage(s.db.Path(), fmt.Sprintf("row %d of %s: %v", id, table, err))
		}
		return err
	}, id)
	return lines
}

// held is a change of a page's text that waits for the end of its round.
type held struct {
	Change
	Word bool `json:"word,omitempty"` // a source had announced a change

	e *entry
}

// hold keeps a change together with the text that the page had before. It does nothing if the page is already held.
func (s *store) hold(id int64, h *held) {
	s.runJSON(`INSERT OR IGNORE INTO held SELECT url, ?2, text FROM texts WHERE url = ?1`, h, id)
}

// allHeld returns the changes that are held of watched pages, by hosts, in the order of the pages and without texts.
func (s *store) allHeld(urls map[string]*entry) map[*host][]*held {
	of := make(map[*host][]*held)
	s.each(`SELECT known FROM held ORDER BY url`, func(q *sqlitedb.Stmt) error {
		h := new(held)
		if err := json.Unmarshal(q.ColumnBytes(0), h); err != nil {
			return sqlitedb.Damage(s.db.Path(), fmt.Sprintf("what is held: %v", err))
		}
		if h.e = urls[h.URL]; h.e != nil {
			of[h.e.host] = append(of[h.e.host], h)
		}
		return nil
	})
	return of
}

// saveHost writes what is known of a host.
func (s *store) saveHost(h *host) { s.runJSON(`INSERT OR REPLACE INTO hosts VALUES (?, ?)`, h, h.name) }

// addChange queues a change for all outputs.
func (s *store) addChange(c *Change) { s.runJSON(`INSERT INTO changes (change) VALUES (?)`, c) }

// numbered is a change and its number in the list of all changes.
type numbered struct {
	n    int64
	text string // JSON
}

// changesAfter returns the next changes after number n that are sent in one batch.
func (w *Watch) changesAfter(n int64) (list []numbered, err error) {
	w.store.each(`SELECT id, change FROM changes WHERE id > ? ORDER BY id LIMIT ?`, func(q *sqlitedb.Stmt) error {
		list = append(list, numbered{q.ColumnInt(0), q.ColumnText(1)})
		return nil
	}, n, int64(inFeed))
	return list, w.store.failed()
}

// newest returns the number of the last change.
func (s *store) newest() int64 {
	n, _ := strconv.ParseInt(s.value(`SELECT seq FROM sqlite_sequence WHERE name = 'changes'`), 10, 64) // zero before the first
	return n
}
