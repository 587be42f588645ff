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
	scopeSite    scope = iota // the hosts of a registrable domain
	scopeAddress              // the hosts at an address
	scopeGlobal               // all hosts; last, because its line is joined last
	numScopes
)

// shares are the budgets that a domain shares with others, by scope; nil for none.
type shares [numScopes]*budget

// budget is a token bucket that several domains share. When the head of a domain's line may go by its own limits, it
// waits in the line of each of the domain's budgets; only the first in such a line has a timer.
//
// Every line is in the order in which waiters first joined any line. So the first of all waiters is the first in each
// of its lines, and nobody starves.
type budget struct {
	bucket      bucket
	capacity    int64
	from        clock.Instant // no grant earlier
	hinted      bool          // from is what the server told
	trying      bool          // from is due to a trial of the controller, which is out
	unpaced     bool          // there is no rate, only caps
	scope       scope
	promised    int32         // tokens that ReadyAt promised and that nobody has taken yet
	promisedTo  clock.Instant // when these promises end
	line        []*waiter
	group       *group       // whose budget it is; nil for the one of all domains
	caps        *globalCaps  // of the one of all domains; nil for none
	tokenSource *tokenSource // where the tokens come from if several processes share the budget; nil if this one alone uses it
}

// ticket names the trial of a group's controller that a grant is; the zero ticket is no trial.
type ticket struct {
	group *group
	trial uint32
}

// shared has all shared budgets under one lock, so that a grant takes from all of its budgets or from none.
type shared struct {
	l      *AdaptiveRateLimiter
	mu     sync.Mutex // guards what follows, all budgets and all groups; taken last
	seq    uint64     // of the last waiter that joined a line
	groups map[groupKey]*group
	// idle are groups without a member whose bucket is not full yet. Beyond MaxTombstones the oldest is forgotten.
	idle *simplelru.LRU[*group, struct{}]

	global *budget // nil for no bound; never changes

	bound atomic.Int32 // how many groups of an address have a budget that binds
	live  atomic.Int32 // how many groups listen to the answers of their members

	pending []*tokenSource   // sources that want tokens, each at most once
	bell    chan struct{}    // of capacity one: a value means that some are pending
	use     map[string]int64 // tokens used since the last usedSince, by the source's key

	news  journal[Event] // events of groups
	fresh atomic.Bool    // OnEvent has not been told of some of news
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

// capacityAt is the capacity of a shared bucket of a rate: what ten milliseconds bring, so that a late timer loses
// nothing, and at least one token.
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

// review asks the group's controller for a new plan if the last one has run out.
func (b *budget) review(now clock.Instant) {
	now = max(now, b.bucket.at) // another domain's clock may have been read later
	if b.group != nil {
		b.group.review(now)
	}
	b.advance(now)
}

// when returns the earliest instant for a grant after those in line, those promised and ahead more, and the limit. It
// changes nothing.
func (b *budget) when(now clock.Instant, ahead int) (at clock.Instant, why Limit) {
	n := len(b.line) + ahead + 1
	if now < b.promisedTo {
		n += int(b.promised)
	}
	return b.earliest(now, n)
}

const (
	// lookAgain is the time between two looks at what only an answer or the end of a request changes.
	lookAgain = 250 * time.Millisecond
	// soon is the time between two looks at a place that was promised to a caller who has not come yet.
	soon = time.Millisecond
	// promiseFor is how long a promised token is kept, from ReadyAt to Acquire.
	promiseFor = 20 * time.Millisecond
)

// earliest returns when the n-th token can be spent, or if that is not known when to look again, and the limit.
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
		at = min(at, now.Add(lookAgain)) // nobody wakes the other members when the trial's answer comes
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

// turn takes a token of each budget at now if w is the first in all of their lines, and returns now. Otherwise w stands
// in line, and may sleep until at; at is forever if the first in line will wake it.
func (h *shared) turn(w *waiter, sh *shares, now clock.Instant) (at clock.Instant, why Limit, t ticket) {
	if *sh == (shares{}) && !w.placed() {
		return now, LimitNone, ticket{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	at = now
	for sl, b := range sh {
		if scope(sl) == scopeGlobal && at > now {
			b = nil // w does not join this line yet: those behind it may be ready
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
			when = unknown // a release wakes the head; those behind may have deadlines
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

// when returns the earliest instant for a grant at the budgets, after all further grants to any domain, and the limit.
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

// promise counts that a domain was told it may go, so that no other domain is told of the same token. It takes
// nothing. For the budget of all domains the caller keeps count itself.
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

// placed reports whether w stands in a line of a shared budget. The caller holds the lock of w's domain, under which a
// waiter joins and leaves.
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

// moveLocked puts w into the line of b, in order of arrival, and takes it out of the line of any other budget of the
// scope. A nil b only takes it out.
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
