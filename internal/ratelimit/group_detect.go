package ratelimit

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Whether the hosts behind one address have one limit or one each cannot be told from
// coincident refusals alone: equal limits, met by the same strategy from the same start, are
// met at the same instants. So coincidences only start a trial. One or two of the refused
// hosts go at twice the rate at which they were refused, and the others slow down so that all
// together stay under what was admitted before. Limits of their own refuse the fast ones
// soon; a common limit refuses nobody. A trial without a finding is repeated after ten
// minutes, then twenty, up to nearly three hours.
const (
	// startUp is how long after a member's first refusal its refusals prove nothing: at
	// the start all search at the same time.
	startUp = 4 * time.Second
	// together is how far apart the refusals of two members may be and still be one
	// coincidence. Where the limit is common the pause after the one's refusal is what the
	// others get, so that they are refused a little later and seldom at once.
	together = 5 * time.Second
	// coincidences needed before a trial: one happens by chance too often.
	coincidences = 2
	// watchFor is how long a group is watched after its latest refusal: longer than any
	// strategy goes between two upward moves while it still learns.
	watchFor = 2 * time.Minute
	// maxNotes bounds what a watch remembers: of more members others say as much.
	maxNotes = 256

	// trialShare is the part of what was admitted that a trial lets through: the burst
	// that came before is in that figure.
	trialShare = 0.85
	// favouredShare bounds the part of it that the favoured may have, so that there is
	// something left to take from the others.
	favouredShare = 0.75
	// trialVolume is what a burst allowance may hide: as many requests above the old rate
	// must pass unrefused, or trialExcess more than a bucket of its own has got since it was
	// empty, at the favourite's last refusal.
	trialVolume = 25
	trialExcess = 5
	// trialShort and trialLong bound the time the favoured must go unrefused; within, it
	// is what the last refusal was apart from the one before, to outlast a quota's window.
	trialShort, trialLong = 5 * time.Second, time.Minute
	// trialDue ends a trial without a result: the favoured had nothing to ask for.
	trialDue = 5 * time.Minute
	// strays is how many refusals of others a trial bears: what was in flight.
	strays = 2

	clearFor  = 10 * time.Minute
	clearMost = 4 // doublings
)

// watch is what is known of a group some of whose members were refused.
type watch struct {
	notes  map[*state]note
	last   sighting // the latest refusal
	other  sighting // the latest one of another member
	met    int      // coincidences
	metAt  clock.Instant
	since  clock.Instant
	window estimate.Window // answers of all members
	trial  *trial
}

// note is one member's part in it.
type note struct {
	first, at clock.Instant // its first and latest refusal
	gap       time.Duration // between the last two refusals that were no part of the same event
	rate      rate          // at which it was refused
	top       rate          // which it may not exceed
}

type sighting struct {
	by *state
	at clock.Instant
}

// trial is the experiment.
type trial struct {
	favoured []favourite
	rate     rate    // of all others together
	all      float64 // admitted of all per second before
	begun    clock.Instant
	strays   int
}

// favourite is a member that is let go beyond the rate at which it was refused.
type favourite struct {
	state *state
	was   rate
	rate  rate
	empty clock.Instant // its last refusal
	least time.Duration // for which it must go unrefused
	from  clock.Instant // of the first answer; zero before
	n     int           // answers
}

// groupFeedbackLocked takes in, for the domain's address, what became of a request. It reports
// whether that was the affair of the address alone, of which the domain's strategy
// must not learn.
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
	if g.watch != nil && now.Sub(g.watch.last.at) > watchFor && g.watch.trial == nil {
		g.setWatch(nil)
	}
	if g.watch != nil && g.watch.trial != nil && g.tried(s, now, sentAt, refused, admitted, class) {
		return true
	}
	switch {
	case refused && g.hosts > 1:
		g.suspect(s, now, sentAt, fb.Latency)
	case admitted && g.watch != nil:
		g.watch.window.Add(now, false)
	}
	return false
}

func (g *group) setWatch(w *watch) {
	g.watch = w
	g.listen(w != nil || g.merge != nil)
}

// suspect takes in a refusal while nothing is known.
func (g *group) suspect(s *state, now, sentAt clock.Instant, latency time.Duration) {
	w := g.watch
	if w == nil {
		w = &watch{notes: make(map[*state]note), since: now, metAt: never, window: g.l.window}
		g.setWatch(w)
	}
	n, known := w.notes[s]
	if known && sentAt <= n.at {
		return // of the same event
	}
	if !known {
		if len(w.notes) >= maxNotes {
			return
		}
		n = note{first: now}
	}
	if gap := now.Sub(n.at); !known || gap > trialShort {
		// A refusal soon after another is that of a trial, at no rate of its own.
		rate := s.bucket.rate
		if s.notBefore > now {
			rate = max(rate, n.rate) // a trial's: half of what was refused before it
		}
		n.rate, n.gap, n.top = rate, gap, s.topLocked()
	}
	n.at = now
	w.notes[s] = n
	if w.last.by != s {
		w.other = w.last
	}
	w.last = sighting{s, now}
	span := max(together, 2*latency)
	o, ok := w.notes[w.other.by]
	if !ok || now.Sub(o.at) > span || now.Sub(w.metAt) <= span || now.Sub(n.first) < startUp || now.Sub(o.first) < startUp {
		return
	}
	w.met++
	w.metAt = now
	if w.met >= coincidences && w.trial == nil && now >= g.clearUntil {
		g.beginTrial(now)
	}
}

// topLocked is the most the domain could be let go at.
func (s *state) topLocked() rate {
	top := s.ceilingLocked()
	if spacing, _ := s.spacingLocked(); spacing > 0 {
		top = min(top, rateEvery(spacing))
	}
	return top
}

// admitted is the rate at which a group was answered of late.
func (w *watch) admitted(now clock.Instant, span time.Duration) float64 {
	span = min(max(now.Sub(w.since), time.Second), span)
	return float64(w.window.Sum(now).Total) / span.Seconds()
}

// beginTrial begins a trial with the two refused last, or with one if the two would be
// too large a part of the whole.
func (g *group) beginTrial(now clock.Instant) {
	w := g.watch
	all := w.admitted(now, g.l.cfg.StatsWindow)
	t := &trial{begun: now, all: all}
	left := trialShare * all
	budget := favouredShare * all
	for _, seen := range [...]sighting{w.last, w.other} {
		n := w.notes[seen.by]
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
			state: seen.by, was: n.rate, rate: r, empty: n.at, least: min(max(n.gap, trialShort), trialLong),
		})
	}
	if len(t.favoured) == 0 {
		return
	}
	t.rate = max(rateOf(left), rateOf(all/20), 1)
	w.trial = t
	g.replan(now)
}

// tried takes in an answer during a trial, and reports whether it is of no concern to
// the domain's own strategy.
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
		return refused // at a rate that was not the strategy's
	case f != nil && admitted:
		f.admit(sentAt)
		if t.passed(now) {
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

func (f *favourite) admit(sentAt clock.Instant) {
	if f.from == 0 {
		f.from = sentAt
	}
	f.n++
}

// passed reports whether all favoured went far enough beyond what had refused them.
func (t *trial) passed(now clock.Instant) bool {
	for i := range t.favoured {
		f := &t.favoured[i]
		took := now.Sub(f.from)
		old := f.was.rps() * took.Seconds()
		if f.from == 0 || took < f.least || float64(f.n)-old < f.volume() {
			return false
		}
	}
	return true
}

// volume is how many answers beyond the old rate prove that no limit of its own holds.
func (f *favourite) volume() float64 {
	return min(trialVolume, trialExcess+f.was.rps()*f.from.Sub(f.empty).Seconds())
}

// postponeTrials doubles the time without one.
func (g *group) postponeTrials(now clock.Instant) {
	g.clearUntil = now.Add(clearFor << min(g.trials, clearMost))
	g.trials++
}

// endTrial ends a trial that found no common limit.
func (g *group) endTrial(now clock.Instant) {
	g.postponeTrials(now)
	g.setWatch(nil)
	g.replan(now)
}

// forget takes a member out of the evidence. A trial without its favourite is over.
func (g *group) forget(now clock.Instant, s *state) {
	s.favoured = false
	if g.merge != nil {
		g.merge.forget(s)
	}
	w := g.watch
	if w == nil {
		return
	}
	delete(w.notes, s)
	if w.last.by == s {
		w.last.by = nil
	}
	if w.other.by == s {
		w.other.by = nil
	}
	if w.trial != nil && w.trial.find(s) != nil {
		g.endTrial(now)
	}
}

// favourLocked lets the domain go faster than its strategy wants while it is favoured
// by a trial.
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
		// No more than that either: a probe of its own would have the sum refused.
		s.bucket.rate = min(f.rate, s.ceilingLocked())
	}
}
