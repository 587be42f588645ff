package ratelimit

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// LimiterSnapshot is the state of a limiter at one moment. Config.SnapshotTop bounds its size. Counters count from New
// on.
type LimiterSnapshot struct {
	Enabled      bool   `json:"enabled"`
	Requests     uint64 `json:"requests"`      // permits granted
	Throttled    uint64 `json:"throttled"`     // permits granted after a wait of ThrottledAfter or more, in Acquire or because ReadyAt said so
	Denied       uint64 `json:"denied"`        // requests that a breaker held back, in Acquire or because ReadyAt said so
	Retries      uint64 `json:"retries"`       // feedback with Retry set
	OverReleased uint64 `json:"over_released"` // releases of permits already released
	Evicted      uint64 `json:"evicted"`       // states evicted
	OverCap      uint64 `json:"over_cap"`      // states made beyond MaxDomains, as all others were active

	Domains    int `json:"domains"`          // states kept
	Tombstones int `json:"tombstones"`       // evicted domains of which something is kept
	Open       int `json:"open"`             // domains whose breaker is open
	HalfOpen   int `json:"half_open"`        // domains whose breaker is half-open, or would be at the next Acquire
	InFlight   int `json:"in_flight"`        // permits not released
	Waiting    int `json:"waiting"`          // Acquire calls that wait
	Groups     int `json:"groups,omitempty"` // addresses and registrable domains that have state of their own
	Merged     int `json:"merged,omitempty"` // addresses whose domains are paced as one

	// Caps are the bounds on all domains together.
	Caps []CapSnapshot `json:"caps,omitempty"`
	// GroupEvents are the last 8 times that domains were found to be limited as one or no longer, the oldest first.
	GroupEvents []Event `json:"group_events,omitempty"`
	// Top are the domains used last, the latest first.
	Top []DomainSnapshot `json:"top"`
}

// DomainSnapshot is the state of one domain.
type DomainSnapshot struct {
	Domain           string        `json:"domain"`
	FillRate         float64       `json:"fill_rate"`         // requests per second
	CeilingRPS       float64       `json:"ceiling_rps"`       // the highest FillRate that settings, operator and Crawl-delay allow
	Tokens           float64       `json:"tokens"`            // requests that may go at once
	AvgLatencyMS     float64       `json:"avg_latency_ms"`    // of the last LatencySamples answers that were no failures, to 3.6 %; zero before the first
	P95LatencyMS     float64       `json:"p95_latency_ms"`    // of the last LatencySamples answers that were no failures, to 3.6 %; zero before the first
	LatencyTargetMS  float64       `json:"latency_target_ms"` // expected latency of the next answer; zero if the strategy has no target
	ErrorRate        float64       `json:"error_rate"`        // in StatsWindow, from 0 to 1
	State            breaker.State `json:"state"`             // of the breaker
	ConsecutiveFails int           `json:"consecutive_fails"` // as the breaker counts them
	InFlight         int           `json:"in_flight"`
	Waiting          int           `json:"waiting"`
	NextPermitInMS   float64       `json:"next_permit_in_ms"`      // for a caller who asks now, behind those who wait
	LimitedBy        Limit         `json:"limited_by"`             // what that permit waits for; if nothing, what paces the domain
	Reason           string        `json:"reason"`                 // LimitedBy as a sentence, with its figures
	LimitRPS         float64       `json:"limit_rps,omitempty"`    // the lowest rate that the host refused of late, or the limit that it tells; zero if none is known
	OperatorRPS      float64       `json:"operator_rps,omitempty"` // the ceiling that SetCeiling has set; zero if the settings hold
	Events           []Event       `json:"events,omitempty"`       // the last 8, the oldest first

	Caps  []CapSnapshot  `json:"caps,omitempty"`  // of the user's rule for the domain
	Group *GroupSnapshot `json:"group,omitempty"` // the group whose budget binds the domain; nil for none
}

// Snapshot sums up what the limiter knows. It looks at every state, one at a time: the parts are of slightly different
// moments, and it takes about a third of a microsecond per domain.
func (l *AdaptiveRateLimiter) Snapshot() LimiterSnapshot {
	snap := LimiterSnapshot{
		Enabled: l.cfg.Enabled, Requests: l.ungoverned.Load() + l.granted.Load(), Throttled: l.throttled.Load(),
		Denied: l.denied.Load(), Retries: l.retries.Load(), OverReleased: l.overReleased.Load(),
		Evicted: l.evicted.Load(), OverCap: l.overCap.Load(),
	}
	last := lastUsed{n: max(l.cfg.SnapshotTop, 0)}
	var room []*state
	for i := range l.shards {
		room = l.addShard(&snap, &last, &l.shards[i], room)
	}
	snap.Top = make([]DomainSnapshot, 0, len(last.list))
	for _, each := range slices.Backward(last.list) {
		snap.Top = append(snap.Top, l.describe(each.state, each.state.domain))
	}
	snap.Groups, snap.Merged, snap.GroupEvents = l.shared.describe()
	snap.Caps = l.shared.describeCaps()
	return snap
}

// addShard adds a shard's totals, and its domains to those used last. It lists the states and reads what evicted states
// have granted under one lock, and looks at the states afterwards: one that is evicted in between keeps its count, so
// nothing is counted twice. It returns the list, so that its memory can be used again.
func (l *AdaptiveRateLimiter) addShard(snap *LimiterSnapshot, last *lastUsed, sh *shard, room []*state) []*state {
	sh.mu.RLock()
	states := slices.AppendSeq(room[:0], maps.Values(sh.states))
	snap.Requests += sh.granted
	snap.Tombstones += sh.tombs.Len()
	sh.mu.RUnlock()
	snap.Domains += len(states)
	clk := l.now()
	for _, s := range states {
		s.mu.Lock()
		snap.Requests += uint64(s.granted)
		snap.InFlight += int(s.inFlight)
		snap.Waiting += s.line.len()
		switch s.plan.state(max(clk, s.bucket.at)) {
		case breaker.Open:
			snap.Open++
		case breaker.HalfOpen:
			snap.HalfOpen++
		case breaker.Closed:
		}
		active := s.lastActive
		s.mu.Unlock()
		last.add(active, s)
	}
	return states
}

type lastUsed struct {
	n    int
	list []usedAt
}

type usedAt struct {
	at    clock.Instant
	state *state
}

func (u *lastUsed) add(at clock.Instant, s *state) {
	next := usedAt{at, s}
	switch {
	case len(u.list) < u.n:
	case u.n == 0 || longerUnused(next, u.list[0]) <= 0:
		return
	default:
		u.list = slices.Delete(u.list, 0, 1)
	}
	i, _ := slices.BinarySearchFunc(u.list, next, longerUnused)
	u.list = slices.Insert(u.list, i, next)
}

func longerUnused(a, b usedAt) int {
	if a.at != b.at {
		return cmp.Compare(a.at, b.at)
	}
	return cmp.Compare(b.state.domain, a.state.domain)
}

// Inspect returns the state of one domain. known is false for a domain without state; d then says what it would start
// with.
func (l *AdaptiveRateLimiter) Inspect(domain string) (d DomainSnapshot, known bool) {
	domain = Domain(domain)
	s, known := l.peek(domain)
	return l.describe(s, domain), known
}

// describe returns the snapshot of a state. It writes the sentences of the events with no lock held, as that takes longer
// than all the rest.
func (l *AdaptiveRateLimiter) describe(s *state, domain string) DomainSnapshot {
	var room [keptEvents]control.Event
	s.mu.Lock()
	now := s.nowLocked()
	s.reviewLocked(now) // the last plan may have ended: rate and reason are to be of one plan
	d := s.describeLocked(domain, now)
	events := append(room[:0], s.journal.last(keptEvents)...)
	s.mu.Unlock()
	for i := range events {
		d.Events = append(d.Events, eventOf(&events[i], l.timeOf(events[i].At)))
	}
	return d
}

func (s *state) describeLocked(domain string, now clock.Instant) DomainSnapshot {
	fill, ceiling := s.bucket.rate, s.ceilingLocked()
	if gap := s.rules.minDelay; gap > 0 { // the bucket does not know of it
		fill, ceiling = min(fill, rateEvery(gap)), min(ceiling, rateEvery(gap))
	}
	d := DomainSnapshot{
		Domain: domain, FillRate: fill.rps(), CeilingRPS: ceiling.rps(),
		Tokens:       float64(s.bucket.levelAt(now, s.capacityLocked())) / float64(token),
		AvgLatencyMS: millis(s.tail.Mean()), P95LatencyMS: millis(s.tail.At(0.95)), LatencyTargetMS: float64(s.plan.target) / 1e3,
		ErrorRate: s.window.Sum(now).ErrorRate(), State: s.plan.state(now),
		ConsecutiveFails: s.strategy.Failures(), InFlight: int(s.inFlight), Waiting: s.line.len(),
	}
	d.LimitRPS = s.strategy.Limit(now)
	d.Group, d.Caps = s.groupLocked(now), s.rules.caps.describe()
	at, why := s.readyLocked(now, 0, 0)
	wait := at.Sub(now)
	if why == LimitNone {
		why = s.pacerLocked()
		if d.Group != nil && d.Group.Rate <= d.FillRate {
			why = LimitShared
		}
	}
	d.NextPermitInMS, d.LimitedBy, d.Reason = millis(wait), why, s.reasonLocked(now, why, wait)
	if why == LimitShared && d.Group != nil {
		d.Reason = d.Group.Reason
	}
	if s.rules.operator {
		d.OperatorRPS = s.rules.ceiling.rps()
	}
	return d
}

// pacerLocked is the limit that paces a domain that is ready: its spacing, if that is wider than the rate's, or the
// limit that bounds the rate.
func (s *state) pacerLocked() Limit {
	if spacing, asked := s.spacingLocked(); spacing > 0 && rateEvery(spacing) <= s.bucket.rate {
		return asked
	}
	if c := s.rules.caps; c != nil && c.rule[capRate] != nil { // a quota paces nothing until it is used up
		spec, rps := &c.rule[capRate].spec, maxRPS
		if spec.Per > 0 {
			rps = float64(spec.Permits) / spec.Per.Seconds()
		}
		if rps <= s.bucket.rate.rps() {
			return LimitCap
		}
	}
	return s.paceLocked()
}

func (s *state) reasonLocked(now clock.Instant, why Limit, wait time.Duration) string {
	rps := s.bucket.rate.rps()
	wait = wait.Round(time.Millisecond)
	switch why {
	case LimitStart:
		return fmt.Sprintf("starting at %.4g/s: nothing learned yet", rps)
	case LimitLearned:
		why := s.strategy.Explain(now)
		if _, full := s.fullLocked(); full {
			return fmt.Sprintf("%d requests are out, as many as are sent at once; %s", s.inFlight, why)
		}
		return why
	case LimitCrawlDelay:
		return fmt.Sprintf("robots.txt asks for %v between requests", s.owes.crawlDelay)
	case LimitRetryAfter:
		return fmt.Sprintf("the server asked to wait %v more", wait)
	case LimitRule:
		if m := s.rules.maxInFlight; m > 0 && s.inFlight >= m {
			return fmt.Sprintf("your rule: at most %d requests out at a time", m)
		}
		if s.rules.minDelay > 0 && rateEvery(s.rules.minDelay) <= s.bucket.rate {
			return fmt.Sprintf("your rule: %v between requests", s.rules.minDelay)
		}
		if s.rules.operator {
			return fmt.Sprintf("at most %.4g/s, set while the crawl runs", s.rules.ceiling.rps())
		}
		return fmt.Sprintf("the maximum rate: at most %.4g/s", s.rules.ceiling.rps())
	case LimitBreaker:
		if wait <= 0 {
			return s.strategy.Explain(now)
		}
		return fmt.Sprintf("%s, next try in %v", s.strategy.Explain(now), wait)
	case LimitGlobal:
		l := s.rules.l
		l.shared.mu.Lock()
		defer l.shared.mu.Unlock()
		return fmt.Sprintf("%s: at most %.4g/s", l.shared.global.tokenSource.whose(), l.cfg.GlobalRPS)
	case LimitCap, LimitQuota:
		return capReason(why, s.rules.caps.describe())
	case LimitGlobalConcurrency, LimitGlobalBytes:
		return capReason(why, s.rules.l.shared.describeCaps())
	case LimitShared:
		return "a rate that it shares with other hosts"
	case LimitNone:
	}
	return "ready"
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// LogValue logs the totals and leaves the domains out.
func (snap LimiterSnapshot) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Uint64("requests", snap.Requests), slog.Uint64("throttled", snap.Throttled),
		slog.Uint64("denied", snap.Denied), slog.Uint64("retries", snap.Retries),
		slog.Int("domains", snap.Domains), slog.Int("open", snap.Open), slog.Int("half_open", snap.HalfOpen),
		slog.Int("in_flight", snap.InFlight), slog.Int("waiting", snap.Waiting),
	)
}

// Brief is what a table of domains shows of one.
type Brief struct {
	FillRate     float64       // requests per second
	LimitRPS     float64       // as in DomainSnapshot
	AvgLatencyMS float64       // of the last 64 answers; zero before the first
	State        breaker.State // of the breaker
	Waiting      int           // Acquire calls that wait
}

// Brief is a cheap [AdaptiveRateLimiter.Inspect]: without sentences and percentiles. known means the same.
func (l *AdaptiveRateLimiter) Brief(domain string) (b Brief, known bool) {
	s, known := l.peek(Domain(domain))
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowLocked()
	return Brief{s.bucket.rate.rps(), s.strategy.Limit(now), millis(s.tail.Mean()), s.plan.state(now), s.line.len()}, known
}
