package limit

import (
	"context"
	"fmt"
	"time"
)

// outlook is what a composite makes of its members' forecasts.
type outlook struct {
	wait   time.Duration // until all have room; Never if nobody knows
	known  time.Duration // the same without the members for which time does nothing: it takes this long at least
	scarce *settings     // of the member that is waited for longest, in known
}

// outlookLocked plays the composite's line through at all members together, each behind
// those who wait there on their own account, and then asks for n.
func (c *Composite) outlookLocked(n int64) outlook {
	if c.line.closed || n < 1 || n > c.set.max {
		return outlook{Never, Never, c.set}
	}
	all := make([]forecast, len(c.members))
	for i, m := range c.members {
		if m.line.closed {
			return outlook{Never, Never, m.set}
		}
		all[i] = m.forecastLocked(c.placeLocked())
	}
	o := outlook{}
	for w := range c.line.all() {
		o = c.playLocked(all, w.n, o)
	}
	return c.askLocked(all, n, o)
}

// placeLocked is where the composite's first caller stands at a member.
func (c *Composite) placeLocked() *waiter {
	if c.line.head == nil {
		return nil
	}
	return c.line.head.place
}

// askLocked is when all members could serve n, after what o has been.
func (c *Composite) askLocked(all []forecast, n int64, o outlook) outlook {
	next := outlook{wait: o.wait, known: o.known, scarce: c.members[0].set}
	for i, m := range c.members {
		wait := all[i].wait(n)
		next.wait = max(next.wait, wait)
		if m.set.timed && wait > next.known {
			next.known, next.scarce = wait, m.set
		}
	}
	return next
}

// playLocked lets one of the line go, as soon as o and all members let it.
func (c *Composite) playLocked(all []forecast, n int64, o outlook) outlook {
	next := c.askLocked(all, n, o)
	for i, m := range c.members {
		at := next.known // a slot comes at some time: for the others, at best in time
		if !m.set.timed {
			at = next.wait
		}
		all[i].serve(at, n)
	}
	return next
}

// acquire is core.acquire over all members.
func (c *Composite) acquire(ctx context.Context, n int64, limit time.Duration, ticket bool) error {
	ended := ctx.Err() != nil
	c.lock()
	defer c.unlock()
	if !ended && !c.line.closed && c.line.head == nil && c.passLocked(n, nil, ticket) {
		return nil
	}
	return c.waitLocked(ctx, c, n, limit, ended, ticket)
}

// unfitLocked is the reason for which n will never be granted, or nil.
func (c *Composite) unfitLocked(n int64) error {
	if err := c.set.unfit(n, c.line.closed); err != nil {
		return err
	}
	for _, m := range c.members {
		if err := m.set.unfit(n, m.line.closed); err != nil {
			return fmt.Errorf("acquire %s: %w", c.set.name, err)
		}
	}
	return nil
}

// soonestLocked is about the members whose time is known: the others only make it later.
func (c *Composite) soonestLocked(n int64) *Error {
	o := c.outlookLocked(n)
	return &Error{Name: o.scarce.name, Algorithm: string(o.scarce.kind), RetryAfter: o.known}
}

// limitErrorLocked names the member that is waited for longest. A wait that depends on
// a Release is not known.
func (c *Composite) limitErrorLocked(n int64) *Error {
	o := c.outlookLocked(n)
	e := &Error{Name: o.scarce.name, Algorithm: string(o.scarce.kind), RetryAfter: o.known}
	if o.wait == Never && o.known != Never {
		e.RetryAfter = 0
		if m := c.fullLocked(n); m != nil {
			e.Name, e.Algorithm = m.set.name, string(m.set.kind)
		}
	}
	return e
}

// fullLocked is a member whose permits are all out.
func (c *Composite) fullLocked(n int64) *core {
	for _, m := range c.members {
		if !m.set.timed && !m.hasRoomLocked(n, nil) {
			return m
		}
	}
	return nil
}

func (c *Composite) serveLocked(w *waiter, ticket bool) time.Duration {
	if c.passLocked(w.n, w.place, ticket) {
		return 0
	}
	return c.standLocked(w, c.scarceLocked(w))
}

// leaveLocked gives up the places in the member's line and in the composite's own, whose
// next is woken. Who was failed by Close is out of that already.
func (c *Composite) leaveLocked(w *waiter) {
	c.standLocked(w, nil)
	if !w.gone {
		c.line.remove(w)
	}
}

// scarceLocked is the member that will have room for w last, of those that have none. One
// whose next release nobody knows is waited for when all others have room: to stand there
// before that would keep its other users from slots that w could not take yet.
func (c *Composite) scarceLocked(w *waiter) *core {
	var scarce *core
	longest := time.Duration(-1)
	for _, m := range c.members {
		if m.hasRoomLocked(w.n, w.place) {
			continue
		}
		wait := time.Duration(0)
		if m.set.timed {
			f := m.forecastLocked(w.place)
			wait = f.wait(w.n)
		}
		if wait > longest {
			scarce, longest = m, wait
		}
	}
	return scarce
}

// standLocked makes w stand in m's line and in no other, and returns for how long it can
// sleep there: until its turn, if it is the first. A nil m is nowhere.
func (c *Composite) standLocked(w *waiter, m *core) time.Duration {
	if w.at != m {
		if w.at != nil && !w.place.gone {
			w.at.line.remove(w.place)
		}
		if w.at, w.place = m, nil; m != nil {
			// The channel is w's own, so that both lines wake the same goroutine.
			w.place = &waiter{n: w.n, wake: w.wake, guest: true}
			m.line.push(w.place)
		}
	}
	if m == nil || m.line.head != w.place {
		return Never
	}
	return m.alg.wait(m.last, w.n)
}
