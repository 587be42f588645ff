package pipeline

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/trap"
)

// classTrap is the class of error of URLs that were accepted, and then not asked for because
// pages like them had nothing new.
const classTrap = "trap"

// Traps is what is done about URLs that lead nowhere.
type Traps struct {
	// Detector finds them. Nil has every URL followed.
	Detector *trap.Detector
	// Report has them counted and followed all the same. False leaves them.
	Report bool
}

// traps is Discovery's side of it.
type traps struct {
	Traps
	log  *slog.Logger
	told map[uint64]struct{} // hosts with reasons
}

// maxTold bounds the lines in the log. What comes later is counted alone.
const maxTold = 1 << 12

func newTraps(cfg *Config) *traps {
	return &traps{Traps: cfg.Traps, log: cfg.Log, told: make(map[uint64]struct{})}
}

// trapped reports whether a link leads nowhere and is not to be followed. Seeds are followed,
// and so is what a site lists in its sitemap.
func (d *discovery) trapped(from *frontier.Lease, link *found, now time.Time) bool {
	t, it := d.p.traps, &link.item
	if t.Detector == nil || it.Seed || it.Kind != frontier.Page || from != nil && from.Kind != frontier.Page {
		return false
	}
	why := t.Detector.CheckLink(it.URL, now.Year())
	if why == trap.Follow {
		return false
	}
	if d.frontier.Known(link.fp) {
		return true // whatever becomes of it, it need not be added
	}
	if !t.Report && t.Detector.AllowProbe(it.URL) {
		return false
	}
	d.p.stats.trapped[why].Add(1)
	t.tell(it.URL, why)
	return !t.Report
}

// accepted notes a URL that was added to the frontier.
func (t *traps) accepted(from *frontier.Lease, it *frontier.Item, now time.Time) {
	if t.Detector == nil || it.Seed || it.Kind != frontier.Page {
		return
	}
	var page canonical.URL
	if from != nil {
		page = from.URL
	}
	t.Detector.RecordAccepted(page, it.URL, now.Year())
}

// tell logs the first URL of a host for a reason.
func (t *traps) tell(u canonical.URL, why trap.Decision) {
	key := xxhash.Sum64String(u.Host()) + uint64(why)
	if _, ok := t.told[key]; ok || len(t.told) >= maxTold {
		return
	}
	t.told[key] = struct{}{}
	const shown = 200 // bytes: the longest are thousands
	first := u.String()
	if len(first) > shown {
		first = first[:shown] + "…"
	}
	what := []any{
		slog.String("host", u.Host()), slog.String("reason", why.String()), slog.String("first", first),
		slog.String("why", why.Why()), slog.String("fix", why.Fix()),
	}
	if t.Report {
		t.log.Warn("links that lead nowhere are followed", what...)
		return
	}
	t.log.Warn("links that lead nowhere are left", what...)
}

// trapGate keeps URLs back that were accepted before it was known that they lead nowhere;
// but for seeds, those of earlier runs too.
type trapGate struct {
	frontier.Gate // nil lets every URL pass
	*traps
}

// Check is the verdict on one URL at now.
func (g *trapGate) Check(it *frontier.Item, now time.Time) frontier.Verdict {
	if g.Gate != nil {
		if v := g.Gate.Check(it, now); v.Pass != frontier.Go {
			return v
		}
	}
	if g.Report || it.Seed || it.Kind != frontier.Page {
		return frontier.Verdict{}
	}
	why := g.Detector.CheckQueued(it.URL)
	if why == trap.Follow {
		return frontier.Verdict{}
	}
	g.tell(it.URL, why)
	return refuse(classTrap, fmt.Sprintf("%s: %s", why, why.Why()))
}

// examine lets the trap detector learn from a page, and looks for others that say the same.
func (w *processor) examine(r *result, f *fetched) {
	p, body := w.p, f.resp.Body
	detector := p.traps.Detector
	var look trap.Visit
	if detector != nil && w.found.HTML {
		look = detector.RecordVisit(f.lease.URL, w.found.Title)
	}
	fingerprint := p.cfg.Duplicates != nil && p.cfg.Duplicates.Near() && w.found.HTML
	var sim uint64
	if look.Read || fingerprint {
		text := w.reader.Read(body, w.budget)
		whole := !w.budget.Spent() // a part of a page says nothing of what others repeat
		if fingerprint && whole {
			sim = text.SimHash()
		}
		if look.Read && whole {
			detector.RecordText(f.lease.URL, &look, text, trap.SaysNotFound(w.found.Title) || trap.SaysNotFound(string(text.Heading)))
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
