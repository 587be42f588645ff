package limit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Kind names an algorithm, as configurations and errors write it.
type Kind string

// The six kinds.
const (
	// KindTokenBucket grants while it has tokens, which come in at a rate up to the burst; see [TokenBucket].
	KindTokenBucket Kind = "token-bucket"
	// KindFixedWindow grants a number of permits in each window. The windows follow each other from the limiter's
	// start, so twice as many can be granted around the border of two.
	KindFixedWindow Kind = "fixed-window"
	// KindSlidingWindow counts per window too, and assumes that the permits of the last window were spread evenly: it
	// grants a permit while the estimate previous·(1−elapsed/window) + current is below Permits, and n permits as if
	// they were requested one after another. A client that requests Permits per window evenly is never refused. The
	// estimate is wrong by as much as the assumption. It is for the window that ends with the present nanosecond: a
	// caller that comes exactly one window after a burst gets a permit.
	KindSlidingWindow Kind = "sliding-window"
	// KindSlidingWindowLog remembers every grant of the last window: no window, wherever it begins, has more than
	// Permits. A window includes its first instant and not its last. Each instant of a grant takes 16 bytes.
	KindSlidingWindowLog Kind = "sliding-window-log"
	// KindLeakyBucket keeps grants apart: two are never closer than the interval Per/Permits, however long nothing was
	// requested. The waiting callers are the bucket, and Queue is its size. A grant of weight n, up to Permits, is
	// followed by n intervals. An interval that is not a whole number of nanoseconds is kept as a fraction: in a busy
	// line each grant is on the first nanosecond after its exact instant.
	KindLeakyBucket Kind = "leaky-bucket"
	// KindConcurrency bounds how many permits are taken at a time; see [Concurrency].
	KindConcurrency Kind = "concurrency"
)

// Kinds returns all kinds, in the order of the package's table.
func Kinds() []Kind {
	return []Kind{
		KindTokenBucket, KindFixedWindow, KindSlidingWindow,
		KindSlidingWindowLog, KindLeakyBucket, KindConcurrency,
	}
}

// Spec describes a limiter of any kind, as a configuration does. [New] builds it.
type Spec struct {
	Kind    Kind          // the algorithm. Zero means KindTokenBucket.
	Permits int64         // per period, or at a time for KindConcurrency; at least 1. Zero is an error.
	Per     time.Duration // the period, positive. Zero is an error, except for KindConcurrency, which has none.
	Burst   int64         // how many tokens KindTokenBucket holds; other kinds have none. Zero means Permits.
	Refill  Refill        // how tokens come into KindTokenBucket. Zero means RefillContinuous.
	Queue   int           // how many callers may wait. Zero means DefaultQueueLimit, a negative number none.
}

// New builds the limiter that s describes. Options override s. The error names the field and says how to mend it.
func New(s Spec, opts ...Option) (Weighted, error) {
	set, err := newSettings(s, opts)
	if err != nil {
		return nil, err
	}
	return set.build(), nil
}

// of is New for one kind.
func of[L any](s Spec, opts []Option, build func(*settings) *L) (*L, error) {
	set, err := newSettings(s, opts)
	if err != nil {
		return nil, err
	}
	return build(set), nil
}

func (s *settings) build() Weighted {
	switch s.spec.Kind {
	case KindFixedWindow, KindSlidingWindow:
		l := &timed[counter]{state: counter{set: s}}
		l.init(s, &l.state)
		return l
	case KindSlidingWindowLog:
		l := &timed[journal]{state: journal{set: s}}
		l.init(s, &l.state)
		return l
	case KindLeakyBucket:
		l := &timed[pacer]{state: pacer{set: s}}
		l.init(s, &l.state)
		return l
	case KindConcurrency:
		return newConcurrency(s)
	}
	return newTokenBucket(s)
}

// timed is a limiter that time fills, with its state beside the core.
type timed[A any] struct {
	core
	state A
}

// check rejects fields that the kind does not have, as well as those that it lacks: its author would rely on a limit
// that is ignored.
func (s Spec) check() error {
	if !slices.Contains(Kinds(), s.Kind) {
		kinds := strings.Trim(strings.ReplaceAll(fmt.Sprint(Kinds()), " ", ", "), "[]")
		return fieldError("Kind", fmt.Sprintf("%q", s.Kind), "use one of "+kinds)
	}
	if s.Kind == KindConcurrency {
		if s.Per != 0 {
			return fieldError("Per", s.Per, "leave it out: concurrency is not per time")
		}
		s.Per = 1
	}
	const only = "leave it out: only a token-bucket has it"
	switch {
	case s.Permits < 1:
		return fieldError("Permits", s.Permits, "set it to 1 or more")
	case s.Per <= 0:
		return fieldError("Per", s.Per, "set it to the span in which Permits may be granted, such as 1s")
	case s.Kind != KindTokenBucket && s.Burst != 0:
		return fieldError("Burst", s.Burst, only)
	case s.Kind != KindTokenBucket && s.Refill != 0:
		return fieldError("Refill", s.Refill, only)
	case s.Burst < 0:
		return fieldError("Burst", s.Burst, "set it to 1 or more, or leave it out for Permits")
	case int(s.Refill) >= len(refillNames):
		return fieldError("Refill", s.Refill, "set it to continuous or interval")
	}
	return nil
}

// DefaultQueueLimit is how many callers may wait for one limiter. A call with a deadline looks at all callers ahead of
// it: 1024 of them take some tens of microseconds.
const DefaultQueueLimit = 1024

// settings are what the limiters of one configuration have in common. They never change, so all limiters of a [Keyed]
// share them.
type settings struct {
	clk   clock.Clock
	epoch time.Time // instants count from here
	spec  Spec
	name  string
	max   int64    // the largest weight that is ever admitted
	queue int64    // how many may wait
	timed bool     // time alone brings permits
	all   *members // of a composite; nil for the others
}

// Option is a setting of any limiter.
type Option func(*settings) error

// Clock tells the time and makes timers, for tests and simulations. It is safe for concurrent use. Its methods:
//
//	Now() time.Time                   // the wall time
//	Since(t time.Time) time.Duration  // the monotonic time since t, which comes from Now
//	NewTimer(d time.Duration) Timer   // fires once, d from now
//
// In a bubble of testing/synctest the system's clock, which is the default, follows the bubble's time.
type Clock = clock.Clock

// Timer is a timer of a [Clock]: a time.Timer with a method C() <-chan time.Time for its channel. Stop and Reset(d)
// report whether it was active; after either no stale value is received.
type Timer = clock.Timer

// WithClock sets the limiter's clock. The default is the system's.
func WithClock(clk Clock) Option {
	return func(s *settings) error {
		if clk == nil {
			return fieldError("WithClock", "nil", "pass a clock or leave the option out")
		}
		s.clk = clk
		return nil
	}
}

// WithName sets the limiter's name in errors. The default, also for an empty name, is its kind.
func WithName(name string) Option {
	return func(s *settings) error {
		if name != "" {
			s.name = name
		}
		return nil
	}
}

// WithQueueLimit sets how many callers may wait at a time. With zero, a call that cannot be served at once is refused.
// The default is DefaultQueueLimit.
func WithQueueLimit(n int) Option {
	return func(s *settings) error {
		if n < 0 {
			return fieldError("WithQueueLimit", n, "set it to 0 (nobody waits) or more")
		}
		s.queue = int64(n)
		return nil
	}
}

// newSettings checks the Spec and applies the options to what it says.
func newSettings(s Spec, opts []Option) (*settings, error) {
	s.Kind = cmp.Or(s.Kind, KindTokenBucket)
	err := s.check()
	s.Burst = cmp.Or(s.Burst, s.Permits)
	set := &settings{spec: s, max: s.Burst, queue: int64(max(0, s.Queue)), timed: s.Kind != KindConcurrency}
	if s.Queue == 0 {
		set.queue = DefaultQueueLimit
	}
	if err == nil {
		err = set.apply(opts)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Kind, err)
	}
	return set, nil
}

// apply applies the options and starts the limiter's time.
func (s *settings) apply(opts []Option) error {
	s.clk, s.name = clock.System(), string(s.spec.Kind)
	for _, opt := range opts {
		if err := opt(s); err != nil {
			return err
		}
	}
	s.epoch = s.clk.Now()
	return nil
}

// unfit is why n will never be granted, or nil.
func (s *settings) unfit(n int64, closed bool) error {
	switch {
	case closed:
		return fmt.Errorf("acquire %s: %w", s.name, ErrClosed)
	case n < 1:
		return fmt.Errorf("acquire %d of %s: %w", n, s.name, ErrInvalidWeight)
	case n > s.max:
		return fmt.Errorf("acquire %d of %s, which never has more than %d: %w", n, s.name, s.max, ErrExceedsCapacity)
	}
	return nil
}

// Standing is what can be told to a client about its limit, exactly, at the moment of a response. [Standing.Told]
// rounds it to the whole seconds of headers.
type Standing struct {
	Limit  int64         // the limit, in requests
	Window time.Duration // the time for which Limit counts; zero for a bound on requests at a time
	Left   int64         // requests that can be sent at once
	// Next is how long until one can be sent, if none is left; of a refusal, until the refused one could be.
	Next time.Duration
	// Lasts is how long Left is to last: a client that spreads Left evenly over it uses all that the limit grants, and
	// finds one more after it. Zero means that the whole limit is left.
	Lasts   time.Duration
	Refused bool // the response is a refusal
	Even    bool // only one can be sent at a time, and what is not used when it comes is lost
}

// PerWindow is the limit and its window for headers. A window shorter than a second cannot be written there; the limit
// is then converted to a window of a second or more.
func (s Standing) PerWindow() (limit int64, window time.Duration) {
	if s.Limit <= 0 || s.Window <= 0 || s.Window >= time.Second && !s.Even {
		return s.Limit, s.Window
	}
	each := (s.Window-1)/time.Duration(s.Limit) + 1
	if each >= time.Microsecond {
		return evenly(each)
	}
	return int64(float64(s.Limit) * float64(time.Second) / float64(s.Window)), time.Second
}

// Told returns the remaining requests and the seconds until the reset, as headers tell them to clients. A client that
// spreads the one evenly over the other uses all that the limit grants, and is never refused.
//
// remaining is what can be sent at once, and reset is how long that should last. The time until the limit is whole
// again would be longer, for limits that slide or refill, and a client that spreads its requests over it would use half
// of the limit. If the time per request is below a second, which a header cannot tell, the two are a number of requests
// in a number of seconds. If nothing is left, reset is when one more request can be sent; for a refusal it is what
// Retry-After says.
//
// A time that what is left should last is rounded down, and a time to wait is rounded up when it is written. The two
// make up for each other; for a limit where something would be lost, remaining and reset are chosen so that their
// quotient is right.
func (s Standing) Told() (remaining int64, reset time.Duration) {
	switch {
	case s.Refused:
		return s.Left, s.Next
	case s.Left == 0:
		return s.toldNone()
	case s.Lasts <= 0 || s.Lasts == Never:
		return s.Left, s.Lasts
	}
	limit, _ := s.PerWindow()
	each := max(1, s.Lasts/time.Duration(s.Left))
	if s.Lasts >= time.Second {
		return s.Left, s.Lasts.Truncate(time.Second)
	}
	best := time.Duration(0) // the longest that is not longer than each
	first := max(s.Left, int64((time.Second+each-1)/each))
	for n := first; n <= min(limit, first+mostTried); n++ {
		over := (time.Duration(n) * each).Truncate(time.Second)
		if one := over / time.Duration(n); one > best {
			best, remaining, reset = one, n, over
		}
		if each-best <= each/closeTo+1 {
			break
		}
	}
	if best == 0 { // so many are never left
		return limit, time.Second
	}
	return max(s.Left, remaining), reset
}

// toldNone is Told if nothing is left.
func (s Standing) toldNone() (remaining int64, reset time.Duration) {
	switch {
	case s.Even:
		if remaining, reset = evenly(s.Next); remaining == 1 {
			remaining = 0 // there is one after the reset, and none now
		}
		return remaining, reset
	case s.Next <= 0 || s.Next >= time.Second:
		return 0, s.Next
	}
	limit, _ := s.PerWindow()
	remaining, reset = evenly(s.Next)
	if s.Window/time.Duration(s.Limit) < time.Second && remaining > 1 && remaining <= limit {
		return remaining, reset
	}
	if remaining = min(limit, int64(time.Second/s.Next)); remaining > 1 {
		return remaining, time.Second
	}
	return 0, s.Next
}

const (
	closeTo   = 50  // an interval is told to a fiftieth
	mostTried = 100 // is more than that needs
)

// evenly returns how many requests in how many whole seconds are an interval that is not shorter than each, and hardly
// longer. A client that spreads them rounds up to a nanosecond, as the interval does.
func evenly(each time.Duration) (n int64, over time.Duration) {
	if each <= 1 || each > Never/(2*mostTried) {
		return 0, each
	}
	best := Never
	first := max(1, int64((time.Second-1)/(each-1)))
	for m := first; m < first+mostTried; m++ {
		whole := (time.Duration(m)*(each-1) + time.Second).Truncate(time.Second)
		if one := whole / time.Duration(m); one < best {
			best, n, over = one, m, whole
		}
		if best-each <= each/closeTo+1 {
			break
		}
	}
	return n, over
}
