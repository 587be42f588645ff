package limit

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Composite is several limits at once: a permit of it is one of each member, all taken in
// one step or none. A refusal of one costs the others nothing.
//
// It has a line of its own, in the order of arrival. The first in it stands, on behalf of
// all, in the line of that member which has room for it last; when its turn there comes
// and another member has become scarce meanwhile, it goes over to that one's. So nobody
// passes it where it waits, and it keeps nobody waiting where it does not: that a host is
// slow does not block the rate that all hosts share. The price is that there is no order
// between the callers of two composites, and none beyond that of the line joined last.
//
// TryAcquire grants when nobody waits here nor at any member. Members may be used beside
// the composite, and be in others. They stay their owner's: Close does not close them.
type Composite struct {
	queue
	members []*core // never changes
	holds   bool    // a member has permits that come back
	inUse   int64
	held    int64 // of inUse: freed by their tickets only
}

var _ Weighted = (*Composite)(nil)

// cored is what All can compose.
type cored interface{ cores() []*core }

func (c *core) cores() []*core      { return []*core{c} }
func (c *Composite) cores() []*core { return c.members }

// All makes one limiter of several, which must be of this package, all different, and go
// by the same clock. A Composite among them counts as its members.
func All(limiters ...Weighted) (*Composite, error) {
	if len(limiters) == 0 {
		return nil, fieldError("limiters", "empty", "pass at least one to All")
	}
	a := &Composite{}
	for i, l := range limiters {
		c, ok := l.(cored)
		if !ok {
			return nil, fieldError(fmt.Sprintf("limiters[%d]", i), fmt.Sprintf("a %T", l), "pass limiters of this package to All")
		}
		for _, m := range c.cores() {
			if slices.Contains(a.members, m) {
				return nil, fieldError(fmt.Sprintf("limiters[%d]", i), m.set.name+" again", "pass each limiter once to All")
			}
			a.members = append(a.members, m)
		}
	}
	a.describe()
	return a, nil
}

// describe sums the members up: as much as the smallest admits, as many in line as the
// shortest takes.
func (c *Composite) describe() {
	first := c.members[0].set
	c.set = &settings{clk: first.clk, epoch: first.epoch, kind: "all", name: "all", max: first.max, queue: first.queue}
	for _, m := range c.members {
		c.set.max = min(c.set.max, m.set.max)
		c.set.queue = min(c.set.queue, m.set.queue)
		c.holds = c.holds || !m.set.timed
	}
}

// lock takes the composite's lock and then those of all members. These have no order, as
// composites may share them: who finds one taken lets go of all and waits for that one.
func (c *Composite) lock() {
	c.mu.Lock()
	for first := 0; ; {
		c.members[first].mu.Lock()
		taken := c.tryLockOthers(first)
		if taken < 0 {
			break
		}
		first = taken
	}
	for _, m := range c.members {
		m.nowLocked()
	}
}

// tryLockOthers locks all but first, which is locked, and returns -1; or unlocks all and
// returns the one it could not have.
func (c *Composite) tryLockOthers(first int) int {
	for i, m := range c.members {
		if i == first || m.mu.TryLock() {
			continue
		}
		for j, locked := range c.members {
			if j < i || j == first {
				locked.mu.Unlock()
			}
		}
		return i
	}
	return -1
}

// unlock is in no particular order: locks are let go of without waiting.
func (c *Composite) unlock() {
	for _, m := range c.members {
		m.mu.Unlock()
	}
	c.mu.Unlock()
}

// hasRoomLocked reports whether m could serve n now, to one who stands in its line as
// place or in none.
func (c *core) hasRoomLocked(n int64, place *waiter) bool {
	return (c.line.head == nil || c.line.head == place) && c.alg.wait(c.last, n) == 0
}

// passLocked takes n of all members, if all have room.
func (c *Composite) passLocked(n int64, place *waiter, ticket bool) bool {
	for _, m := range c.members {
		if m.line.closed || !m.fits(n) || !m.hasRoomLocked(n, place) {
			return false
		}
	}
	for _, m := range c.members {
		m.alg.take(m.last, n)
		m.grantedLocked(n, true)
	}
	c.acquired = addCount(c.acquired, n)
	if c.holds {
		c.inUse += n
		if ticket {
			c.held += n
		}
	}
	return true
}

// TryAcquire takes a permit of each member if all have one now and nobody waits.
func (c *Composite) TryAcquire() bool { return c.TryAcquireN(1) }

// TryAcquireN takes n permits of each member if all have them now and nobody waits.
func (c *Composite) TryAcquireN(n int64) bool {
	c.lock()
	defer c.unlock()
	if c.line.head == nil && !c.line.closed && c.passLocked(n, nil, false) {
		return true
	}
	c.rejected = addCount(c.rejected, n)
	return false
}

// Acquire waits until all members have a permit; see [Limiter].
func (c *Composite) Acquire(ctx context.Context) error { return c.acquire(ctx, 1, Never, false) }

// AcquireN waits until all members have n permits; see [Weighted].
func (c *Composite) AcquireN(ctx context.Context, n int64) error {
	return c.acquire(ctx, n, Never, false)
}

// AcquireTimeout waits until all members have n permits, and for d at most; see [Weighted].
func (c *Composite) AcquireTimeout(ctx context.Context, n int64, d time.Duration) error {
	return c.acquire(ctx, n, max(d, 0), false)
}

// Wait is how long until TryAcquireN(n) could succeed: the longest wait among the members;
// see [Weighted].
func (c *Composite) Wait(n int64) time.Duration {
	c.lock()
	defer c.unlock()
	return c.outlookLocked(n).wait
}

// Statistics is a consistent snapshot over all members. The counters and Queued are the
// composite's own; Available is what all members have.
func (c *Composite) Statistics() Statistics {
	c.lock()
	defer c.unlock()
	s := c.statistics()
	s.Available, s.InUse = c.set.max, c.inUse
	for _, m := range c.members {
		s.Available = min(s.Available, m.alg.available(m.last))
	}
	return s
}

// Standing is that of the member which has the least left, and of those which have none, that
// for which one waits longest.
func (c *Composite) Standing() Standing {
	c.lock()
	defer c.unlock()
	tightest := c.members[0].standingLocked(c.members[0].last)
	for _, m := range c.members[1:] {
		s := m.standingLocked(m.last)
		if s.Left < tightest.Left || s.Left == tightest.Left && s.Next > tightest.Next {
			tightest = s
		}
	}
	return tightest
}

// Release gives a permit back to each member that is a [Concurrency] limiter.
func (c *Composite) Release() { c.ReleaseN(1) }

// ReleaseN gives n permits back to each member that is a [Concurrency] limiter, but no
// more than were acquired here: those of the members' other users are theirs.
func (c *Composite) ReleaseN(n int64) { c.release(n, false) }

// release frees the members' slots as tickets of the composite, out of reach of their own
// Release.
func (c *Composite) release(n int64, ticket bool) {
	if !c.holds || n < 1 {
		return
	}
	c.lock()
	defer c.unlock()
	freed := n
	if ticket {
		c.held -= n
	} else {
		freed = min(n, c.inUse-c.held)
	}
	c.inUse -= freed
	c.overReleased = addCount(c.overReleased, n-freed)
	for _, m := range c.members {
		if !m.set.timed && freed > 0 {
			m.releaseLocked(freed, true)
		}
	}
}

func (c *Composite) acquireTicket(ctx context.Context, n int64, limit time.Duration) (func(), error) {
	if err := c.acquire(ctx, n, limit, true); err != nil {
		return nil, err
	}
	if !c.holds {
		return func() {}, nil
	}
	return ticket(n, c.release, c.overRelease), nil
}
