package frontier

import (
	"container/heap"
	"strings"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

type timetable struct {
	roster
	sharing
	due      schedule
	order    uint64
	held     time.Time // no request may be sent to any host before; in the past if there is no such limit
	heldBy   ratelimit.Limit
	handed   atomic.Int32 // leases of all hosts whose holder has not requested its permit yet
	revising int          // how many hosts of roll, from the first, Revise has still to visit
	keeping  bool         // some hosts may be pausing because our own queue had no place for a request
	jam      string       // why a request could not leave this process last, for people
	jammed   time.Time    // no host is to be acquired before, as a request had no place; zero: one has been made since
}

// offer schedules a host at an instant, or earlier if it is scheduled earlier already. It does nothing if the host has
// no URL, has as many requests in flight as it may, or waits for a slot.
func (t *timetable) offer(h *host, now, at time.Time) {
	if h.parted {
		return
	}
	t.settle(h, now)
	if h.queued() == 0 || h.inLine || h.full() {
		return
	}
	if h.excluded {
		at = now.Add(excludedFor)
		h.why, h.reason = ratelimit.LimitNone, byOperator
	}
	if h.index >= 0 {
		if at.Before(h.at) {
			t.move(h, at)
		}
		return
	}
	h.at = at
	t.order++
	h.order = t.order
	heap.Push(&t.due, h)
}

func (t *timetable) move(h *host, at time.Time) {
	h.at = at
	heap.Fix(&t.due, int(h.index))
}

// settle updates the class of a host after a change of its work or time, and notes whether it is idle. It reports
// whether the host was waiting for a slot of its class and no longer is.
func (t *timetable) settle(h *host, now time.Time) (left bool) {
	if h.parted {
		return false
	}
	t.note(h)
	return t.reclass(h, now)
}

func (t *timetable) review(h *host, now time.Time) {
	if t.settle(h, now) {
		t.offer(h, now, now)
	}
}

func (t *timetable) enqueue(h *host, it Item, now, notBefore time.Time) {
	if h.parted {
		t.giveUpRobots(&it, now)
		return // the next holder of the host requests the URL again
	}
	h.delay(it, notBefore)
	t.queue(&it, 1)
	t.offer(h, now, notBefore)
}

// giveUpRobots gives up a robots.txt that cannot be requested any more, and makes the hosts that wait for it request it
// again.
func (t *timetable) giveUpRobots(it *Item, now time.Time) {
	if it.Kind != Robots || t.cfg.RobotsGivenUp == nil {
		return
	}
	t.cfg.RobotsGivenUp(it.Origin, now)
	_, host, _ := strings.Cut(it.Origin, "://")
	t.Wake(now, host)
}

// unload removes a host from memory with all its URLs, and returns those that wait for another try.
func (t *timetable) unload(h *host) (away []*Item) {
	if h.index >= 0 {
		heap.Remove(&t.due, int(h.index))
	}
	t.forgetPlace(h)
	for h.queue.len() > 0 {
		it := h.queue.pop()
		t.bytes -= it.size()
	}
	away = h.retries.all()
	for _, it := range away {
		t.bytes -= it.size()
	}
	h.retries, h.over = nil, nil
	if h.quick {
		h.quick = false
		t.quick--
	}
	t.drop(h)
	return away
}

// first removes the host that comes up first from the schedule and returns it. If none may be leased from now, it
// returns nil and the instant at which to look again.
func (t *timetable) first(now time.Time) (*host, time.Time) {
	t.callNext(now)
	switch {
	case len(t.due) == 0:
		return nil, time.Time{}
	case t.due[0].at.After(now):
		if t.due[0].excluded { // all hosts behind it are excluded too
			return nil, time.Time{}
		}
		return nil, t.due[0].at
	case t.held.After(now):
		return nil, t.held
	}
	return heap.Pop(&t.due).(*host), time.Time{}
}

// callNext schedules the first host that waits for a slot, if its class may take one, and reserves the next slot for
// it. The classes take turns, so that none starves.
func (t *timetable) callNext(now time.Time) {
	for i := range numClasses - classNew {
		ln := classNew + (t.lastClass+i)%(numClasses-classNew) // begin with the class after the last one
		for t.nextUp == nil && len(t.lines[ln]) > 0 && t.classOpen(ln) {
			h := t.lines[ln][0]
			t.lines[ln][0] = nil
			t.lines[ln] = t.lines[ln][1:]
			if !h.inLine || h.class != ln {
				continue // the host has left the line
			}
			t.leaveLine(h)
			t.offer(h, now, now)
			if h.index >= 0 {
				t.nextUp, t.lastClass = h, ln
			}
		}
	}
}

// Wake schedules a host at once, because what it waited for may have come.
func (t *timetable) Wake(now time.Time, name string) {
	if h := t.hosts[ratelimit.Domain(name)]; h != nil {
		t.offer(h, now, now)
	}
}

// revised is how many hosts Revise handles in one step: half a millisecond, with the time that the pacer takes for
// each.
const revised = 64

// reviseSome goes from the end of roll to its beginning, because a removed host is replaced by the last one.
func (t *timetable) reviseSome(now time.Time) {
	t.revising = min(t.revising, len(t.roll))
	for n := 0; n < revised && t.revising > 0; n++ {
		t.revising--
		if h := t.roll[t.revising]; h.index >= 0 && h.reason == "" && h.at.After(now) {
			t.move(h, now)
		}
	}
}

// later schedules a host, which was taken from the schedule, at the instant that the pacer gave. If the limit is one of
// all hosts together, the host keeps its place and no host comes up until that instant, so that ten thousand due hosts
// do not each ask the pacer at every token. Release ends this, since the limit may be on requests in flight.
func (t *timetable) later(h *host, called bool, now, at time.Time, why ratelimit.Limit) {
	h.why, h.reason = why, ""
	switch why {
	case ratelimit.LimitGlobal, ratelimit.LimitGlobalConcurrency, ratelimit.LimitGlobalBytes:
		heap.Push(&t.due, h)
		if called {
			t.nextUp = h
		}
		t.held, t.heldBy = at, why
	default:
		t.offer(h, now, at)
	}
}

// keepFirst and keepDouble bound the pause of a host whose request found no place in our own queue. The pause doubles
// each time, from the time of a page up to where a thousand waiting hosts cost three hundred looks a second.
const (
	keepFirst  = 100 * time.Millisecond
	keepDouble = 5
)

// keep makes a host pause whose request found no place in our own queue, and returns the end of the pause.
func (t *timetable) keep(h *host, now time.Time) time.Time {
	t.jammed = now.Add(jammedFor)
	if !h.keptTil.After(now) { // several requests refused together count once
		h.keptTil = now.Add(keepFirst << min(h.kept, keepDouble))
		h.kept = min(h.kept, keepDouble) + 1
		t.keeping = true
	}
	return h.keptTil
}

// kept reports whether a host is in such a pause, and schedules it at the end of the pause.
func (t *timetable) kept(h *host, now time.Time) bool {
	if !h.keptTil.After(now) {
		return false
	}
	h.why, h.reason = ratelimit.LimitNone, retrying
	t.offer(h, now, h.keptTil)
	return true
}
