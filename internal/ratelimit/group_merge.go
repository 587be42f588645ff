package ratelimit

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// merge paces the members of a group as one host. Their refusals are the group's, and
// so are their server hints. Their own strategies begin anew, without a ceiling:
// what they had learned was of the common limit. From then on they bound each member
// by what is its own: the user's rules, its latency, its failures.
type merge struct {
	strategy    control.Strategy
	window      estimate.Window
	review      clock.Instant
	retryUntil  clock.Instant
	latency     time.Duration
	trialAt     clock.Instant  // when the controller's trial was sent; zero while none is out
	refusedAt   clock.Instant  // the latest refusal; at first, when they were merged
	begun       map[*state]int // members whose strategy has begun anew, and their answers since the run did
	total       int            // answers of all since the run of refusals began
	run         sighting       // who was refused the last times, since when
	length      int
	otherServed bool // another member was answered since the last refusal

	before   float64       // admitted of all per second before they were merged
	since    clock.Instant // when that was
	admitted int           // of all since
	judged   bool          // it was asked what the merge costs
}

const (
	// mergeShare of what was admitted is where the common controller begins.
	mergeShare = 0.95
	// A member that is refused again and again while the others are not has a limit of
	// its own. By chance a run of n falls on one that sends a share p of the requests
	// with probability p^(n-1); below a thousandth of that it is not chance.
	runLeast  = 4
	runChance = 1e-3
	// slack is the share of its rate below which a group is not what bounds its members.
	slack = 0.5
	// A merge is undone if, after judgeAfter, the members got less together than the part worth
	// of what they had got each for itself: then one of them has a limit of its own, and is
	// held back by what the others share. At 0.85 a merge that was right is undone too, as a
	// window admits more than its rate at its begin (scenarios S23f and S23h of simulate).
	judgeAfter = 2 * time.Minute
	worth      = 0.8
)

// mergeMembers merges the members after a trial that was passed.
func (g *group) mergeMembers(now clock.Instant) {
	w := g.watch
	top := g.ceiling()
	start := min(max(mergeShare*w.trial.all, g.l.base().floor.rps()), top)
	g.merge = &merge{
		strategy: g.l.strategy.New(&g.l.control, now, control.Host{
			Start: start, Floor: g.l.base().floor.rps(), Ceiling: top, Memory: control.Memory{Rate: float32(start)},
		}),
		window: g.l.window, refusedAt: now, begun: make(map[*state]int),
		latency: g.l.cfg.LatencyTarget / 2, retryUntil: never,
		before: w.trial.all, since: now,
	}
	g.setWatch(nil)
	g.replan(now)
	g.noteMerged(now, w.trial.all, start, w.notes)
}

// ceiling is the most the members may get together: the user's cap, or the ceilings
// of all.
func (g *group) ceiling() float64 {
	if g.cap > 0 {
		return g.cap.rps()
	}
	return min(float64(g.hosts)*g.l.base().ceiling.rps(), maxRPS)
}

// unmerge lets the members go their own ways.
func (g *group) unmerge(now clock.Instant) {
	if g.merge == nil {
		return
	}
	g.merge = nil
	g.setWatch(nil)
	g.replan(now)
}

// plan puts the controller's wish into the budget and returns the rate.
func (m *merge) plan(now clock.Instant, g *group) rate {
	p := m.strategy.Plan(now)
	m.review = p.Review
	g.from = max(m.retryUntil, never)
	if p.NotBefore > g.from && p.NotBefore != 0 {
		g.from = p.NotBefore
	}
	g.trying = m.trialAt != 0 && m.retryUntil <= now
	g.hinted = m.retryUntil == g.from && m.retryUntil > now
	return min(max(rateOf(p.Rate), 1), rateOf(g.ceiling()))
}

// review asks for a new plan if the last has run out.
func (g *group) review(now clock.Instant) {
	if g.merge != nil && now >= g.merge.review {
		g.replan(now)
	}
}

// sent tells the controller of a grant.
func (g *group) sent(now clock.Instant) (trial uint32) {
	if trial = g.merge.strategy.Sent(now, 1); trial != 0 {
		g.merge.trialAt = now
		g.replan(now)
	}
	return trial
}

// lost tells the controller that the permit of its trial is back.
func (t ticket) lost(now clock.Instant) {
	if t.trial == 0 {
		return
	}
	h := &t.group.l.shared
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := t.group.merge; m != nil {
		now = max(now, t.group.bucket.at)
		m.strategy.Lost(now, t.trial)
		m.trialAt = 0
		t.group.replan(now)
	}
}

// learn takes in an answer to a member, and reports whether it is the group's alone.
func (g *group) learn(s *state, now, sentAt clock.Instant, class outcome.Class, fb *Feedback, refused, admitted bool) bool {
	m := g.merge
	if !refused && !admitted {
		return false // the member's own trouble
	}
	m.adopt(s, now)
	if admitted {
		m.admitted++
	}
	alone, costs := m.refusedAlone(s, now, sentAt, refused), g.costs(now)
	if alone || costs || g.idles(now) {
		g.postponeTrials(now)
		switch {
		case alone:
			g.noteParted(now, s, 0)
		case costs:
			g.noteParted(now, nil, m.before)
		default:
			g.noteParted(now, nil, 0)
		}
		g.unmerge(now)
		return false
	}
	if fb.RetryAfter > 0 {
		m.retryUntil = max(m.retryUntil, now.Add(fb.RetryAfter))
	}
	if sentAt >= m.trialAt {
		m.trialAt = 0
	}
	m.strategy.Observe(now, control.Observation{
		SentAt: sentAt, Class: class, RetryAfter: fb.RetryAfter, InFlight: 1,
		// Latencies are each member's own affair: in a mixture of them a change of
		// who is asked would look like a queue.
		Latency: m.latency,
		Quota:   fb.Quota, Floor: g.l.base().floor.rps(), Ceiling: g.ceiling(), Window: &m.window,
	})
	g.replan(now)
	return refused
}

// adopt has a member's strategy begin anew, once.
func (m *merge) adopt(s *state, now clock.Instant) {
	if _, done := m.begun[s]; !done {
		m.begun[s] = 0
		s.restartLocked(now)
	}
}

func (m *merge) forget(s *state) {
	delete(m.begun, s)
	if m.run.by == s {
		m.run.by, m.length = nil, 0
	}
}

// refusedAlone reports whether the refusals fall on one member more often than chance
// would have it while others are answered.
func (m *merge) refusedAlone(s *state, now, sentAt clock.Instant, refused bool) bool {
	m.begun[s]++
	m.total++
	if !refused {
		m.otherServed = m.otherServed || s != m.run.by && sentAt > m.run.at
		return false
	}
	m.refusedAt = now
	if s != m.run.by {
		m.run, m.length, m.otherServed, m.total = sighting{s, now}, 1, false, 0
		for member := range m.begun {
			m.begun[member] = 0
		}
		return false
	}
	if sentAt <= m.run.at || !m.otherServed {
		return false // of the same event, or everybody is refused
	}
	m.run.at, m.otherServed = now, false
	m.length++
	share := (float64(m.begun[s]) + 1) / (float64(m.total) + 2)
	return m.length >= runLeast && math.Pow(share, float64(m.length-1)) < runChance
}

// costs reports, once, whether the members get far less together than each for itself did.
func (g *group) costs(now clock.Instant) bool {
	m := g.merge
	took := now.Sub(m.since)
	if m.judged || took < judgeAfter {
		return false
	}
	m.judged = true
	enough := worth * m.before
	return g.bucket.rate.rps() < enough && float64(m.admitted) < enough*took.Seconds()
}

// idles reports whether the group has long been no bound to anybody: no refusal, and
// less asked than it would let through.
func (g *group) idles(now clock.Instant) bool {
	m := g.merge
	if now.Sub(m.refusedAt) < g.l.cfg.DomainStateTTL {
		return false
	}
	used := float64(m.window.Sum(now).Total) / g.l.cfg.StatsWindow.Seconds()
	return used < slack*g.bucket.rate.rps()
}
