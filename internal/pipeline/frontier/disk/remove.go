package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/treadlight/crawl/internal/ratelimit/sqlitedb"
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
	unlock, err := sqlitedb.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return err
	}
	if err := checkHead(path); errors.Is(err, errForeign) {
		return errors.Join(err, unlock())
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
