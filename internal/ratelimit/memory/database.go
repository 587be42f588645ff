// Package memory keeps what crawls learn of hosts in an SQLite database, from one crawl to the
// next. A crawl's own state has the same table ([Table]).
//
// There is one table, rates (see [TableSchema]), to be looked into with any shell while crawls run. A [Database] is
// open only while it is read or saved. A save is one transaction that merges the hosts of this crawl in: of two
// entries of a host the newer one counts, and the later of their Retry-After, so that no crawl loses what another has
// learned. A kill leaves what was there before. A row that no limiter has written costs its host; a database that is
// damaged as a whole, or is another program's, is an error, and is left as it is. Times lose what is less than a
// millisecond, orders to wait upward.
//
// Older versions kept lines of JSON: a header and one [ratelimit.HostMemory] in each. Such a file
// is read, and replaced as a whole by the first save.
//
// It has Config.MaxHosts entries at most, those used last; an entry drops out when nothing of it
// is left after a day. Names of hosts say where somebody has been: a new file is readable by its
// owner only (0600), an old one keeps its mode.
package memory

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
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
	// applicationID marks our databases: "TrLh".
	applicationID = 0x54724c68

	version = 1 // of the table, and of the lines of JSON
)

// Config says which database it is.
type Config struct {
	Path     string        // of the file; empty is refused
	MaxHosts int           // entries kept, those used last; zero means 100000
	MaxWait  time.Duration // an obligation that ends later than that from now was written by a wrong clock, and ends then; zero means 1h
	Clock    clock.Clock   // tells the time; nil means the system's
}

// FormatError says that a file is something else, or of another version of this one.
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

// Damage is what was passed over while a memory was read. The zero Damage is none.
type Damage struct {
	Lines int   // how many
	First int   // number of the first, counted from 1
	Err   error // what is wrong with that
}

func (d *Damage) note(line int, err error) {
	if d.Lines++; d.Lines == 1 {
		d.First, d.Err = line, err
	}
}

// Database is a memory of hosts. It is made by [At] and safe for concurrent use.
type Database struct{ cfg Config }

// At returns the memory at cfg.Path without touching it. It rejects a Config with a value out of range, naming the
// field.
func At(cfg Config) (*Database, error) {
	cfg.MaxHosts, cfg.MaxWait = cmp.Or(cfg.MaxHosts, 100_000), cmp.Or(cfg.MaxWait, time.Hour)
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
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

// Path is the name under which the database was configured.
func (d *Database) Path() string { return d.cfg.Path }

// Load reads what is left, the latest used host first; nothing if there is no file. The error is a [*FormatError] for
// another's file, that of a path that cannot be read or written, or that of SQLite, with the fix. Invalid entries are
// no error.
func (d *Database) Load() (hosts []ratelimit.HostMemory, damage Damage, err error) {
	if _, err := os.Stat(filepath.Dir(d.cfg.Path)); err != nil {
		return nil, damage, fmt.Errorf("%w: make the directory first", err)
	}
	hosts, damage, lines, err := d.loadLines()
	if err == nil && !lines {
		err = d.look(func(db *sqlitedb.DB) (err error) {
			hosts, damage, err = ReadTable(db, d.cfg.Clock.Now(), d.cfg.MaxWait)
			return err
		})
	}
	return hosts[:min(len(hosts), d.cfg.MaxHosts)], damage, err
}

func (d *Database) look(read func(*sqlitedb.DB) error) error {
	info, err := os.Stat(d.cfg.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 && info.Mode().IsRegular():
		return nil
	case err == nil && !info.Mode().IsRegular(): // to open a pipe might never return
		return fmt.Errorf("%s is no regular file: name one, or one that does not exist yet", d.cfg.Path)
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

// check refuses what is not ours. It reports whether the tables are there.
func (d *Database) check(db *sqlitedb.DB) (made bool, err error) {
	id, err1 := db.QueryInt("PRAGMA application_id")
	tables, err2 := db.QueryInt("SELECT count(*) FROM sqlite_schema")
	v, err3 := db.QueryInt("PRAGMA user_version")
	switch err := cmp.Or(err1, err2, err3); {
	case err != nil:
		return false, err
	case id == 0 && tables == 0: // of a program that was killed before it wrote anything
		return false, nil
	case id != applicationID:
		return false, fmt.Errorf("read %s: %w", d.cfg.Path, foreign("a database, and no memory of hosts"))
	case v != version:
		return false, fmt.Errorf("read %s: %w", d.cfg.Path, newer(int(v)))
	}
	return true, nil
}

// Save merges hosts in, the newer entry of each, in one transaction. If another crawl blocks it for five seconds, or
// on an error, nothing was changed. ctx does not end it.
func (d *Database) Save(_ context.Context, hosts iter.Seq[ratelimit.HostMemory]) error {
	kept := Kept(hosts, d.cfg.Clock.Now(), d.cfg.MaxWait)
	old, _, lines, err := d.loadLines()
	if err != nil {
		return err
	}
	if lines {
		return d.replace(append(old, kept...))
	}
	// To open a database for writing is to change its mode: not that of another program.
	if err := d.look(func(*sqlitedb.DB) error { return nil }); err != nil {
		return err
	}
	return d.merge(kept)
}

// Kept are the hosts with something left at now, by [ratelimit.HostMemory.At], without invalid ones.
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
	db, err := sqlitedb.Open(d.cfg.Path, sqlitedb.Config{})
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
		t, err := PrepareTable(db)
		if err != nil {
			return err
		}
		return t.Merge(hosts, d.cfg.Clock.Now(), d.cfg.MaxHosts)
	})
	if err == nil {
		// Or it could not be read where nothing can be written. Another crawl may be at it, and
		// does so when it has done.
		_ = db.Exec("PRAGMA journal_mode = DELETE")
	}
	return errors.Join(err, db.Close())
}

// maxLine bounds what is read of a file that is none of ours; a line takes a tenth of a KiB.
const maxLine = 1 << 16

// loadLines reads a file of JSON, and reports whether it is one. It must not open a database: closing the file drops
// this process's locks on it.
func (d *Database) loadLines() (hosts []ratelimit.HostMemory, damage Damage, lines bool, err error) {
	info, err := os.Stat(d.cfg.Path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil, damage, false, nil
	}
	if is, err := sqlitedb.IsDatabase(d.cfg.Path); is || err != nil {
		return nil, damage, false, err
	}
	f, err := os.Open(d.cfg.Path)
	if err != nil {
		return nil, damage, false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	in := bufio.NewScanner(f)
	in.Buffer(nil, maxLine)
	var head struct {
		Format  string
		Version int
	}
	switch {
	case !in.Scan() || json.Unmarshal(in.Bytes(), &head) != nil || head.Format != "treadlight-hosts":
		return nil, damage, false, fmt.Errorf("read %s: %w", d.cfg.Path, foreign("no memory of hosts"))
	case head.Version != version:
		return nil, damage, false, fmt.Errorf("read %s: %w", d.cfg.Path, newer(head.Version))
	}
	now := d.cfg.Clock.Now()
	for n := 2; in.Scan(); n++ {
		var m ratelimit.HostMemory
		if err = json.Unmarshal(in.Bytes(), &m); err != nil {
			err = fmt.Errorf("it is no JSON of a host: %w", err)
		} else {
			m.LastUsed, m.RetryUntil, m.HeldUntil = m.LastUsed.UTC(), m.RetryUntil.UTC(), m.HeldUntil.UTC()
			err = m.Validate()
		}
		if err != nil {
			damage.note(n, err)
		} else if m, ok := m.At(now, d.cfg.MaxWait); ok {
			hosts = append(hosts, m)
		}
	}
	if err := in.Err(); err != nil {
		return nil, damage, true, fmt.Errorf("read %s: %w", d.cfg.Path, err)
	}
	return hosts, damage, true, nil
}

// replace puts a database with the hosts in the place of the file, keeping mode and symbolic link.
func (d *Database) replace(hosts []ratelimit.HostMemory) error {
	path, err := filepath.EvalSymlinks(d.cfg.Path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what stays does no harm
	made := &Database{d.cfg}
	made.cfg.Path = filepath.Join(dir, "hosts.db")
	return errors.Join(made.merge(hosts), os.Chmod(made.cfg.Path, info.Mode().Perm()), os.Rename(made.cfg.Path, path))
}
