//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package memory

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

const (
	// lockWait is how long another crawl may hold the lock: many times what the largest
	// file takes to be read and written.
	lockWait = 5 * time.Second
	// lockPoll is how often it is tried again, since the system's own waiting cannot be
	// given up.
	lockPoll = 10 * time.Millisecond
)

// lock takes the lock on a directory, if it can be had, and returns what gives it back.
func lock(ctx context.Context, clk clock.Clock, dir string) (unlock func()) {
	d, err := os.Open(dir)
	if err != nil {
		return func() {} // writing into it will fail and say why
	}
	for range lockWait / lockPoll {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EWOULDBLOCK {
			break
		}
		if clock.Sleep(ctx, clk, lockPoll) != nil {
			break
		}
	}
	return func() { _ = d.Close() } // which frees the lock
}
