package resilience

import (
	"context"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// hedgeDesk knows the calls that are under way, and when each of them is due for another
// attempt. One timer serves them all: it is set for the earliest, and left alone when
// that one comes back in time, so that a timer is set once per delay and not per call.
type hedgeDesk struct {
	epoch time.Time // of the instants; never changes

	mu          sync.Mutex // guards what follows
	stats       HedgeStatistics
	active      int           // calls of Execute and goroutines
	ended       chan struct{} // closed when nothing is active after close; nil before it
	first, last *hedgeWait    // the queue, the earliest first
	alarm       clock.Instant // when the timer fires
	serial      uint64        // of the timer set last
	stop        func()        // stops it; nil if it is not set
}

type hedgeWait struct {
	call       interface{ late() }
	begun, due clock.Instant
	prev, next *hedgeWait
	queued     bool
	gone       bool // left for good
}

// clk is the clock of delays, which is that of the contexts the timer is made of.
func (d *hedgeDesk) clk() clock.Clock { return clock.System() }

func (d *hedgeDesk) now() clock.Instant { return clock.Instant(d.clk().Since(d.epoch)) }

// enter counts a call and has it called when the delay is over, unless the desk is closed.
func (d *hedgeDesk) enter(w *hedgeWait, delay time.Duration) bool {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended != nil {
		return false
	}
	d.active++
	d.stats.Calls++
	w.begun = now
	d.queueLocked(w, now, delay)
	return true
}

// again queues a call anew that another attempt was just started for.
func (d *hedgeDesk) again(w *hedgeWait, delay time.Duration) {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	// It may have left since it was launched, and it may have been queued by a launch
	// that came between.
	if d.unqueueLocked(w); !w.gone {
		d.queueLocked(w, now, delay)
	}
}

func (d *hedgeDesk) exit(w *hedgeWait) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unqueueLocked(w)
	w.gone = true
	d.leaveLocked()
}

// leaveLocked counts one out. Nothing can come after the last: only who is counted
// starts anything, and enter refuses.
func (d *hedgeDesk) leaveLocked() {
	if d.active--; d.active == 0 && d.ended != nil {
		close(d.ended)
	}
}

// queueLocked finds the place from the end: delays hardly differ, so it is the last.
func (d *hedgeDesk) queueLocked(w *hedgeWait, now clock.Instant, delay time.Duration) {
	w.due, w.queued = now.AddClamped(delay), true
	after := d.last
	for after != nil && after.due > w.due {
		after = after.prev
	}
	w.prev = after
	if after == nil {
		w.next, d.first = d.first, w
	} else {
		w.next, after.next = after.next, w
	}
	if w.next == nil {
		d.last = w
	} else {
		w.next.prev = w
	}
	d.setLocked(now)
}

// unqueueLocked takes a call out, if it is in. The timer stays as it is: setting it anew
// for every call that comes back would cost more than a ring for nobody now and then.
func (d *hedgeDesk) unqueueLocked(w *hedgeWait) {
	if !w.queued {
		return
	}
	w.queued = false
	if w.prev == nil {
		d.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		d.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// setLocked sets the timer for the first in the queue, unless it fires before. The timer
// is a context's: no goroutine waits for it, and none is left behind by it.
func (d *hedgeDesk) setLocked(now clock.Instant) {
	if d.first == nil || d.stop != nil && d.alarm <= d.first.due {
		return
	}
	if d.stop != nil {
		d.stop()
	}
	d.alarm = d.first.due
	d.serial++
	serial := d.serial
	ctx, cancel := context.WithTimeout(context.Background(), d.alarm.Sub(now))
	unhook := context.AfterFunc(ctx, func() { d.ring(serial) })
	d.stop = func() { unhook(); cancel() }
}

// ring starts attempts for those who are due. It runs on a goroutine of the timer, which
// is counted if anybody is due. One that was replaced when it had fired already does no
// harm: who is due is decided by the time.
func (d *hedgeDesk) ring(serial uint64) {
	now := d.now()
	d.mu.Lock()
	if d.stop != nil && d.serial == serial {
		d.stop()
		d.stop = nil
	}
	var due []*hedgeWait // called without the lock: starting an attempt takes it again
	for d.first != nil && d.first.due <= now {
		due = append(due, d.first)
		d.unqueueLocked(d.first)
	}
	d.setLocked(now)
	if len(due) == 0 {
		d.mu.Unlock()
		return
	}
	d.active++ // what they start is counted from their own
	d.mu.Unlock()
	for _, w := range due {
		w.call.late()
	}
	d.mu.Lock()
	d.leaveLocked()
	d.mu.Unlock()
}

// spawn runs fn on a goroutine that is counted. Who calls it is counted itself, so that
// close, which waits for that one, waits for the goroutine as well.
func (d *hedgeDesk) spawn(fn func()) {
	d.mu.Lock()
	d.active++
	d.stats.Running++
	d.mu.Unlock()
	go func() {
		defer func() {
			d.mu.Lock()
			d.stats.Running--
			d.leaveLocked()
			d.mu.Unlock()
		}()
		fn()
	}()
}

func (d *hedgeDesk) count(total *uint64) {
	d.mu.Lock()
	*total++
	d.mu.Unlock()
}

func (d *hedgeDesk) statistics() HedgeStatistics {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// close refuses later calls and returns when nothing is active any more.
func (d *hedgeDesk) close() {
	d.mu.Lock()
	if d.ended == nil {
		d.ended = make(chan struct{})
		if d.active == 0 {
			close(d.ended)
		}
	}
	ended := d.ended
	d.mu.Unlock()
	<-ended
	d.mu.Lock() // and now nobody sets the timer again
	defer d.mu.Unlock()
	if d.stop != nil {
		d.stop()
		d.stop = nil
	}
}
