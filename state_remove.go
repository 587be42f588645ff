package crawl

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/treadlight/crawl/internal/ratelimit/sqlitedb"
)

// The names of what a store keeps in its directory.
const (
	databaseFile = "state.db"
	lockFile     = "lock"
	indexFolder  = "seen"
)

// removeState removes a state, if there is one that nobody uses, and nothing else from its
// directory. The database goes first: whatever interrupts that, the rest is no state.
func removeState(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, databaseFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := sqlitedb.Lock(filepath.Join(dir, lockFile))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range []string{databaseFile, databaseFile + "-wal", databaseFile + "-shm", lockFile} {
		if err := os.Remove(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, os.RemoveAll(filepath.Join(dir, indexFolder)), unlock())
	return errors.Join(errs...)
}
