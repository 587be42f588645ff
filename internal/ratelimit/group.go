package ratelimit

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// group has what the domains at one address, or of one registrable domain, share. Its budget binds if the user has set
// a cap, or if the hosts at the address were found to have one limit in common. It is kept as long as it has a member,
// and then until its bucket is full.
type group struct {
	budget

	l     *AdaptiveRateLimiter
	key   groupKey
	cap   rate // set by the user; zero for none
	hosts int  // members

	binds   atomic.Bool // the budget binds; read without the lock
	listens atomic.Bool // watch or merge is set; read without the lock

	watch      *watch        // signs of a common limit; nil while there are none
	merge      *merge        // set while the members are paced as one
	clearUntil clock.Instant // no trial before then, as the last one found no common limit
	trials     uint8         // trials without a finding, or with one that did not last
}

type groupKey struct {
	prefix netip.Prefix
	site   string
}

func (k groupKey) String() string {
	switch {
	case k.site != "":
		return "site:" + k.site
	case k.prefix.IsSingleIP():
		return "ip:" + k.prefix.Addr().String()
	}
	return "ip:" + k.prefix.String()
}

// addressKey is the key of an address: of IPv6 its /64, which one customer has.
func addressKey(addr netip.Addr) groupKey {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() || addr.IsUnspecified() {
		return groupKey{}
	}
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits) // bits fit the address
	return groupKey{prefix: prefix}
}

// siteKey is the key of a registrable domain; addresses, single labels and public suffixes have none.
func siteKey(domain string) groupKey {
	name := withoutPort(domain)
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return groupKey{}
	}
	site, _ := publicsuffix.EffectiveTLDPlusOne(name) // empty for a name that has none
	return groupKey{site: site}
}

// SetAddress tells the address of a domain's server, so that it is paced with the others there: under Config.IPRPS,
// and by one controller if they are limited as one. IPv6 counts by /64. The last address counts; an invalid or
// unspecified one takes the domain out of its group. Tell it when a connection is made, but not through a proxy.
func (l *AdaptiveRateLimiter) SetAddress(domain string, addr netip.Addr) {
	if !l.cfg.Enabled || l.cfg.IPRPS == 0 && !l.strategy.Learns {
		return
	}
	key := addressKey(addr)
	s := l.lock(Domain(domain))
	defer s.mu.Unlock()
	if s.addr == nil && key == (groupKey{}) || s.addr != nil && s.addr.key == key {
		return
	}
	h := &l.shared
	h.mu.Lock()
	defer h.mu.Unlock()
	now := s.nowLocked()
	h.partLocked(now, s, s.addr)
	if s.addr = nil; key != (groupKey{}) {
		g := h.join(now, key)
		s.addr = g
		// The request by which the address was found went out unknown to the group.
		if g.advance(now); g.cap > 0 && g.bucket.level >= token {
			g.bucket.take()
			if g.tokenSource != nil {
				g.tokenSource.spend(now, 1)
			}
		}
	}
	s.line.nudge() // the head may stand in the line it has left
}

func (h *shared) join(now clock.Instant, key groupKey) *group {
	g := h.groups[key]
	if g == nil {
		g = h.newGroup(now, key)
		h.groups[key] = g
	}
	h.idle.Remove(g)
	g.hosts++
	return g
}

func (h *shared) newGroup(now clock.Instant, key groupKey) *group {
	l := h.l
	sl, rps := scopeAddress, l.cfg.IPRPS
	if key.site != "" {
		sl, rps = scopeSite, l.cfg.SiteRPS
	}
	g := &group{l: l, key: key, cap: rateOf(rps), clearUntil: never}
	g.budget = *newBudget(max(g.cap, 1), sl)
	g.bucket.at, g.group = now, g
	if g.cap > 0 {
		name := key.String()
		kind, _, _ := strings.Cut(name, ":")
		g.tokenSource = h.newTokenSource(&g.budget, kind, name, rps)
		g.capacity = g.capacityAt(g.cap)
	}
	g.bind(g.cap > 0)
	return g
}

func (h *shared) partLocked(now clock.Instant, s *state, g *group) {
	if g == nil {
		return
	}
	g.forget(now, s)
	if g.hosts--; g.hosts > 0 {
		return
	}
	g.unmerge(now)
	g.setWatch(nil)
	if g.cap == 0 || g.full(now) {
		h.drop(g)
		return
	}
	if h.idle.Len() >= g.l.cfg.MaxTombstones {
		oldest, _, _ := h.idle.GetOldest()
		h.drop(oldest)
	}
	h.idle.Add(g, struct{}{})
}

func (g *group) full(now clock.Instant) bool {
	return g.bucket.levelAt(max(now, g.bucket.at), g.capacity) == g.capacity
}

func (h *shared) drop(g *group) {
	g.bind(false)
	h.idle.Remove(g)
	delete(h.groups, g.key)
}

func (h *shared) sweep(now clock.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.idle.Keys() {
		if g.full(now) {
			h.drop(g)
		}
	}
}

func flip(flag *atomic.Bool, count *atomic.Int32, on bool) {
	switch {
	case flag.Swap(on) == on:
	case on:
		count.Add(1)
	default:
		count.Add(-1)
	}
}

// bind sets whether the budget binds. That of a registrable domain always does.
func (g *group) bind(on bool) {
	if g.scope == scopeAddress {
		flip(&g.binds, &g.l.shared.bound, on)
	}
}

func (g *group) setWatch(w *watch) {
	g.watch = w
	flip(&g.listens, &g.l.shared.live, w != nil || g.merge != nil)
}

func (g *group) replan(now clock.Instant) {
	r := rate(math.MaxInt64)
	if g.cap > 0 {
		r = g.cap
	}
	g.from, g.hinted, g.trying = never, false, false
	trying := g.watch != nil && g.watch.trial != nil
	switch {
	case g.merge != nil:
		r = min(r, g.merge.plan(now, g))
	case trying:
		r = min(r, g.watch.trial.rate)
	case g.cap == 0:
		r = max(g.bucket.rate, 1) // it does not bind
	}
	g.advance(now)
	g.bucket.rate, g.capacity = r, g.capacityAt(r) // the tokens accrued so far stay
	g.bucket.level = min(g.bucket.level, g.capacity)
	g.bind(g.cap > 0 || g.merge != nil || trying)
	g.nudge()
}

func (g *group) ceiling() float64 {
	if g.cap > 0 {
		return g.cap.rps()
	}
	return min(float64(g.hosts)*g.l.rules.Load().base.ceiling.rps(), maxRPS)
}

func (g *group) review(now clock.Instant) {
	if g.merge != nil && now >= g.merge.review {
		g.replan(now)
	}
}

func (s *state) sharesLocked() (sh shares) {
	h := &s.rules.l.shared
	sh[scopeGlobal] = h.global
	if s.site != nil {
		sh[scopeSite] = &s.site.budget
	}
	if g := s.addr; g != nil && h.bound.Load() > 0 && g.binds.Load() && !s.favoured {
		sh[scopeAddress] = &g.budget
	}
	return sh
}

// GroupSnapshot is what a domain shares with others.
type GroupSnapshot struct {
	Name      string  `json:"name"`       // "ip:192.0.2.1", or "site:example.com"
	Hosts     int     `json:"hosts"`      // domains that share it
	Rate      float64 `json:"rate"`       // requests per second for all of them together
	Learned   bool    `json:"learned"`    // they refuse together and are paced as one; false: the user's cap, or a trial
	ErrorRate float64 `json:"error_rate"` // refusals of all of them, in StatsWindow, from 0 to 1; zero unless learned
	Reason    string  `json:"reason"`
}

func (s *state) groupLocked(now clock.Instant) *GroupSnapshot {
	sh := s.sharesLocked()
	if sh[scopeSite] == nil && sh[scopeAddress] == nil {
		return nil
	}
	h := &s.rules.l.shared
	h.mu.Lock()
	defer h.mu.Unlock()
	b, o := sh[scopeAddress], sh[scopeSite]
	if b == nil {
		b = o
	} else if o != nil {
		x, _ := o.when(now, 0)
		y, _ := b.when(now, 0)
		if x > y || x == y && o.bucket.rate < b.bucket.rate {
			b = o // its next token is later, or its rate lower
		}
	}
	return b.group.describe(now)
}

func (g *group) describe(now clock.Instant) *GroupSnapshot {
	d := &GroupSnapshot{Name: g.key.String(), Hosts: g.hosts, Rate: g.bucket.rate.rps(), Learned: g.merge != nil}
	switch {
	case g.merge != nil:
		d.ErrorRate = g.merge.window.Sum(now).ErrorRate()
		d.Reason = fmt.Sprintf("%s: %d hosts are limited as one: %s", d.Name, d.Hosts, g.merge.strategy.Explain(now))
	case g.watch != nil && g.watch.trial != nil:
		d.Reason = fmt.Sprintf("%s: %d hosts at %.4g/s together while it is tried whether they are limited as one", d.Name, d.Hosts, d.Rate)
	default:
		d.Reason = fmt.Sprintf("%s: your rule: at most %.4g/s for %d hosts together", d.Name, d.Rate, d.Hosts)
		if g.tokenSource != nil {
			d.Reason += ", and for those of " + g.tokenSource.whose()
		}
	}
	return d
}

func (h *shared) describe() (groups, merged int, events []Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.groups {
		if g.merge != nil {
			merged++
		}
	}
	return len(h.groups), merged, slices.Clone(h.news.events)
}

// note writes the event that the members are paced as one from now on, or no longer. The answers of hosts led to it;
// from and to are rates of all members together.
func (g *group) note(now clock.Instant, cause control.Cause, hosts []string, from, to float64, text string) {
	g.l.shared.news.note(Event{
		Time: g.l.timeOf(now).UTC().Truncate(time.Millisecond), Domain: g.key.String(), Cause: cause,
		FromRPS: figures(float32(from)), ToRPS: figures(float32(to)), Hosts: hosts,
		Text: fmt.Sprintf("%d hosts at this address are %s", g.hosts, text),
	})
	g.l.shared.fresh.Store(true)
}

func someOf(hosts []string) string {
	const named = 3
	if len(hosts) > named+1 {
		return fmt.Sprintf("%s and %d others", strings.Join(hosts[:named], ", "), len(hosts)-named)
	}
	if len(hosts) < 2 {
		return strings.Join(hosts, "")
	}
	return strings.Join(hosts[:len(hosts)-1], ", ") + " and " + hosts[len(hosts)-1]
}
