package limit

import (
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// ConcurrencyConfig configures a [Concurrency] limiter.
type ConcurrencyConfig struct {
	Max int64 // how many permits may be taken at a time; at least 1. Zero is an error.
}

// Concurrency bounds how many permits are taken at a time. A permit comes back by Release, or by the function of
// [AcquireRelease]. Time brings none back, so Wait is 0 or [Never], and RetryAfter of an [Error] is 0: it is not known.
//
// A Release without a permit is counted in Statistics.OverReleased. It frees nothing if no permit is out except those
// of AcquireRelease, which it cannot free.
type Concurrency struct {
	core
	state slots
}

var _ Weighted = (*Concurrency)(nil)

// NewConcurrency returns a limiter none of whose permits is taken.
func NewConcurrency(cfg ConcurrencyConfig, opts ...Option) (*Concurrency, error) {
	if cfg.Max < 1 {
		return nil, fieldError("Max", cfg.Max, "set it to 1 or more")
	}
	return of(Spec{Kind: KindConcurrency, Permits: cfg.Max}, opts, newConcurrency)
}

func newConcurrency(set *settings) *Concurrency {
	l := &Concurrency{state: slots{max: set.max}}
	l.init(set, &l.state)
	return l
}

type slots struct {
	max      int64
	inUse    int64
	ticketed int64 // of inUse: freed by their tickets only
}

func (s *slots) take(_ clock.Instant, n int64) bool {
	if n > s.max-s.inUse {
		return false
	}
	s.inUse += n
	return true
}

// wait cannot know when somebody will release.
func (s *slots) wait(_ clock.Instant, n int64) time.Duration {
	if n > s.max-s.inUse {
		return Never
	}
	return 0
}

func (s *slots) available(clock.Instant) int64 { return s.max - s.inUse }

// standing has no window: who holds no more than the limit at a time is never refused.
func (s *slots) standing(now clock.Instant) Standing {
	return Standing{Limit: s.max, Left: s.available(now)}
}

func (s *slots) clone() algorithm {
	c := *s
	return &c
}

// free gives up to n back and returns how many were out on the caller's account.
func (s *slots) free(n int64, ticket bool) int64 {
	if ticket {
		s.ticketed -= n
	} else {
		n = min(n, s.inUse-s.ticketed)
	}
	s.inUse -= n
	return n
}

// ticket is the release of n permits that works once; every further call is only counted.
func (c *core) ticket(n int64) func() {
	var used atomic.Bool
	return func() {
		if !used.Swap(true) {
			c.release(n, true)
			return
		}
		c.mu.Lock()
		c.overReleased = addCount(c.overReleased, n)
		c.mu.Unlock()
	}
}
