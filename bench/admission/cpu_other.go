//go:build !unix

package main

import (
	"errors"
	"time"
)

// cpuTime is not told here.
func cpuTime() (time.Duration, error) {
	return 0, errors.New("the time of processors is read on Unix only")
}
