// Package memory keeps what crawls learn about hosts in an SQLite database, from one crawl to the next. The state of a
// crawl has the same table.
//
// There is one table, rates (see [TableSchema]), which any SQLite shell can read while crawls run. A [Database] is open
// only while it is read or saved. A save is one transaction that merges the hosts of this crawl into the table. If a
// host has two entries, the newer one counts, with the later of the two ends of Retry-After, so that no crawl loses
// what another has learned. If the process is killed, the contents from before remain. An invalid row loses only its
// host. A database that is damaged as a whole, or belongs to another program, is an error, and is left as it is. Times
// are kept in milliseconds; ends of waits are rounded up.
//
// The database has at most Config.MaxHosts entries, those used last. An entry is dropped when nothing of it counts
// after a day. The names of hosts show what somebody has visited, so a new file is readable only by its owner (0600);
// an existing file keeps its mode.
package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

const (
	// applicationID marks a database of this package: "TrLh".
	applicationID = 0x54724c68

	version = 1 // of the table
)

// Config says where a database is, and bounds it.
type Config struct {
	Path     string        // the file; empty is an error
	MaxHosts int           // greatest number of entries, those used last; zero means 100000
	MaxWait  time.Duration // longest obligation from now on: a later end was written by a wrong clock, and is cut to this; zero means 1h
	Clock    clock.Clock   // nil means the system clock
}

// FormatError says that a file is not a memory of hosts, or is one of another version.
type FormatError struct {
	Version int // of a memory that another version of this program writes; 0 for what is none
	reason  string
}

func (e *FormatError) Error() string { return e.reason }

func foreign(what string) error {
	return &FormatError{reason: "it is " + what + ": name another file, or one that does not exist yet"}
}

func newer(v int) error {
	return &FormatError{v, fmt.Sprintf("it is a memory of hosts of version %d, and this program writes version %d: name another file, or use the program that wrote it", v, version)}
}

// Damage describes the entries that were skipped while a memory was read. The zero Damage means none.
type Damage struct {
	Rows  int   // number of entries
	First int   // number of the first one, from 1
	Err   error // what is wrong with the first one
}

func (d *Damage) note(row int, err error) {
	if d.Rows++; d.Rows == 1 {
		d.First, d.Err = row, err
	}
}

// Database is a memory of hosts in a file. It is made by [At] and safe for concurrent use.
type Database struct{ cfg Config }

// At returns the database at cfg.Path without opening it. It returns an error that names the field if a value is out of
// range.
func At(cfg Config) (*Database, error) {
	cfg.MaxHosts, cfg.MaxWait = cmp.Or(cfg.MaxHosts, 100_000), cmp.Or(cfg.MaxWait, time.Hour)
	cfg.Clock = cmp.Or(cfg.Clock, clock.System())
	switch {
	case cfg.Path == "":
		return nil, errors.New("memory: Path is empty: name a file")
	case cfg.MaxHosts < 0:
		return nil, fmt.Errorf("memory: MaxHosts = %d: want 1 or more", cfg.MaxHosts)
	case cfg.MaxWait < 0:
		return nil, fmt.Errorf("memory: MaxWait = %v: want a duration above zero", cfg.MaxWait)
	}
	return &Database{cfg}, nil
}

// Path returns the configured path.
func (d *Database) Path() string { return d.cfg.Path }

// Load returns the hosts of which something still counts, the one used last first; none if there is no file. Errors are
// a [*FormatError] for a file that is not ours, that of a path that cannot be read or written, or that of SQLite with
// what to do. Invalid entries are not an error, but described by damage.
func (d *Database) Load() (hosts []ratelimit.HostMemory, damage Damage, err error) {
	if _, err := os.Stat(filepath.Dir(d.cfg.Path)); err != nil {
		return nil, damage, fmt.Errorf("%w: make the directory first", err)
	}
	err = d.look(func(db *sqlitedb.DB) (err error) {
		hosts, damage, err = ReadTable(db, d.cfg.Clock.Now(), d.cfg.MaxWait)
		return err
	})
	return hosts[:min(len(hosts), d.cfg.MaxHosts)], damage, err
}

func (d *Database) look(read func(*sqlitedb.DB) error) error {
	info, err := os.Stat(d.cfg.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 && info.Mode().IsRegular():
		return nil
	case err == nil && !info.Mode().IsRegular(): // opening a pipe might never return
		return fmt.Errorf("%s is no regular file: name one, or one that does not exist yet", d.cfg.Path)
	}
	if is, err := sqlitedb.IsDatabase(d.cfg.Path); err == nil && !is { // SQLite would call it a damaged database
		return fmt.Errorf("read %s: %w", d.cfg.Path, foreign("no memory of hosts"))
	}
	db, err := sqlitedb.Open(d.cfg.Path, sqlitedb.Config{ReadOnly: true})
	if err != nil {
		return err
	}
	made, err := d.check(db)
	if err == nil && made {
		err = read(db)
	}
	return errors.Join(err, db.Close())
}

// check returns an error for a database that is not ours, and reports whether the tables exist.
func (d *Database) check(db *sqlitedb.DB) (made bool, err error) {
	tables, err1 := db.QueryInt("SELECT count(*) FROM sqlite_schema") // first: the transaction that makes them sets the marks
	id, err2 := db.QueryInt("PRAGMA application_id")
	v, err3 := db.QueryInt("PRAGMA user_version")
	switch err := cmp.Or(err1, err2, err3); {
	case err != nil:
		return false, err
	case id == 0 && tables == 0: // left by a program that was killed before it wrote anything
		return false, nil
	case id != applicationID:
		return false, fmt.Errorf("read %s: %w", d.cfg.Path, foreign("a database, and no memory of hosts"))
	case v != version:
		return false, fmt.Errorf("read %s: %w", d.cfg.Path, newer(int(v)))
	}
	return true, nil
}

// Save merges hosts into the database in one transaction; the newer entry of a host counts. If another crawl blocks it
// for five seconds, or on another error, nothing is changed. The end of ctx does not stop it.
func (d *Database) Save(_ context.Context, hosts iter.Seq[ratelimit.HostMemory]) error {
	kept := Kept(hosts, d.cfg.Clock.Now(), d.cfg.MaxWait)
	if err := d.look(func(*sqlitedb.DB) error { return nil }); err != nil {
		return err
	}
	return d.merge(kept)
}

// Kept returns the hosts of which something still counts at now, as [ratelimit.HostMemory.At] decides, without invalid
// ones.
func Kept(hosts iter.Seq[ratelimit.HostMemory], now time.Time, wait time.Duration) []ratelimit.HostMemory {
	kept := []ratelimit.HostMemory{}
	for m := range hosts {
		if m, ok := m.At(now, wait); ok && m.Validate() == nil {
			kept = append(kept, m)
		}
	}
	return kept
}

func (d *Database) merge(hosts []ratelimit.HostMemory) error {
	// Without a log, a database at rest can be read where nothing can be written.
	db, err := sqlitedb.Open(d.cfg.Path, sqlitedb.Config{NoLog: true})
	if err != nil {
		return err
	}
	err = db.Transact(func() error {
		made, err := d.check(db)
		if err == nil && !made {
			err = db.Exec(TableSchema + fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version))
		}
		if err != nil {
			return err
		}
		return MergeTable(db, hosts, d.cfg.Clock.Now(), d.cfg.MaxHosts)
	})
	return errors.Join(err, db.Close())
}
