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
	// shards is how many locks there are for what is remembered: so many that few processors meet at one.
	shards = 16

	// trust is for how long a state is believed. Redis may be set right by hand, or a key removed by
	// another process; after a minute it is asked again.
	trust = time.Minute

	// perKey is how many plans, and how many lists of them, are remembered of a key. Rules ask for a key
	// by a few; beyond these the oldest is forgotten.
	perKey = 8

	// flightParts is how many departures fit into a deadline: who comes while a question about the same
	// is under way goes with all who have come, when that has landed, or after this part of the deadline.
	flightParts = 16
)

// local is what is remembered here of keys, and who asks about them. Of keys that nobody asks about only
// those are remembered that were denied or have leases, and of these those were forgotten first that were
// not asked about for longest: that costs a trip, and the rest of a lease.
type local struct {
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu      sync.Mutex                     // guards what follows, and the entries
	keys    *simplelru.LRU[string, *entry] // nil if nothing is remembered
	aloft   map[string]*entry              // those about which questions are under way, and that are not in keys
	removed uint64                         // grows with every Remove: what was asked before it is not learned after it
}

type entry struct {
	known []known
	lines []*line
}

// line is those who ask for tokens of the same plans of a key, and the lease: tokens that were charged already.
type line struct {
	plans   []admission.Plan
	flying  int     // questions under way
	waiting []*seat // for one token each, in the order in which they came

	until clock.Instant // when what is left of the lease is dropped
	left  int64
	used  int64 // since it began, by the question that brought it too
	size  int64 // what is asked for at a time; 1 while it is not asked often enough to pay

	// states are those after what was used, as if the rest had not been charged yet. By them headers tell
	// what is left; only others' use is missing.
	states []admission.State
	sight
}

type seat struct {
	n    int64
	gone bool          // guarded by the shard's lock until it departs
	done chan struct{} // closed when what follows is there

	res   admission.Result
	err   error
	again bool // it has to ask once more, by itself
}

// sight is a server's time, and when it was that time here: somewhere in between.
type sight struct {
	server         admission.Micros
	sent, received clock.Instant
}

// latest is the server's time at now, or less. The clocks of computers are slewed by up to 500 parts in
// a million; a thousand cover both.
func (s sight) latest(now clock.Instant) admission.Micros {
	passed := now.Sub(s.sent)
	return s.server + admission.Micros((passed+passed>>10)/time.Microsecond) + 1
}

// earliest is the server's time at now, or more.
func (s sight) earliest(now clock.Instant) admission.Micros {
	return s.server + admission.Micros(now.Sub(s.received)/time.Microsecond)
}

// known is the state of a plan when it was last asked about. Others may have taken since, and nobody
// gives back, so at most this much is there.
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
			// Its error is for a size that is not above zero.
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

// line is that of a list of plans, made if there is none. Plans whose numbers were replaced are another list.
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

// takeHere decides by what is remembered if that is enough, and asks if not: at once, or, while a
// question about the same is under way, together with others.
func (r *Repository) takeHere(ctx context.Context, key string, plans []admission.Plan, n int64) (admission.Result, error) {
	now, sh := r.instant(), r.local.shard(key)
	if n == 0 { // a look wants what is true now
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

// sit waits for the answer. The first of those who wait sees to it that they depart. Who leaves before
// that is not asked for.
func (r *Repository) sit(ctx context.Context, sh *shard, key string, l *line, s *seat, first bool) (admission.Result, error) {
	var next <-chan time.Time
	if first {
		timer := clock.System().NewTimer(r.cfg.Deadline / flightParts) // deadlines are the system's
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

// departLocked has those be asked for, in the background, who wait when that has begun.
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

// fly asks the server for the tokens of one seat, or for one token for each of several, and for more if
// they are there, up to most; it gives the tokens to the first of the seats, and remembers what was told.
// Without a line it only asks.
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
			// Rounding may have the script take fewer than there are for several.
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

// landLocked ends a question: those who came meanwhile have what the lease has, or depart.
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

// learnLocked remembers the states of a key that was denied, has a lease or is remembered already. That
// those are few keeps keys within their limit from pushing the others out.
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

// set puts k in the place of what was known of its plan. If a trip that was sent later has landed before,
// less is known now than could be, and nothing wrong.
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

// denies is the decision if one of the plans is known to deny. All must be known, for the one with the
// longest wait is told. It is decided at the latest time that it can be at the server, and told for the
// earliest, so that no wait is too short.
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

// largest is how many tokens a lease of plans may have: what flows in while it lasts, and so little of a
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

// lease charges n to the lease if it has so many.
func (l *line) lease(now clock.Instant, n int64) (res admission.Result, ok bool) {
	if now >= l.until || l.left < n {
		return res, false
	}
	res = admission.TakeAll(l.states, l.plans, l.earliest(now), n)
	if !res.Allowed { // by a plan of which not even the tokens charged are there any more
		return res, false
	}
	l.left -= n
	l.used += n
	return res, true
}

// want is how many tokens the next lease is to have, of at most most.
func (l *line) want(now clock.Instant, most int64) int64 {
	if most < 2 {
		return 1
	}
	size := l.used
	if now < l.until { // it was used up early: at this pace it would have needed so many
		pace := float64(l.until.Sub(l.sent)) / float64(max(1, now.Sub(l.sent)))
		size = int64(math.Ceil(min(float64(l.used)*pace, float64(2*max(l.size, 1)))))
	}
	l.size = min(max(size, 1), most)
	return l.size
}

// begin takes the place of the lease before. Time counts from when it was asked for, so that no token is
// used later than a lease's length after it was charged, and in a fixed window none is used after its
// end. states are those after what the question itself has used.
func (l *line) begin(length time.Duration, t sight, states []admission.State, left, used int64) {
	if l.left > left && t.sent < l.until {
		return // by one that asked for no more than it needed
	}
	for i := range l.plans {
		if p := &l.plans[i]; p.Kind == admission.KindFixedWindow {
			passed := time.Duration(t.server%admission.Micros(p.Window.Microseconds())) * time.Microsecond
			length = min(length, p.Window-passed)
		}
	}
	l.until, l.left, l.used, l.states, l.sight = t.sent.Add(length), left, used, states, t
}
