package ratelimit

import (
	"sync"

	"github.com/treadlight/crawl/internal/clock"
)

// global is the bucket that all domains share. A domain's head that may go as far
// as its domain is concerned takes its place in a second line, across domains, in
// which again only the first has a timer. A nil global bounds nothing.
type global struct {
	mu         sync.Mutex // guards what follows; taken last
	bucket     bucket
	capacity   int64
	head, tail *waiter
	n          int
}

// globalPlace is a waiter's place in the global line.
type globalPlace struct {
	prev, next *waiter
	queued     bool
}

// newGlobal makes a bucket for rps requests per second. It holds what ten
// milliseconds bring, at least one token: a timer may be that late, and above a
// hundred requests per second what it missed would be lost.
func newGlobal(rps float64) *global {
	if rps == 0 {
		return nil
	}
	r := rateOf(rps)
	// The rate is bounded first: what the fastest brings would not fit an int64.
	capacity := max(token, int64(min(r, 100*maxCapacity*perSecond))*(token/int64(100*perSecond)))
	return &global{bucket: bucket{level: capacity, rate: r}, capacity: capacity}
}

func (g *global) advanceLocked(now clock.Instant) {
	g.bucket.advance(max(now, g.bucket.at), g.capacity)
}

// tryTake takes a token at now for a domain that nobody waits for, unless others
// were first. The caller grants.
func (g *global) tryTake(now clock.Instant) bool {
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advanceLocked(now)
	if g.n > 0 || g.bucket.level < token {
		return false
	}
	g.bucket.take()
	return true
}

// turn takes a token at now if it is w's turn, and returns now; otherwise w is in
// the line, and at is when to come again: forever if somebody else is first, who
// will nudge w.
func (g *global) turn(w *waiter, now clock.Instant) (at clock.Instant) {
	if g == nil {
		return now
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !w.global.queued {
		g.joinLocked(w)
	}
	if g.head != w {
		return forever
	}
	g.advanceLocked(now)
	if at = g.bucket.when(now, g.capacity, 1); at > now {
		return at
	}
	g.bucket.take()
	g.leaveLocked(w)
	return now
}

// when is the earliest instant for a grant that comes after those in line and after
// ahead more.
func (g *global) when(now clock.Instant, ahead int) clock.Instant {
	if g == nil {
		return now
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.bucket.when(now, g.capacity, g.n+ahead+1)
}

// leave gives w's place up, if it has one.
func (g *global) leave(w *waiter) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.global.queued {
		g.leaveLocked(w)
	}
}

func (g *global) joinLocked(w *waiter) {
	w.global = globalPlace{prev: g.tail, queued: true}
	if g.tail == nil {
		g.head = w
	} else {
		g.tail.global.next = w
	}
	g.tail = w
	g.n++
}

func (g *global) leaveLocked(w *waiter) {
	p := w.global
	w.global = globalPlace{}
	g.n--
	if p.next != nil {
		p.next.global.prev = p.prev
	} else {
		g.tail = p.prev
	}
	if p.prev != nil {
		p.prev.global.next = p.next
		return
	}
	if g.head = p.next; g.head != nil {
		g.head.nudge()
	}
}
