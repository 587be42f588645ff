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

// classAt is the class of a host. A request that has been out for long counts before it ends.
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

// Overdue says that a lease has waited for its first byte for SlowAfter. It reports whether the lease holds an extra
// slot in place of a normal one, and may be called again.
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

// settle updates the class of a host after a change of its work or time, and whether it may be forgotten. It reports
// whether one that waited for its class no longer does.
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

// reclass updates the class in which a host's slots count. It reports whether one that waited for its class no longer
// does.
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

// othersAhead reports whether hosts have waited for a slot longer than one of this class that comes up by itself.
func (s *sharing) othersAhead(ln hostClass) bool {
	if ln == classStalled && s.roomExtra() {
		return s.waiting[ln] > 0 || s.nextUp != nil && s.nextUp.class == ln
	}
	return s.nextUp != nil || s.waiting[classNew]+s.waiting[classSlow]+s.waiting[classStalled] > 0
}

// callNext schedules the first host that waits for a slot, if there is one, and reserves it. The classes take turns,
// so that none starves.
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
