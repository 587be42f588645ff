package redis

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
)

const (
	// shards is how many locks protect what is remembered: so many that processors rarely wait for the same one.
	shards = 16

	// trust is how long a remembered state is believed. Somebody may repair Redis by hand, or another process may
	// remove a key; after a minute Redis is asked again.
	trust = time.Minute

	// perKey is how many plans, and how many lists of plans, are remembered of a key. Rules use a few for each key;
	// beyond this number the oldest is forgotten.
	perKey = 8

	// flightParts is how many departures fit into a deadline. A caller that arrives while a command about the same key
	// and plans is in flight waits, and departs together with all others that wait: when that command has its reply, or
	// after this part of the deadline.
	flightParts = 16
)

// local has what this process remembers of keys, and the callers that wait for decisions about them. Of keys without a
// command in flight, it remembers only those that were denied or have leases. If there are too many of these, it
// forgets those first that were not used for longest, at the cost of another trip and of the rest of a lease.
type local struct {
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu      sync.Mutex                     // guards what follows, and the entries
	keys    *simplelru.LRU[string, *entry] // nil if nothing is remembered
	aloft   map[string]*entry              // keys with commands in flight that are not in keys
	removed uint64                         // grows with every Remove: a reply to a command sent before it is not remembered
}

type entry struct {
	known []known
	lines []*line
}

// line has the callers that want tokens of the same plans of a key, and the lease: tokens that are charged already.
type line struct {
	plans   []admission.Plan
	flying  int     // commands in flight
	waiting []*seat // callers that want one token each, in the order in which they arrived

	until clock.Instant // when the rest of the lease is dropped
	left  int64
	used  int64 // tokens used since it began, including those of the command that brought it
	size  int64 // tokens to take at a time; 1 if the key is used too rarely for a lease

	// states are the states after what was used, as if the rest of the lease had not been charged. Headers tell by them
	// what is left; only the use by other processes is missing.
	states []admission.State
	sight
}

type seat struct {
	n    int64
	gone bool          // the caller has left; guarded by the shard's lock until the seat departs
	done chan struct{} // closed when the following fields are set

	res   admission.Result
	err   error
	again bool // the caller has to send a command of its own
}

// sight is a time of the server's clock, and the local interval in which it was read.
type sight struct {
	server         admission.Micros
	sent, received clock.Instant
}

// latest returns an upper bound of the server's time at now. The clocks of computers are slewed by up to 500 parts in a
// million; a thousand cover both clocks.
func (s sight) latest(now clock.Instant) admission.Micros {
	passed := now.Sub(s.sent)
	return s.server + admission.Micros((passed+passed>>10)/time.Microsecond) + 1
}

// earliest returns a lower bound of the server's time at now.
func (s sight) earliest(now clock.Instant) admission.Micros {
	return s.server + admission.Micros(now.Sub(s.received)/time.Microsecond)
}

// known is the state of a plan when the server last told it. Other processes may have taken tokens since, and none
// gives any back, so that no more than this is left.
type known struct {
	plan   string
	window bool
	state  admission.State
	sight
}

func (l *local) init(keys int) {
	l.seed = maphash.MakeSeed()
	for i := range l.shards {
		l.shards[i].aloft = map[string]*entry{}
		if keys > 0 {
			// The error is nil, because the size is above zero.
			l.shards[i].keys, _ = simplelru.NewLRU[string, *entry](max(1, keys/shards), nil)
		}
	}
}

func (l *local) shard(key string) *shard { return &l.shards[maphash.String(l.seed, key)%shards] }

func (l *local) forget(key string) {
	sh := l.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.removed++
	if sh.keys != nil {
		sh.keys.Remove(key)
	}
}

func (sh *shard) entryLocked(key string) *entry {
	if sh.keys != nil {
		if e, ok := sh.keys.Get(key); ok {
			return e
		}
	}
	return sh.aloft[key]
}

// line returns the line for a list of plans, and makes it if there is none. Plans whose numbers were changed are
// another list.
func (e *entry) line(plans []admission.Plan) *line {
	for _, l := range e.lines {
		if slices.Equal(l.plans, plans) {
			return l
		}
	}
	if len(e.lines) == perKey {
		e.lines = slices.Delete(e.lines, 0, 1)
	}
	l := &line{plans: plans, size: 1}
	e.lines = append(e.lines, l)
	return l
}

// takeHere decides by what is remembered, if that suffices. Otherwise it sends a command: at once or, while a command
// about the same key and plans is in flight, together with other callers.
func (r *Repository) takeHere(ctx context.Context, key string, plans []admission.Plan, n int64) (admission.Result, error) {
	now, sh := r.instant(), r.local.shard(key)
	if n == 0 { // a look must return the present state
		s := &seat{}
		r.fly(ctx, key, nil, plans, 0, s)
		return s.res, s.err
	}
	sh.mu.Lock()
	e := sh.entryLocked(key)
	if e == nil {
		e = &entry{}
		sh.aloft[key] = e
	}
	l := e.line(plans)
	if res, ok := l.lease(now, n); ok {
		sh.mu.Unlock()
		r.leased.Add(1)
		return res, nil
	}
	if res, ok := e.denies(plans, now, n); ok {
		sh.mu.Unlock()
		r.denials.Add(1)
		return res, nil
	}
	s := &seat{n: n}
	if n > 1 || l.flying == 0 {
		most := max(n, l.want(now, r.largest(plans)))
		l.flying++
		sh.mu.Unlock()
		r.fly(ctx, key, l, plans, most, s)
		return s.res, s.err
	}
	s.done = make(chan struct{})
	l.waiting = append(l.waiting, s)
	first := len(l.waiting) == 1
	sh.mu.Unlock()
	return r.sit(ctx, sh, key, l, s, first)
}

// sit waits for the answer. The first caller that waits starts the departure of all who wait. No token is requested for
// a caller that leaves before.
func (r *Repository) sit(ctx context.Context, sh *shard, key string, l *line, s *seat, first bool) (admission.Result, error) {
	var next <-chan time.Time
	if first {
		timer := clock.System().NewTimer(r.cfg.Deadline / flightParts) // deadlines use the system clock
		defer timer.Stop()
		next = timer.C()
	}
	for {
		select {
		case <-s.done:
			if s.again {
				s = &seat{n: 1}
				r.fly(ctx, key, nil, l.plans, 1, s)
			}
			return s.res, s.err
		case <-next:
			sh.mu.Lock()
			r.departLocked(sh, key, l)
			sh.mu.Unlock()
		case <-ctx.Done():
			sh.mu.Lock()
			if s.gone = true; first {
				r.departLocked(sh, key, l)
			}
			sh.mu.Unlock()
			return admission.Result{}, fmt.Errorf("redis: within %v: %w", r.cfg.Deadline, ctx.Err())
		}
	}
}

// departLocked starts, in the background, a command for the callers that wait by the time it is sent.
func (r *Repository) departLocked(sh *shard, key string, l *line) {
	if len(l.waiting) == 0 {
		return
	}
	board := func() []*seat {
		seats := slices.DeleteFunc(l.waiting, func(s *seat) bool { return s.gone })
		l.waiting = nil
		return seats
	}
	l.flying++
	if r.link.begin(func(ctx context.Context) {
		sh.mu.Lock()
		seats := board()
		most := max(int64(len(seats)), l.want(r.instant(), r.largest(l.plans)))
		if len(seats) == 0 {
			r.landLocked(sh, key, l)
		}
		sh.mu.Unlock()
		if len(seats) > 0 {
			r.fly(ctx, key, l, l.plans, most, seats...)
		}
	}) {
		return
	}
	l.flying--
	for _, s := range board() {
		s.err = admission.ErrClosed
		close(s.done)
	}
}

// fly sends a command for the tokens of one seat, or for one token for each of several seats, and for more, up to most,
// if the server has them. It gives the tokens to the first of the seats and remembers the states in the reply. Without
// a line it does not touch a lease.
func (r *Repository) fly(ctx context.Context, key string, l *line, plans []admission.Plan, most int64, seats ...*seat) {
	sh := r.local.shard(key)
	sh.mu.Lock()
	removed := sh.removed
	sh.mu.Unlock()
	t := sight{sent: r.instant()}
	a, err := r.exchange(ctx, ask(r.now(), key, plans, seats[0].n, most))
	t.server, t.received = a.now, r.instant()
	states, left := slices.Clone(a.states), a.taken
	for i, s := range seats {
		if s.err = err; err == nil {
			s.res = admission.TakeAll(states, plans, a.now, s.n)
			took := left >= s.n
			if took {
				left -= s.n
			}
			// For several seats, rounding may make the script take fewer tokens than there are.
			s.again = s.res.Allowed && !took && i > 0
			if s.res.Allowed != took && !s.again {
				s.err = fmt.Errorf("redis: %s took %d of %d tokens, and should not have decided so", plans[0].Name, a.taken, most)
			}
		}
		if s.done != nil {
			close(s.done)
		}
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if err == nil && removed == sh.removed {
		r.learnLocked(sh, key, l, plans, &a, t)
		if l != nil && a.taken != denied && r.largest(plans) >= 2 {
			l.begin(r.cfg.Lease, t, states, left, a.taken-left)
		}
	}
	if l != nil {
		r.landLocked(sh, key, l)
	}
}

// landLocked ends a command: callers that arrived meanwhile get what the lease has, or depart.
func (r *Repository) landLocked(sh *shard, key string, l *line) {
	if l.flying--; l.flying > 0 {
		return
	}
	for len(l.waiting) > 0 {
		s := l.waiting[0]
		res, ok := l.lease(r.instant(), 1)
		if !ok {
			break
		}
		l.waiting = l.waiting[1:]
		s.res = res
		r.leased.Add(1)
		close(s.done)
	}
	if r.departLocked(sh, key, l); l.flying == 0 {
		delete(sh.aloft, key)
	}
}

// learnLocked remembers the states of a key that was denied, has a lease or is remembered already. These are few, so
// that keys within their limits do not displace them.
func (r *Repository) learnLocked(sh *shard, key string, l *line, plans []admission.Plan, a *answer, t sight) {
	if sh.keys == nil {
		return
	}
	e, ok := sh.keys.Peek(key)
	if !ok {
		if a.taken != denied && (l == nil || r.largest(plans) < 2) {
			return
		}
		if e = sh.aloft[key]; e == nil {
			e = &entry{}
		}
		delete(sh.aloft, key)
		sh.keys.Add(key, e)
	}
	after := slices.Clone(a.states)
	admission.TakeAll(after, plans, a.now, max(a.taken, 0))
	for i := range plans {
		e.set(known{plans[i].Name, plans[i].Window != 0, after[i], t})
	}
}

// set replaces what was known of k's plan. If the reply to a command that was sent later came before k, the older state
// replaces a newer one; that is less exact, and not wrong.
func (e *entry) set(k known) {
	at := slices.IndexFunc(e.known, func(o known) bool { return o.plan == k.plan })
	if at >= 0 {
		e.known[at] = k
		return
	}
	if len(e.known) == perKey {
		e.known = slices.Delete(e.known, 0, 1)
	}
	e.known = append(e.known, k)
}

// denies returns a decision if one of the plans is known to deny. All plans must be known, because the Result is that
// of the plan with the longest wait. Whether a plan denies is decided at the latest time that the server's clock may
// show, and the wait is computed from the earliest, so that no wait is too short.
func (e *entry) denies(plans []admission.Plan, now clock.Instant, n int64) (tightest admission.Result, denies bool) {
	for i := range plans {
		p := &plans[i]
		at := slices.IndexFunc(e.known, func(k known) bool { return k.plan == p.Name && k.window == (p.Window != 0) })
		if at < 0 || now < e.known[at].sent || now.Sub(e.known[at].sent) > trust {
			return tightest, false
		}
		k := &e.known[at]
		_, soonest := p.Take(k.state, k.latest(now), n)
		_, res := p.Take(k.state, k.earliest(now), n)
		if i == 0 || res.Tighter(&tightest) {
			tightest = res
		}
		denies = denies || !soonest.Allowed
	}
	return tightest, denies && !tightest.Allowed
}

// largest returns how many tokens a lease of plans may have: what flows in while it lasts, and so little of each
// capacity that all processes together hold half of it at most.
func (r *Repository) largest(plans []admission.Plan) int64 {
	if r.cfg.Lease == 0 {
		return 0
	}
	most := admission.MaxCapacity
	for i := range plans {
		p := &plans[i]
		rate := p.TokensPerSecond
		if p.Window != 0 {
			rate = float64(p.Capacity) / p.Window.Seconds()
		}
		flow := min(rate*r.cfg.Lease.Seconds(), float64(admission.MaxCapacity))
		most = min(most, int64(flow), p.Capacity/int64(2*r.cfg.Instances))
	}
	return most
}

// lease takes n tokens from the lease if it has so many.
func (l *line) lease(now clock.Instant, n int64) (res admission.Result, ok bool) {
	if now >= l.until || l.left < n {
		return res, false
	}
	res = admission.TakeAll(l.states, l.plans, l.earliest(now), n)
	if !res.Allowed { // a plan does not even have the tokens that were charged
		return res, false
	}
	l.left -= n
	l.used += n
	return res, true
}

// want returns how many tokens the next lease should have, at most most.
func (l *line) want(now clock.Instant, most int64) int64 {
	if most < 2 {
		return 1
	}
	size := l.used
	if now < l.until { // it was used up early: at this pace it would have needed more
		pace := float64(l.until.Sub(l.sent)) / float64(max(1, now.Sub(l.sent)))
		size = int64(math.Ceil(min(float64(l.used)*pace, float64(2*max(l.size, 1)))))
	}
	l.size = min(max(size, 1), most)
	return l.size
}

// begin replaces the lease. Its time counts from when the command was sent, so that no token is used later than a
// lease's length after it was charged, and none of a fixed window after the window's end. states are the states after
// what the command's own callers have used.
func (l *line) begin(length time.Duration, t sight, states []admission.State, left, used int64) {
	if l.left > left && t.sent < l.until {
		return // the command was for its own callers only, and the present lease has more left
	}
	for i := range l.plans {
		if p := &l.plans[i]; p.Kind == admission.KindFixedWindow {
			passed := time.Duration(t.server%admission.Micros(p.Window.Microseconds())) * time.Microsecond
			length = min(length, p.Window-passed)
		}
	}
	l.until, l.left, l.used, l.states, l.sight = t.sent.Add(length), left, used, states, t
}
