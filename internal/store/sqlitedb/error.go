package sqlitedb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	codes "modernc.org/sqlite/lib"
)

// Error is what SQLite says went wrong with a file.
type Error struct {
	Path    string
	Code    int           // SQLite's extended result code; the primary one is its low byte
	Message string        // SQLite's own
	Errno   syscall.Errno // of the system call that failed; zero for none
}

// Error names the file, the fix where there is one, and the cause.
func (e *Error) Error() string {
	s := e.Path + ": "
	if fix := e.fix(); fix != "" {
		s += fix + ": "
	}
	s += fmt.Sprintf("%s (%d)", e.Message, e.Code)
	if e.Errno != 0 {
		s += ": " + e.Errno.Error()
	}
	return s
}

// Unwrap is the system's error, if there is one.
func (e *Error) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// Damage is the error of a file whose content cannot be, although SQLite has read it: what
// says what was found there.
func Damage(path, what string) error {
	return &Error{Path: path, Code: codes.SQLITE_CORRUPT, Message: what}
}

// full reports whether the disk is, or this user's part of it.
func (e *Error) full() bool { return e.Errno == syscall.ENOSPC || e.Errno == syscall.EDQUOT }

// unwritable reports whether SQLite could not make or write a file.
func (e *Error) unwritable() bool {
	c := e.Code & 0xff
	return c == codes.SQLITE_CANTOPEN || c == codes.SQLITE_READONLY || e.full()
}

// fix is what a person can do about it.
func (e *Error) fix() string {
	if e.full() {
		return noRoom
	}
	switch e.Code & 0xff {
	case codes.SQLITE_NOTADB:
		return "it is no SQLite database: name another file, or move this one away"
	case codes.SQLITE_CORRUPT:
		return "it is damaged: restore it from a copy, with its -wal, or move it away, with its -wal and -shm, to begin anew"
	case codes.SQLITE_READONLY, codes.SQLITE_PERM, codes.SQLITE_AUTH:
		return "it cannot be written: make it and its directory writable for this user"
	case codes.SQLITE_CANTOPEN:
		if _, err := os.Stat(e.Path); err == nil {
			return "it cannot be opened: make it and its directory readable and writable for this user, " +
				"or copy it, with its -wal, to where they are"
		}
		return fmt.Sprintf("it cannot be opened: make the directory %s, and make both readable and writable for this user",
			filepath.Dir(e.Path))
	case codes.SQLITE_FULL:
		return noRoom
	case codes.SQLITE_IOERR:
		return "it cannot be read or written: look after its disk"
	case codes.SQLITE_BUSY, codes.SQLITE_PROTOCOL:
		return "another process has its lock: have it end its transaction"
	}
	return ""
}

const noRoom = "there is no room for it: free some on its disk"

// code is the primary result code behind err, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code & 0xff
	}
	return 0
}

// IsBusy reports whether another connection has the lock, and asking again will help.
// PROTOCOL is what SQLite says when it has lost too many races for the log in a row.
func IsBusy(err error) bool {
	c := code(err)
	return c == codes.SQLITE_BUSY || c == codes.SQLITE_PROTOCOL
}

// InUseError says that another process has a lock.
type InUseError struct {
	Path string // of the lock
	PID  int    // of the process; zero if it is not known
}

// Error names the process.
func (e *InUseError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: another process has this lock: wait for its end", e.Path)
	}
	return fmt.Sprintf("%s: process %d has this lock: wait for its end, or end it", e.Path, e.PID)
}
