package ratelimit

// placed reports whether w stands in a line. It needs the lock of w's domain, under
// which alone a waiter joins and leaves.
func (w *waiter) placed() bool {
	for i := range w.places {
		if w.places[i].in != nil {
			return true
		}
	}
	return false
}

// leave gives w's places up, if it has any.
func (h *shared) leave(w *waiter) {
	if !w.placed() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaveLocked(w)
}

func (h *shared) leaveLocked(w *waiter) {
	for sl := range numScopes {
		h.moveLocked(w, sl, nil)
	}
	w.seq = 0
}

// moveLocked has w stand in the line of b and of no other budget of that kind.
func (h *shared) moveLocked(w *waiter, sl scope, b *budget) {
	old := w.places[sl].in
	if old == b {
		return
	}
	if old != nil {
		old.remove(w)
	}
	if b == nil {
		return
	}
	if w.seq == 0 {
		h.seq++
		w.seq = h.seq
	}
	b.insert(w)
}

// insert puts w behind those who came before it, and that is nearly always the end.
func (b *budget) insert(w *waiter) {
	after := b.tail
	for after != nil && after.seq > w.seq {
		after = after.places[b.scope].prev
	}
	p := place{in: b, prev: after, next: b.head}
	if after != nil {
		p.next = after.places[b.scope].next
		after.places[b.scope].next = w
	} else {
		b.head = w
	}
	if p.next != nil {
		p.next.places[b.scope].prev = w
	} else {
		b.tail = w
	}
	w.places[b.scope] = p
	b.n++
}

func (b *budget) remove(w *waiter) {
	p := w.places[b.scope]
	w.places[b.scope] = place{}
	b.n--
	if p.next != nil {
		p.next.places[b.scope].prev = p.prev
	} else {
		b.tail = p.prev
	}
	if p.prev != nil {
		p.prev.places[b.scope].next = p.next
		return
	}
	b.head = p.next
	b.nudge()
}

// nudge makes the first in line look again.
func (b *budget) nudge() {
	if b.head != nil {
		b.head.nudge()
	}
}
