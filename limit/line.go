package limit

import "iter"

// waiter is a caller in a line, who looks at the limiter when it becomes the head, when it is
// woken, and when its timer fires.
type waiter struct {
	n          int64
	next, prev *waiter
	wake       chan struct{} // of one, so that a nudge never waits: look again
	gone       bool          // turned away, its owner having been closed
	guest      bool          // a composite's place: its calls are counted there
}

func newWaiter(n int64) *waiter { return &waiter{n: n, wake: make(chan struct{}, 1)} }

// nudge makes the waiter look again. A nudge that has not been seen yet is enough.
func (w *waiter) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// line is callers in the order of their arrival: a ring, of which the head's prev is the last.
// Its owner's lock guards it.
type line struct {
	head   *waiter
	n      int32
	closed bool // nobody may stand in it any more
}

// push puts w at the end.
func (ln *line) push(w *waiter) {
	if ln.n++; ln.head == nil {
		w.next, w.prev, ln.head = w, w, w
		return
	}
	w.next, w.prev = ln.head, ln.head.prev
	w.prev.next, w.next.prev = w, w
}

// remove takes w out, wherever it stands, and tells a new head.
func (ln *line) remove(w *waiter) {
	w.prev.next, w.next.prev = w.next, w.prev
	if ln.n--; ln.n == 0 {
		ln.head = nil
	} else if ln.head == w {
		ln.head = w.next
		ln.head.nudge()
	}
	w.next, w.prev = nil, nil
}

// all is everyone in line, the first first.
func (ln *line) all() iter.Seq[*waiter] {
	return func(yield func(*waiter) bool) {
		for w, left := ln.head, ln.n; left > 0 && yield(w); left-- {
			w = w.next
		}
	}
}

// close turns everyone away and adds their weights to count.
func (ln *line) close(count uint64) uint64 {
	ln.closed = true
	for ln.head != nil {
		w := ln.head.prev
		w.gone = true
		if !w.guest {
			count = addCount(count, w.n)
		}
		ln.remove(w)
		w.nudge()
	}
	return count
}
