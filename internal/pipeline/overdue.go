package pipeline

import (
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
)

// sort has the leases whose requests have waited for their first byte for
// [frontier.SlowAfter] give their slots back, while there are places aside. It returns the
// instant at which to look again; zero means that only an event can change anything.
func (d *discovery) sort(now time.Time) time.Time {
	d.overdue = slices.DeleteFunc(d.overdue, func(l *frontier.Lease) bool { return d.setAside(l, now) })
	n := 0
	for ; n < len(d.young); n++ {
		l := d.young[n]
		if ripe := l.LeasedAt().Add(frontier.SlowAfter); l.Waiting() && ripe.After(now) {
			d.young = slices.Delete(d.young, 0, n)
			return ripe
		}
		if !d.setAside(l, now) {
			d.overdue = append(d.overdue, l)
		}
	}
	d.young = slices.Delete(d.young, 0, n)
	return time.Time{}
}

// setAside has a lease give its slot back if it still waits. It reports false if it does and
// there is no place.
func (d *discovery) setAside(l *frontier.Lease, now time.Time) bool {
	if !l.Waiting() {
		return true
	}
	held := !l.Extra()
	aside := d.frontier.Overdue(now, l)
	if held && aside {
		d.slots--
	}
	return aside
}

// earlier is the earlier of two instants, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
