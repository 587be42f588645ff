package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"

	modernc "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

const notADatabase = "it is no SQLite database: name another file, or move this one away"

// code is SQLite's primary result code, without what extends it, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*modernc.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// isBusy reports whether another connection has the lock, and asking again will help.
// PROTOCOL is what SQLite says when it has lost too many races for the log in a row.
func isBusy(err error) bool {
	c := code(err)
	return c == codes.SQLITE_BUSY || c == codes.SQLITE_PROTOCOL
}

// explain says which file it is, and what to do about the error where that is known.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}
	var fix string
	switch code(err) {
	case codes.SQLITE_NOTADB:
		fix = notADatabase
	case codes.SQLITE_CORRUPT:
		fix = "it is damaged: restore it, or move it away with its -wal and -shm, and all keys begin anew"
	case codes.SQLITE_READONLY, codes.SQLITE_PERM, codes.SQLITE_AUTH:
		fix = "it cannot be written: make it and its directory writable for this user"
	case codes.SQLITE_CANTOPEN:
		fix = fmt.Sprintf("it cannot be opened: make the directory %s, and make it writable for this user", filepath.Dir(path))
	case codes.SQLITE_FULL:
		fix = "there is no room for it: free some on its disk; nothing was charged"
	case codes.SQLITE_IOERR:
		fix = "it cannot be read or written: look after its disk; nothing was charged"
	default:
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%s: %s: %w", path, fix, err)
}
