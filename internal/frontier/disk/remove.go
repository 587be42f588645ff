package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// Remove removes a state, if there is one that nobody uses, and nothing else from its
// directory. The database goes first: whatever interrupts that, the rest is no state. The
// error is [*sqlitedb.InUseError] if a process has it. A database of another program that
// happens to have its name is no state, and an error.
func Remove(dir string) error {
	path := filepath.Join(dir, databaseName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, giveUp, err := lock(dir)
	if err != nil {
		return err
	}
	if err := checkOthers(path); err != nil {
		return errors.Join(err, giveUp())
	}
	var errs []error
	for _, name := range []string{databaseName, databaseName + "-wal", databaseName + "-shm", lockName} {
		if err := os.Remove(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, os.RemoveAll(filepath.Join(dir, seenName)), unlock())
	return errors.Join(errs...)
}

// lock locks a directory. giveUp is for who has nothing to do there after all: it unlocks it, and takes
// a lock away that was not there before, as from the directory of another program.
func lock(dir string) (unlock, giveUp func() error, err error) {
	path := filepath.Join(dir, lockName)
	_, none := os.Lstat(path)
	unlock, err = sqlitedb.Lock(path)
	if err != nil || !errors.Is(none, fs.ErrNotExist) {
		return unlock, unlock, err
	}
	return unlock, func() error {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) { // where there are no locks
			err = nil
		}
		return errors.Join(err, unlock())
	}, nil
}

// checkOthers refuses the database of another program, also one that has all it has in its log yet.
// What cannot be read is nobody's.
func checkOthers(path string) error {
	err := checkHead(path)
	if log, none := os.Stat(path + "-wal"); err == nil && none == nil && log.Size() > 0 {
		var db *sqlitedb.DB
		if db, err = sqlitedb.Open(path, sqlitedb.Config{ReadOnly: true}); err == nil {
			_, err = checkOwner(db)
			err = errors.Join(err, db.Close())
		}
	}
	if errors.Is(err, errForeign) {
		return err
	}
	return nil
}
