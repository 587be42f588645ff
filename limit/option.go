package limit

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// DefaultQueueLimit is how many callers may wait for one limiter. Each of them is a
// blocked goroutine with its request in hand, and each call with a deadline counts
// through those ahead of it: 1024 of them take some tens of microseconds.
const DefaultQueueLimit = 1024

// settings are what the limiter of one configuration have in common. They never change,
// and so all limiters of a [Keyed] share them.
type settings struct {
	clk   clock.Clock
	epoch time.Time // instants count from here
	kind  Kind
	name  string
	max   int64 // the largest weight that is ever admitted
	queue int64 // how many may wait
	timed bool  // time alone brings permits
}

// Option is a setting that all limiters have.
type Option func(*settings) error

// WithClock sets the clock by which the limiter lives. The default is the system's.
func WithClock(clk clock.Clock) Option {
	return func(s *settings) error {
		if clk == nil {
			return fieldError("WithClock", "nil", "pass clock.System() or leave the option out")
		}
		s.clk = clk
		return nil
	}
}

// WithName sets the name by which errors call the limiter. The default, and that of an
// empty name, is its kind.
func WithName(name string) Option {
	return func(s *settings) error {
		if name != "" {
			s.name = name
		}
		return nil
	}
}

// WithQueueLimit sets how many callers may wait at a time. Zero means that nobody may:
// what cannot be had at once is refused. The default is DefaultQueueLimit.
func WithQueueLimit(n int) Option {
	return func(s *settings) error {
		if n < 0 {
			return fieldError("WithQueueLimit", n, "set it to 0 (nobody waits) or more")
		}
		s.queue = int64(n)
		return nil
	}
}

// newSettings applies the options to the defaults and starts the limiter's time.
func newSettings(kind Kind, maximum int64, opts []Option) (*settings, error) {
	s := &settings{
		clk: clock.System(), kind: kind, name: string(kind), max: maximum,
		queue: DefaultQueueLimit, timed: kind != KindConcurrency,
	}
	for _, opt := range opts {
		if err := opt(s); err != nil {
			return nil, err
		}
	}
	s.epoch = s.clk.Now()
	return s, nil
}

// rateSettings are those of a limiter whose largest weight is the permits of its period.
func rateSettings(kind Kind, permits int64, per time.Duration, opts []Option) (*settings, error) {
	if err := checkRate(permits, per); err != nil {
		return nil, err
	}
	return newSettings(kind, permits, opts)
}

// checkRate rejects a pace that is none.
func checkRate(permits int64, per time.Duration) error {
	if permits < 1 {
		return fieldError("Permits", permits, "set it to 1 or more")
	}
	if per <= 0 {
		return fieldError("Per", per, "set it to the span in which Permits may be granted, such as 1s")
	}
	return nil
}
