package ratelimit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// shard holds a part of the domains. The hot path takes no lock of it: the index is read
// without one, and the order of use is not kept by moving a state at each use, which would need the
// lock for writing, but by a mark on the state. Whoever evicts starts at the oldest
// and gives those that carry the mark a second chance at the other end.
type shard struct {
	mu      sync.RWMutex // guards what follows
	index   index        // of states; read without the lock
	states  useOrder     // in the order of their use, roughly
	tombs   *simplelru.LRU[string, tombstone]
	cap     int      // of states; exceeded only while all are active
	granted uint64   // by states that are gone
	_       [64]byte // the next shard's lock is on another cache line
}

// tombstone is what an evicted domain still owes, or one of an earlier crawl that was
// recalled, in at most 64 bytes: a cache line. Latency, error window
// and a closed breaker's memory of failures are forgotten: they describe half a
// minute that is over. So is the bucket's level: it is taken to have been empty at
// the last grant, which is true without bursts and costs no more than one with them.
// Tombstones too are bounded; the longest unused is forgotten,
// and its domain starts as an unknown one, which is slower than what it had earned
// but for an obligation that outlives MaxTombstones newer ones.
type tombstone struct {
	retryUntil clock.Instant // never, if there was none
	lastGrant  clock.Instant // never, if there was none
	crawlDelay time.Duration
	memory     control.Memory // of the strategy; what it learned is forgotten a day after the last grant
}

func (l *AdaptiveRateLimiter) makeShards() (err error) {
	n := l.cfg.Shards
	l.shards, l.mask = make([]shard, n), uint64(n-1)
	for i := range l.shards {
		sh := &l.shards[i]
		sh.cap = (l.cfg.MaxDomains + n - 1) / n
		if sh.tombs, err = simplelru.NewLRU[string, tombstone](l.tombsPerShard(), nil); err != nil {
			return fmt.Errorf("ratelimit: %w", err)
		}
	}
	return nil
}

func (l *AdaptiveRateLimiter) tombsPerShard() int { return max(1, l.cfg.MaxTombstones/l.cfg.Shards) }

func (l *AdaptiveRateLimiter) shardOf(id identity) *shard { return &l.shards[id.check&l.mask] }

// lock returns the domain's state, made if need be, with its lock held.
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
		s.mu.Unlock() // evicted since we looked
	}
}

// create adds the domain's state to the shard, from its tombstone if there is one,
// unless somebody else was faster.
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
	s := t.restore(l.rulesFor(domain), now)             // under the lock: SetRules looks at each shard after the rules have changed
	s.check, s.domain = id.check, strings.Clone(domain) // the caller's may be part of a page
	s.pinCaps()
	l.joinSite(s, now)
	sh.index.put(id.tag, s)
	sh.states.add(s)
	return s
}

// makeRoomLocked evicts idle states, the longest unused first, until there is room
// for one more. If all are active it gives up: a crawl that has that many requests
// out at once is better served than broken.
func (l *AdaptiveRateLimiter) makeRoomLocked(sh *shard, now clock.Instant) {
	// Two turns: the first may only take marks away.
	for tries := 2 * sh.states.n; sh.states.n >= sh.cap; tries-- {
		if tries == 0 {
			l.overCap.Add(1)
			return
		}
		s := sh.states.oldest
		s.mu.Lock()
		if s.activeLocked() || s.touched {
			s.touched = false
			sh.states.renew()
		} else {
			l.evictLocked(sh, s, now)
		}
		s.mu.Unlock()
	}
}

// activeLocked reports whether somebody holds or waits for a permit.
func (s *state) activeLocked() bool { return s.inFlight > 0 || s.line != nil }

// evictLocked evicts a state. Both locks are held.
func (l *AdaptiveRateLimiter) evictLocked(sh *shard, s *state, now clock.Instant) {
	s.dead = true
	s.unpinCaps()
	l.shared.part(now, s)
	sh.states.remove(s)
	sh.index.remove(l.tagOf(s.domain), s)
	sh.granted += uint64(s.granted)
	l.evicted.Add(1)
	if t, owes := s.tombstoneLocked(now); owes {
		sh.tombs.Add(s.domain, t)
	}
}

// tombstoneLocked is what the state owes, if it owes anything.
func (s *state) tombstoneLocked(now clock.Instant) (t tombstone, owes bool) {
	now = max(now, s.bucket.at)
	t = tombstone{retryUntil: s.retryUntil, lastGrant: s.lastGrant, crawlDelay: s.crawlDelayLocked()}
	if m := s.strategy.Memory(now); s.taught {
		t.memory = m
	}
	spacing, _ := s.spacingLocked()
	owes = t.retryUntil > now || t.crawlDelay > 0 || t.memory != (control.Memory{}) ||
		s.bucket.levelAt(now, s.capacityLocked()) < s.capacityLocked() || s.lastGrant.Add(spacing) > now
	return t, owes
}

// restore makes a state of a tombstone; of the zero tombstone, that of a new domain.
func (t tombstone) restore(r *rules, now clock.Instant) *state {
	if t == (tombstone{}) {
		return newState(r, now, t.memory)
	}
	now = max(now, t.lastGrant)
	if now.Sub(t.lastGrant) >= memoryTTL {
		t.memory = control.Memory{Held: t.memory.Held}
	}
	s := newState(r, now, t.memory)
	s.retryUntil, s.lastGrant = t.retryUntil, t.lastGrant
	s.setCrawlDelayLocked(t.crawlDelay)
	s.taught = t.memory != (control.Memory{})
	if t.lastGrant != never {
		s.bucket.level, s.bucket.at = 0, t.lastGrant
	}
	s.replanLocked(now)
	s.reported = s.stateLocked(now)
	s.noteRestoredLocked(now)
	return s
}

// Run evicts idle states until ctx ends, and returns ctx's error. It looks every
// DomainStateTTL/2 and evicts what has not been used for DomainStateTTL. A limiter
// works without it, within MaxDomains.
func (l *AdaptiveRateLimiter) Run(ctx context.Context) error {
	if l.cfg.Fleet != nil {
		var fed sync.WaitGroup
		fed.Go(func() { l.tokenSource(ctx) })
		defer fed.Wait()
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
		for _, s := range sh.states.list() {
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
	for _, h := range l.laid.Load().hosts {
		h.rules.sweepCaps()
	}
}
