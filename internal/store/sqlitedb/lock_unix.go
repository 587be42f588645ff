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

// Lock locks the file at path, made if need be, until unlock or the end of the process. The file stays, with the
// process number, and its presence means nothing. The error is an [*InUseError] if another process, or caller in this
// one, has the lock.
func Lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: make it and its directory writable for this user", err)
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		inUse := &InUseError{Path: path, PID: owner(f)}
		_ = f.Close() // it was only read
		return nil, inUse
	case err != nil:
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("lock %s: %w: move it to a file system that has locks", path, err)
	}
	// The number is for people. A disk that is full says so soon enough.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f.Close, nil // which frees the lock
}

// owner is the process whose number stands in the file; zero if there is none.
func owner(f *os.File) int {
	var text [32]byte
	n, _ := f.ReadAt(text[:], 0) // what cannot be read is not said
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	return max(0, pid)
}
