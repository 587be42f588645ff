package ratelimit

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/clock"
)

type scope uint8

const (
	scopeSite    scope = iota // of a registrable domain
	scopeAddress              // of an address
	scopeGlobal               // of all domains; last, because its line is joined last
	numScopes
)

type shares [numScopes]*budget

// budget is a bucket that several domains share. A domain's head that may go waits in the line of each of its budgets,
// in which only the first has a timer.
//
// Lines are in the order in which waiters first joined one, so the first of all is first in each: no starvation.
type budget struct {
	bucket      bucket
	capacity    int64
	from        clock.Instant // no grant earlier
	hinted      bool          // because the server said so
	trying      bool          // because a trial of the controller is out
	unpaced     bool          // only its caps bound it
	scope       scope
	promised    int32 // tokens that were said to be there, and not asked for yet
	promisedTo  clock.Instant
	line        []*waiter
	group       *group       // whose budget it is; nil for the one of all domains
	caps        *globalCaps  // of the one of all domains; nil for none
	tokenSource *tokenSource // where its tokens come from if processes share it; nil: it is this one's alone
}

type ticket struct {
	group *group
	trial uint32 // zero for nothing
}

// shared are the shared budgets, under one lock: a grant takes from all of its budgets or from none.
type shared struct {
	l      *AdaptiveRateLimiter
	mu     sync.Mutex // guards what follows, all budgets and all groups; taken last
	seq    uint64     // of the latest waiter who joined a line
	groups map[groupKey]*group
	// idle are groups without a member whose bucket is not full yet. The oldest is forgotten, with its debt.
	idle *simplelru.LRU[*group, struct{}]

	global *budget // nil for no bound; never changes

	bound atomic.Int32 // groups of addresses whose budget holds
	live  atomic.Int32 // groups that listen to the answers of their members

	pending []*tokenSource   // that want tokens, each at most once
	bell    chan struct{}    // holds one: there are some
	use     map[string]int64 // of tokens, by the keys of their sources, for usedSince

	news  journal[Event] // of groups
	fresh atomic.Bool    // some of it is untold
}

func (h *shared) init(l *AdaptiveRateLimiter) {
	h.l = l
	c := &l.cfg
	h.bell = make(chan struct{}, 1)
	h.groups, h.use = make(map[groupKey]*group), make(map[string]int64)
	h.idle, _ = simplelru.NewLRU[*group, struct{}](c.MaxTombstones, nil) // which wants one or more
	if c.GlobalRPS == 0 && c.GlobalConcurrency == 0 && c.GlobalBytes == 0 {
		return
	}
	h.global = newBudget(max(rateOf(c.GlobalRPS), 1), scopeGlobal)
	b := h.global
	if b.unpaced = c.GlobalRPS == 0; !b.unpaced {
		b.tokenSource = h.newTokenSource(b, "global", "global", c.GlobalRPS)
		b.capacity = b.capacityAt(b.bucket.rate)
	}
	b.caps = h.newGlobalCaps(b)
}

func newBudget(r rate, sl scope) *budget {
	c := capacityAt(r)
	return &budget{bucket: bucket{level: c, rate: r}, capacity: c, from: never, scope: sl}
}

// capacityAt is ten milliseconds of a rate, at least one token, to cover a late timer.
func capacityAt(r rate) int64 {
	// The rate is bounded first: what the fastest brings would not fit an int64.
	return max(token, int64(min(r, 100*maxCapacity*perSecond))*(token/int64(100*perSecond)))
}

func (b *budget) capacityAt(r rate) int64 {
	if b.tokenSource == nil {
		return capacityAt(r)
	}
	return max(capacityAt(r), min(b.tokenSource.bucket.Capacity, maxCapacity)*token)
}

func (b *budget) advance(now clock.Instant) {
	b.bucket.advance(max(now, b.bucket.at), b.capacity)
}

// review applies a new plan at now, if the controller's last one has run out.
func (b *budget) review(now clock.Instant) {
	now = max(now, b.bucket.at) // another domain's clock may have been read later
	if b.group != nil {
		b.group.review(now)
	}
	b.advance(now)
}

// when is the earliest instant for a grant after those in line, those promised and ahead more, and why. It changes
// nothing.
func (b *budget) when(now clock.Instant, ahead int) (at clock.Instant, why Limit) {
	n := len(b.line) + ahead + 1
	if now < b.promisedTo {
		n += int(b.promised)
	}
	return b.earliest(now, n)
}

const (
	// lookAgain is how soon to ask again about what only an answer or the end of a request brings.
	lookAgain = 250 * time.Millisecond
	// soon is when to ask again about a place promised to somebody who has not come yet.
	soon = time.Millisecond
	// promiseFor is how long a promised token is kept, from a scheduler's question to its Acquire.
	promiseFor = 20 * time.Millisecond
)

// earliest is when the n-th token can be spent, or to ask again, and what limits it.
func (b *budget) earliest(now clock.Instant, n int) (at clock.Instant, why Limit) {
	at = now
	switch {
	case b.scope == scopeGlobal:
		why = LimitGlobal
	case b.hinted && b.bucket.at < b.from:
		why = LimitRetryAfter
	default:
		why = LimitShared
	}
	if !b.unpaced {
		at = b.bucket.when(max(now, b.from), b.capacity, n)
	}
	if b.trying && now < b.from {
		at = min(at, now.Add(lookAgain)) // when the trial's answer comes, the other members are not told
	}
	if b.tokenSource != nil {
		at = max(at, b.tokenSource.when(now, int64(n)))
	}
	if b.caps != nil {
		if t, limit := b.caps.when(now, n); t > at {
			return t, limit
		}
	}
	return at, why
}

func (h *shared) tryTake(sh *shares, now clock.Instant) (t ticket, ok bool) {
	if *sh == (shares{}) {
		return ticket{}, true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range sh {
		if b == nil {
			continue
		}
		b.review(now)
		if at, _ := b.earliest(now, 1); at > now || len(b.line) > 0 {
			return ticket{}, false
		}
	}
	return h.takeLocked(sh, now), true
}

func (h *shared) takeLocked(sh *shares, now clock.Instant) (t ticket) {
	for _, b := range sh {
		if b == nil {
			continue
		}
		if !b.unpaced {
			b.bucket.take()
		}
		if b.tokenSource != nil {
			b.tokenSource.spend(now, 1)
		}
		if b.caps != nil {
			b.caps.out++
			b.caps.peak = max(b.caps.peak, b.caps.out)
		}
		h.want(b, now)
		b.promised = max(b.promised-1, 0)
		if b.group != nil && b.group.merge != nil {
			t = ticket{b.group, b.group.sent(max(now, b.bucket.at))}
		}
	}
	return t
}

// turn takes a token of each budget at now if it is w's turn in all, and returns now; else w is in line until at,
// forever if the first in line will wake it.
func (h *shared) turn(w *waiter, sh *shares, now clock.Instant) (at clock.Instant, why Limit, t ticket) {
	if *sh == (shares{}) && !w.placed() {
		return now, LimitNone, ticket{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	at = now
	for sl, b := range sh {
		if scope(sl) == scopeGlobal && at > now {
			b = nil // not yet in the line of all: those behind w may be ready
		}
		h.moveLocked(w, scope(sl), b)
		if b == nil {
			continue
		}
		b.review(now)
		h.want(b, now)
		when, limit := b.earliest(now, 1)
		switch {
		case limit == LimitGlobalConcurrency && when > now:
			when = unknown // it nudges the head, and those behind may not be able to wait
		case b.line[0] != w:
			when = forever
		}
		if when > at {
			at, why = when, limit
		}
	}
	if at > now {
		return at, why, ticket{}
	}
	h.leaveLocked(w)
	return now, LimitNone, h.takeLocked(sh, now)
}

// when is the earliest instant for a grant at the budgets, after all more of all domains, and why.
func (h *shared) when(sh *shares, now clock.Instant, all int) (at clock.Instant, why Limit) {
	at = now
	if *sh == (shares{}) {
		return at, LimitNone
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for sl, b := range sh {
		if b == nil {
			continue
		}
		ahead := 0
		if scope(sl) == scopeGlobal {
			ahead = all
		}
		if t, limit := b.when(now, ahead); t > at {
			at, why = t, limit
		}
	}
	return at, why
}

// promise counts a domain that was told it may go, so that the next is not told of the same token. It takes nothing.
// Of the budget of all domains the caller keeps count.
func (h *shared) promise(sh *shares, now clock.Instant) {
	if sh[scopeSite] == nil && sh[scopeAddress] == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range sh[:scopeGlobal] {
		if b == nil {
			continue
		}
		if now >= b.promisedTo {
			b.promised = 0
		}
		b.promised++
		b.promisedTo = now.Add(promiseFor)
	}
}

// placed reports whether w is in a line. It needs the lock of w's domain, under which a waiter joins and leaves.
func (w *waiter) placed() bool { return w.in != [numScopes]*budget{} }

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

// moveLocked puts w into the line of b, in order of arrival, and of no other budget of that kind.
func (h *shared) moveLocked(w *waiter, sl scope, b *budget) {
	old := w.in[sl]
	if old == b {
		return
	}
	bySeq := func(a *waiter, seq uint64) int { return cmp.Compare(a.seq, seq) }
	if old != nil {
		i, _ := slices.BinarySearchFunc(old.line, w.seq, bySeq)
		old.line = slices.Delete(old.line, i, i+1)
		if i == 0 {
			old.nudge()
		}
	}
	if w.in[sl] = b; b == nil {
		return
	}
	if w.seq == 0 {
		h.seq++
		w.seq = h.seq
	}
	i, _ := slices.BinarySearchFunc(b.line, w.seq, bySeq)
	b.line = slices.Insert(b.line, i, w)
}

func (b *budget) nudge() {
	if len(b.line) > 0 {
		b.line[0].nudge()
	}
}
