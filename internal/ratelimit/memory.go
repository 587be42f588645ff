package ratelimit

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// memoryTTL is how long what was learned of a host counts. A limit may be lower after that, and a new search takes only
// a minute.
const memoryTTL = 24 * time.Hour

// HostMemory is what is known of a domain, in a form that outlives the process: its times are wall times. Crawl-delay is
// not part of it. See [AdaptiveRateLimiter.Remember] and [AdaptiveRateLimiter.Recall].
type HostMemory struct {
	Domain   string    `json:"host"`
	LastUsed time.Time `json:"used"` // when the last request was sent
	Learned
	RetryUntil time.Time `json:"retry_until,omitzero"` // end of a Retry-After; zero for none
	HeldUntil  time.Time `json:"held_until,omitzero"`  // no request before then, and then one trial; zero for a host that is not held
}

// Learned is the part of a [HostMemory] that counts for a day: what the strategy learned.
type Learned struct {
	Rate  float32       `json:"rate,omitzero"`     // requests per second that the host tolerated; zero for not known
	Pause time.Duration `json:"pause_ns,omitzero"` // longest pause that one refusal cost; zero for none
}

// maxDomain is the length of the longest DNS name (RFC 1035, 2.3.4) with a port.
const maxDomain = 253 + len(":65535")

// Validate returns an error if no limiter can have written m: the host is not in the form of [Domain], a figure is out
// of range, or a time is before 1970 or after 9999.
func (m *HostMemory) Validate() error {
	notPrintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if m.Domain == "" || len(m.Domain) > maxDomain || Domain(m.Domain) != m.Domain || strings.ContainsFunc(m.Domain, notPrintable) {
		return errors.New("host is not the name of a host in lower case and ASCII")
	}
	for _, t := range []struct {
		name  string
		value time.Time
		must  bool // the zero time is not allowed
	}{{"used", m.LastUsed, true}, {"retry_until", m.RetryUntil, false}, {"held_until", m.HeldUntil, false}} {
		if year := t.value.UTC().Year(); (year < 1970 || year > 9999) && (t.must || !t.value.IsZero()) {
			return fmt.Errorf("%s = %v: want a time from 1970 to 9999", t.name, t.value)
		}
	}
	if !(m.Rate >= 0 && m.Rate <= maxRPS) { // written so that NaN is rejected too
		return fmt.Errorf("rate = %v: want 0 to 1e6 requests per second", m.Rate)
	}
	if m.Pause < 0 || m.Pause > longest {
		return fmt.Errorf("pause_ns = %d: want nanoseconds from 0 to a century", m.Pause)
	}
	return nil
}

// At returns what still counts of m at now; ok is false if nothing does. What was learned counts for a day after the
// last use. Obligations count until they end, and a hold that ended within that day still does, as its trial is due. In
// case the computer's clock was changed, LastUsed is at most now, and obligations end at most the duration most after
// now.
func (m HostMemory) At(now time.Time, most time.Duration) (left HostMemory, ok bool) {
	m.LastUsed = earlier(m.LastUsed, now)
	m.RetryUntil, m.HeldUntil = earlier(m.RetryUntil, now.Add(most)), earlier(m.HeldUntil, now.Add(most))
	stale := now.Sub(m.LastUsed) >= memoryTTL
	if stale {
		m.Learned = Learned{}
	}
	if stale && !m.HeldUntil.After(now) {
		m.HeldUntil = time.Time{}
	}
	if !m.RetryUntil.After(now) {
		m.RetryUntil = time.Time{}
	}
	return m, m.Learned != Learned{} || !m.RetryUntil.IsZero() || !m.HeldUntil.IsZero()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// moment is one instant as a monotonic and as a wall time, which drift apart when the computer sleeps or its clock is
// set.
type moment struct {
	l    *AdaptiveRateLimiter
	now  clock.Instant
	wall time.Time
}

func (l *AdaptiveRateLimiter) moment() moment {
	return moment{l, l.now(), l.cfg.Clock.Now().Round(0).UTC()} // without its monotonic reading
}

// time is the wall time of an instant; the zero time for never.
func (at moment) time(i clock.Instant) time.Time {
	if i == never {
		return time.Time{}
	}
	return at.wall.Add(i.Sub(at.now))
}

// instant is the instant of a wall time; never for the zero time.
func (at moment) instant(t time.Time) clock.Instant {
	if t.IsZero() {
		return never
	}
	return at.now.Add(min(max(t.Sub(at.wall), -longest), longest))
}

// Remember yields what is known of each domain, in no order. Domains of which nothing is known are left out. No lock is
// held in the loop's body, so entries are of slightly different moments.
func (l *AdaptiveRateLimiter) Remember() iter.Seq[HostMemory] {
	return func(yield func(HostMemory) bool) {
		tell := func(domain string, t tombstone) bool {
			m, ok := l.moment().memoryOf(domain, t)
			return !ok || m.Validate() != nil || yield(m)
		}
		for i := range l.shards {
			sh := &l.shards[i]
			sh.mu.RLock() // both lists are made under one lock, so that no domain is in both
			states, domains, tombs := slices.Collect(maps.Values(sh.states)), sh.tombs.Keys(), sh.tombs.Values()
			sh.mu.RUnlock()
			for _, s := range states {
				s.mu.Lock()
				t, owes := s.tombstoneLocked(l.now())
				s.mu.Unlock()
				if owes && !tell(s.domain, t) {
					return
				}
			}
			for i, domain := range domains {
				if !tell(domain, tombs[i]) {
					return
				}
			}
		}
	}
}

func (at moment) memoryOf(domain string, t tombstone) (m HostMemory, ok bool) {
	m = HostMemory{Domain: domain, LastUsed: at.time(t.lastGrant), RetryUntil: at.time(t.retryUntil)}
	if at.l.strategy.Learns {
		m.Learned = Learned{Rate: t.memory.Rate, Pause: t.memory.Pause}
	}
	if t.memory.Held != 0 {
		m.HeldUntil = at.time(t.memory.Held)
	}
	if m.LastUsed.IsZero() {
		return m, false // no request was sent
	}
	return m.At(at.wall, at.l.cfg.MaxRetryAfter)
}

// Recall takes in what earlier limiters remembered, and returns for how many domains. It may be called at any time: a
// domain already known here takes over a later end of a Retry-After and nothing else. It skips entries that no longer
// count, are invalid, or are older than another of the same domain, and those unused for longest if there is no room.
// A limiter that is off takes in nothing.
func (l *AdaptiveRateLimiter) Recall(hosts iter.Seq[HostMemory]) (recalled int) {
	if !l.cfg.Enabled {
		return 0
	}
	at := l.moment()
	var fresh []HostMemory
	for m := range hosts {
		if m, ok := m.At(at.wall, l.cfg.MaxRetryAfter); ok && m.Validate() == nil {
			fresh = append(fresh, m)
		}
	}
	latest := func(a, b HostMemory) int { return b.LastUsed.Compare(a.LastUsed) }
	name := func(a, b HostMemory) int { return cmp.Compare(a.Domain, b.Domain) }
	slices.SortFunc(fresh, func(a, b HostMemory) int { return cmp.Or(name(a, b), latest(a, b)) })
	fresh = slices.CompactFunc(fresh, func(a, b HostMemory) bool { return a.Domain == b.Domain })
	slices.SortStableFunc(fresh, latest)
	fresh = fresh[:min(len(fresh), l.cfg.MaxTombstones)]
	for _, m := range slices.Backward(fresh) { // the one unused for longest comes first, as it is to be forgotten first
		sh := l.shardOf(m.Domain)
		sh.mu.Lock()
		if l.owesMoreLocked(sh, &m, at) {
			recalled++
		} else if sh.states[m.Domain] == nil && !sh.tombs.Contains(m.Domain) && sh.tombs.Len() < sh.mostTombs {
			sh.tombs.Add(m.Domain, at.tombstoneOf(&m))
			recalled++
		}
		sh.mu.Unlock()
	}
	return recalled
}

// owesMoreLocked makes a domain that is known here obey the Retry-After of m, and returns true, if that ends later than
// its own.
func (l *AdaptiveRateLimiter) owesMoreLocked(sh *shard, m *HostMemory, at moment) bool {
	until := at.instant(m.RetryUntil)
	if s := sh.states[m.Domain]; s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if until <= s.owes.retryUntil {
			return false
		}
		s.owes.retryUntil = until
		s.rearmLocked(at.now)
		return true
	}
	t, known := sh.tombs.Peek(m.Domain)
	if !known || until <= t.retryUntil {
		return false
	}
	t.retryUntil = until
	sh.tombs.Add(m.Domain, t)
	return true
}

func (at moment) tombstoneOf(m *HostMemory) tombstone {
	t := tombstone{owes: owes{lastGrant: at.instant(m.LastUsed), retryUntil: at.instant(m.RetryUntil)}}
	if at.l.strategy.Learns {
		t.memory = control.Memory{Rate: m.Rate, Pause: m.Pause}
	}
	if !m.HeldUntil.IsZero() {
		t.memory.Held = at.instant(m.HeldUntil)
		if t.memory.Held == 0 {
			t.memory.Held = 1 // zero means no hold
		}
	}
	return t
}

// MemoryOf returns what the process that gets the domain next has to know of it: what Remember yields, or if that is
// nothing, when it was last asked. gap is the time between two requests at the present rate, or Crawl-delay if that is
// longer. ok is false if the domain was not asked or is forgotten.
func (l *AdaptiveRateLimiter) MemoryOf(domain string) (m HostMemory, gap time.Duration, ok bool) {
	domain = Domain(domain)
	sh := l.shardOf(domain)
	sh.mu.RLock()
	s := sh.states[domain]
	t, known := sh.tombs.Peek(domain)
	sh.mu.RUnlock()
	if known {
		r := l.rules.Load().match(domain)
		gap = max(t.crawlDelay, r.minDelay, r.ceiling.interval())
		if t.memory.Rate > 0 {
			gap = max(gap, rateOf(float64(t.memory.Rate)).interval())
		}
	}
	if s != nil {
		s.mu.Lock()
		t, _ = s.tombstoneLocked(l.now())
		gap, _ = s.spacingLocked()
		gap = max(gap, s.bucket.rate.interval())
		s.mu.Unlock()
	}
	if t.lastGrant == never || s == nil && !known {
		return HostMemory{}, 0, false
	}
	if m, ok = l.moment().memoryOf(domain, t); !ok {
		m = HostMemory{Domain: domain, LastUsed: l.moment().time(t.lastGrant)}
	}
	if m.Validate() != nil {
		return HostMemory{}, 0, false
	}
	return m, gap, true
}

// Adopt takes in another limiter's memory of a domain that this one paces from now on. Unlike Recall it replaces what was
// learned here; but the later Retry-After counts, and nothing else changes for a domain with requests in flight. It
// reports whether m still counted.
func (l *AdaptiveRateLimiter) Adopt(m HostMemory) bool {
	at := l.moment()
	m, ok := m.At(at.wall, l.cfg.MaxRetryAfter)
	if !l.cfg.Enabled || !ok || m.Validate() != nil {
		return false
	}
	t := at.tombstoneOf(&m)
	sh := l.shardOf(m.Domain)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s := sh.states[m.Domain]; s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.activeLocked() {
			s.owes.retryUntil = max(s.owes.retryUntil, t.retryUntil)
			return true
		}
		l.evictLocked(sh, s, l.now())
	}
	if old, known := sh.tombs.Peek(m.Domain); known {
		t.retryUntil, t.lastGrant = max(t.retryUntil, old.retryUntil), max(t.lastGrant, old.lastGrant)
		t.crawlDelay = old.crawlDelay
	}
	sh.tombs.Add(m.Domain, t)
	return true
}
