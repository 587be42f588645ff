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

	// perKey is how many lists of plans are remembered of a key. Rules use a few for each key; beyond this number the
	// oldest is forgotten.
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

type entry struct{ lines []*line }

// line has the callers that want tokens of the same plans of a key, what is known of them, and the lease: tokens that
// are charged already.
type line struct {
	plans   []admission.Plan
	flying  int    // commands in flight
	waiting *batch // nil for none

	// known are the states when the server last told them; nil if it did not. Other processes may have taken tokens
	// since, and none gives any back, so that no more than this is left.
	known []admission.State
	heard sight

	until clock.Instant // when the rest of the lease is dropped
	left  int64
	used  int64 // tokens used since it began, including those of the command that brought it
	size  int64 // tokens to take at a time; 1 if the key is used too rarely for a lease

	// states are the states after what was used, as if the rest of the lease had not been charged. Headers tell by them
	// what is left; only the use by other processes is missing.
	states []admission.State
	sight
}

// batch has callers that want one token each by the same command.
type batch struct {
	callers int           // those who have not left
	landed  chan struct{} // of capacity one: no command is in flight any longer
	done    chan struct{} // closed when the following fields are set

	results []admission.Result // for the callers, each of whom takes one; those who find none ask again
	err     error              // for those who find none; nil means that rounding made the script take fewer tokens than there are
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
	delete(sh.aloft, key)
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
// about the same key and plans is in flight, in a batch with other callers.
func (r *Repository) takeHere(ctx context.Context, key string, plans []admission.Plan, n int64) (admission.Result, error) {
	now, sh := r.instant(), r.local.shard(key)
	if n == 0 { // a look must return the present state
		return r.alone(r.fly(ctx, key, nil, plans, 0, 0, 1))
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
	if res, ok := l.denies(now, n); ok {
		sh.mu.Unlock()
		r.denials.Add(1)
		return res, nil
	}
	if n > 1 || l.flying == 0 && l.waiting == nil {
		most := max(n, l.want(now, r.largest(plans)))
		l.flying++
		sh.mu.Unlock()
		return r.alone(r.fly(ctx, key, l, plans, n, most, 1))
	}
	b := l.waiting
	if b == nil {
		b = &batch{landed: make(chan struct{}, 1), done: make(chan struct{})}
		if !r.link.begin(func(ctx context.Context) { r.depart(ctx, sh, key, l, b) }) {
			sh.mu.Unlock()
			return admission.Result{}, admission.ErrClosed
		}
		l.waiting = b
	}
	b.callers++
	sh.mu.Unlock()
	return r.wait(ctx, sh, key, l, b)
}

// alone returns the result of a command for one caller.
func (r *Repository) alone(results []admission.Result, err error) (admission.Result, error) {
	if err != nil {
		return admission.Result{}, err
	}
	return results[0], nil
}

// wait waits for the command of a batch. No token is requested for a caller that leaves before.
func (r *Repository) wait(ctx context.Context, sh *shard, key string, l *line, b *batch) (res admission.Result, err error) {
	select {
	case <-b.done:
	case <-ctx.Done():
		sh.mu.Lock()
		b.callers--
		sh.mu.Unlock()
		return res, fmt.Errorf("redis: within %v: %w", r.cfg.Deadline, ctx.Err())
	}
	sh.mu.Lock()
	found := len(b.results) > 0
	if found {
		res, b.results = b.results[0], b.results[1:]
	}
	sh.mu.Unlock()
	if found || b.err != nil {
		return res, b.err
	}
	return r.Take(ctx, key, l.plans, 1)
}

// depart waits until no command is in flight, but only for a part of the deadline, and then sends the command of a
// batch. What is left of a lease is used first.
func (r *Repository) depart(ctx context.Context, sh *shard, key string, l *line, b *batch) {
	timer := clock.System().NewTimer(r.cfg.Deadline / flightParts) // deadlines use the system clock
	select {
	case <-b.landed:
	case <-timer.C():
	case <-ctx.Done():
	}
	timer.Stop()
	sh.mu.Lock()
	l.waiting = nil
	l.flying++
	now, n := r.instant(), b.callers
	for ; n > 0; n-- {
		res, ok := l.lease(now, 1)
		if !ok {
			break
		}
		b.results = append(b.results, res)
		r.leased.Add(1)
	}
	most := max(int64(n), l.want(now, r.largest(l.plans)))
	if n == 0 {
		sh.landLocked(key, l)
	}
	sh.mu.Unlock()
	if n > 0 {
		var more []admission.Result
		more, b.err = r.fly(ctx, key, l, l.plans, 1, most, n)
		b.results = append(b.results, more...)
	}
	close(b.done)
}

// fly sends a command for n tokens for each of some callers and for more, up to most, if the server has them. It
// remembers the states in the reply, and returns the results of the callers. Without a line it does not touch a lease.
func (r *Repository) fly(ctx context.Context, key string, l *line, plans []admission.Plan, n, most int64, callers int) (results []admission.Result, err error) {
	sh := r.local.shard(key)
	sh.mu.Lock()
	removed := sh.removed
	sh.mu.Unlock()
	t := sight{sent: r.instant()}
	a, err := r.exchange(ctx, ask(r.now(), key, plans, n, most))
	t.server, t.received = a.now, r.instant()
	answered := err == nil
	states, left := slices.Clone(a.states), a.taken
	for err == nil && len(results) < callers {
		res := admission.TakeAll(states, plans, a.now, n)
		took := left >= n
		if took {
			left -= n
		}
		if res.Allowed && !took && len(results) > 0 {
			break
		}
		if res.Allowed != took {
			err = fmt.Errorf("redis: %s took %d of %d tokens, and should not have decided so", plans[0].Name, a.taken, most)
		} else {
			results = append(results, res)
		}
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l == nil {
		return results, err
	}
	if answered && removed == sh.removed {
		leases := r.largest(plans) >= 2
		sh.learnLocked(key, l, &a, t, leases)
		if leases && a.taken != denied {
			l.begin(r.cfg.Lease, t, states, left, a.taken-left)
		}
	}
	sh.landLocked(key, l)
	return results, err
}

// landLocked ends a command. If it was the last in flight, those who wait depart.
func (sh *shard) landLocked(key string, l *line) {
	switch l.flying--; {
	case l.flying > 0:
	case l.waiting == nil:
		delete(sh.aloft, key)
	default:
		select {
		case l.waiting.landed <- struct{}{}:
		default:
		}
	}
}

// learnLocked remembers the states after a command. It keeps keys that were denied or may have a lease. These are few,
// so that keys within their limits do not displace them. If the reply to a command that was sent later came before, the
// older states replace newer ones; that is less exact, and not wrong.
func (sh *shard) learnLocked(key string, l *line, a *answer, t sight, leases bool) {
	e := sh.entryLocked(key)
	if sh.keys == nil || e == nil { // nothing is remembered, or the key was forgotten meanwhile
		return
	}
	l.known, l.heard = slices.Clone(a.states), t
	admission.TakeAll(l.known, l.plans, a.now, max(a.taken, 0))
	for _, other := range e.lines { // whose plans may be the same by other numbers
		if other != l {
			other.known = nil
		}
	}
	if leases || a.taken == denied {
		delete(sh.aloft, key)
		sh.keys.Add(key, e)
	}
}

// denies returns a decision if one of the plans is known to deny. Whether a plan denies is decided at the latest time
// that the server's clock may show, and the wait is computed from the earliest, so that no wait is too short.
func (l *line) denies(now clock.Instant, n int64) (tightest admission.Result, denies bool) {
	if l.known == nil || now < l.heard.sent || now.Sub(l.heard.sent) > trust {
		return tightest, false
	}
	for i := range l.plans {
		p := &l.plans[i]
		_, soonest := p.Take(l.known[i], l.heard.latest(now), n)
		_, res := p.Take(l.known[i], l.heard.earliest(now), n)
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
