package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// applicationID marks our databases: "TrLh".
const applicationID = 0x54724c68

// databaseEndings are those of names under which a new memory is a database.
var databaseEndings = []string{".db", ".sqlite", ".sqlite3"}

// Place is where a memory is kept: a [*File] or a [*Database]. It is safe for concurrent use.
type Place interface {
	Path() string
	Load() ([]ratelimit.HostMemory, Damage, error)
	Save(ctx context.Context, hosts iter.Seq[ratelimit.HostMemory]) error
}

// At returns the memory at cfg.Path and does not touch it: a database if there is one, or if there
// is nothing yet and the name ends as those of databases do, in .db, .sqlite or .sqlite3; else a file.
// It rejects a Config with a value out of range, naming the field.
func At(cfg Config) (Place, error) {
	f, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if isDatabase(cfg.Path) {
		return &Database{f.cfg}, nil
	}
	return f, nil
}

// isDatabase goes by what is in the file, and where nothing can be read by its name.
func isDatabase(path string) bool {
	info, err := os.Stat(path)
	named := slices.Contains(databaseEndings, strings.ToLower(filepath.Ext(path)))
	if err != nil || info.Mode().IsRegular() && info.Size() == 0 {
		return named
	}
	if !info.Mode().IsRegular() { // to open a pipe might never return
		return false
	}
	is, err := sqlitedb.IsDatabase(path)
	return is || err != nil && named
}

// Database is a memory of hosts in an SQLite database. It is made by [At].
type Database struct{ cfg Config }

// Path is the name under which the database was configured.
func (d *Database) Path() string { return d.cfg.Path }

// Load reads what is left at present, the latest used host first. There is nothing in a
// database that does not exist. The error is a [*FormatError] for a database of something else
// or of a newer version; or that of SQLite, with the fix, if it cannot be read or is damaged.
// A row that no limiter has written is no error.
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

// look opens what there is to read it, and calls read if the table is there.
func (d *Database) look(read func(*sqlitedb.DB) error) error {
	if info, err := os.Stat(d.cfg.Path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
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
	id, err := db.QueryInt("PRAGMA application_id")
	if err != nil {
		return false, err
	}
	tables, err := db.QueryInt("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return false, err
	}
	v, err := db.QueryInt("PRAGMA user_version")
	switch {
	case err != nil:
		return false, err
	case id == 0 && tables == 0: // of a program that was killed before it wrote anything
		return false, nil
	case id != applicationID:
		return false, fmt.Errorf("read %s: %w", d.cfg.Path, &FormatError{reason: "it is a database, and no memory of hosts: name another file, or one that does not exist yet"})
	case v != version:
		return false, fmt.Errorf("read %s: %w", d.cfg.Path, newerError(int(v)))
	}
	return true, nil
}

// Save merges hosts in, the newer entry of each host counting, in one transaction. If another
// crawl is at it for more than five seconds, or anything fails, nothing was changed, and the error
// says why. It takes some milliseconds, which ctx does not end.
func (d *Database) Save(_ context.Context, hosts iter.Seq[ratelimit.HostMemory]) error {
	var kept []ratelimit.HostMemory
	now := d.cfg.Clock.Now()
	for m := range hosts {
		if m, ok := m.At(now, d.cfg.MaxWait); ok && m.Validate() == nil { // or it could not be read again
			kept = append(kept, m)
		}
	}
	// To open a database for writing is to change its mode: not that of another program.
	if err := d.look(func(*sqlitedb.DB) error { return nil }); err != nil {
		return err
	}
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
		return t.Merge(kept, now, d.cfg.MaxHosts)
	})
	if err == nil {
		// Or it could not be read where nothing can be written. Another crawl may be at it, and
		// does so when it has done.
		_ = db.Exec("PRAGMA journal_mode = DELETE")
	}
	return errors.Join(err, db.Close())
}
