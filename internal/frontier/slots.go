package frontier

import (
	"time"
)

// hostClass is the hosts with which a host shares slots.
type hostClass uint8

const (
	classFast    hostClass = iota // known to free its slot soon: every slot is open to it
	classNew                      // has not answered yet
	classSlow                     // holds a slot for longer than SlowAfter
	classStalled                  // lets a request wait for longer than that
	numClasses
)

// sharing is how the hosts share the slots and the extra slots.
type sharing struct {
	total, extra int // Config.Slots and Config.ExtraSlots

	lines       [numClasses][]*host // hosts that wait for a slot of their class, first come first; some have left
	waiting     [numClasses]int     // how many of them still wait
	nextUp      *host               // the waiting host whose turn it is, until it comes up; nil for none
	lastClass   hostClass           // of the last one called
	slowOut     int                 // slots held by hosts of the other classes than the quick one
	extraOut    int                 // leases that hold an extra slot
	lastOverdue bool                // the last place went to a lease that had held a slot
	quick       int                 // quick hosts that have work queued or out
}

// classAt is the class a host belongs to. A request that has been out for long counts before it ends: a host that
// hangs is known as slow a second later, not at the timeout.
func (h *host) classAt(now time.Time) hostClass {
	switch {
	case !h.answered:
		return classNew
	case h.late:
		return classStalled
	case h.service > SlowAfter:
		return classSlow
	}
	for _, l := range h.out {
		if !l.extra {
			if now.Sub(l.at) > SlowAfter {
				return classSlow
			}
			break // the others are younger
		}
	}
	return classFast
}

// Overdue says that the request of a lease has waited for its first byte for SlowAfter. If there is an extra slot it
// holds no slot any more; it reports whether that is so. It may be called again.
func (f *Frontier) Overdue(now time.Time, l *Lease) (extra bool) {
	h := l.host
	l.waited, h.late = true, true
	if !l.extra && f.roomExtra() && (f.waiting[classStalled] == 0 || !f.lastOverdue) { // else it is their turn
		f.giveBack(l)
		l.extra, f.lastOverdue = true, true
		f.extraOut++
		f.held = time.Time{} // for all that is known
	}
	f.review(h, now)
	return l.extra
}

// giveBack takes a slot from a lease.
func (f *Frontier) giveBack(l *Lease) {
	h := l.host
	h.holding--
	if h.class != classFast {
		f.slowOut--
	}
	if f.fleet != nil {
		f.fleet.busy--
	}
}

// settle keeps the books of a host after its work changed or time has passed: its class, and whether it may be
// forgotten. It reports whether one that waited for its class does so no longer.
func (f *Frontier) settle(h *host, now time.Time) (left bool) {
	if h.parted {
		return false
	}
	f.roll.note(h)
	left = f.reclass(h, now)
	if !h.busy() && !h.idle {
		h.idle = true
		if f.fleet != nil {
			f.fleet.dry = append(f.fleet.dry, parted{h, now.Add(lingerFor)})
		} else {
			f.idle = append(f.idle, h)
		}
	}
	return left
}

// review settles a host, and puts it back into the schedule if it has left those that wait.
func (f *Frontier) review(h *host, now time.Time) {
	if f.settle(h, now) {
		f.offer(h, now, now)
	}
}

// reclass notes the class in which the slots of a host are counted, and whether it is a quick one with work. It
// reports whether one that waited for its class does so no longer.
func (s *sharing) reclass(h *host, now time.Time) (left bool) {
	if ln := h.classAt(now); ln != h.class {
		switch {
		case h.class == classFast:
			s.slowOut += int(h.holding)
		case ln == classFast:
			s.slowOut -= int(h.holding)
		}
		left = h.inLine
		s.leaveLine(h) // whichever class it waited for, it is another now
		h.class = ln
	}
	working := h.queued() > 0 || len(h.out) > 0
	if quick := working && h.class == classFast; quick != h.quick {
		h.quick = quick
		if quick {
			s.quick++
		} else {
			s.quick--
		}
	}
	return left
}

// classOpen reports whether a host of the class may take one more slot.
func (s *sharing) classOpen(ln hostClass) bool {
	half := max(1, s.total/2)
	switch ln {
	case classNew:
		return s.slowOut < half
	case classStalled:
		return s.roomExtra() || s.waiting[classNew] == 0 && s.classOpen(classSlow)
	case classSlow:
		// New hosts go before slow ones that have taken more than their half.
		return s.slowOut < half || s.quick == 0 && s.waiting[classNew] == 0
	}
	return true
}

// roomExtra reports whether one more lease may be out that holds no slot.
func (s *sharing) roomExtra() bool { return s.extraOut < s.extra }

// leaveLine has a host wait for its class no longer; its entry is skipped when it comes up.
func (s *sharing) leaveLine(h *host) {
	if h.inLine {
		h.inLine = false
		s.waiting[h.class]--
	}
}

// othersAhead reports whether there are hosts that have waited for a slot or an extra slot before a host of the class
// that comes up by itself, and would take it from them.
func (s *sharing) othersAhead(ln hostClass) bool {
	if ln == classStalled && s.roomExtra() {
		return s.waiting[ln] > 0 || s.nextUp != nil && s.nextUp.class == ln
	}
	return s.nextUp != nil || s.waiting[classNew]+s.waiting[classSlow]+s.waiting[classStalled] > 0
}

// callNext calls the first of the hosts that wait for a slot if there is a slot for it: it is put into the schedule,
// and nobody else takes the slot before it comes up. The classes take turns, so that no stream of hosts of one of
// them keeps the others waiting for ever.
func (f *Frontier) callNext(now time.Time) {
	for i := range numClasses - classNew {
		ln := classNew + (f.lastClass+i)%(numClasses-classNew) // from the one after the last
		for f.nextUp == nil && len(f.lines[ln]) > 0 && f.classOpen(ln) {
			h := f.lines[ln][0]
			f.lines[ln][0] = nil
			f.lines[ln] = f.lines[ln][1:]
			if !h.inLine || h.class != ln {
				continue // it has left
			}
			f.leaveLine(h)
			f.offer(h, now, now)
			if h.index >= 0 {
				f.nextUp, f.lastClass = h, ln
			}
		}
	}
}
