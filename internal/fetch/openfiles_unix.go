//go:build unix

package fetch

import (
	"math"
	"syscall"
)

// OpenFiles returns how many files this process may have open. Zero means unknown.
func OpenFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)) //nolint:unconvert // on some systems it is signed
}
