package clocktest

import (
	"time"
	"unsafe"

	"github.com/treadlight/crawl/internal/clock"
)

// Wrong returns the system clock of a computer whose time is wrong by the given duration, as a process sees it: the
// times read are wrong, but spans and timers are right, and so are deadlines of contexts. by is rounded to whole
// seconds. It panics if a [time.Time] does not have the layout of Go 1.9 and later, and in a testing/synctest bubble,
// whose times have no monotonic reading.
func Wrong(by time.Duration) clock.Clock {
	w := wrong{clock.System(), by.Truncate(time.Second)}
	now := time.Now()
	if is := w.shift(now); is.Sub(now) != 0 || is.Round(0).Sub(now.Round(0)) != w.by {
		panic("clocktest: the times here have no monotonic reading, or another layout: see the package time")
	}
	return w
}

type wrong struct {
	clock.Clock
	by time.Duration
}

func (w wrong) Now() time.Time { return w.shift(w.Clock.Now()) }

// shift changes the wall reading of t and leaves the monotonic one. Add would change both, as if the computer had been
// started earlier.
func (w wrong) shift(t time.Time) time.Time {
	const secondsAt = 30 // the bits below are nanoseconds, those above the flag of a monotonic reading
	*(*uint64)(unsafe.Pointer(&t)) += uint64(w.by/time.Second) << secondsAt
	return t
}
