package resilience

import (
	"fmt"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// budgetBuckets is into how many parts a budget's span is cut. A tenth of it is how
// much the view may be short, which is finer than the ratios that people choose.
const budgetBuckets = 10

// BudgetConfig says how many calls may be made beyond those that were asked for.
type BudgetConfig struct {
	Ratio   float64       // of extra calls among the others of the latest Span, in (0, 10]; zero means 0.1, so that a callee that is down sees a tenth more
	Minimum int           // extra calls per Span that are free, so that a client with little traffic may retry at all; zero means 10
	Span    time.Duration // that is looked back on, at least a microsecond; zero means 10 s
	Clock   clock.Clock   // nil means the system's
}

func (c *BudgetConfig) settle() error {
	setDefault(&c.Ratio, 0.1)
	setDefault(&c.Minimum, 10)
	setDefault(&c.Span, 10*time.Second)
	switch {
	case !(c.Ratio > 0 && c.Ratio <= 10):
		return fmt.Errorf("budget: Ratio = %v: want a share in (0, 10]", c.Ratio)
	case c.Minimum < 0:
		return fmt.Errorf("budget: Minimum = %d: want 1 or more, or 0 for 10", c.Minimum)
	case c.Span < time.Microsecond:
		return fmt.Errorf("budget: Span = %v: want a microsecond or more", c.Span)
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	return nil
}

// Budget bounds the calls that retries and hedges add to those that were asked for. One
// budget may serve many policies: then the bound is on what they add together. When it is
// spent, policies give the result they have. The bound holds at every grant: of the calls
// in view, the extra ones are at most Minimum + Ratio × the others.
//
// It is safe for concurrent use. A nil Budget has no bound.
type Budget struct {
	ledger *ledger
	inner  bool // within another policy that has noted the call
}

type ledger struct {
	cfg   BudgetConfig
	epoch time.Time
	width time.Duration // of a bucket

	mu      sync.Mutex // guards what follows
	newest  int64      // number of the latest bucket since the epoch
	buckets [budgetBuckets]tally
	sum     tally // of the buckets
}

type tally struct{ calls, extra int64 }

// NewBudget returns a budget that nothing has been spent of. Its error names the field
// that is out of range.
func NewBudget(cfg BudgetConfig) (*Budget, error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	return &Budget{ledger: &ledger{cfg: cfg, epoch: cfg.Clock.Now(), width: cfg.Span / budgetBuckets}}, nil
}

// Inner is the same budget for a policy that runs within another which has it: what is an
// extra call of the outer one is not a call that earns the inner one more.
func (b *Budget) Inner() *Budget {
	if b == nil {
		return nil
	}
	return &Budget{ledger: b.ledger, inner: true}
}

// Note counts a call that was asked for.
func (b *Budget) Note() {
	if b == nil || b.inner {
		return
	}
	l := b.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucketLocked().calls++
	l.sum.calls++
}

// Spend takes one extra call, and reports whether there was one left.
func (b *Budget) Spend() bool {
	if b == nil {
		return true
	}
	l := b.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket := l.bucketLocked()
	if float64(l.sum.extra+1) > float64(l.cfg.Minimum)+l.cfg.Ratio*float64(l.sum.calls) {
		return false
	}
	bucket.extra++
	l.sum.extra++
	return true
}

// Spent is how many calls were asked for in the latest Span, and how many were extra.
func (b *Budget) Spent() (calls, extra int64) {
	if b == nil {
		return 0, 0
	}
	l := b.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucketLocked()
	return l.sum.calls, l.sum.extra
}

// bucketLocked is the bucket of the present, after those out of view were emptied. A
// clock that goes back counts in the latest one.
func (l *ledger) bucketLocked() *tally {
	now := int64(l.cfg.Clock.Since(l.epoch) / l.width)
	for range min(now-l.newest, budgetBuckets) {
		l.newest++
		old := &l.buckets[l.newest%budgetBuckets]
		l.sum.calls -= old.calls
		l.sum.extra -= old.extra
		*old = tally{}
	}
	l.newest = max(l.newest, now)
	return &l.buckets[l.newest%budgetBuckets]
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
