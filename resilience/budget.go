package resilience

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/limit"
)

// budgetBuckets is into how many buckets a budget's span is divided. Calls are forgotten by the bucket, so the span may
// be one bucket short.
const budgetBuckets = 10

// BudgetConfig says how many extra calls retries and hedges may make.
type BudgetConfig struct {
	Ratio   float64       // extra calls for each ordinary call of the latest Span, in (0, 10]; zero means 0.1, so that a callee that is down gets a tenth more calls
	Minimum int           // extra calls per Span that are always allowed, so that a client with little traffic can retry at all; zero means 10
	Span    time.Duration // time for which calls are counted, at least a microsecond; zero means 10 s
	Clock   limit.Clock   // nil means the system clock
}

// Budget bounds the calls that retries and hedges add, over all policies that share it. If the budget is spent, they
// return the result that they have. At every extra call that is granted, the extra calls of the latest Span are at most
// Minimum + Ratio × the ordinary ones.
//
// It is safe for concurrent use. A nil Budget has no bound.
type Budget struct {
	ledger *ledger
	inner  bool // another policy around this one notes the calls
}

type ledger struct {
	cfg   BudgetConfig
	epoch time.Time

	mu   sync.Mutex // guards what follows
	sums sums       // its calls are the ordinary calls, its failures the extra ones
}

// NewBudget returns an unspent budget. An error names the field that is out of range.
func NewBudget(cfg BudgetConfig) (*Budget, error) {
	cfg.Ratio = cmp.Or(cfg.Ratio, 0.1)
	cfg.Minimum = cmp.Or(cfg.Minimum, 10)
	cfg.Span = cmp.Or(cfg.Span, 10*time.Second)
	cfg.Clock = cmp.Or(cfg.Clock, clock.System())
	switch {
	case !(cfg.Ratio > 0 && cfg.Ratio <= 10):
		return nil, fmt.Errorf("budget: Ratio = %v: want a share in (0, 10]", cfg.Ratio)
	case cfg.Minimum < 0:
		return nil, fmt.Errorf("budget: Minimum = %d: want 1 or more, or 0 for 10", cfg.Minimum)
	case cfg.Span < time.Microsecond:
		return nil, fmt.Errorf("budget: Span = %v: want a microsecond or more", cfg.Span)
	}
	return &Budget{ledger: &ledger{
		cfg: cfg, epoch: cfg.Clock.Now(), sums: sums{cells: make([]tally, budgetBuckets), width: cfg.Span / budgetBuckets},
	}}, nil
}

// Inner returns the same budget for a policy that runs within another policy with it. Note does nothing there, so that
// extra calls of the outer policy do not count as ordinary calls.
func (b *Budget) Inner() *Budget {
	if b == nil {
		return nil
	}
	return &Budget{ledger: b.ledger, inner: true}
}

// Note counts an ordinary call.
func (b *Budget) Note() {
	if b != nil && !b.inner {
		b.ledger.add(tally{calls: 1}, false)
	}
}

// Spend takes one extra call, and reports whether there was one left.
func (b *Budget) Spend() bool { return b == nil || b.ledger.add(tally{failures: 1}, true) }

// Spent returns the numbers of ordinary and of extra calls in the latest Span.
func (b *Budget) Spent() (calls, extra int64) {
	if b == nil {
		return 0, 0
	}
	l := b.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sums.see(l.now())
	return int64(l.sums.sum.calls), int64(l.sums.sum.failures)
}

func (l *ledger) now() clock.Instant { return clock.Instant(l.cfg.Clock.Since(l.epoch)) }

// add counts t. If bound, it first checks whether the budget has an extra call left, and returns false if not.
func (l *ledger) add(t tally, bound bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.sums.see(now)
	if in := l.sums.sum; bound && float64(in.failures+1) > float64(l.cfg.Minimum)+l.cfg.Ratio*float64(in.calls) {
		return false
	}
	l.sums.add(now, t)
	return true
}
