package pipeline

import (
	"fmt"
	"log/slog"
	"time"
)

// blocked ends the crawl when all hosts refuse and MaxBlocked is over, or will be before
// the first of them may be asked again by its own order.
func (d *discovery) blocked(now time.Time) (ended bool) {
	b := d.frontier.Blocked(now)
	if !b.Whole {
		d.blockedSince = time.Time{}
		return false
	}
	if d.blockedSince.IsZero() {
		d.blockedSince = now
	}
	limit := d.blockedSince.Add(d.p.cfg.MaxBlocked)
	if b.Barred {
		return d.onlyBarred(now, limit)
	}
	if now.After(limit) || b.Ordered && b.Until.After(limit) {
		d.halt(EndBlocked, fmt.Sprintf("%sthe first may be asked again at %s", d.trouble(now), moment(now, b.Until)))
		return true
	}
	d.warnBlocked(now, b.Until)
	return false
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
		d.p.cfg.Log.Warn("only blocked hosts remain",
			slog.String("host", w.Host), slog.Int("queued", w.Queued),
			slog.String("reason", w.Reason), slog.Time("until", w.Until))
	}
}

// onlyBarred ends a crawl of which only hosts are left that the operator has blocked, if
// none of them was unblocked for so long.
func (d *discovery) onlyBarred(now, limit time.Time) (ended bool) {
	if !now.Before(limit) {
		d.halt(EndBlocked, "only hosts are left that the operator has blocked")
		return true
	}
	d.barredTil = limit
	d.warnBlocked(now, limit)
	return false
}
