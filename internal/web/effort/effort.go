// Package effort bounds the work that one page may cost.
//
// All readers of a page charge one [Budget]: a step is one node, token or comparison, or [Bytes] bytes of text. When
// it is spent each reader stops and returns what it has, so that costs can be tested without a clock. A budget also
// has a deadline, for what steps measure badly, and a context; both are checked every few thousand steps.
package effort

import (
	"context"
	"time"
)

// Bytes is how many bytes of text cost one step: searching them takes as long as visiting a node.
const Bytes = 64

// The steps of a page: for each byte as many as dozens of rules take on a page of tags.
const (
	share   = 250_000
	perByte = 100
)

// Steps is the budget of a page of so many bytes, at most most.
func Steps(bytes int, most int64) int64 { return min(most, share+perByte*int64(bytes)) }

// lookEvery is how many steps lie between two checks of the deadline.
const lookEvery = 1 << 12

// Budget is what is left for one page. A nil Budget is no bound. It must not be used concurrently.
type Budget struct {
	most, left int64
	look       int64 // the deadline is checked when less is left
	spent      bool
	ctx        context.Context // a budget lives as long as the call that reads one page
	now        func() time.Time
	until      time.Time
}

// New is a budget of so many steps, which ends early at until, by now, or when ctx is done. A nil now is no deadline.
func New(ctx context.Context, steps int64, now func() time.Time, until time.Time) *Budget {
	return &Budget{most: steps, left: steps, look: max(0, steps-lookEvery), ctx: ctx, now: now, until: until}
}

// Spend takes n steps and reports whether to go on. Once false, it stays false.
func (b *Budget) Spend(n int) bool {
	if b == nil {
		return true
	}
	if b.left -= int64(n); b.left < b.look {
		b.check()
	}
	return !b.spent
}

// maxCall bounds one call that checks no budget, such as a regular expression: 0.1 to 0.2 seconds.
const maxCall = 1 << 21

// AllowCall reports whether an uninterruptible call may cost n steps, which it does not take. One that costs too much
// ends the work.
func (b *Budget) AllowCall(n int) bool {
	if b != nil && n > maxCall {
		b.left, b.spent = min(b.left, 0), true
	}
	return !b.Spent()
}

// SpendText takes the steps for n bytes of text, at least one.
func (b *Budget) SpendText(n int) bool { return b.Spend(1 + n/Bytes) }

func (b *Budget) check() {
	b.look = max(0, b.left-lookEvery)
	b.spent = b.spent || b.left < 0 || b.ctx.Err() != nil || b.now != nil && !b.now().Before(b.until)
}

// DropDeadline removes the deadline, for work that waits for others.
func (b *Budget) DropDeadline() {
	if b != nil {
		b.now = nil
	}
}

// Spent reports whether the budget is spent.
func (b *Budget) Spent() bool { return b != nil && b.spent }

// Used is how many steps were taken; it may be more than there were.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.most - b.left
}
