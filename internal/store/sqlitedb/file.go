package sqlitedb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// leastFile is the least size of an SQLite file: one page of 512 bytes. SQLite treats a smaller file as empty, and
// overwrites it.
const leastFile = 512

// claim looks up the file, makes it if permitted, and records its identity before SQLite opens it, so that a
// replacement in the meantime is noticed. It reports whether the file is new.
func (d *DB) claim(mayMake bool) (made bool, err error) {
	d.info, err = os.Stat(d.path)
	switch {
	case err != nil && mayMake:
		createPrivate(d.path)
		d.info, _ = os.Stat(d.path) // if there is no file, SQLite says why
	case err == nil && d.info.Size() > 0 && d.info.Size() < leastFile:
		return false, &Error{Path: d.path, Code: codeNotADB, Message: fmt.Sprintf("it has %d bytes", d.info.Size())}
	}
	return mayMake && (d.info == nil || d.info.Size() == 0), nil
}

// createPrivate makes an empty file that only its owner can read. It first makes one under another name, as closing a
// file that SQLite has open would drop its locks. If this fails, SQLite makes the file.
func createPrivate(path string) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".sqlite-*")
	if err != nil {
		return
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // an empty file that stays does no harm
	if tmp.Close() == nil {
		_ = os.Link(tmp.Name(), path) // Link never replaces a file that another process has made meanwhile
	}
}

// IsDatabase reports whether the file is a database. It lets SQLite open the file, as closing a file that this process
// has open as a database would drop its locks. The error means that the file cannot be read.
func IsDatabase(path string) (bool, error) {
	d, err := Open(path, Config{ReadOnly: true, BusyTimeout: -1})
	switch {
	case code(err) == codeNotADB:
		return false, nil
	case code(err) == codeCorrupt, IsBusy(err):
		return true, nil
	case err != nil:
		return false, err
	}
	return true, d.Close()
}

// Gone reports whether the file was deleted or replaced since it was opened. Writes still go to the old file, and are
// lost when its last connection is closed. Closing does not harm the new file.
func (d *DB) Gone() bool {
	info, err := os.Stat(d.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return d.info != nil && !os.SameFile(info, d.info)
}
