package resilience

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/limit"
)

// budgetBuckets divide a budget's span; the view may be one short.
const budgetBuckets = 10

// BudgetConfig says how many calls may be made beyond those that were asked for.
type BudgetConfig struct {
	Ratio   float64       // of extra calls among the others of the latest Span, in (0, 10]; zero means 0.1, so that a callee that is down sees a tenth more
	Minimum int           // extra calls per Span that are free, so that a client with little traffic may retry at all; zero means 10
	Span    time.Duration // that is looked back on, at least a microsecond; zero means 10 s
	Clock   limit.Clock   // nil means the system's
}

// Budget bounds the calls that retries and hedges add, over all policies that share it; without budget they give the
// result they have. At every grant, of the calls in view the extra ones are at most Minimum + Ratio × the others.
//
// It is safe for concurrent use. A nil Budget has no bound.
type Budget struct {
	ledger *ledger
	inner  bool // within another policy that has noted the call
}

type ledger struct {
	cfg   BudgetConfig
	epoch time.Time

	mu   sync.Mutex // guards what follows
	sums sums       // calls are those that were asked for, failures the extra ones
}

// NewBudget returns an unspent budget. Its error names the field that is out of range.
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

// Inner is the budget for a policy within another that has it: extra calls of the outer one earn nothing.
func (b *Budget) Inner() *Budget {
	if b == nil {
		return nil
	}
	return &Budget{ledger: b.ledger, inner: true}
}

// Note counts a call that was asked for.
func (b *Budget) Note() {
	if b != nil && !b.inner {
		b.ledger.add(tally{calls: 1}, false)
	}
}

// Spend takes one extra call, and reports whether there was one left.
func (b *Budget) Spend() bool { return b == nil || b.ledger.add(tally{failures: 1}, true) }

// Spent is how many calls were asked for in the latest Span, and how many were extra.
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

// add counts t, unless it is bound and there is no room for it.
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
