package redis

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
)

const (
	// shards is how many locks there are for what is remembered: so many that few
	// processors meet at one.
	shards = 16

	// trust is for how long a state is believed. Redis may be set right by hand, or a key
	// removed by another process; after a minute it is asked again.
	trust = time.Minute

	// perKey is how many plans, and how many lists of them for leases, are remembered of
	// a key. Rules ask for a key by a few; beyond these the oldest is forgotten.
	perKey = 8
)

// local is what is remembered here of keys. The keys that were not asked about for
// longest are forgotten first; that costs a trip, and the rest of a lease.
type local struct {
	cfg    *Config
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu      sync.Mutex // guards what follows
	keys    *simplelru.LRU[string, *entry]
	removed uint64 // grows with every Remove: what was asked before it is not learned after it
}

// entry is what is remembered of a key.
type entry struct {
	known  []known
	leases []*lease
}

// sight is a server's time, and when it was that time here: somewhere in between.
type sight struct {
	server         admission.Micros
	sent, received clock.Instant
}

// latest is the server's time at now, or less. The clocks of computers are slewed by up
// to 500 parts in a million; a thousand cover both.
func (s sight) latest(now clock.Instant) admission.Micros {
	passed := now.Sub(s.sent)
	return s.server + admission.Micros((passed+passed>>10)/time.Microsecond) + 1
}

// earliest is the server's time at now, or more.
func (s sight) earliest(now clock.Instant) admission.Micros {
	return s.server + admission.Micros(now.Sub(s.received)/time.Microsecond)
}

// known is the state of a plan when it was last asked about. Others may have taken
// since, and nobody gives back, so at most this much is there.
type known struct {
	plan   string
	window bool
	state  admission.State
	sight
}

func newLocal(cfg *Config) *local {
	l := &local{cfg: cfg, seed: maphash.MakeSeed()}
	size := max(1, cfg.Keys/shards)
	for i := range l.shards {
		// Its error is for a size that is not above zero.
		l.shards[i].keys, _ = simplelru.NewLRU[string, *entry](size, nil)
	}
	return l
}

func (l *local) shard(key string) *shard {
	return &l.shards[maphash.String(l.seed, key)%shards]
}

// look is what is known before a trip.
type look struct {
	res      admission.Result
	known    bool            // res is the decision
	most     int64           // to ask for, if res is not
	wait     <-chan struct{} // another fetches what may do for this one too
	fetching chan struct{}   // this one does, and has to say when it has landed
	removed  uint64
}

// look decides if what is known is enough.
func (l *local) look(key string, plans []admission.Plan, now clock.Instant, n int64) look {
	sh := l.shard(key)
	most := l.largest(plans)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	v := look{most: n, removed: sh.removed}
	e, ok := sh.keys.Get(key)
	if !ok {
		if most < 2 || n == 0 {
			return v
		}
		e = &entry{}
		sh.keys.Add(key, e)
	}
	if n == 0 {
		return v // a look wants what is true now
	}
	var ls *lease
	if most >= 2 {
		ls = e.lease(plans)
		if v.res, v.known = ls.take(now, n); v.known {
			return v
		}
	}
	if v.res, v.known = e.denies(plans, now, n); v.known || ls == nil {
		return v
	}
	ls.fetch(&v, now, n, most)
	return v
}

// denies is the decision if one of the plans is known to deny. All must be known, for the
// one with the longest wait is told. It is decided at the latest time that it can be at
// the server, and told for the earliest, so that no wait is too short.
func (e *entry) denies(plans []admission.Plan, now clock.Instant, n int64) (tightest admission.Result, denies bool) {
	for i := range plans {
		k := e.find(&plans[i])
		if k == nil || now < k.sent || now.Sub(k.sent) > trust {
			return tightest, false
		}
		_, soonest := plans[i].Take(k.state, k.latest(now), n)
		_, res := plans[i].Take(k.state, k.earliest(now), n)
		if i == 0 || res.Tighter(&tightest) {
			tightest = res
		}
		denies = denies || !soonest.Allowed
	}
	return tightest, denies && !tightest.Allowed
}

// find is what is known of a plan, or nil.
func (e *entry) find(p *admission.Plan) *known {
	for i := range e.known {
		if k := &e.known[i]; k.plan == p.Name && k.window == (p.Window != 0) {
			return k
		}
	}
	return nil
}

// learn remembers what a trip has brought: a lease, and the states of a key that was
// denied or is remembered already. That those are few keeps keys within their limit from
// pushing the others out.
func (l *local) learn(key string, plans []admission.Plan, n int64, v look, t told) {
	after := append(make([]admission.State, 0, usualPlans), t.states...)
	admission.TakeAll(after, plans, t.answer.now, max(t.taken, 0))
	sh := l.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if v.removed != sh.removed {
		return
	}
	e, ok := sh.keys.Peek(key)
	if !ok {
		if t.taken != denied {
			return
		}
		e = &entry{}
		sh.keys.Add(key, e)
	}
	for i := range plans {
		e.set(known{plans[i].Name, plans[i].Window != 0, after[i], sight{t.answer.now, t.sent, t.received}})
	}
	if n > 0 && t.taken != denied && l.largest(plans) >= 2 {
		e.lease(plans).begin(l.cfg.Lease, &t, n)
	}
}

// usualPlans is for how many plans states lie on the stack.
const usualPlans = 8

// set puts k in the place of what was known of its plan. If a trip that was sent later
// has landed before, less is known now than could be, and nothing wrong.
func (e *entry) set(k known) {
	for i := range e.known {
		if e.known[i].plan == k.plan {
			e.known[i] = k
			return
		}
	}
	if len(e.known) == perKey {
		e.known = slices.Delete(e.known, 0, 1)
	}
	e.known = append(e.known, k)
}

// landed tells those who wait for the fetch that it is over, however it went.
func (l *local) landed(key string, fetching chan struct{}) {
	sh := l.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e, ok := sh.keys.Peek(key); ok {
		for _, ls := range e.leases {
			if ls.fetching == fetching {
				ls.fetching = nil
			}
		}
	}
	close(fetching)
}

// forget drops what is known of key, and what is under way.
func (l *local) forget(key string) {
	sh := l.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.removed++
	sh.keys.Remove(key)
}
