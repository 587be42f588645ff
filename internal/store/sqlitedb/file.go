package sqlitedb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// leastFile is the least size of an SQLite file, by its format: one page of 512
// bytes. SQLite takes less for nothing, and overwrites it.
const leastFile = 512

// claim looks for the file, makes it if it may, and notes which one it is, before SQLite
// opens it: if it is replaced meanwhile, that shows. It reports whether it is a new one.
func (d *DB) claim(mayMake bool) (made bool, err error) {
	d.info, err = os.Stat(d.path)
	switch {
	case err != nil && mayMake:
		createPrivate(d.path)
		d.info, _ = os.Stat(d.path) // SQLite says what is wrong if there is none
	case err == nil && d.info.Size() > 0 && d.info.Size() < leastFile:
		return false, &Error{Path: d.path, Code: codeNotADB, Message: fmt.Sprintf("it has %d bytes", d.info.Size())}
	}
	return mayMake && (d.info == nil || d.info.Size() == 0), nil
}

// createPrivate makes an empty file for its owner only, under another name first, as closing a file that SQLite has
// open drops its locks. If that fails, SQLite makes the file.
func createPrivate(path string) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".sqlite-*")
	if err != nil {
		return
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // an empty file that stays does no harm
	if tmp.Close() == nil {
		_ = os.Link(tmp.Name(), path) // which never replaces one that another made meanwhile
	}
}

// IsDatabase reports whether the file is a database. SQLite is asked, as closing a file that this process has open as
// a database drops its locks. The error is of an unreadable file.
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

// settle is for a new file, after its first page. SQLite does not sync the directory when it deletes the page's
// journal, which after a power cut would roll the file back to nothing.
func (d *DB) settle(syncDir func(dir string)) {
	if d.info == nil { // it was SQLite that made it
		d.info, _ = os.Stat(d.path)
	}
	syncDir(filepath.Dir(d.path))
}

// Gone reports whether the file was deleted or replaced since it was opened. Writes go on to the old file, and are
// lost with its last connection. Closing does not harm what replaced it.
func (d *DB) Gone() bool {
	info, err := os.Stat(d.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return d.info != nil && !os.SameFile(info, d.info)
}
