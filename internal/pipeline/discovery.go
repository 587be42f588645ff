package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/gate"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

// outboxFull is how many results may wait for Output before no more refused URLs are leased: a whole site behind a
// Disallow must not pile up in memory.
const outboxFull = 256

// discovery is the state of the goroutine that owns the frontier. Its methods run in that goroutine.
type discovery struct {
	p        *Pipeline
	frontier *frontier.Frontier
	seeds    <-chan request.Seed // nil when there are no more seeds
	outbox   []*result           // results on their way to Output, mostly of refused URLs
	workers  int                 // at most MaxOut
	hire     func()              // starts one more worker
	pages    int                 // pages leased and not returned unfetched; those of earlier runs count

	sitemaps  scope.Counters
	toldSpent map[int]bool // budgets whose end was logged, by index
	paused    bool
	alarm     clock.Timer // ends a wait; it may fire early, as it is not reset in each turn
	alarmAt   time.Time   // when alarm fires; zero means that it is not set
	peers     frontier.Peers
	noted     noted // what the peers were told last
	blocking
	ending
	skipping

	busySince time.Time // since when Discovery has not looked at its channels; zero if nothing measures that
}

type noted struct {
	answered, visited bool
	unruled           string
}

// run leases URLs until the crawl is over, and then closes the leases channel.
func (d *discovery) run(ctx context.Context) error {
	defer func() { d.stopping = true }()
	defer close(d.p.leases)
	clk := d.p.cfg.Clock
	d.alarm = clk.NewTimer(0)
	defer d.alarm.Stop()
	if d.began = d.p.status.since; d.began.IsZero() {
		d.began = clk.Now()
	}
	d.began = d.began.Add(-d.p.cfg.Elapsed)
	defer func() { d.peers.Pages(d.pages) }() // the number may have gone down, by pages that came back unfetched
	d.bound(d.p.cfg.MaxPages, d.p.cfg.MaxTime)
	for {
		if !d.hurried { // checked first: what is acknowledged together with a stop must start no further requests
			select {
			case <-d.p.stop.c:
				d.hurry(EndInterrupted, askedToStop)
			default:
			}
		}
		now := clk.Now()
		wake := clock.Earlier(d.frontier.SetAside(now), d.dispatch(now))
		d.testify()
		d.commit(nil) // for the cost of failures, which no acknowledgement commits
		if d.over(now) {
			return nil
		}
		if err := d.wait(ctx, now, wake); err != nil {
			return err
		}
	}
}

// wait handles what arrives next on a channel. It returns after that, or at the instant wake; zero means no such
// instant.
func (d *discovery) wait(ctx context.Context, now, wake time.Time) error {
	if !wake.IsZero() && (d.alarmAt.IsZero() || wake.Before(d.alarmAt)) {
		d.alarm.Reset(wake.Sub(now))
		d.alarmAt = wake
	}
	stop, acks, seeds := d.p.stop.c, d.p.acks, d.seeds
	if d.hurried {
		stop = nil // it stays closed, and has been handled
	}
	var answers <-chan frontier.Answer
	var room, failed <-chan struct{}
	if s := d.p.cfg.State; s != nil {
		answers, room, failed = s.Answers(), s.Room(), s.Failed()
	}
	if room != nil { // the batches would only pile up in memory
		acks, seeds = nil, nil
	}
	var outbox chan<- *result
	var first *result
	if len(d.outbox) > 0 {
		outbox, first = d.p.results, d.outbox[0]
	}
	if !d.busySince.IsZero() {
		d.p.cfg.Meter.Took(DiscoveryTurn, d.p.cfg.Clock.Since(d.busySince))
		d.busySince = time.Time{}
	}
	select {
	case ev := <-d.p.events:
		d.works()
		d.event(ev)
		for range len(d.p.events) { // one turn handles them all
			d.event(<-d.p.events)
		}
	case w := <-acks:
		d.works()
		d.acknowledge(w)
	case s, ok := <-seeds:
		d.works()
		if ok {
			d.seed(s)
		} else {
			d.seeds = nil
			d.peers.Seeded()
		}
	case outbox <- first:
		d.outbox[0] = nil
		d.outbox = d.outbox[1:]
	case <-d.alarm.C():
		d.alarmAt = time.Time{}
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
	case <-d.peers.Changed():
	case <-failed:
		return fmt.Errorf("keep the state of the crawl: %w", d.p.cfg.State.Err())
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// works begins a turn of work. A Meter measures how long Discovery does not look at its channels meanwhile.
func (d *discovery) works() {
	if d.p.cfg.Meter.On() {
		d.busySince = d.p.cfg.Clock.Now()
	}
}

// dispatch leases URLs while there are free slots and hosts that may get a request. It returns the instant at which
// there may be more; zero means that only an event can bring more.
func (d *discovery) dispatch(now time.Time) time.Time {
	for !d.stopping && !d.paused && d.frontier.Free() && len(d.outbox) < outboxFull {
		if most, last := d.peers.Pages(d.pages); d.pages >= most {
			if d.frontier.Out() > 0 || !last {
				return d.deadline // pages in flight may come back unfetched
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

func (d *discovery) lease(l *frontier.Lease, now time.Time) {
	switch {
	case l.Refused != nil:
		d.refused(l, now)
		return
	case l.Kind == frontier.Robots:
		d.p.cfg.Robots.Begin(l.Origin, now)
	case l.Kind == frontier.Page:
		d.pages++
	}
	if d.frontier.Out() > d.workers {
		d.workers++
		d.hire()
	}
	d.p.cfg.Meter.Took(QueueWait, l.Late())
	d.p.leases <- l // never blocks: there is room for every worker
}

// refused counts and records a URL that is not to be fetched.
func (d *discovery) refused(l *frontier.Lease, now time.Time) {
	s := &d.p.stats
	switch l.Refused.Class {
	case gate.ClassTrap:
		s.count(&s.n.Trapped, 1)
	case gate.ClassRobots:
		s.count(&s.n.Refused, 1)
	case scope.Excluded.String():
		s.out[scope.Excluded].Add(1)
	case scope.NotIncluded.String():
		s.out[scope.NotIncluded].Add(1)
	default:
		if s.count(&s.n.Unruled, 1) == 1 {
			d.unruled = l.URL.Origin() + ": " + l.Refused.Reason
		}
	}
	rec := newRecord(l, now)
	rec.Attempt = 0
	rec.Error = &record.Error{Class: l.Refused.Class, Message: l.Refused.Reason}
	d.record(l, rec)
	d.skip(&l.Item, l.Refused.Class, l.Refused.Reason)
	d.passSkips()
}

func (d *discovery) record(l *frontier.Lease, rec *record.Record) {
	d.outbox = append(d.outbox, &result{lease: l, rec: rec, trip: d.p.cfg.trip(l)})
}

// idle decides what to do when no host may get a request before wake, and returns the instant until which to wait.
// While something is in flight, it is too early to say that only blocked hosts are left.
func (d *discovery) idle(now, wake time.Time) time.Time {
	d.excludedTil = time.Time{}
	if d.frontier.Out() == 0 && d.seeds == nil && len(d.outbox) == 0 && d.frontier.Counts().Leased == 0 && d.blocked(now) {
		return time.Time{}
	}
	if !d.excludedTil.IsZero() {
		wake = d.excludedTil
	}
	return clock.Earlier(wake, d.deadline)
}

func (d *discovery) seed(s request.Seed) {
	cfg, now := &d.p.cfg, d.p.cfg.Clock.Now()
	u := cfg.Rules.Apply(s.URL)
	outside := s.Outside()
	if !outside {
		cfg.Scope.AddSeed(u)
	}
	it := frontier.Item{URL: u, Request: s.Stored, Found: frontier.Found{Seed: !outside}, Rank: scope.Promote(cfg.Rank.Of(u, 0), s.Points)}
	d.add(nil, []found{{item: it, fp: d.frontier.Fingerprint(&it), budget: d.p.cfg.Budgets.Of(u.String())}}, now)
	if cfg.Robots == nil && cfg.Sitemaps.Enabled && cfg.Scope.Recheck(u, true).In { // no robots.txt names the sitemap
		d.usualSitemap(u, 0, now)
	}
	d.passSkips()
	d.commit(nil) // for the cost of failures, which no acknowledgement commits
}

func (d *discovery) commit(positions []frontier.Position) {
	if d.p.cfg.State != nil {
		d.p.cfg.State.Commit(positions)
	}
}

// fixes names the settings that make room for dropped links.
var fixes = map[frontier.Added]string{
	frontier.Full:      "raise frontier.max_urls",
	frontier.HostsFull: "raise frontier.max_urls",
	frontier.HostPages: "raise max_pages_per_host",
}

// add takes in links that were found on the page of from. If from is nil they are seeds.
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
		switch d.put(link, now) {
		case frontier.Seen:
			d.skipSeen(link)
		case frontier.Queued:
			d.p.cfg.Budgets.Count(link.budget, link.item.URL)
			d.accepted(from, &link.item, now)
		}
	}
}

// put offers a link to the frontier, and counts it as dropped if there is no room.
func (d *discovery) put(link *found, now time.Time) frontier.Added {
	added := d.frontier.Add(now, link.item, link.fp)
	if added > frontier.Seen {
		d.p.stats.full.Store(true)
		d.p.drop(added.String(), 1, link.item.URL.String(), fixes[added])
		d.skip(&link.item, added.String(), "there is no room for it: "+fixes[added])
	}
	return added
}

func (d *discovery) acknowledge(w written) {
	now := d.p.cfg.Clock.Now()
	d.note()
	for _, r := range w.results {
		l := r.lease
		d.add(l, r.links, now)
		switch {
		case r.dropped:
			d.late = true
			d.frontier.End(now, l, frontier.WaitHost(""))
			if l.Kind == frontier.Page && l.Refused == nil {
				d.pages--
			}
		case l != nil:
			d.frontier.End(now, l, frontier.Done(r.visit))
		}
	}
	d.passSkips()
	d.commit(w.positions)
}

func (d *discovery) event(ev event) {
	now, l := d.p.cfg.Clock.Now(), ev.lease
	d.frontier.Release(now, l, ev.took, ev.outcome)
	if ev.outcome.Served() && (l.Kind == frontier.Page || l.Kind == frontier.Control) {
		d.blockedSince = time.Time{}
	}
	if ev.took > 0 { // the queues let a request pass
		d.sent(now)
	}
	if ev.fate != fateProcessed && l.Kind == frontier.Page {
		d.pages-- // the URL will be leased again
	}
	switch ev.fate {
	case fateProcessed:
	case fateKept:
		d.keep(ev, now)
	case fateRobots:
		d.robots(l, ev.answer, now)
	default:
		if d.stopping && l.Kind == frontier.Robots {
			ev.end = frontier.GiveUp() // robots.txt is no URL that is left to visit
		} else if d.cutOff(&ev, now) {
			return
		}
		d.frontier.End(now, l, ev.end)
	}
}
