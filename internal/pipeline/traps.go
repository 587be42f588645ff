package pipeline

import (
	"fmt"
	"hash/maphash"
	"iter"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/trap"
)

// classTrap is the class of error of URLs that were accepted, and then not asked for because pages like
// them had nothing new.
const classTrap = "trap"

// Traps is what is done about URLs that lead nowhere.
type Traps struct {
	Detector *trap.Detector // finds them; nil has every URL followed
	Report   bool           // has them counted and followed all the same; false leaves them
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

// concerns reports whether a URL may be found to lead nowhere: seeds and what sitemaps list are followed.
func (t *traps) concerns(it *frontier.Item) bool {
	return t.Detector != nil && !it.Seed && it.Kind == frontier.Page
}

// trapped reports whether a link leads nowhere and is not to be followed.
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
		return true // whatever becomes of it, it need not be added
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

// queued is why a URL is not asked for that was accepted before it was known to lead nowhere.
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
	done := "left"
	if t.Report {
		done = "followed"
	}
	//nolint:sloglint // one of two constants
	t.log.Warn("links that lead nowhere are "+done,
		slog.String("host", u.Host()), slog.String("reason", why.String()), slog.String("first", first),
		slog.String("why", why.Why()), slog.String("fix", why.Fix()))
}

// examine lets the trap detector learn from a page, and looks for others that say the same.
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
		whole := !w.budget.Spent() // a part of a page says nothing of what others repeat
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

// Budget bounds the URLs of a kind, such as the days of a calendar that has no end. Of the URLs that match,
// MaxPages are accepted, whatever becomes of them; a URL that several budgets match counts for the first of
// them alone. Seeds count, and are accepted even so.
type Budget struct {
	Match    *regexp.Regexp
	MaxPages int  // from 1 to 2³¹-1
	PerCrawl bool // has all hosts share the budget; false: each host has one of its own
}

const (
	// maxCounters bounds the pairs that are counted apart, and is the hosts that a frontier has in memory
	// by default. A million of them took 38 MB.
	maxCounters = 1_000_000
	// sharedCounters are for the pairs beyond. So many that a host with a trap in it takes the budget of
	// few others away.
	sharedCounters = 1 << 16
)

// counters count by a budget and a host. Nothing is ever forgotten, as that would open a budget anew: pairs
// beyond the room share counters, each with some others. So of no host more is accepted than its budget,
// and of those that come late perhaps less.
type counters struct {
	seed maphash.Seed
	room int
	used map[uint64]int32 // by a hash of the pair, so that names take no memory
}

type pair struct {
	budget int
	host   string // empty: all of them
}

func newCounters() counters {
	return counters{maphash.MakeSeed(), maxCounters, make(map[uint64]int32)}
}

func (c *counters) at(p pair) uint64 {
	key := maphash.Comparable(c.seed, p)
	if _, ok := c.used[key]; !ok && len(c.used) >= c.room {
		return key % sharedCounters
	}
	return key
}

func (c *counters) next(p pair) int {
	key := c.at(p)
	n := c.used[key]
	if n < math.MaxInt32 {
		c.used[key] = n + 1
	}
	return int(n)
}

// budgets count the URLs that were accepted. Which budget a URL is of may be asked by any goroutine, all
// else is Discovery's.
type budgets struct {
	counters
	list []Budget // never changes
	told []bool   // by budget: that it is spent
}

func newBudgets(list []Budget) *budgets {
	return &budgets{counters: newCounters(), list: slices.Clone(list), told: make([]bool, len(list))}
}

func (b *budgets) of(url string) int {
	return 1 + slices.IndexFunc(b.list, func(one Budget) bool { return one.Match.MatchString(url) })
}

func (b *budgets) pair(budget int, u canonical.URL) pair {
	if b.list[budget-1].PerCrawl {
		return pair{budget: budget}
	}
	return pair{budget, ratelimit.Domain(u.Host())} // as the frontier names it
}

func (b *budgets) spent(budget int, u canonical.URL) bool {
	return budget > 0 && int(b.used[b.at(b.pair(budget, u))]) >= b.list[budget-1].MaxPages
}

// count counts a URL that was accepted. Seeds may count beyond the budget.
func (b *budgets) count(budget int, u canonical.URL) {
	if budget > 0 {
		b.next(b.pair(budget, u))
	}
}

// Recount counts the URLs that earlier runs of a crawl have accepted for the budgets of this one. It comes
// before Run, and takes as long as the sequence and the patterns do; without budgets it does not begin. The
// error is that of the sequence, or of a URL that is none.
func (p *Pipeline) Recount(urls iter.Seq2[string, error]) error {
	if len(p.budgets.list) == 0 {
		return nil
	}
	for text, err := range urls {
		if err != nil {
			return err
		}
		budget := p.budgets.of(text)
		if budget == 0 {
			continue
		}
		u, err := canonical.Parse(text)
		if err != nil {
			return fmt.Errorf("count for scope.budgets: %w", err)
		}
		p.budgets.count(budget, u)
	}
	return nil
}

const reasonBudget = "budget"

// overBudget drops a link for which nothing is left of its budget, unless it is known. The first time for
// each budget it says so.
func (d *discovery) overBudget(link *found) bool {
	b, it := d.p.budgets, &link.item
	if it.Seed || !b.spent(link.budget, it.URL) {
		return false
	}
	if d.frontier.Known(link.fp) {
		d.skipSeen(link)
		return true
	}
	d.skip(it, reasonBudget, fmt.Sprintf("no more of scope.budgets[%d] is left", link.budget-1))
	d.p.stats.tally(d.p.stats.n.Dropped, reasonBudget, 1)
	if i := link.budget - 1; !b.told[i] {
		b.told[i] = true
		warnDropped(d.p.cfg.Log, reasonBudget, it.URL.String(), fmt.Sprintf("raise scope.budgets[%d]", i))
	}
	return true
}
