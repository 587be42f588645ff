package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/record"
)

const (
	// warnFrom is the shortest wait that is logged. Shorter ones are over before anyone has read the line.
	warnFrom = 5 * time.Second
	// keptMin is the least time for which the Fetcher's queues may let nothing pass before the crawl ends. Unlike hosts
	// that refuse and a proxy that fails, the queues are our own, and a short time shows nothing.
	keptMin = time.Minute
	// newProxy is how long a proxy may fail through which no response has arrived: most likely, its setting is wrong.
	newProxy = 5 * time.Second

	// ProxyFails begins the reason why hosts wait for a proxy, and that of an [EndBlocked] if URLs are left because of it.
	ProxyFails = "the proxy fails"

	askedToStop = "asked to stop"
	beforeDone  = "the URL was done with"
)

type ending struct {
	stopping bool
	hurried  bool   // deadline is the end of Grace for what is in progress
	late     bool   // Output records no more URLs that were cut off
	cut      func() // cancels what workers and handlers have in progress
	unruled  string // the first origin whose URLs were given up because robots.txt could not be fetched, and why
	maxPages int    // zero means no bound
	maxTime  time.Duration
	began    time.Time // when the crawl began: before the run by Elapsed; maxTime counts from it
	deadline time.Time // from maxTime, or, once hurried, from Grace; zero means none
}

// bound sets the pages and the time after which the crawl ends; zero means no bound.
func (d *discovery) bound(maxPages int, maxTime time.Duration) {
	d.maxPages, d.maxTime = maxPages, maxTime
	if d.hurried { // the deadline is that of Grace
		return
	}
	d.deadline = time.Time{}
	if maxTime > 0 {
		d.deadline = d.began.Add(maxTime)
	}
}

// over reports whether nothing is left to do or to wait for. It acts on a deadline that has passed.
func (d *discovery) over(now time.Time) bool {
	if !d.deadline.IsZero() && !now.Before(d.deadline) {
		if d.hurried {
			d.deadline = time.Time{}
			d.cut()
		} else {
			d.hurry(EndLimit, fmt.Sprintf("max_time %v reached", d.maxTime))
		}
	}
	if len(d.outbox) > 0 || d.stopping && d.abandon(now) || d.frontier.Out() > 0 || d.frontier.Counts().Leased > 0 {
		return false
	}
	if d.stopping {
		return true
	}
	if d.paused || d.seeds != nil || !d.frontier.Over() {
		return false
	}
	d.note()
	if reason := d.peers.Unvisited(); reason != "" {
		d.halt(EndUnruled, reason)
	}
	return true
}

// halt ends the leasing. The first reason is kept.
func (d *discovery) halt(end End, reason string) {
	if d.stopping {
		return
	}
	d.stopping, d.seeds = true, nil
	p := d.p
	p.mu.Lock()
	p.status.end, p.status.reason = end, reason
	p.mu.Unlock()
	p.halt.give()
	p.cfg.Log.Debug("no further URLs are leased", slog.String("reason", reason))
}

// hurry ends the leasing at once, and what is in progress when Grace is over. It is called once.
func (d *discovery) hurry(end End, reason string) {
	d.halt(end, reason)
	d.hurried, d.deadline = true, time.Time{}
	d.p.stopping.give()
	if grace := d.p.cfg.Grace; grace > 0 {
		now := d.p.cfg.Clock.Now()
		d.deadline = now.Add(grace - grace/4)
		d.p.mu.Lock()
		d.p.status.until = now.Add(grace - grace/8)
		d.p.mu.Unlock()
	}
}

// abandon records the URLs that were requested and wait to be tried again, when the crawl ends without a state in which
// they could wait. It reports whether there are any.
func (d *discovery) abandon(now time.Time) bool {
	if d.p.cfg.State != nil || d.late {
		return false
	}
	for _, l := range d.frontier.Abandon(now, outboxFull) {
		rec := endedRecord(l, now, l.Class, int(l.Status), "the URL was asked for again")
		rec.Attempt = max(1, int(l.Attempt))
		d.record(l, rec)
	}
	return len(d.outbox) > 0
}

// cutOff records a URL whose request was canceled at the end of a crawl without a state. It reports whether it did.
func (d *discovery) cutOff(ev *event, now time.Time) bool {
	l := ev.lease
	if d.p.cfg.State != nil || !d.hurried || ev.outcome.Class != outcome.Canceled || l.Kind == frontier.Control {
		return false
	}
	d.record(l, endedRecord(l, now, outcome.Canceled, int(l.Status), beforeDone))
	return true
}

// endedRecord returns the record of a URL that was requested and not finished when the crawl ended. Status is that of
// its last response, and zero if there was none.
func endedRecord(l *frontier.Lease, now time.Time, class outcome.Class, status int, before string) *record.Record {
	rec := newRecord(l, now)
	rec.Status = status
	answer := "it was not answered"
	if status != 0 {
		answer = fmt.Sprintf("the last answer was status %d", status)
	}
	rec.Error = &record.Error{Class: class.String(), Message: "the crawl ended before " + before + "; " + answer}
	return rec
}

type blocking struct {
	blockedSince time.Time         // since when no page was served and all hosts refuse; zero if they do not
	excludedTil  time.Time         // until when an operator may unblock one of the hosts, if only excluded ones are left; zero if others are
	blockedTil   time.Time         // until when they refuse, by the last warning
	keptSince    time.Time         // since when the Fetcher's queues or the proxy have let nothing pass; zero if they do
	keptWhy      string            // why they do not; means nothing while keptSince is zero
	proxyTold    time.Time         // when a person was told that the proxy fails; zero if it was back since
	stuck        frontier.Idleness // the idleness that follows from keptSince; zero if it does not last long enough
	idleness     frontier.Idleness // the last known
	told         frontier.Idleness // what the peers were told last
	attended     bool              // somebody has blocked or unblocked a host in this run
}

// blocked ends the crawl when all hosts refuse and MaxBlocked is over, or will be over before the first of them may get
// a request again by its own server hint. With peers this must be true of all of them.
func (d *discovery) blocked(now time.Time) (ended bool) {
	b := d.frontier.Blocked(now)
	if b.Unsure {
		return false // nothing has changed
	}
	if !b.Whole && !b.Idle {
		d.blockedSince, d.idleness = time.Time{}, frontier.Idleness{}
		return false
	}
	if d.blockedSince.IsZero() {
		d.blockedSince = now
	}
	d.idleness = frontier.Idleness{Blockage: b, Since: d.blockedSince, Patience: d.p.cfg.MaxBlocked}
	if b.Excluded && d.p.cfg.Unattended && !d.attended {
		d.idleness.Patience = 0
	}
	if b.Whole {
		d.idleness.Reason = d.frontier.Refusal(&b, now)
	}
	if d.testify(); d.endAll() {
		return true
	}
	if !b.Whole {
		return false
	}
	until := b.Until
	if b.Excluded {
		if until = d.blockedSince.Add(d.p.cfg.MaxBlocked); until.After(now) {
			d.excludedTil = until
		}
	}
	d.warnBlocked(now, until)
	return false
}

func (d *discovery) endAll() bool {
	verdict := d.peers.Verdict()
	if verdict != "" {
		d.halt(EndBlocked, verdict)
	}
	return verdict != ""
}

func (d *discovery) testify() {
	c := d.frontier.Counts()
	if d.frontier.Out() > 0 || d.seeds != nil || d.paused || len(d.outbox) > 0 || c.Leased > 0 {
		d.idleness = frontier.Idleness{}
	}
	if d.stuck.Whole && !d.paused && d.seeds == nil {
		if c.Queued+c.Leased > 0 {
			d.idleness = d.stuck // whatever is being retried
		} else if d.idleness == d.stuck {
			d.idleness = frontier.Idleness{} // others have its hosts; whether there are more is not known yet
		}
	}
	if d.idleness != d.told {
		d.told = d.idleness
		d.peers.Idles(d.told)
	}
}

func (d *discovery) note() {
	var n noted
	if n.answered, n.visited = d.p.stats.met(); n.answered {
		n.unruled = d.unruled
	}
	if n != d.noted {
		d.noted = n
		d.peers.Noted(n.answered, n.visited, n.unruled)
	}
}

// warnBlocked logs once per wait why the crawl makes no progress.
func (d *discovery) warnBlocked(now, until time.Time) {
	if !until.After(d.blockedTil) || until.Sub(now) < warnFrom {
		return
	}
	d.blockedTil = until
	for _, w := range d.frontier.Hosts(now, 3) {
		if w.Queued == 0 || !w.Blocked && !w.Excluded {
			continue // no URL of it is left, or it refuses nothing
		}
		if w.Until.IsZero() {
			w.Until = until
		}
		d.p.cfg.Log.Warn("only blocked hosts remain",
			slog.String("host", w.Host), slog.Int("queued", w.Queued), slog.String("reason", w.Reason), slog.Time("until", w.Until))
	}
}

// keep puts a URL back for which there was no place in a queue of the Fetcher. Queues that let nothing pass while
// nothing is in flight will not get better, so the crawl ends after a while. If several processes work on it, this one
// then counts as idle, keeps trying, and other processes may take over its hosts.
func (d *discovery) keep(ev event, now time.Time) {
	limit, fails := max(d.p.cfg.MaxBlocked, keptMin), "no request could be sent"
	cause, proxy := ev.err, d.p.cutOff(ev.err)
	if proxy {
		if limit, fails = d.p.cfg.MaxBlocked, ProxyFails; !d.p.heard.Load() {
			limit = min(limit, newProxy)
		}
		if e, ok := errors.AsType[*fetch.Error](ev.err); ok {
			cause = e.Err // which names the proxy, and not the URL that it was to carry
		}
	}
	d.keptWhy = fails + ": " + cause.Error()
	d.frontier.End(now, ev.lease, frontier.WaitHost(d.keptWhy))
	if d.keptSince.IsZero() {
		d.keptSince = now
		d.tellKept(proxy, cause, now)
	}
	if d.p.asking.Load() > 0 || now.Sub(d.keptSince) < limit {
		return
	}
	if !d.stuck.Whole {
		d.stuck = frontier.Idleness{
			Blockage: frontier.Blockage{Whole: true}, Since: d.keptSince, Patience: limit,
			Reason: fmt.Sprintf("%s for %v: %v", fails, limit, cause),
		}
		if d.testify(); !d.endAll() {
			d.p.cfg.Log.Warn("no request can be sent: the hosts of this process are for others to ask",
				slog.Duration("since", limit), slog.Any("error", cause))
		}
		return
	}
	d.endAll()
}

// tellKept logs that requests begin to find no way out of this process. A proxy is warned of again when it was back
// meanwhile, and after a minute if it fails now and then.
func (d *discovery) tellKept(proxy bool, cause error, now time.Time) {
	switch {
	case !proxy:
		d.p.cfg.Log.Debug("a request has found no place in a queue", slog.Any("error", cause))
	case d.proxyTold.IsZero() || now.Sub(d.proxyTold) >= keptMin:
		d.proxyTold = now
		// The time comes first, since a person is not told of the same twice in a minute.
		more := []any{slog.Time("since", now), slog.Any("error", cause)}
		if d.p.cfg.State != nil {
			more = append(more, slog.String("to_use_another_one", "Ctrl-C, then go on with --proxy URL"))
		}
		d.p.cfg.Log.Warn("the proxy fails: the crawl waits, and tries again", more...)
	}
}

// stalled returns why no request has left this process for a while; "" if one has.
func (d *discovery) stalled(now time.Time) string {
	if d.keptSince.IsZero() || now.Sub(d.keptSince) < warnFrom {
		return ""
	}
	return d.keptWhy
}

// sent notes that a request has left this process.
func (d *discovery) sent(now time.Time) {
	if !d.proxyTold.IsZero() && !d.keptSince.IsZero() && now.Sub(d.keptSince) >= warnFrom {
		d.proxyTold = time.Time{}
		d.p.cfg.Log.Info("the proxy is back: the crawl goes on", slog.Duration("after", now.Sub(d.keptSince).Round(time.Second)))
	}
	d.keptSince, d.stuck = time.Time{}, frontier.Idleness{}
}
