package ratelimit

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Hosts at one address may have one limit in common, or one each. Refusals at the same time do not tell which: equal
// limits, searched by the same strategy from the same start, are met at the same time. So coincident refusals only start
// a trial: one or two refused hosts are asked at twice the rate at which they were refused, and the others slower, so
// that the sum stays below what was admitted. If each host has its own limit, the fast ones are soon refused; if the
// limit is common, nobody is. A trial without a finding is repeated after ten minutes, then twenty, up to nearly three
// hours.
const (
	// startUp is how long after a member's first refusal its refusals prove nothing: at the start every strategy
	// searches.
	startUp = 4 * time.Second
	// together is how far apart two refusals may be to count as coincident. A trial needs this many coincidences, since
	// one is often due to chance.
	together     = 5 * time.Second
	coincidences = 2
	// watchFor is how long a group is watched after a refusal. It is longer than the pauses of a strategy that learns.
	watchFor = 2 * time.Minute
	// maxNotes bounds the members of which a watch keeps a note.
	maxNotes = 256

	// trialShare is the part of the admitted rate (which includes a burst) that a trial lets through; favouredShare is
	// the part that the favoured hosts get.
	trialShare    = 0.85
	favouredShare = 0.75
	// A favoured host must get so many requests beyond its old rate without a refusal, in case the host allows a burst:
	// trialVolume, or if it is less, trialExcess more than a bucket has refilled since its last refusal.
	trialVolume = 25
	trialExcess = 5
	// A favoured host must go unrefused as long as the gap between its last two refusals, so that the window of a quota
	// is over. trialShort and trialLong bound that.
	trialShort, trialLong = 5 * time.Second, time.Minute
	trialDue              = 5 * time.Minute // then a trial ends without a finding: the favoured hosts had too few requests
	strays                = 2               // refusals of other members that do not end a trial: of requests in flight

	clearFor  = 10 * time.Minute // until the next trial, doubled with each one without a finding
	clearMost = 4                // doublings

	// mergeShare is the part of the admitted rate at which the common controller starts.
	mergeShare = 0.95
	// A member that is refused again and again while others are not has its own limit. A run of n refusals falls by
	// chance on a member with a share p of the requests with probability p^(n-1); below runChance it is not chance.
	runLeast  = 4
	runChance = 1e-3
	// A merge is undone if the members, judgeAfter later, get less together than this part of what they got before.
	judgeAfter = 2 * time.Minute
	worth      = 0.8
)

// watch is the evidence of a group some of whose members were refused.
type watch struct {
	notes  map[*state]note
	last   *state // the member refused last
	other  *state // the member refused last before it
	lastAt clock.Instant
	met    int             // coincidences
	metAt  clock.Instant   // the last coincidence
	since  clock.Instant   // when the watch began
	window estimate.Window // answers of all members
	trial  *trial          // nil while there is none
}

type note struct {
	first, at clock.Instant // the member's first and latest refusal
	gap       time.Duration // between its last two refusals that were not of one event
	rate      rate          // at which it was refused
	top       rate          // the most that its rules allow
}

type trial struct {
	favoured []favourite
	rate     rate    // of all others together
	all      float64 // admitted requests per second of all members, before the trial
	begun    clock.Instant
	strays   int
}

// favourite is a member that is asked faster than the rate at which it was refused.
type favourite struct {
	state *state
	was   rate          // at which it was refused
	rate  rate          // at which it is asked in the trial
	empty clock.Instant // its last refusal
	least time.Duration // for which it must go unrefused
	from  clock.Instant // its first answer in the trial; zero before
	n     int           // answers since
}

// groupFeedbackLocked gives the domain's group the outcome of a request. It reports whether the domain's own strategy
// must not learn from it.
func (s *state) groupFeedbackLocked(now, sentAt clock.Instant, class outcome.Class, fb *Feedback) (theirs bool) {
	g, l := s.addr, s.rules.l
	if g == nil || !l.strategy.Learns {
		return false
	}
	refused := fb.RetryAfter > 0 || class == outcome.Throttled || class == outcome.Unavailable
	if !refused && (l.shared.live.Load() == 0 || !g.listens.Load()) {
		return false
	}
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	now = max(now, g.bucket.at) // another member's clock may have been read later
	admitted := class.Answered() && !class.Overload() && !outcome.Forbidden(fb.StatusCode)
	if g.merge != nil {
		return g.learn(s, now, sentAt, class, fb, refused, admitted)
	}
	if g.watch != nil && now.Sub(g.watch.lastAt) > watchFor && g.watch.trial == nil {
		g.setWatch(nil)
	}
	if g.watch != nil && g.watch.trial != nil && g.tried(s, now, sentAt, refused, admitted, class) {
		return true
	}
	switch {
	case refused && g.hosts > 1:
		g.noteRefusal(s, now, sentAt, fb.Latency)
	case admitted && g.watch != nil:
		g.watch.window.Add(now, false)
	}
	return false
}

// noteRefusal takes in a refusal while no trial runs, and starts one after enough coincidences.
func (g *group) noteRefusal(s *state, now, sentAt clock.Instant, latency time.Duration) {
	w := g.watch
	if w == nil {
		w = &watch{notes: make(map[*state]note), since: now, metAt: never, window: g.l.window}
		g.setWatch(w)
	}
	n, known := w.notes[s]
	if known && sentAt <= n.at || !known && len(w.notes) >= maxNotes {
		return // it is of the same event, or there are too many notes
	}
	if !known {
		n.first = now
	}
	if gap := now.Sub(n.at); !known || gap > trialShort {
		// A refusal soon after another met a trial of the member's strategy and says nothing of a rate.
		at := s.bucket.rate
		if s.plan.notBefore > now {
			at = max(at, n.rate) // the rate of such a trial is half of what was refused before it
		}
		n.rate, n.gap, n.top = at, gap, s.ceilingLocked()
		if spacing, _ := s.spacingLocked(); spacing > 0 {
			n.top = min(n.top, rateEvery(spacing))
		}
	}
	n.at = now
	w.notes[s] = n
	if w.last != s {
		w.other, w.last = w.last, s
	}
	w.lastAt = now
	within := max(together, 2*latency)
	o, ok := w.notes[w.other]
	if !ok || now.Sub(o.at) > within || now.Sub(w.metAt) <= within || now.Sub(n.first) < startUp || now.Sub(o.first) < startUp {
		return
	}
	w.met++
	w.metAt = now
	if w.met >= coincidences && w.trial == nil && now >= g.clearUntil {
		g.beginTrial(now)
	}
}

// beginTrial begins a trial that favours the two members refused last, or one if two are too large a part of the group.
func (g *group) beginTrial(now clock.Instant) {
	w := g.watch
	span := min(max(now.Sub(w.since), time.Second), g.l.cfg.StatsWindow)
	all := float64(w.window.Sum(now).Total) / span.Seconds()
	t := &trial{begun: now, all: all}
	left, budget := trialShare*all, favouredShare*all
	for _, seen := range [...]*state{w.last, w.other} {
		n := w.notes[seen]
		r := min(2*n.rate, n.top)
		if n.rate.rps() > budget/2 {
			r = min(n.rate*3/2, n.top)
		}
		if r < n.rate*3/2 || r.rps() > budget {
			continue
		}
		budget -= r.rps()
		left -= r.rps()
		t.favoured = append(t.favoured, favourite{
			state: seen, was: n.rate, rate: r, empty: n.at, least: min(max(n.gap, trialShort), trialLong),
		})
	}
	if len(t.favoured) > 0 {
		t.rate = max(rateOf(left), rateOf(all/20), 1)
		w.trial = t
		g.replan(now)
	}
}

// tried takes in an answer during a trial. It reports whether the domain's own strategy must not learn from it.
func (g *group) tried(s *state, now, sentAt clock.Instant, refused, admitted bool, class outcome.Class) bool {
	t := g.watch.trial
	if now.Sub(t.begun) > trialDue {
		g.endTrial(now)
		return false
	}
	if sentAt < t.begun {
		return false
	}
	f := t.find(s)
	switch {
	case f != nil && f.from > 0 && (refused || !admitted && class != outcome.Canceled):
		g.endTrial(now)
		return refused // the strategy had not chosen that rate
	case f != nil && admitted:
		if f.n++; f.from == 0 {
			f.from = sentAt
		}
		if !slices.ContainsFunc(t.favoured, func(f favourite) bool { return !f.passed(now) }) {
			g.mergeMembers(now)
		}
	case f == nil && refused:
		if t.strays++; t.strays > strays {
			g.endTrial(now)
		}
	}
	return false
}

func (t *trial) find(s *state) *favourite {
	for i := range t.favoured {
		if t.favoured[i].state == s {
			return &t.favoured[i]
		}
	}
	return nil
}

// passed reports whether the favoured host went so far beyond its refused rate that it can have no limit of its own.
func (f *favourite) passed(now clock.Instant) bool {
	took := now.Sub(f.from)
	if f.from == 0 || took < f.least {
		return false
	}
	volume := min(trialVolume, trialExcess+f.was.rps()*f.from.Sub(f.empty).Seconds())
	return float64(f.n)-f.was.rps()*took.Seconds() >= volume
}

func (g *group) postponeTrials(now clock.Instant) {
	g.clearUntil = now.Add(clearFor << min(g.trials, clearMost))
	g.trials++
}

func (g *group) endTrial(now clock.Instant) {
	g.postponeTrials(now)
	g.setWatch(nil)
	g.replan(now)
}

// forget removes a member from the evidence. A trial that favoured it ends.
func (g *group) forget(now clock.Instant, s *state) {
	s.favoured = false
	if m := g.merge; m != nil {
		delete(m.begun, s)
		if m.run == s {
			m.run, m.length = nil, 0
		}
	}
	w := g.watch
	if w == nil {
		return
	}
	delete(w.notes, s)
	for _, seen := range [...]**state{&w.last, &w.other} {
		if *seen == s {
			*seen = nil
		}
	}
	if w.trial != nil && w.trial.find(s) != nil {
		g.endTrial(now)
	}
}

// favourLocked sets the rate of a favoured domain to that of its trial, in place of its strategy's, which would probe
// beyond it.
func (s *state) favourLocked() {
	s.favoured = false
	g := s.addr
	if g == nil || !g.listens.Load() {
		return
	}
	h := &s.rules.l.shared
	h.mu.Lock()
	defer h.mu.Unlock()
	if g.watch == nil || g.watch.trial == nil {
		return
	}
	if f := g.watch.trial.find(s); f != nil {
		s.favoured = true
		s.bucket.rate = min(f.rate, s.ceilingLocked())
	}
}

// merge paces the members of a group as one host: its controller learns from all refusals and server hints. The members'
// own strategies begin anew, with no rate refused yet, and bound each member by its rules, latency and failures.
type merge struct {
	strategy    control.Strategy
	window      estimate.Window
	review      clock.Instant
	retryUntil  clock.Instant
	trialAt     clock.Instant  // when the controller's trial was sent; zero while none is out
	begun       map[*state]int // members whose strategy has begun anew, and their answers since the run of refusals began
	total       int            // answers of all since then
	run         *state         // the member of the run: the last refusals were all its
	runAt       clock.Instant  // the last one
	length      int            // refusals of the run
	otherServed bool           // another member was answered since the last refusal

	before   float64       // admitted requests per second of all, before the merge
	since    clock.Instant // when the merge began
	admitted int           // requests of all admitted since
	judged   bool          // what the merge costs was looked at
}

// mergeMembers paces the members as one after a trial found a common limit. It starts a little below what was admitted.
func (g *group) mergeMembers(now clock.Instant) {
	w, floor, top := g.watch, g.l.rules.Load().base.floor.rps(), g.ceiling()
	all := w.trial.all
	at := min(max(mergeShare*all, floor), top)
	host := control.Host{Start: at, Floor: floor, Ceiling: top, Memory: control.Memory{Rate: float32(at)}}
	g.merge = &merge{
		strategy: g.l.make(&g.l.control, now, host),
		window:   g.l.window, begun: make(map[*state]int), retryUntil: never, before: all, since: now,
	}
	g.setWatch(nil)
	g.replan(now)
	hosts := make([]string, 0, len(w.notes))
	for s := range w.notes {
		hosts = append(hosts, s.domain)
	}
	slices.Sort(hosts)
	g.note(now, control.CauseMerged, hosts, all, at, fmt.Sprintf("limited as one and paced together, at about %.3g/s for all: "+
		"%s were refused at the same times, and a trial showed that one may go faster while the others go slower", at, someOf(hosts)))
}

func (g *group) unmerge(now clock.Instant) {
	if g.merge != nil {
		g.merge = nil
		g.setWatch(nil)
		g.replan(now)
	}
}

func (m *merge) plan(now clock.Instant, g *group) rate {
	p := m.strategy.Plan(now)
	m.review = p.Review
	g.from = m.retryUntil
	if p.NotBefore > g.from && p.NotBefore != 0 {
		g.from = p.NotBefore
	}
	g.trying = m.trialAt != 0 && m.retryUntil <= now
	g.hinted = m.retryUntil == g.from && m.retryUntil > now
	return min(max(rateOf(p.Rate), 1), rateOf(g.ceiling()))
}

func (g *group) sent(now clock.Instant) (trial uint32) {
	if trial = g.merge.strategy.Sent(now, 1); trial != 0 {
		g.merge.trialAt = now
		g.replan(now)
	}
	return trial
}

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

func (g *group) learn(s *state, now, sentAt clock.Instant, class outcome.Class, fb *Feedback, refused, admitted bool) bool {
	m := g.merge
	if !refused && !admitted {
		return false // it is a failure of the member alone
	}
	if _, done := m.begun[s]; !done {
		m.begun[s] = 0
		s.restartLocked(now)
	}
	if admitted {
		m.admitted++
	}
	if hosts, before, why := g.parts(s, now, sentAt, refused); why != "" {
		g.postponeTrials(now)
		g.note(now, control.CauseParted, hosts, g.bucket.rate.rps(), before, "paced one by one again: "+why)
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
		// Latencies count per member: in a mixture, a change of members would look like a queue.
		Latency: g.l.cfg.LatencyTarget / 2,
		Quota:   fb.Quota, Floor: g.l.rules.Load().base.floor.rps(), Ceiling: g.ceiling(), Window: &m.window,
	})
	g.replan(now)
	return refused
}

// parts says why the members are to be paced one by one again; why is empty if they are not. Either one is refused
// alone, or they get far less together than before.
func (g *group) parts(s *state, now, sentAt clock.Instant, refused bool) (hosts []string, before float64, why string) {
	m := g.merge
	alone := m.refusedAlone(s, now, sentAt, refused)
	costs := false
	if took := now.Sub(m.since); !m.judged && took >= judgeAfter {
		m.judged = true
		enough := worth * m.before
		costs = g.bucket.rate.rps() < enough && float64(m.admitted) < enough*took.Seconds()
	}
	switch {
	case alone:
		return []string{s.domain}, 0, s.domain + " was refused again and again while the others were served"
	case costs:
		return nil, m.before, fmt.Sprintf("together they got less than the %.3g/s that they had got each for itself", m.before)
	}
	return nil, 0, ""
}

// refusedAlone reports whether refusals fall on one member more often than by chance while others are answered.
func (m *merge) refusedAlone(s *state, now, sentAt clock.Instant, refused bool) bool {
	m.begun[s]++
	m.total++
	if !refused {
		m.otherServed = m.otherServed || s != m.run && sentAt > m.runAt
		return false
	}
	if s != m.run {
		m.run, m.runAt, m.length, m.otherServed, m.total = s, now, 1, false, 0
		for member := range m.begun {
			m.begun[member] = 0
		}
		return false
	}
	if sentAt <= m.runAt || !m.otherServed {
		return false // it is of the same event, or everybody is refused
	}
	m.runAt, m.otherServed = now, false
	m.length++
	share := (float64(m.begun[s]) + 1) / (float64(m.total) + 2)
	return m.length >= runLeast && math.Pow(share, float64(m.length-1)) < runChance
}
