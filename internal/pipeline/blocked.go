package pipeline

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
)

// allExcluded is why a crawl ended that had nothing else left.
const allExcluded = "only hosts are left that the operator has blocked"

// blocking is how far nothing can be asked for.
type blocking struct {
	blockedSince time.Time         // since when no page was served and all hosts refuse; zero: they do not
	excludedTil  time.Time         // until when one of the hosts may be unblocked that the operator has blocked, all that are left; zero: there are others
	blockedTil   time.Time         // until when the last warning said that they do
	keptSince    time.Time         // since when the Fetcher's queues have let nothing pass; zero: they do
	stuck        frontier.Idleness // of that, for the peers; zero: it is not for so long yet
	idleness     frontier.Idleness // as it is known last
	told         frontier.Idleness // of it, to the peers
}

// blocked ends the crawl when all hosts refuse and MaxBlocked is over, or will be before
// the first of them may be asked again by its own order.
func (d *discovery) blocked(now time.Time) (ended bool) {
	b := d.frontier.Blocked(now)
	if b.Unsure {
		return false // it is as it was
	}
	if !b.Whole && !b.Idle {
		d.blockedSince, d.idleness = time.Time{}, frontier.Idleness{}
		return false
	}
	if d.blockedSince.IsZero() {
		d.blockedSince = now
	}
	if d.peers != nil {
		return d.obey(&b, now)
	}
	limit := d.blockedSince.Add(d.p.cfg.MaxBlocked)
	if b.Excluded {
		return d.onlyExcluded(now, limit)
	}
	if now.After(limit) || b.Ordered && b.Until.After(limit) {
		d.halt(EndBlocked, d.refusal(&b, now))
		return true
	}
	d.warnBlocked(now, b.Until)
	return false
}

// refusal says which hosts refuse, and until when.
func (d *discovery) refusal(b *frontier.Blockage, now time.Time) string {
	if b.Excluded {
		return allExcluded
	}
	return fmt.Sprintf("%sthe first may be asked again at %s", d.trouble(now), moment(now, b.Until))
}

// obey ends a crawl of several processes when all of them have only hosts that refuse, or
// nothing. Until then it waits for what others may find.
func (d *discovery) obey(b *frontier.Blockage, now time.Time) (ended bool) {
	d.idleness = frontier.Idleness{Blockage: *b, Since: d.blockedSince, Patience: d.p.cfg.MaxBlocked}
	if verdict := d.peers.Verdict(); verdict != "" {
		d.halt(EndBlocked, verdict)
		return true
	}
	if b.Whole {
		d.idleness.Reason = d.refusal(b, now)
		until := b.Until
		if b.Excluded {
			until = d.blockedSince.Add(d.p.cfg.MaxBlocked)
		}
		d.warnBlocked(now, until)
	}
	return false
}

// testify tells the others whether there is something to do here.
func (d *discovery) testify() {
	if d.peers == nil {
		return
	}
	if d.out > 0 || d.seeds != nil || d.paused || len(d.outbox) > 0 || d.frontier.Counts().Leased > 0 {
		d.idleness = frontier.Idleness{}
	}
	if c := d.frontier.Counts(); d.stuck.Whole && !d.paused && d.seeds == nil {
		if c.Queued+c.Leased > 0 {
			d.idleness = d.stuck // whatever is being tried
		} else if d.idleness == d.stuck {
			d.idleness = frontier.Idleness{} // others have its hosts; whether there are more is not known yet
		}
	}
	if d.idleness != d.told {
		d.told = d.idleness
		d.peers.Idles(d.told)
	}
}

// trouble says of the host with the most URLs left what its last answers were; nothing if
// it was not they that closed it.
func (d *discovery) trouble(now time.Time) string {
	for _, h := range d.frontier.Hosts(now, 1) {
		if text := spent(&h); text != "" {
			return text
		}
		if h.Failures > 1 {
			return fmt.Sprintf("%s failed %d times in a row (%s), %d URLs of it are left; ", h.Host, h.Failures, h.Trouble, h.Queued)
		}
	}
	return ""
}

// warnBlocked says once per wait why nothing moves.
func (d *discovery) warnBlocked(now, until time.Time) {
	if !until.After(d.blockedTil) || until.Sub(now) < warnFrom {
		return
	}
	d.blockedTil = until
	for _, w := range d.frontier.Hosts(now, 3) {
		if w.Queued == 0 || !w.Blocked && !w.Excluded {
			continue // it is done with
		}
		if w.Until.IsZero() {
			w.Until = until
		}
		d.p.cfg.Log.Warn("only blocked hosts remain",
			slog.String("host", w.Host), slog.Int("queued", w.Queued),
			slog.String("reason", w.Reason), slog.Time("until", w.Until))
	}
}

// onlyExcluded ends a crawl of which only hosts are left that the operator has blocked, if
// none of them was unblocked for so long.
func (d *discovery) onlyExcluded(now, limit time.Time) (ended bool) {
	if !now.Before(limit) {
		d.halt(EndBlocked, allExcluded)
		return true
	}
	d.excludedTil = limit
	d.warnBlocked(now, limit)
	return false
}
