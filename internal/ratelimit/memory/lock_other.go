//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package memory

import (
	"context"

	"github.com/treadlight/crawl/internal/clock"
)

// lock does nothing where there is no lock on directories; the package comment says
// what that may cost.
func lock(context.Context, clock.Clock, string) (unlock func()) { return func() {} }
