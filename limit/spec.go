package limit

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind names an algorithm, as configurations and errors spell it.
type Kind string

// The six kinds.
const (
	KindTokenBucket      Kind = "token-bucket"
	KindFixedWindow      Kind = "fixed-window"
	KindSlidingWindow    Kind = "sliding-window"
	KindSlidingWindowLog Kind = "sliding-window-log"
	KindLeakyBucket      Kind = "leaky-bucket"
	KindConcurrency      Kind = "concurrency"
)

// Kinds is all kinds, in the order of the package's table.
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
	Per     time.Duration // the period, positive; KindConcurrency has none. Zero is an error but there.
	Burst   int64         // what KindTokenBucket holds; the others have none. Zero means Permits.
	Refill  Refill        // of KindTokenBucket. Zero means RefillContinuous.
	Queue   int           // how many may wait. Zero means DefaultQueueLimit, and less than zero that nobody may.
}

// New builds the limiter that s describes. Its errors name the field and the fix; the
// options go before what s says.
func New(s Spec, opts ...Option) (Weighted, error) {
	b, err := newBuilder(s, opts)
	if err != nil {
		return nil, err
	}
	return b.build(), nil
}

// builder makes any number of limiters of one Spec, which share their settings.
type builder struct {
	spec   Spec
	set    *settings
	bucket *TokenBucketConfig
}

// newBuilder checks the Spec and settles its defaults. The given options come last and so
// go before what the Spec says.
func newBuilder(s Spec, opts []Option) (*builder, error) {
	if s.Kind == "" {
		s.Kind = KindTokenBucket
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Kind, err)
	}
	if s.Burst == 0 {
		s.Burst = s.Permits
	}
	set, err := newSettings(s.Kind, s.Burst, append([]Option{s.queue()}, opts...))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Kind, err)
	}
	return &builder{s, set, &TokenBucketConfig{Permits: s.Permits, Per: s.Per, Burst: s.Burst, Refill: s.Refill}}, nil
}

// check rejects what the kind does not have as well as what it lacks: a burst that a
// window ignores would be a limit that its author believes in.
func (s Spec) check() error {
	if !slices.Contains(Kinds(), s.Kind) {
		return fieldError("Kind", fmt.Sprintf("%q", s.Kind), "use one of "+kindList())
	}
	if s.Kind == KindConcurrency {
		if s.Per != 0 {
			return fieldError("Per", s.Per, "leave it out: concurrency is not per time")
		}
		s.Per = 1
	}
	if err := checkRate(s.Permits, s.Per); err != nil {
		return err
	}
	if s.Kind != KindTokenBucket && (s.Burst != 0 || s.Refill != 0) {
		if s.Burst != 0 {
			return fieldError("Burst", s.Burst, "leave it out: only a token-bucket has it")
		}
		return fieldError("Refill", s.Refill, "leave it out: only a token-bucket has it")
	}
	if s.Burst < 0 {
		return fieldError("Burst", s.Burst, "set it to 1 or more, or leave it out for Permits")
	}
	if int(s.Refill) >= len(refillNames) {
		return fieldError("Refill", s.Refill, "set it to continuous or interval")
	}
	return nil
}

// queue turns the zero of a configuration into the default; an option has no zero.
func (s Spec) queue() Option {
	if s.Queue == 0 {
		return WithQueueLimit(DefaultQueueLimit)
	}
	return WithQueueLimit(max(0, s.Queue))
}

// build cannot fail: the Spec has been checked, once for all its limiters.
func (b *builder) build() Weighted {
	s := b.spec
	switch s.Kind {
	case KindFixedWindow:
		return newFixedWindow(b.set, WindowConfig{s.Permits, s.Per})
	case KindSlidingWindow:
		return newSlidingWindow(b.set, WindowConfig{s.Permits, s.Per})
	case KindSlidingWindowLog:
		return newSlidingWindowLog(b.set, WindowConfig{s.Permits, s.Per})
	case KindLeakyBucket:
		return newLeakyBucket(b.set, LeakyBucketConfig{s.Permits, s.Per})
	case KindConcurrency:
		return newConcurrency(b.set)
	default:
		return newTokenBucket(b.set, b.bucket)
	}
}

// kindList is what an error offers.
func kindList() string {
	names := make([]string, len(Kinds()))
	for i, k := range Kinds() {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}
