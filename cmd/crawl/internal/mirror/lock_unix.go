//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package mirror

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the lock on an open file, and reports whether no other process has it. A file system without locks has
// nobody wait.
func lockFile(f *os.File) bool {
	return !errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
