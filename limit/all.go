package limit

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// kindAll is that of a Composite, which a Spec does not know.
const kindAll Kind = "all"

// Composite combines several limiters: a permit of it is one permit of each member, all taken in one step or none. A
// refusal by one member costs the others nothing.
//
// It has its own line, in the order of arrival. The first caller in it also stands in the line of the member that will
// have room last: so it is not overtaken there, and keeps nobody waiting at the other members. Two composites do not
// order their callers among each other.
//
// TryAcquire succeeds only if nobody waits here or at any member. A member may also be used by itself and in other
// composites. Close does not close the members, and Release frees only what was acquired through the Composite.
type Composite struct {
	core
	state members
}

var _ Weighted = (*Composite)(nil)

func (c *core) cores() []*core      { return []*core{c} }
func (c *Composite) cores() []*core { return c.state.list }

// All combines limiters into one. They must be of this package, all different, and use the same clock. A Composite
// among them counts as its members.
func All(limiters ...Weighted) (*Composite, error) {
	if len(limiters) == 0 {
		return nil, fieldError("limiters", "empty", "pass at least one to All")
	}
	a := &Composite{}
	for i, l := range limiters {
		c, ok := l.(interface{ cores() []*core })
		if !ok {
			return nil, fieldError(fmt.Sprintf("limiters[%d]", i), fmt.Sprintf("a %T", l), "pass limiters of this package to All")
		}
		for _, m := range c.cores() {
			if slices.Contains(a.state.list, m) {
				return nil, fieldError(fmt.Sprintf("limiters[%d]", i), m.set.name+" again", "pass each limiter once to All")
			}
			a.state.list = append(a.state.list, m)
		}
	}
	set := *a.state.list[0].set
	set.spec.Kind, set.name, set.all = kindAll, string(kindAll), &a.state
	for _, m := range a.state.list {
		set.max, set.queue = min(set.max, m.set.max), min(set.queue, m.set.queue)
		set.timed = set.timed && m.set.timed
	}
	// Composites that share members lock them in one order: that of their addresses.
	address := func(m *core) uintptr { return reflect.ValueOf(m).Pointer() }
	slices.SortFunc(a.state.list, func(m, n *core) int { return cmp.Compare(address(m), address(n)) })
	a.state.out.max = math.MaxInt64
	a.init(&set, &a.state)
	return a, nil
}

// members is the algorithm of a Composite. Its methods lock the members, and are called with the composite's lock.
type members struct {
	list  []*core // never changes
	out   slots   // the composite's permits, if a member has some that come back
	at    *core   // in whose line the composite's first stands, or nil
	place *waiter // as what
}

func (a *members) lock() {
	for _, m := range a.list {
		m.lock()
	}
}

func (a *members) unlock() {
	for _, m := range a.list {
		m.mu.Unlock()
	}
}

// hasRoomLocked reports whether m could serve n now, to one who stands in its line as place or in none.
func (c *core) hasRoomLocked(n int64, place *waiter) bool {
	return !c.line.closed && c.fits(n) && (c.line.head == nil || c.line.head == place) && c.alg.wait(c.last, n) == 0
}

func (a *members) take(_ clock.Instant, n int64) bool {
	a.lock()
	ok := a.takeLocked(n)
	a.unlock()
	return ok
}

// takeLocked takes n of all members, if all have room.
func (a *members) takeLocked(n int64) bool {
	for _, m := range a.list {
		if !m.hasRoomLocked(n, a.place) {
			return false
		}
	}
	for _, m := range a.list {
		m.alg.take(m.last, n)
		m.grantedLocked(n, true)
	}
	a.out.inUse += n
	return true
}

// serve takes what the composite's first waits for and returns 0; or has it stand at the member that will have room
// last, and returns for how long it can sleep there. One whose next release nobody knows is waited for when all others
// have room: to stand there before that would keep its other users from slots that could not be taken yet.
func (a *members) serve(w *waiter) time.Duration {
	a.lock()
	defer a.unlock()
	if a.takeLocked(w.n) {
		return 0
	}
	var scarce *core
	longest := time.Duration(-1)
	for _, m := range a.list {
		if m.line.closed {
			return 1 // to find that out
		}
		if m.hasRoomLocked(w.n, a.place) {
			continue
		}
		wait := time.Duration(0)
		if m.set.timed {
			f := m.forecastLocked(a.place)
			wait = f.wait(w.n)
		}
		if wait > longest {
			scarce, longest = m, wait
		}
	}
	if scarce != a.at || a.place.gone {
		a.leaveLocked()
		// The channel is w's own, so that both lines wake the same goroutine.
		a.at, a.place = scarce, &waiter{n: w.n, wake: w.wake, guest: true}
		scarce.line.push(a.place)
	}
	if scarce.line.head != a.place {
		return Never
	}
	return scarce.alg.wait(scarce.last, w.n)
}

func (a *members) leave() {
	a.lock()
	defer a.unlock()
	a.leaveLocked()
}

func (a *members) leaveLocked() {
	if a.at != nil && !a.place.gone {
		a.at.line.remove(a.place)
	}
	a.at, a.place = nil, nil
}

type outlook struct {
	wait   time.Duration // until all have room; Never if nobody knows
	known  time.Duration // the same without the members for which time does nothing: it takes this long at least
	scarce *settings     // of the member that is waited for longest, in known
	full   *settings     // of a member whose permits are all out; nil if there is none
}

// outlook plays the composite's line through at all members together, each behind those who wait
// there on their own account, and then asks for n.
func (a *members) outlook(line *line, n int64) (o outlook) {
	a.lock()
	defer a.unlock()
	o.scarce = a.list[0].set
	all := make([]forecast, len(a.list))
	for i, m := range a.list {
		if m.line.closed {
			return outlook{wait: Never, known: Never, scarce: m.set}
		}
		all[i] = m.forecastLocked(a.place)
	}
	ask := func(n int64) {
		for i, m := range a.list {
			wait := all[i].wait(n)
			if o.wait = max(o.wait, wait); !m.set.timed && wait == Never {
				o.full = m.set
			} else if m.set.timed && wait > o.known {
				o.known, o.scarce = wait, m.set
			}
		}
	}
	for w := range line.all() {
		ask(w.n)
		for i := range all {
			all[i].serve(o.known, w.n)
		}
	}
	ask(n)
	return o
}

// limitError names the member that is waited for longest. A wait that depends on a Release is not known.
func (a *members) limitError(line *line, n int64) (e *Error, known time.Duration) {
	o := a.outlook(line, n)
	if o.wait == Never && o.full != nil {
		return &Error{Name: o.full.name, Algorithm: string(o.full.spec.Kind)}, o.known
	}
	return &Error{Name: o.scarce.name, Algorithm: string(o.scarce.spec.Kind), RetryAfter: o.known}, o.known
}

// unfit is why a member will never grant n, or nil.
func (a *members) unfit(n int64) error {
	a.lock()
	defer a.unlock()
	for _, m := range a.list {
		if err := m.set.unfit(n, m.line.closed); err != nil {
			return fmt.Errorf("acquire %s: %w", kindAll, err)
		}
	}
	return nil
}

func (a *members) wait(_ clock.Instant, n int64) (longest time.Duration) {
	a.lock()
	defer a.unlock()
	for _, m := range a.list {
		longest = max(longest, m.untilLocked(n))
	}
	return longest
}

func (a *members) available(clock.Instant) int64 {
	a.lock()
	defer a.unlock()
	least := int64(math.MaxInt64)
	for _, m := range a.list {
		least = min(least, m.alg.available(m.last))
	}
	return least
}

// standing is that of the member which has the least left.
func (a *members) standing(clock.Instant) Standing {
	a.lock()
	defer a.unlock()
	tightest := a.list[0].standingLocked()
	for _, m := range a.list[1:] {
		if s := m.standingLocked(); s.Left < tightest.Left || s.Left == tightest.Left && s.Next > tightest.Next {
			tightest = s
		}
	}
	return tightest
}

// clone is never asked for: outlook plays a composite's line through.
func (a *members) clone() algorithm { return a }

// release frees the members' slots as tickets of the composite, out of reach of their own Release.
func (a *members) release(n int64) {
	a.lock()
	defer a.unlock()
	for _, m := range a.list {
		if !m.set.timed {
			m.releaseLocked(n, true)
		}
	}
}
