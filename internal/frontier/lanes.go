package frontier

import "time"

// lane is the class of hosts with which a host shares slots.
type lane uint8

const (
	laneQuick lane = iota // known to free its slot soon: every slot is open to it
	laneNew               // has not answered yet
	laneSlow              // holds a slot for longer than SlowAfter
	laneLate              // lets a request wait for longer than that
	numLanes
)

// sharing is how the hosts share the slots and the places aside.
type sharing struct {
	parked      [numLanes][]*host // hosts that wait for a slot of their lane, first come first; some have left
	waiting     [numLanes]int     // how many of them still wait
	called      *host             // the parked host whose turn it is, until it comes up; nil for none
	lastLane    lane              // of the last one called
	slowOut     int               // slots held by hosts of the other lanes than the quick one
	asideOut    int               // leases that hold a place aside
	lastOverdue bool              // the last place went to a lease that had held a slot
	quick       int               // quick hosts that have work queued or out
}

// laneAt is the lane a host belongs to. A request that has been out for long counts
// before it ends: a host that hangs is known as slow a second later, not at the timeout.
func (h *host) laneAt(now time.Time) lane {
	switch {
	case !h.answered:
		return laneNew
	case h.late:
		return laneLate
	case h.service > SlowAfter:
		return laneSlow
	}
	for _, l := range h.out {
		if !l.aside {
			if now.Sub(l.at) > SlowAfter {
				return laneSlow
			}
			break // the others are younger
		}
	}
	return laneQuick
}

// Overdue says that the request of a lease has waited for its first byte for SlowAfter. If
// there is a place aside it holds no slot any more; it reports whether that is so. It may be
// called again.
func (f *Frontier) Overdue(now time.Time, l *Lease) (aside bool) {
	h := l.host
	l.waited, h.late = true, true
	if !l.aside && f.roomAside() && (f.waiting[laneLate] == 0 || !f.lastOverdue) { // else it is their turn
		f.giveBack(l)
		l.aside, f.lastOverdue = true, true
		f.asideOut++
		f.held = time.Time{} // for all that is known
	}
	f.review(h, now)
	return l.aside
}

// giveBack takes a slot from a lease.
func (f *Frontier) giveBack(l *Lease) {
	h := l.host
	h.holding--
	if h.lane != laneQuick {
		f.slowOut--
	}
	if f.fleet != nil {
		f.fleet.busy--
	}
}

// settle keeps the books of a host after its work changed or time has passed: the lane
// in which its slots are counted, whether it is a quick one with work, and whether it
// may be forgotten. It reports whether a host that waited for its lane does so no longer.
func (f *Frontier) settle(h *host, now time.Time) (left bool) {
	if h.parted {
		return false
	}
	f.roll.note(h)
	if ln := h.laneAt(now); ln != h.lane {
		switch {
		case h.lane == laneQuick:
			f.slowOut += int(h.holding)
		case ln == laneQuick:
			f.slowOut -= int(h.holding)
		}
		left = h.parked
		f.leavePark(h) // whichever lane it waited for, it is another now
		h.lane = ln
	}
	working := h.queued() > 0 || len(h.out) > 0
	if quick := working && h.lane == laneQuick; quick != h.quick {
		h.quick = quick
		if quick {
			f.quick++
		} else {
			f.quick--
		}
	}
	if !h.busy() && !h.idle {
		h.idle = true
		if f.fleet != nil {
			f.dryUp(h, now)
		} else {
			f.idle = append(f.idle, h)
		}
	}
	return left
}

// review settles a host, and puts it back into the schedule if it has left the parked.
func (f *Frontier) review(h *host, now time.Time) {
	if f.settle(h, now) {
		f.offer(h, now, now)
	}
}

// laneOpen reports whether a host of the lane may take one more slot.
func (f *Frontier) laneOpen(ln lane) bool {
	half := max(1, f.cfg.Slots/2)
	switch ln {
	case laneNew:
		return f.slowOut < half
	case laneLate:
		return f.roomAside() || f.waiting[laneNew] == 0 && f.laneOpen(laneSlow)
	case laneSlow:
		// New hosts go before slow ones that have taken more than their half.
		return f.slowOut < half || f.quick == 0 && f.waiting[laneNew] == 0
	}
	return true
}

// roomAside reports whether one more lease may be out that holds no slot.
func (f *Frontier) roomAside() bool { return f.asideOut < f.cfg.Aside }

func (f *Frontier) park(h *host) {
	h.parked = true
	f.parked[h.lane] = append(f.parked[h.lane], h)
	f.waiting[h.lane]++
}

// leavePark has a host wait for its lane no longer; its entry is skipped when it comes up.
func (f *Frontier) leavePark(h *host) {
	if h.parked {
		h.parked = false
		f.waiting[h.lane]--
	}
}

// othersAhead reports whether there are hosts that have waited for a slot or a place aside
// before a host of the lane that comes up by itself, and would take it from them.
func (f *Frontier) othersAhead(ln lane) bool {
	if ln == laneLate && f.roomAside() {
		return f.waiting[ln] > 0 || f.called != nil && f.called.lane == ln
	}
	return f.called != nil || f.waiting[laneNew]+f.waiting[laneSlow]+f.waiting[laneLate] > 0
}

// unpark calls the first of the parked hosts if there is a slot for it: it is put into the
// schedule, and nobody else takes the slot before it comes up. The lanes take turns, so
// that no stream of hosts of one of them keeps the others waiting for ever.
func (f *Frontier) unpark(now time.Time) {
	for i := range numLanes - laneNew {
		ln := laneNew + (f.lastLane+i)%(numLanes-laneNew) // from the one after the last
		for f.called == nil && len(f.parked[ln]) > 0 && f.laneOpen(ln) {
			h := f.parked[ln][0]
			f.parked[ln][0] = nil
			f.parked[ln] = f.parked[ln][1:]
			if !h.parked || h.lane != ln {
				continue // it has left
			}
			f.leavePark(h)
			f.offer(h, now, now)
			if h.index >= 0 {
				f.called, f.lastLane = h, ln
			}
		}
	}
}
