package sqlitedb

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const defaultBusyTimeout = 5 * time.Second

// Config configures a connection to a file.
type Config struct {
	// ReadOnly forbids all writing through this connection, and making the file or changing its journal mode. False
	// permits them.
	ReadOnly bool
	// NoLog leaves the journal mode as it is, which in a new file is a rollback journal. That suits a file which is open
	// for one transaction at a time: two connections that change the mode at once disturb each other.
	NoLog bool
	// BusyTimeout is how long a statement waits for another connection's lock, in whole milliseconds; a negative value
	// means not at all. Zero means 5 seconds, far above the time of any transaction that is not left open by mistake.
	BusyTimeout time.Duration
	// CacheBytes bounds the page cache; the process grows by about twice as much. Zero means SQLite's default of 2 MB.
	CacheBytes int64
	// Accept, if set, is called before anything is written to the file, and may reject it. Open returns its error.
	Accept func(*DB) error
}

// DB is a connection to a file. Make it with [Open].
type DB struct {
	path  string
	info  fs.FileInfo // identity of the file, whatever its name
	isNew bool        // the file had no content when it was opened
	open  Opener
	conn  Conn             // nil when it is closed
	kept  map[string]*Stmt // those that stay prepared, by their queries
}

// Open opens a file, in WAL mode unless cfg says otherwise. If the file does not exist, Open makes it, unless read only,
// in an existing directory; it is then readable by its owner alone, and durable after its first checkpoint. A file that
// is no database is rejected, and left as it is. For the error, [IsBusy] may be true, or it may be that of [Linked].
func Open(path string, cfg Config) (*DB, error) {
	open, err := Engine.Get()
	if err != nil {
		return nil, err
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("%q: leave out the NUL, at which file names end", path)
	}
	d := &DB{path: path, open: open, kept: make(map[string]*Stmt)}
	if d.isNew, err = d.claim(!cfg.ReadOnly); err != nil {
		return nil, err
	}
	if err := d.openAs(cfg); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if d.info == nil { // SQLite has made the file
		d.info, _ = os.Stat(d.path)
	}
	return d, nil
}

func (d *DB) openAs(cfg Config) error {
	if !cfg.ReadOnly {
		return d.connect(cfg, d.path, Make)
	}
	err := d.connect(cfg, d.path, Existing)
	if e, ok := errors.AsType[*Error](err); ok && e.unwritable() && d.settled() {
		_ = d.conn.Close() // the connection was not used
		uri := url.URL{Scheme: "file", Path: filepath.ToSlash(d.path), RawQuery: "immutable=1"}
		return d.connect(cfg, uri.String(), ByURI)
	}
	return err
}

// settled reports whether the file contains everything that was committed. Where nothing can be written, SQLite cannot
// make the additional files with which it would find that out itself.
func (d *DB) settled() bool {
	file, err := os.Stat(d.path)
	for _, suffix := range []string{"-wal", "-journal"} {
		info, errLog := os.Stat(d.path + suffix)
		if !errors.Is(errLog, fs.ErrNotExist) && (errLog != nil || info.Size() > 0) {
			return false
		}
	}
	return err == nil && file.Mode().IsRegular()
}

func (d *DB) connect(cfg Config, name string, how How) (err error) {
	var rc Code
	if d.conn, rc = d.open(name, how); rc != OK {
		return d.fail(rc)
	}
	return d.setUp(cfg)
}

func (d *DB) setUp(cfg Config) error {
	if cfg.BusyTimeout == 0 {
		cfg.BusyTimeout = defaultBusyTimeout
	}
	d.SetBusyTimeout(cfg.BusyTimeout)
	if err := d.Exec("SELECT 1 FROM sqlite_schema"); err != nil { // the first access to the file
		return err
	}
	if cfg.Accept != nil {
		if err := cfg.Accept(d); err != nil {
			return err
		}
	}
	if !cfg.ReadOnly && !cfg.NoLog { // the journal mode is stored in the file
		if err := d.useWAL(); err != nil {
			return err
		}
	}
	pragmas := ""
	if !cfg.NoLog {
		pragmas = "PRAGMA synchronous = NORMAL;" // a power failure may cost the commits since the last checkpoint, but damages nothing
	}
	if cfg.CacheBytes > 0 {
		pragmas += fmt.Sprintf("PRAGMA cache_size = -%d;", max(1, cfg.CacheBytes/1024))
	}
	if cfg.ReadOnly {
		pragmas += "PRAGMA query_only = 1;"
	}
	return d.Exec(pragmas)
}

// SetBusyTimeout changes [Config.BusyTimeout] from now on. Zero means not at all.
func (d *DB) SetBusyTimeout(wait time.Duration) {
	d.conn.BusyTimeout(int32(min(max(0, wait.Milliseconds()), math.MaxInt32)))
}

// useWAL sets WAL mode, in which writers append to a log. Then a commit is one write, and a reader, such as a person
// with a shell, does not block it.
//
// In a new file the mode is all there is, and needs no sync: a power failure leaves the file as it is, or empty, and then
// SQLite drops its log. The first commit syncs the directory, without the journal of this page, and the first checkpoint
// the file.
func (d *DB) useWAL() error {
	if d.isNew {
		if err := d.Exec("PRAGMA synchronous = OFF"); err != nil {
			return err
		}
	}
	mode, err := d.QueryText("PRAGMA journal_mode = WAL")
	if err == nil && mode != "wal" {
		err = fmt.Errorf("%s: its file system has no memory that processes can share (journal mode %s): move it to a local disk",
			d.path, mode)
	}
	return err
}

// Path returns the absolute path of the file.
func (d *DB) Path() string { return d.path }

// Exec runs statements that are needed once, and ignores the rows that they return.
func (d *DB) Exec(script string) error { return d.check(d.conn.Exec(script)) }

// Transact runs f in a transaction that excludes other writers. The error is that of f or of the transaction; in that
// case nothing was changed.
func (d *DB) Transact(f func() error) error {
	if err := d.Run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	return d.Finish(f)
}

// Finish runs f in the transaction that has begun, as Transact does.
func (d *DB) Finish(f func() error) error {
	err := f()
	if err == nil {
		err = d.Run("COMMIT")
	}
	if err != nil {
		_ = d.Exec("ROLLBACK") // after many failures SQLite has rolled back itself, and returns an error here
	}
	return err
}

// QueryInt runs a query that is needed once, and returns the first column of its first row; zero if there is no row, or
// for NULL.
func (d *DB) QueryInt(query string) (v int64, err error) {
	err = d.query(query, func(s *Stmt) { v = s.ColumnInt(0) })
	return v, err
}

// QueryText is like QueryInt, for text.
func (d *DB) QueryText(query string) (v string, err error) {
	err = d.query(query, func(s *Stmt) { v = s.ColumnText(0) })
	return v, err
}

func (d *DB) query(query string, row func(*Stmt)) error {
	first := true
	return d.Each(query, func(s *Stmt) error {
		if first {
			row(s)
		}
		first = false
		return nil
	})
}

// Run runs a statement that returns no rows. Parameters are those of [DB.Each].
func (d *DB) Run(query string, params ...any) error { return d.Each(query, nil, params...) }

// Each runs a query, and calls row for each of its rows. Parameters are of type int64, int, float64, bool (as 0 or 1) or
// string, which is copied; nil and all other types are NULL. With parameters the query stays prepared for its next run.
// Each ends early if row returns an error, and returns that.
func (d *DB) Each(query string, row func(*Stmt) error, params ...any) error {
	s := d.kept[query]
	if s != nil && !s.running {
		return s.run(d, row, params)
	}
	again := s != nil // row runs the same query
	stmt, rc := d.conn.Prepare(query)
	if rc != OK {
		return d.fail(rc)
	}
	s = &Stmt{Row: stmt, stmt: stmt}
	if len(params) > 0 && !again {
		d.kept[query] = s
		return s.run(d, row, params)
	}
	return errors.Join(s.run(d, row, params), d.check(stmt.Close()))
}

// Checkpoint moves the log into the file and truncates it. It reports false if another connection still reads from the
// log; then as much is moved as possible. It must not be called within a transaction.
func (d *DB) Checkpoint() (whole bool, err error) {
	busy, err := d.QueryInt("PRAGMA wal_checkpoint(TRUNCATE)")
	if IsBusy(err) {
		return false, nil
	}
	return err == nil && busy == 0, err
}

// Interrupt makes the statement that is running, if any, end soon with an error. It may be called from any goroutine,
// but not after Close has begun.
func (d *DB) Interrupt() { d.conn.Interrupt() }

// Close closes all statements and the file. The last of all connections to be closed moves the log into the file.
// Further calls do nothing.
func (d *DB) Close() error {
	if d.conn == nil {
		return nil
	}
	for _, s := range d.kept {
		_ = s.stmt.Close() // the error is that of its last step, which was returned already
	}
	var err error
	if rc := d.conn.Close(); rc != OK {
		err = &Error{Path: d.path, Code: rc, Message: "it was not closed"}
	}
	d.conn, d.kept = nil, nil
	return err
}

// check returns nil if a result code is not an error.
func (d *DB) check(rc Code) error {
	if rc == OK || rc == codeRow || rc == codeDone {
		return nil
	}
	return d.fail(rc)
}

// fail returns the error of the call that has just returned rc.
func (d *DB) fail(rc Code) error {
	e := &Error{Path: d.path, Code: rc}
	var errno syscall.Errno
	e.Message, errno = d.conn.Message(rc)
	switch rc.primary() { // for other codes, errno is from an earlier call
	case codeIO, codeCantOpen, codeFull:
		e.Errno = errno
	}
	return e
}
