package frontier

import "time"

// lane is the class of hosts with which a host shares slots.
type lane uint8

const (
	laneQuick lane = iota // known to free its slot soon: every slot is open to it
	laneNew               // has not answered yet
	laneSlow              // holds a slot for longer than SlowAfter
)

// laneAt is the lane a host belongs to. A request that has been out for long counts
// before it ends: a host that hangs is known as slow a second later, not at the timeout.
func (h *host) laneAt(now time.Time) lane {
	switch {
	case !h.answered:
		return laneNew
	case h.service > SlowAfter, len(h.out) > 0 && now.Sub(h.out[0].at) > SlowAfter:
		return laneSlow
	}
	return laneQuick
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
			f.slowOut += len(h.out)
		case ln == laneQuick:
			f.slowOut -= len(h.out)
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
	case laneSlow:
		// New hosts go before slow ones that have taken more than their half.
		return f.slowOut < half || f.quick == 0 && f.waiting[laneNew] == 0
	}
	return true
}

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

// othersAhead reports whether there are hosts that have waited for one of the shared slots
// before a host that comes up by itself, and would take it from them.
func (f *Frontier) othersAhead() bool {
	return f.called != nil || f.waiting[laneNew]+f.waiting[laneSlow] > 0
}

// unpark calls the first of the parked hosts if there is a slot for it: it is put into the
// schedule, and nobody else takes the slot before it comes up. The lanes take turns, so
// that neither a stream of new hosts keeps slow ones waiting for ever nor the other way
// round.
func (f *Frontier) unpark(now time.Time) {
	order := [...]lane{laneNew, laneSlow}
	if f.lastLane == laneNew {
		order = [...]lane{laneSlow, laneNew}
	}
	for _, ln := range order {
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
