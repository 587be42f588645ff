//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package job

import (
	"errors"
	"os"
	"syscall"
)

// LockFile takes the lock on an open file or directory, and reports whether no other process has it. A file system
// without locks has nobody wait.
func LockFile(f *os.File) bool {
	return !errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
