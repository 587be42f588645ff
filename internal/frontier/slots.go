package frontier

import (
	"slices"
	"time"
)

// hostClass is a class of hosts that share slots.
type hostClass uint8

const (
	classFast    hostClass = iota // known to free its slots soon: every slot is open to it
	classNew                      // has not answered yet
	classSlow                     // holds a slot for longer than SlowAfter
	classStalled                  // lets a request wait for its first byte for longer than SlowAfter
	numClasses
)

type sharing struct {
	total, extra int // Config.Slots and Config.ExtraSlots

	lines       [numClasses][]*host // hosts that wait for a slot of their class, first come first; some have left since
	waiting     [numClasses]int     // how many hosts of each line still wait
	nextUp      *host               // the waiting host that has the next slot reserved, until it comes up; nil: none
	lastClass   hostClass           // class of the last host called by callNext
	out         int                 // slots held
	slowOut     int                 // slots held by hosts of classes other than classFast
	extraOut    int                 // leases that hold an extra slot
	lastOverdue bool                // the last extra slot went to a lease that had held a normal slot
	quick       int                 // fast hosts that have work queued or in flight

	young   []*Lease // leases that are less than SlowAfter old, oldest first; some have got their response already
	overdue []*Lease // older leases without a response, for which there was no extra slot
}

// Out returns how many leases hold a slot, normal or extra: those that are not released.
func (f *Frontier) Out() int { return f.sharing.out + f.extraOut }

// Free reports whether a slot is free.
func (f *Frontier) Free() bool { return f.sharing.out < f.total && f.Out() < f.total+f.extra }

// SetAside gives leases whose requests have waited for their first byte for [SlowAfter] extra slots in place of their
// normal ones, while there are any. It returns the instant at which to call it again; zero means that only a response
// or a free slot can change anything.
func (f *Frontier) SetAside(now time.Time) time.Time {
	late := func(l *Lease) bool { return !l.Waiting() || f.Overdue(now, l) }
	f.overdue = slices.DeleteFunc(f.overdue, late)
	n := 0
	defer func() { f.young = slices.Delete(f.young, 0, n) }()
	for ; n < len(f.young); n++ {
		l := f.young[n]
		if ripe := l.at.Add(SlowAfter); l.Waiting() && ripe.After(now) {
			return ripe
		}
		if !late(l) {
			f.overdue = append(f.overdue, l)
		}
	}
	return time.Time{}
}

// classAt returns the class of a host. A request that has been in flight for long counts before it ends.
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
			break // the other leases are younger
		}
	}
	return classFast
}

// hold counts a slot that a host takes (n = 1) or gives back (n = -1).
func (s *sharing) hold(h *host, n int) {
	s.out += n
	h.holding += int32(n)
	if h.class != classFast {
		s.slowOut += n
	}
}

// setAside gives a lease an extra slot in place of its normal one, and reports whether it did. It does not if no extra
// slot is free or if it is the turn of a waiting host.
func (s *sharing) setAside(l *Lease) bool {
	if l.extra || !s.roomExtra() || s.waiting[classStalled] > 0 && s.lastOverdue {
		return false
	}
	s.hold(l.host, -1)
	l.extra, s.lastOverdue = true, true
	s.extraOut++
	return true
}

// reclass updates the class in which a host's slots count. It reports whether the host was waiting for a slot of its
// former class, which it no longer does.
func (s *sharing) reclass(h *host, now time.Time) (left bool) {
	if ln := h.classAt(now); ln != h.class {
		switch {
		case h.class == classFast:
			s.slowOut += int(h.holding)
		case ln == classFast:
			s.slowOut -= int(h.holding)
		}
		left = h.inLine
		s.leaveLine(h) // its class is another one now
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

// roomExtra reports whether an extra slot is free.
func (s *sharing) roomExtra() bool { return s.extraOut < s.extra }

// mustWait reports whether a host has to wait for a slot, and appends it to the line of its class if so. A host that
// was called does not wait if its class may take a slot.
func (s *sharing) mustWait(h *host, called bool) bool {
	if s.classOpen(h.class) && (h.class == classFast || called || !s.othersAhead(h.class)) {
		return false
	}
	h.inLine = true
	s.lines[h.class] = append(s.lines[h.class], h)
	s.waiting[h.class]++
	return true
}

// leaveLine ends a host's wait for a slot of its class. Its entry in the line is skipped later.
func (s *sharing) leaveLine(h *host) {
	if h.inLine {
		h.inLine = false
		s.waiting[h.class]--
	}
}

// forgetPlace ends a host's wait for a slot, and drops its reservation.
func (s *sharing) forgetPlace(h *host) {
	s.leaveLine(h)
	if s.nextUp == h {
		s.nextUp = nil
	}
}

// othersAhead reports whether waiting hosts go before a host of the class that comes up by itself.
func (s *sharing) othersAhead(ln hostClass) bool {
	if ln == classStalled && s.roomExtra() {
		return s.waiting[ln] > 0 || s.nextUp != nil && s.nextUp.class == ln
	}
	return s.nextUp != nil || s.waiting[classNew]+s.waiting[classSlow]+s.waiting[classStalled] > 0
}
