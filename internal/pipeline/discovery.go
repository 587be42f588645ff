package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
)

// outboxFull stops the leasing of refused URLs until Output has taken some: a whole
// site behind a Disallow must not pile up in memory.
const outboxFull = 256

// warnFrom is the shortest wait worth a line: shorter ones are over before it is read.
const warnFrom = 5 * time.Second

// askedToStop is why a crawl ended that was stopped.
const askedToStop = "asked to stop"

// discovery is the state of the goroutine that owns the frontier.
type discovery struct {
	p        *Pipeline
	frontier *frontier.Frontier
	seeds    <-chan canonical.URL // nil when there are no more
	outbox   []*result            // refused URLs on their way to Output
	out      int                  // leases whose worker has not reported back
	slots    int                  // of them, those that hold one of Concurrency
	young    []*frontier.Lease    // of them, those leased less than a second ago, oldest first; some have been answered
	overdue  []*frontier.Lease    // older ones without an answer for which there was no place aside
	workers  int                  // at most MaxOut
	hire     func()               // one more worker
	pages    int                  // pages leased and not come back

	guesses guesses // where sitemaps usually are
	paused  bool
	fleet
	blocking
	ending

	busySince time.Time // since when it has not looked for what arrives; zero if nobody measures
}

// fleet is who else works on the crawl.
type fleet struct {
	peers    Peers           // nil: there is nobody else
	counted  bool            // its pages are counted for all of them
	more     <-chan struct{} // of the pages
	judged   <-chan struct{}
	answered bool // the peers know that a host has
	visited  bool // the peers know that a URL was
}

// run leases URLs until the crawl is over, and closes the leases channel.
func (d *discovery) run(ctx context.Context) error {
	defer close(d.p.leases)
	clk := d.p.cfg.Clock
	if d.began = d.p.since; d.began.IsZero() {
		d.began = clk.Now()
	}
	d.began = d.began.Add(-d.p.cfg.Elapsed)
	if s := d.p.cfg.State; s != nil && s.Peers != nil {
		d.peers, d.judged = s.Peers, s.Peers.Judged()
		if d.counted = d.peers.Counted(); d.counted {
			d.more = d.peers.More()
			defer func() { d.peers.Pages(d.pages) }() // some may have come back unfetched
		}
	}
	d.recall()
	d.bound(d.p.cfg.MaxPages, d.p.cfg.MaxTime)
	select {
	case <-d.p.stop: // before it began
		d.hurry(EndInterrupted, askedToStop)
	default:
	}
	for {
		now := clk.Now()
		wake := earlier(d.sort(now), d.dispatch(now))
		d.testify()
		d.commit(nil) // of what failures cost, which no acknowledgement ends
		if d.over(now) {
			return nil
		}
		if err := d.wait(ctx, now, wake); err != nil {
			return err
		}
	}
}

// wait takes in what arrives next, or returns at the instant wake.
func (d *discovery) wait(ctx context.Context, now, wake time.Time) error {
	var alarm <-chan time.Time
	if !wake.IsZero() {
		t := d.p.cfg.Clock.NewTimer(wake.Sub(now))
		defer t.Stop()
		alarm = t.C()
	}
	stop := d.p.stop
	if d.hurried {
		stop = nil // it stays closed, and has been heard
	}
	acks, seeds := d.p.acks, d.seeds
	answers, room, failed := d.state()
	if room != nil { // what is told now would only wait in memory
		acks, seeds = nil, nil
	}
	var outbox chan<- *result
	var first *result
	if len(d.outbox) > 0 {
		outbox, first = d.p.results, d.outbox[0]
	}
	d.rests()
	select {
	case ev := <-d.p.events:
		d.works()
		d.event(ev)
		d.drain()
	case w := <-acks:
		d.works()
		d.acknowledge(w)
	case u, ok := <-seeds:
		d.works()
		if !ok {
			d.seeds = nil
			if d.peers != nil {
				d.peers.Seeded()
			}
			return nil
		}
		d.seed(u)
	case outbox <- first:
		d.outbox[0] = nil
		d.outbox = d.outbox[1:]
	case <-alarm:
		d.works()
	case <-stop:
		d.hurry(EndInterrupted, askedToStop)
	case ask := <-d.p.asks:
		d.works()
		ask(d)
	case a := <-answers:
		d.works()
		if err := d.frontier.Take(d.p.cfg.Clock.Now(), a); err != nil {
			return fmt.Errorf("the state of the crawl is damaged: %w", err)
		}
	case <-room:
	case <-d.more:
	case <-d.judged:
	case <-failed:
		return fmt.Errorf("keep the state of the crawl: %w", d.p.cfg.State.Err())
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// rests ends a turn of work, and works begins one, for whoever wants to know how long nobody
// was heard. The end of a crawl is no turn.
func (d *discovery) rests() {
	if !d.busySince.IsZero() {
		d.p.cfg.Meter.Took(DiscoveryTurn, d.p.cfg.Clock.Since(d.busySince))
		d.busySince = time.Time{}
	}
}

func (d *discovery) works() {
	if d.p.cfg.Meter.On() {
		d.busySince = d.p.cfg.Clock.Now()
	}
}

// state is what to expect of the crawl's state; nothing if there is none.
func (d *discovery) state() (answers <-chan frontier.Answer, room, failed <-chan struct{}) {
	if s := d.p.cfg.State; s != nil {
		return s.Answers(), s.Room(), s.Failed()
	}
	return nil, nil, nil
}

// drain takes in the events that are already there, so that one look at the frontier
// serves them all.
func (d *discovery) drain() {
	for range len(d.p.events) {
		d.event(<-d.p.events)
	}
}

// dispatch leases as many URLs as there are idle workers and hosts that may be asked.
// It returns the instant at which there may be more; zero means that only an event can
// bring more.
func (d *discovery) dispatch(now time.Time) time.Time {
	for !d.stopping && !d.paused && d.slots < d.p.cfg.Concurrency && d.out < d.p.cfg.MaxOut && len(d.outbox) < outboxFull {
		if reached, last := d.enough(); reached {
			if d.out > 0 || !last {
				return d.deadline // what is out may come back unfetched
			}
			d.halt(EndLimit, fmt.Sprintf("max_pages %d reached", d.maxPages))
			return time.Time{}
		}
		l, wake := d.frontier.Next(now)
		if l == nil {
			return d.idle(now, wake)
		}
		d.lease(l, now)
	}
	return d.deadline
}

// enough reports whether as many pages are leased as may be, and whether that is the last word.
func (d *discovery) enough() (reached, last bool) {
	if !d.counted {
		return d.maxPages > 0 && d.pages >= d.maxPages, true
	}
	most, last := d.peers.Pages(d.pages)
	return d.pages >= most, last
}

func (d *discovery) lease(l *frontier.Lease, now time.Time) {
	switch {
	case l.Refused != nil:
		d.refused(l)
		d.outbox = append(d.outbox, &result{lease: l, rec: refusedRecord(l, now), trip: d.p.trip(l)})
		return
	case l.Kind == frontier.Robots:
		d.p.cfg.Robots.Begin(l.Origin, now)
	case l.Kind == frontier.Page:
		d.pages++
	}
	d.out++
	if !l.Extra() {
		d.slots++
	}
	if d.out > d.workers {
		d.workers++
		d.hire()
	}
	d.young = append(d.young, l)
	d.p.cfg.Meter.Took(QueueWait, l.Late())
	d.p.leases <- l // never blocks: there is room for every worker
}

// refused counts a URL that is not to be fetched.
func (d *discovery) refused(l *frontier.Lease) {
	s := &d.p.stats
	switch l.Refused.Class {
	case classTrap:
		s.left.Add(1)
	case classRobots:
		s.refused.Add(1)
	case scope.Excluded.String():
		s.out[scope.Excluded].Add(1)
	case scope.NotIncluded.String():
		s.out[scope.NotIncluded].Add(1)
	default:
		if s.unruled.Add(1) == 1 {
			d.unruled = l.URL.Origin() + ": " + l.Refused.Reason
		}
		if d.peers != nil && s.answered.Load() > 0 {
			d.peers.Unruled(d.unruled)
		}
	}
}

// refusedRecord is the record of a URL that was not fetched: robots.txt refuses it, or
// could not be had.
func refusedRecord(l *frontier.Lease, now time.Time) *sink.Record {
	rec := newRecord(l, now)
	rec.Attempt = 0
	rec.Error = &sink.Error{Class: l.Refused.Class, Message: l.Refused.Reason}
	return rec
}

// idle decides what to do when no host may be asked before wake.
func (d *discovery) idle(now, wake time.Time) time.Time {
	d.excludedTil = time.Time{}
	// While something is under way, it is too early to say.
	if d.out == 0 && d.seeds == nil && len(d.outbox) == 0 && d.frontier.Counts().Leased == 0 {
		if d.blocked(now) {
			return time.Time{}
		}
	}
	if !d.excludedTil.IsZero() {
		wake = d.excludedTil
	}
	if wake.IsZero() || !d.deadline.IsZero() && d.deadline.Before(wake) {
		return d.deadline
	}
	return wake
}

func (d *discovery) seed(u canonical.URL) {
	u = d.p.cfg.Rules.Apply(u)
	d.p.cfg.Scope.AddSeed(u)
	it := frontier.Item{URL: u, Found: frontier.Found{Seed: true}, Rank: d.p.cfg.Rank(u, 0)}
	d.add(nil, []found{{it, d.frontier.Fingerprint(&it), d.p.budgets.of(u.String())}}, d.p.cfg.Clock.Now())
	if d.p.cfg.Scope.Recheck(u, true).In {
		d.unannounced(u, d.p.cfg.Clock.Now())
	}
	d.commit(nil)
}

// commit ends a batch of what the state was told.
func (d *discovery) commit(positions []frontier.Position) {
	if d.p.cfg.State != nil {
		d.p.cfg.State.Commit(positions)
	}
}

// add takes in links, found on the page of from; nil: they are seeds.
func (d *discovery) add(from *frontier.Lease, links []found, now time.Time) {
	for i := range links {
		d.frontier.Expect(links[i].fp)
	}
	for i := range links {
		link := &links[i]
		if link.item.Kind == frontier.Sitemap {
			d.addSitemap(link, now)
			continue
		}
		if d.overBudget(link) || d.trapped(from, link, now) {
			continue
		}
		switch added := d.frontier.Add(now, link.item, link.fp); added {
		case frontier.Seen:
			d.linked(link, now)
		case frontier.Queued:
			d.p.budgets.count(link.budget, link.item.URL)
			d.p.traps.accepted(from, &link.item, now)
		default:
			d.p.dropped(added, &link.item)
		}
	}
}

func (d *discovery) acknowledge(w written) {
	now := d.p.cfg.Clock.Now()
	if d.peers != nil && !d.answered && d.p.stats.answered.Load() > 0 {
		d.answered = true
		d.peers.Answered()
	}
	if d.peers != nil && !d.visited && d.p.stats.visited.Load() > 0 {
		d.visited = true
		d.peers.Visited()
	}
	for i := range w.acks {
		d.add(w.acks[i].lease, w.acks[i].links, now)
		if w.acks[i].absent {
			d.noSitemap(w.acks[i].lease, now)
		}
		switch l := w.acks[i].lease; {
		case w.acks[i].dropped:
			d.late = true
			d.frontier.End(now, l, frontier.WaitHost(false))
			if l.Kind == frontier.Page && l.Refused == nil {
				d.pages--
			}
		case l != nil:
			d.frontier.End(now, l, frontier.Done(w.acks[i].visit))
		}
	}
	d.commit(w.positions)
}

// event takes in a worker's report.
func (d *discovery) event(ev event) {
	now := d.p.cfg.Clock.Now()
	d.out--
	if !ev.lease.Extra() {
		d.slots--
	}
	d.frontier.Release(now, ev.lease, ev.took, ev.outcome)
	if ev.outcome.Served() && (ev.lease.Kind == frontier.Page || ev.lease.Kind == frontier.Control) {
		d.blockedSince = time.Time{}
	}
	if ev.took > 0 {
		d.sent()
	}
	if ev.fate != fateProcessed && ev.lease.Kind == frontier.Page {
		d.pages-- // it will be leased again
	}
	switch ev.fate {
	case fateProcessed:
	case fateKept:
		d.keep(ev, now)
	case fateRobots:
		d.robots(ev.lease, ev.answer, now)
	default:
		if d.stopping && ev.lease.Kind == frontier.Robots {
			ev.end = frontier.GiveUp() // it is no URL that is left to visit
		} else if d.cutOff(&ev, now) {
			return
		}
		d.frontier.End(now, ev.lease, ev.end)
	}
}

// robots takes in the answer to a robots.txt request and wakes the host that waits for
// it. A redirect becomes a request of its own, at the head of its host's queue.
func (d *discovery) robots(l *frontier.Lease, a *robotsAnswer, now time.Time) {
	if a.redirect != nil {
		if d.frontier.AddRobots(now, *a.redirect) {
			d.frontier.End(now, l, frontier.GiveUp())
			return
		}
		a.result = robots.Result{Kind: robots.Failed, Reason: "it has moved to a host for which the frontier has no room"}
	}
	e := d.p.gate.answer(l.Origin, a, now)
	d.frontier.End(now, l, frontier.GiveUp())
	d.announced(l, e, now)
	d.frontier.Wake(now, hostOf(l.Origin))
}
