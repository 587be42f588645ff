package ratelimit

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// shard holds the states of a part of the domains.
type shard struct {
	mu        sync.RWMutex // guards what follows; taken before the lock of a state
	states    map[string]*state
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
		sh.states = make(map[string]*state)
		sh.cap = (l.cfg.MaxDomains + n - 1) / n
		sh.mostTombs = max(1, l.cfg.MaxTombstones/n)
		sh.tombs, _ = simplelru.NewLRU[string, tombstone](sh.mostTombs, nil) // fails only for a size below one
	}
}

func (l *AdaptiveRateLimiter) shardOf(domain string) *shard {
	return &l.shards[maphash.String(l.seed, domain)&l.mask]
}

// find returns the state of a domain, or nil. The state may be evicted meanwhile: then state.dead is set.
func (sh *shard) find(domain string) *state {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.states[domain]
}

func (l *AdaptiveRateLimiter) lock(domain string) *state {
	sh := l.shardOf(domain)
	for {
		s := sh.find(domain)
		if s == nil {
			s = l.create(sh, domain)
		}
		s.mu.Lock()
		if !s.dead {
			return s
		}
		s.mu.Unlock() // it was evicted meanwhile
	}
}

func (l *AdaptiveRateLimiter) create(sh *shard, domain string) *state {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s := sh.states[domain]; s != nil {
		return s
	}
	now := l.now()
	l.makeRoomLocked(sh, now)
	t, _ := sh.tombs.Peek(domain)
	sh.tombs.Remove(domain)
	s := t.restore(l.rules.Load().rulesFor(domain), now) // under the lock, as SetRules visits each shard after it has changed the rules
	s.domain = strings.Clone(domain)                     // the caller's string may be part of a page
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
	sh.states[s.domain] = s
	return s
}

// makeRoomLocked evicts idle states until there is room for one more, unless all are active.
func (l *AdaptiveRateLimiter) makeRoomLocked(sh *shard, now clock.Instant) {
	for len(sh.states) >= sh.cap {
		s := sh.longestUnusedLocked()
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

// evictSample is how many idle states longestUnusedLocked compares.
const evictSample = 16

// longestUnusedLocked returns the state unused for longest among evictSample idle ones, which the order of the map
// draws; nil while all are active.
func (sh *shard) longestUnusedLocked() (oldest *state) {
	var since clock.Instant
	seen := 0
	for _, s := range sh.states {
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
	delete(sh.states, s.domain)
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
		for _, s := range sh.states {
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
		if h.caps != nil {
			h.caps.sweep()
		}
	}
}
