package pipeline

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/gate"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/trap"
)

// reasonBudget is the reason of links that are dropped because their budget is used up.
const reasonBudget = "budget"

// trapped reports whether a link is in a trap and is not to be followed.
func (d *discovery) trapped(from *frontier.Lease, link *found, now time.Time) bool {
	it := &link.item
	t := d.p.gate.TrapsFor(it)
	if t == nil || from != nil && from.Kind != frontier.Page {
		return false
	}
	why := t.CheckLink(it.URL, now.Year())
	if why == trap.Follow {
		return false
	}
	if d.frontier.Known(link.fp) {
		d.skipSeen(link)
		return true // it is known already, so it need not be added
	}
	if !t.Reports() && t.AllowProbe(it.URL) {
		return false
	}
	t.Tell(it.URL, why)
	if t.Reports() {
		d.p.stats.tally(d.p.stats.n.Suspected, why.String(), 1)
		return false
	}
	d.p.stats.tally(d.p.stats.n.Dropped, why.String(), 1)
	d.skip(it, gate.ClassTrap, why.String()+": "+why.Why())
	return true
}

// accepted tells the detector of a link that was queued.
func (d *discovery) accepted(from *frontier.Lease, it *frontier.Item, now time.Time) {
	if t := d.p.gate.TrapsFor(it); t != nil {
		var page canonical.URL
		if from != nil {
			page = from.URL
		}
		t.RecordAccepted(page, it.URL, now.Year())
	}
}

// overBudget reports whether a link is to be dropped because its budget is used up. A link that is known already is
// skipped, too. It logs a warning the first time for each budget.
func (d *discovery) overBudget(link *found) bool {
	b, it := d.p.cfg.Budgets, &link.item
	if it.Seed || !b.Spent(link.budget, it.URL) {
		return false
	}
	if d.frontier.Known(link.fp) {
		d.skipSeen(link)
		return true
	}
	d.skip(it, reasonBudget, fmt.Sprintf("no more of scope.budgets[%d] is left", link.budget-1))
	d.p.stats.tally(d.p.stats.n.Dropped, reasonBudget, 1)
	if i := link.budget - 1; !d.toldSpent[i] {
		d.toldSpent[i] = true
		warnDropped(d.p.cfg.Log, reasonBudget, it.URL.String(), fmt.Sprintf("raise scope.budgets[%d]", i))
	}
	return true
}
