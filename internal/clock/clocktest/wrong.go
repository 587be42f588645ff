package clocktest

import (
	"time"
	"unsafe"

	"github.com/treadlight/crawl/internal/clock"
)

// Wrong is the system's clock on a computer whose time is wrong by so much, as far as a process can tell: what it
// reads is off, and spans and timers are right, those to deadlines of contexts included. It counts whole seconds. It
// panics where a [time.Time] is not laid out as it is in Go 1.9 and later, and in a testing/synctest bubble, whose
// times have no monotonic reading.
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

// shift moves the wall reading and leaves the monotonic one. Add moves both, as if the computer
// had been started earlier.
func (w wrong) shift(t time.Time) time.Time {
	const secondsAt = 30 // below them are nanoseconds, above them the flag of a monotonic reading
	*(*uint64)(unsafe.Pointer(&t)) += uint64(w.by/time.Second) << secondsAt
	return t
}
