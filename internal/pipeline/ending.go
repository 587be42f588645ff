package pipeline

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/records/sink"
)

// ending is what ends a crawl, and how far its end is.
type ending struct {
	stopping bool
	hurried  bool   // it is not to wait for what is under way beyond Grace
	late     bool   // Output takes no more records of what was cut off
	cut      func() // cancels what workers and handlers have under way
	unruled  string // the first origin given up for want of its robots.txt, and why
	maxPages int    // zero: no bound
	maxTime  time.Duration
	began    time.Time // so that Elapsed lies before the run; what maxTime counts from
	deadline time.Time // from maxTime, and once it is stopping from Grace; zero means none
}

// over reports whether nothing is left to do or to wait for.
func (d *discovery) over(now time.Time) bool {
	if !d.deadline.IsZero() && !now.Before(d.deadline) {
		if d.hurried {
			d.deadline = time.Time{}
			d.cut()
		} else {
			d.hurry(EndLimit, fmt.Sprintf("max_time %v reached", d.maxTime))
		}
	}
	if len(d.outbox) > 0 || d.stopping && d.abandon(now) || d.out > 0 {
		return false
	}
	c := d.frontier.Counts()
	if c.Leased > 0 || d.paused && !d.stopping || !d.stopping && (d.seeds != nil || !d.frontier.Over()) {
		return false
	}
	if reason := d.unvisited(); reason != "" {
		d.halt(EndUnruled, reason)
	}
	return true
}

// unvisited is why nothing could be asked for, here or by all who work on the crawl; empty if
// something could, or nobody was there to refuse.
func (d *discovery) unvisited() string {
	switch {
	case d.stopping:
		return ""
	case d.peers != nil:
		return d.peers.Unvisited()
	case d.p.stats.answered.Load() > 0 && d.p.stats.visited.Load() == 0:
		return d.unruled
	}
	return ""
}

// halt ends the leasing; the first reason stands.
func (d *discovery) halt(end End, reason string) {
	if d.stopping {
		return
	}
	d.stopping = true
	d.seeds = nil
	d.p.halted(end, reason)
}

// hurry ends the leasing, and what is under way when its time is over. It is called once.
func (d *discovery) hurry(end End, reason string) {
	d.halt(end, reason)
	d.hurried, d.deadline = true, time.Time{}
	close(d.p.stopping)
	if grace := d.p.cfg.Grace; grace > 0 {
		now := d.p.cfg.Clock.Now()
		d.deadline = now.Add(grace - grace/4)
		d.p.mu.Lock()
		d.p.until = now.Add(grace - grace/8)
		d.p.mu.Unlock()
	}
}

// abandon has URLs recorded that were asked for and wait to be asked again, when the crawl ends
// and keeps no state in which they could wait on. It reports whether there are any.
func (d *discovery) abandon(now time.Time) bool {
	if d.p.cfg.State != nil || d.late {
		return false
	}
	for _, l := range d.frontier.Abandon(now, outboxFull) {
		rec := endedRecord(l, now, l.Class, int(l.Status), "the URL was asked for again")
		rec.Attempt = max(1, int(l.Attempt))
		d.outbox = append(d.outbox, &result{lease: l, rec: rec, trip: d.p.trip(l)})
	}
	return len(d.outbox) > 0
}

// cutOff has a URL recorded whose request was cancelled at the end of a crawl that keeps no
// state. It reports whether it did.
func (d *discovery) cutOff(ev *event, now time.Time) bool {
	l := ev.lease
	if d.p.cfg.State != nil || !d.hurried || ev.outcome.Class != outcome.Canceled || l.Kind == frontier.Control {
		return false
	}
	rec := endedRecord(l, now, outcome.Canceled, int(l.Status), beforeDone)
	d.outbox = append(d.outbox, &result{lease: l, rec: rec, trip: d.p.trip(l)})
	return true
}

// beforeDone is when a crawl ended that has cut a URL off.
const beforeDone = "the URL was done with"

// endedRecord is the record of a URL that was asked for, whose last answer had a status, and
// with which the crawl was not done when it ended. The status is zero if there was no answer.
func endedRecord(l *frontier.Lease, now time.Time, class outcome.Class, status int, before string) *sink.Record {
	rec := newRecord(l, now)
	rec.Status = status
	answer := "it was not answered"
	if status != 0 {
		answer = fmt.Sprintf("the last answer was status %d", status)
	}
	rec.Error = &sink.Error{Class: class.String(), Message: "the crawl ended before " + before + "; " + answer}
	return rec
}
