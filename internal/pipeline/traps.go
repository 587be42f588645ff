package pipeline

import (
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/trap"
)

// classTrap is the error class of URLs that were accepted and later not requested, because pages like them had no new
// text.
const classTrap = "trap"

// Traps says what happens to URLs of traps.
type Traps struct {
	Detector *trap.Detector // finds traps; nil follows every URL
	Report   bool           // counts URLs of traps and follows them all the same; false does not follow them
}

// traps is the part of Discovery that deals with traps.
type traps struct {
	Traps
	log  *slog.Logger
	told map[uint64]struct{} // pairs of host and reason that were logged
}

// maxTold bounds the lines in the log. Further hosts are only counted.
const maxTold = 1 << 12

func newTraps(cfg *Config) *traps {
	return &traps{Traps: cfg.Traps, log: cfg.Log, told: make(map[uint64]struct{})}
}

// concerns reports whether a URL may be found to be in a trap. Seeds and sitemaps are always followed.
func (t *traps) concerns(it *frontier.Item) bool {
	return t.Detector != nil && !it.Seed && it.Kind == frontier.Page
}

// trapped reports whether a link is in a trap and is not to be followed.
func (d *discovery) trapped(from *frontier.Lease, link *found, now time.Time) bool {
	t, it := d.p.gate.traps, &link.item
	if !t.concerns(it) || from != nil && from.Kind != frontier.Page {
		return false
	}
	why := t.Detector.CheckLink(it.URL, now.Year())
	if why == trap.Follow {
		return false
	}
	if d.frontier.Known(link.fp) {
		d.skipSeen(link)
		return true // it is known already, so it need not be added
	}
	if !t.Report && t.Detector.AllowProbe(it.URL) {
		return false
	}
	s := &d.p.stats
	names := s.n.Dropped
	if t.Report {
		names = s.n.Suspected
	}
	s.tally(names, why.String(), 1)
	t.tell(it.URL, why)
	if !t.Report {
		d.skip(it, classTrap, why.String()+": "+why.Why())
	}
	return !t.Report
}

// queued returns why a URL is not requested that was accepted before its trap was known. trap.Follow means that it is
// requested.
func (t *traps) queued(it *frontier.Item) trap.Decision {
	if t.Report || !t.concerns(it) {
		return trap.Follow
	}
	why := t.Detector.CheckQueued(it.URL)
	if why != trap.Follow {
		t.tell(it.URL, why)
	}
	return why
}

func (t *traps) accepted(from *frontier.Lease, it *frontier.Item, now time.Time) {
	if t.concerns(it) {
		var page canonical.URL
		if from != nil {
			page = from.URL
		}
		t.Detector.RecordAccepted(page, it.URL, now.Year())
	}
}

// tell logs the first URL of a host for each reason.
func (t *traps) tell(u canonical.URL, why trap.Decision) {
	key := xxhash.Sum64String(u.Host()) + uint64(why)
	if _, ok := t.told[key]; ok || len(t.told) >= maxTold {
		return
	}
	t.told[key] = struct{}{}
	const shown = 200 // in bytes: the longest URLs have thousands
	first := u.String()
	if len(first) > shown {
		first = first[:shown] + "…"
	}
	done := "left"
	if t.Report {
		done = "followed"
	}
	//nolint:sloglint // one of two constants
	t.log.Warn("links that lead nowhere are "+done,
		slog.String("host", u.Host()), slog.String("reason", why.String()), slog.String("first", first),
		slog.String("why", why.Why()), slog.String("fix", why.Fix()))
}

// examine passes a page to the trap detector and looks for other pages with the same content.
func (w *processor) examine(r *result, f *fetched) {
	p, body := w.p, f.resp.Body
	detector := p.cfg.Traps.Detector
	var look trap.Visit
	if detector != nil && w.found.HTML {
		look = detector.RecordVisit(f.lease.URL, w.found.Title)
	}
	fingerprint := p.cfg.Duplicates != nil && p.cfg.Duplicates.Near() && w.found.HTML
	var sim uint64
	if look.Read || fingerprint {
		text := w.reader.Read(body, w.budget)
		whole := !w.budget.Spent() // the fingerprint of a part of a page cannot be compared
		if fingerprint && whole {
			sim = text.SimHash()
		}
		if look.Read && whole {
			missing := trap.SaysNotFound(w.found.Title) || trap.SaysNotFound(string(text.Heading))
			detector.RecordText(&look, text, missing)
		}
	}
	if p.cfg.Duplicates == nil || len(body) == 0 {
		return
	}
	if sim != 0 {
		r.rec.SimHash = fmt.Sprintf("%016x", sim)
	}
	if m := p.cfg.Duplicates.Add(r.rec.URL, xxhash.Sum64(body), sim); m.Kind != neardup.None {
		r.rec.Duplicate, r.rec.DuplicateOf = m.Kind.String(), m.Of
	}
}

// Recount counts URLs that earlier runs of a crawl accepted, for the budgets of this one. It must be called before Run,
// and takes as long as the sequence and the matching of patterns do; see [scope.Budgets.Recount].
func (p *Pipeline) Recount(urls iter.Seq2[string, error]) error { return p.budgets.Recount(urls) }

const reasonBudget = "budget"

// overBudget reports whether a link is to be dropped because its budget is used up. A link that is known already is
// skipped, too. It logs a warning the first time for each budget.
func (d *discovery) overBudget(link *found) bool {
	b, it := d.p.budgets, &link.item
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
