// Package effort bounds the work that one page may cost.
//
// All readers of a page share one [Budget] and charge it for what they do: a step is one
// node, token or comparison, or [Bytes] bytes of text. When the budget is spent each reader
// stops where it is and returns what it has. So no page costs more than the budget, whatever
// it holds and whatever is asked of it, and the cost in steps can be tested without a clock.
//
// A budget also has a deadline and a context. They are looked at every few thousand steps:
// the deadline bounds what steps measure badly, such as a machine that is overloaded, and the
// end of the context lets a crawl stop in the middle of a page.
package effort

import (
	"context"
	"time"
)

// Bytes is how many bytes of text cost one step. Searching them takes about as long as
// visiting a node.
const Bytes = 64

// What a page may cost at most: a share that any page has, and as much for each of its bytes
// as dozens of rules take on a page that is all tags.
const (
	share   = 250_000
	perByte = 100
)

// Steps is what a page of so many bytes may cost, where no page may cost more than most.
func Steps(bytes int, most int64) int64 { return min(most, share+perByte*int64(bytes)) }

// lookEvery is how many steps lie between two looks at the deadline: a fraction of a
// millisecond.
const lookEvery = 1 << 12

// Budget is what is left for one page. A nil Budget has no bound. It must not be used by two
// goroutines at once.
type Budget struct {
	most, left int64
	look       int64 // the deadline is looked at when less than this is left
	spent      bool
	ctx        context.Context // a budget lives as long as the call that reads one page
	now        func() time.Time
	until      time.Time
}

// New is a budget of so many steps, which ends early at until, by now, or when ctx is done. A
// nil now means no deadline.
func New(ctx context.Context, steps int64, now func() time.Time, until time.Time) *Budget {
	return &Budget{most: steps, left: steps, look: max(0, steps-lookEvery), ctx: ctx, now: now, until: until}
}

// Spend takes n steps and reports whether the work may go on. Once it has returned false it
// always does.
func (b *Budget) Spend(n int) bool {
	if b == nil {
		return true
	}
	if b.left -= int64(n); b.left < b.look {
		b.check()
	}
	return !b.spent
}

// maxCall is what one call may cost that looks at no budget, such as that of a regular
// expression: 0.1 to 0.2 seconds.
const maxCall = 1 << 21

// AllowCall reports whether a call that cannot be interrupted may cost n steps, which it does
// not take. One that would cost too much ends the work.
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

// DropDeadline leaves the steps and the context as the only bounds. It is for work that waits
// for others in between.
func (b *Budget) DropDeadline() {
	if b != nil {
		b.now = nil
	}
}

// Spent reports whether the work had to stop. Of a nil Budget it is false.
func (b *Budget) Spent() bool { return b != nil && b.spent }

// Used is how many steps were taken; it may be more than there were.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.most - b.left
}
