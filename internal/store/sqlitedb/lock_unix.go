//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlitedb

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Lock locks the file at path until unlock is called or the process ends. It makes the file if it does not exist. The
// file stays afterwards, with the process number in it; that it exists means nothing. The error is an [*InUseError] if
// another process, or another caller in this process, has the lock.
func Lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: make it and its directory writable for this user", err)
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		inUse := &InUseError{Path: path, PID: owner(f)}
		_ = f.Close() // the file was only read
		return nil, inUse
	case err != nil:
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("lock %s: %w: move it to a file system that has locks", path, err)
	}
	// The number is for people. If the disk is full, other writes report that soon.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f.Close, nil // closing the file releases the lock
}

// TryLock locks an open file or directory for this process, without waiting. It reports false if another process holds
// the lock. On a file system without locks it reports true.
func TryLock(f *os.File) bool {
	return !errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// owner returns the process number in the file; zero if there is none.
func owner(f *os.File) int {
	var text [32]byte
	n, _ := f.ReadAt(text[:], 0) // without a readable number the result is zero
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	return max(0, pid)
}
