package sqlitedb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	codes "modernc.org/sqlite/lib"
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
		return false, &Error{Path: d.path, Code: codes.SQLITE_NOTADB, Message: fmt.Sprintf("it has %d bytes", d.info.Size())}
	}
	return mayMake && (d.info == nil || d.info.Size() == 0), nil
}

// createPrivate makes an empty file that only its owner can read. It is made under another
// name, because to close a file that SQLite has open gives its locks up. Where that does
// not work, for what reason ever, SQLite makes the file, or says why it cannot.
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

// IsDatabase reports whether there is a database in the file. SQLite is asked, since to read a
// file's begin and close it again gives up the locks that this process may hold on it as a
// database. The error is of a file that cannot be told, as it cannot be opened.
func IsDatabase(path string) (bool, error) {
	d, err := Open(path, Config{ReadOnly: true, BusyTimeout: -1})
	switch {
	case code(err) == codes.SQLITE_NOTADB:
		return false, nil
	case code(err) == codes.SQLITE_CORRUPT, IsBusy(err):
		return true, nil
	case err != nil:
		return false, err
	}
	return true, d.Close()
}

// settle is for a new file, after SQLite has written its first page. SQLite syncs the
// directory when it has made the journal of that page, and not when it has deleted it. A
// journal that is back after a power cut cuts the file down to what it was before: nothing.
func (d *DB) settle(syncDir func(dir string)) {
	if d.info == nil { // it was SQLite that made it
		d.info, _ = os.Stat(d.path)
	}
	syncDir(filepath.Dir(d.path))
}

// Gone reports whether the file was deleted or replaced since it was opened. SQLite goes on with the one that has no
// name any more, and what is written is lost when the last connection to that closes. Closing it does not harm what
// stands in its place: SQLite looks, too, before it deletes the log beside it.
func (d *DB) Gone() bool {
	info, err := os.Stat(d.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return d.info != nil && !os.SameFile(info, d.info)
}
