package sqlitedb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Error is an error that SQLite reports about a file.
type Error struct {
	Path    string
	Code    Code          // SQLite's extended result code, whose low byte is the primary one
	Message string        // SQLite's message
	Errno   syscall.Errno // error of the system call that failed; zero means none
}

// Error returns the file, the fix if there is one, and the cause.
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

// Unwrap returns the error of the system; ENOSPC for a full disk of which SQLite has kept none.
func (e *Error) Unwrap() error {
	switch {
	case e.Errno != 0:
		return e.Errno
	case e.Code.primary() == codeFull:
		return syscall.ENOSPC
	}
	return nil
}

// Damage returns an error about a file whose content is impossible although SQLite could read it. what says what was
// found there.
func Damage(path, what string) error {
	return &Error{Path: path, Code: codeCorrupt, Message: what}
}

// full reports whether the disk, or this user's quota on it, is full.
func (e *Error) full() bool { return e.Errno == syscall.ENOSPC || e.Errno == syscall.EDQUOT }

// unwritable reports whether SQLite could not make or write a file.
func (e *Error) unwritable() bool {
	c := e.Code.primary()
	return c == codeCantOpen || c == codeReadOnly || e.full()
}

// fix returns what a person can do about the error; empty if nothing is known.
func (e *Error) fix() string {
	if e.full() {
		return noRoom
	}
	switch e.Code.primary() {
	case codeNotADB:
		return "it is no SQLite database: name another file, or move this one away"
	case codeCorrupt:
		return "it is damaged: restore it from a copy, with its -wal, or move it away, with its -wal and -shm, to begin anew"
	case codeReadOnly, codePerm, codeAuth:
		return "it cannot be written: make it and its directory writable for this user"
	case codeCantOpen:
		if _, err := os.Stat(e.Path); err == nil {
			return "it cannot be opened: make it and its directory readable and writable for this user, " +
				"or copy it, with its -wal, to where they are"
		}
		return fmt.Sprintf("it cannot be opened: make the directory %s, and make both readable and writable for this user",
			filepath.Dir(e.Path))
	case codeFull:
		return noRoom
	case codeIO:
		return "it cannot be read or written: look after its disk"
	case codeBusy, codeProtocol:
		return "another process has its lock: have it end its transaction"
	}
	return ""
}

const noRoom = "there is no room for it: free some on its disk"

// code returns the primary result code of err, or 0.
func code(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code.primary()
	}
	return 0
}

// IsBusy reports whether another connection has the lock, so that trying again will help. PROTOCOL is SQLite's code
// after too many lost races for the log.
func IsBusy(err error) bool {
	c := code(err)
	return c == codeBusy || c == codeProtocol
}

// InUseError means that another process has a lock.
type InUseError struct {
	Path string // path of the lock
	PID  int    // process number; zero means unknown
}

func (e *InUseError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: another process has this lock: wait for its end", e.Path)
	}
	return fmt.Sprintf("%s: process %d has this lock: wait for its end, or end it", e.Path, e.PID)
}
