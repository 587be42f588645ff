package ratelimit

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// shard holds the states of a part of the domains. Acquire and Feedback read its index without a lock.
type shard struct {
	mu        sync.RWMutex // guards what follows
	index     index        // of states; read without the lock
	tombs     *simplelru.LRU[string, tombstone]
	cap       int // most states; exceeded only while all are active
	mostTombs int
	granted   uint64   // permits that evicted states have granted
	_         [64]byte // puts the next shard's lock on another cache line
}

// tombstone is what is kept of a domain that was evicted or recalled: its obligations and what was learned, in at most
// 64 bytes. Latencies, the error window and a closed breaker's failures are forgotten, and the bucket counts as empty at
// the last grant. Beyond the bound on tombstones the longest unused is forgotten.
type tombstone struct {
	owes
	memory control.Memory // of the strategy; what it learned is forgotten a day after the last grant
}

func (l *AdaptiveRateLimiter) makeShards() {
	n := l.cfg.Shards
	l.shards, l.mask = make([]shard, n), uint64(n-1)
	for i := range l.shards {
		sh := &l.shards[i]
		sh.cap = (l.cfg.MaxDomains + n - 1) / n
		sh.mostTombs = max(1, l.cfg.MaxTombstones/n)
		sh.tombs, _ = simplelru.NewLRU[string, tombstone](sh.mostTombs, nil) // fails only for a size below one
	}
}

func (l *AdaptiveRateLimiter) shardOf(id identity) *shard { return &l.shards[id.check&l.mask] }

func (l *AdaptiveRateLimiter) lock(domain string) *state {
	id := l.identify(domain)
	sh := l.shardOf(id)
	for {
		s := sh.index.get(id)
		if s == nil {
			s = l.create(sh, id, domain)
		}
		s.mu.Lock()
		if !s.dead {
			return s
		}
		s.mu.Unlock() // it was evicted meanwhile
	}
}

func (l *AdaptiveRateLimiter) create(sh *shard, id identity, domain string) *state {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s := sh.index.get(id); s != nil {
		return s
	}
	now := l.now()
	l.makeRoomLocked(sh, now)
	t, _ := sh.tombs.Peek(domain)
	sh.tombs.Remove(domain)
	s := t.restore(l.rules.Load().rulesFor(domain), now) // under the lock, as SetRules visits each shard after it has changed the rules
	s.check, s.domain = id.check, strings.Clone(domain)  // the caller's string may be part of a page
	if s.rules.caps != nil {
		s.rules.caps.pin()
	}
	if l.cfg.SiteRPS != 0 {
		if key := siteKey(domain); key != (groupKey{}) {
			l.shared.mu.Lock()
			s.site = l.shared.join(now, key)
			l.shared.mu.Unlock()
		}
	}
	sh.index.put(id.tag, s)
	return s
}

// makeRoomLocked evicts idle states until there is room for one more, unless all are active.
func (l *AdaptiveRateLimiter) makeRoomLocked(sh *shard, now clock.Instant) {
	for sh.index.live >= sh.cap {
		s := sh.index.longestUnused()
		if s == nil {
			l.overCap.Add(1)
			return
		}
		s.mu.Lock()
		if !s.activeLocked() { // as it was a moment ago
			l.evictLocked(sh, s, now)
		}
		s.mu.Unlock()
	}
}

func (s *state) activeLocked() bool { return s.inFlight > 0 || s.line != nil }

func (l *AdaptiveRateLimiter) evictLocked(sh *shard, s *state, now clock.Instant) {
	s.dead = true
	if s.rules.caps != nil {
		s.rules.caps.unpin()
	}
	if s.site != nil || s.addr != nil {
		l.shared.mu.Lock()
		l.shared.partLocked(now, s, s.site)
		l.shared.partLocked(now, s, s.addr)
		s.site, s.addr = nil, nil
		l.shared.mu.Unlock()
	}
	sh.index.remove(l.identify(s.domain).tag, s)
	sh.granted += uint64(s.granted)
	l.evicted.Add(1)
	if t, owes := s.tombstoneLocked(now); owes {
		sh.tombs.Add(s.domain, t)
	}
}

func (s *state) tombstoneLocked(now clock.Instant) (t tombstone, owes bool) {
	now = max(now, s.bucket.at)
	t.owes = s.owes
	if s.taught {
		t.memory = s.strategy.Memory(now)
	}
	spacing, _ := s.spacingLocked()
	owes = t.retryUntil > now || t.crawlDelay > 0 || t.memory != (control.Memory{}) ||
		s.bucket.levelAt(now, s.capacityLocked()) < s.capacityLocked() || t.lastGrant.Add(spacing) > now
	return t, owes
}

func (t tombstone) restore(r *rules, now clock.Instant) *state {
	if t == (tombstone{}) {
		return newState(r, now, t.memory)
	}
	now = max(now, t.lastGrant)
	if now.Sub(t.lastGrant) >= memoryTTL {
		t.memory = control.Memory{Held: t.memory.Held}
	}
	s := newState(r, now, t.memory)
	s.owes = t.owes
	s.taught = t.memory != (control.Memory{})
	if t.lastGrant != never {
		s.bucket.level, s.bucket.at = 0, t.lastGrant
	}
	s.replanLocked(now)
	s.noteRestoredLocked(now)
	return s
}

// Run does the limiter's background work until ctx ends, and returns ctx's error: every DomainStateTTL/2 it evicts the
// states unused for DomainStateTTL, and with Config.Fleet it takes tokens of shared budgets. Without Run states are
// evicted only beyond MaxDomains, and with Config.Fleet nothing is granted.
func (l *AdaptiveRateLimiter) Run(ctx context.Context) error {
	if l.cfg.Fleet != nil {
		var filled sync.WaitGroup
		filled.Go(func() { l.shared.refill(ctx) })
		defer filled.Wait()
	}
	for {
		if err := clock.Sleep(ctx, l.cfg.Clock, l.cfg.DomainStateTTL/2); err != nil {
			return err
		}
		l.sweep()
	}
}

func (l *AdaptiveRateLimiter) sweep() {
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		now := l.now()
		for _, s := range sh.index.appendAll(nil) {
			s.mu.Lock()
			switch {
			case s.activeLocked():
			case now.Sub(s.lastActive) >= l.cfg.DomainStateTTL:
				l.evictLocked(sh, s, now)
			default:
				s.window.Trim(now) // a quiet half-minute leaves nothing to count
			}
			s.mu.Unlock()
		}
		sh.mu.Unlock()
	}
	l.shared.sweep(l.now())
	for _, h := range l.rules.Load().hosts {
		if h.rules.caps != nil {
			h.rules.caps.sweep()
		}
	}
}

// identity stands for a domain's name in an index: two 64-bit hashes. The tag is keyed by a secret, so that nobody can
// choose names that collide; among a million names two collide by chance with a probability of about 1e-27.
type identity struct{ tag, check uint64 }

// The tag has its low bit set, since zero marks an empty slot.
func (l *AdaptiveRateLimiter) identify(domain string) identity {
	return identity{maphash.String(l.seed, domain) | 1, xxhash.Sum64String(domain)}
}

// index finds a shard's states without a lock, in two reads. Only holders of the shard's write lock change it.
type index struct {
	table atomic.Pointer[table]
	used  int    // slots whose tag is set, also of removed states
	live  int    // states
	hand  uint64 // the slot that longestUnused looked at last
}

// evictSample is how many idle states longestUnused compares.
const evictSample = 16

// table is an open-addressing hash table of 2^n slots. A tag, once set, stays, so that a concurrent search ends; the tags
// of removed states go when the table is copied.
type table []slot

type slot struct {
	tag   atomic.Uint64
	state atomic.Pointer[state] // nil if removed
}

func (t table) first(tag uint64) uint64 { return tag >> 1 & uint64(len(t)-1) }

func (t table) next(i uint64) uint64 { return (i + 1) & uint64(len(t)-1) }

// get finds a state without a lock; nil if there is none. The state may be evicted meanwhile: then state.dead is set.
func (x *index) get(id identity) *state {
	p := x.table.Load()
	if p == nil {
		return nil
	}
	t := *p
	for i := t.first(id.tag); ; i = t.next(i) {
		switch sl := &t[i]; sl.tag.Load() {
		case 0:
			return nil
		case id.tag:
			if s := sl.state.Load(); s != nil && s.check == id.check {
				return s
			}
		}
	}
}

func (x *index) appendAll(list []*state) []*state {
	if p := x.table.Load(); p != nil {
		for i := range *p {
			if s := (*p)[i].state.Load(); s != nil {
				list = append(list, s)
			}
		}
	}
	return list
}

// longestUnused is the state unused for longest among evictSample idle ones; nil while all are active.
func (x *index) longestUnused() (oldest *state) {
	var since clock.Instant
	t, seen := *x.table.Load(), 0
	for range t {
		x.hand = t.next(x.hand)
		s := t[x.hand].state.Load()
		if s == nil {
			continue
		}
		s.mu.Lock()
		active, used := s.activeLocked(), s.lastActive
		s.mu.Unlock()
		if active {
			continue
		}
		if oldest == nil || used < since {
			oldest, since = s, used
		}
		if seen++; seen == evictSample {
			break
		}
	}
	return oldest
}

func (x *index) put(tag uint64, s *state) {
	p := x.table.Load()
	if p == nil || 4*(x.used+1) > 3*len(*p) {
		size := 16
		for size < 2*(x.live+1) {
			size *= 2
		}
		t := make(table, size)
		if p != nil {
			for i := range *p {
				if s := (*p)[i].state.Load(); s != nil {
					t.put((*p)[i].tag.Load(), s)
				}
			}
		}
		p, x.used = &t, x.live
		x.table.Store(p)
	}
	p.put(tag, s)
	x.used++
	x.live++
}

func (t table) put(tag uint64, s *state) {
	i := t.first(tag)
	for t[i].tag.Load() != 0 {
		i = t.next(i)
	}
	// The state is stored before its tag: a reader that sees the tag must find the state.
	t[i].state.Store(s)
	t[i].tag.Store(tag)
}

func (x *index) remove(tag uint64, s *state) {
	t := *x.table.Load()
	for i := t.first(tag); t[i].tag.Load() != 0; i = t.next(i) {
		if t[i].state.CompareAndSwap(s, nil) {
			x.live--
			return
		}
	}
}
