package pipeline

import (
	"fmt"
	"hash/maphash"
	"iter"
	"log/slog"
	"math"
	"regexp"
	"slices"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Budget bounds the URLs of a kind, such as the days of a calendar that has no end. Of the
// URLs that match, MaxPages are accepted, whatever becomes of them; a URL that several
// budgets match counts for the first of them alone. Seeds count, and are accepted even so.
type Budget struct {
	Match *regexp.Regexp
	// MaxPages is from 1 to 2³¹-1.
	MaxPages int
	// PerCrawl has all hosts share the budget. False: each host has one of its own.
	PerCrawl bool
}

const (
	// maxCounters bounds the pairs of a budget and a host that are counted apart, and is the
	// hosts that a frontier has in memory by default. A million of them took 38 MB.
	maxCounters = 1_000_000
	// sharedCounters are for the pairs beyond. So many that a host with a trap in it takes
	// the budget of few others away.
	sharedCounters = 1 << 16
)

// budgets count the URLs that were accepted. Which budget a URL is of may be asked by any
// goroutine, all else is Discovery's. Nothing is ever forgotten, as that would open a budget
// anew: pairs of a budget and a host beyond room share counters, each one with some others.
// So of no host more is accepted than its budget, and of those that come late perhaps less.
type budgets struct {
	list []Budget // never changes
	seed maphash.Seed
	room int
	used map[uint64]int32 // by a hash of budget and host, so that names take no memory
	told []bool           // by budget: that it is spent
}

// newBudgets checks a list. The error names the one that is wrong.
func newBudgets(list []Budget) (*budgets, error) {
	for i, b := range list {
		switch {
		case b.Match == nil:
			return nil, fmt.Errorf("pipeline: Budgets[%d].Match is nil: give it a pattern", i)
		case b.MaxPages < 1 || b.MaxPages > math.MaxInt32:
			return nil, fmt.Errorf("pipeline: Budgets[%d].MaxPages is %d: give it 1 to %d, or leave such URLs out of the scope", i, b.MaxPages, math.MaxInt32)
		}
	}
	return &budgets{
		list: slices.Clone(list), seed: maphash.MakeSeed(), room: maxCounters,
		used: make(map[uint64]int32), told: make([]bool, len(list)),
	}, nil
}

// of is the budget of a URL, counted from 1; zero if it is of none.
func (b *budgets) of(url string) int {
	for i := range b.list {
		if b.list[i].Match.MatchString(url) {
			return i + 1
		}
	}
	return 0
}

// counter is where the URLs of a budget and a host are counted.
func (b *budgets) counter(budget int, u canonical.URL) uint64 {
	pair := struct {
		budget int
		host   string
	}{budget: budget}
	if !b.list[budget-1].PerCrawl {
		pair.host = ratelimit.Domain(u.Host()) // as the frontier names it
	}
	key := maphash.Comparable(b.seed, pair)
	if _, ok := b.used[key]; !ok && len(b.used) >= b.room {
		return key % sharedCounters
	}
	return key
}

// spent reports whether no more of a budget may be accepted.
func (b *budgets) spent(budget int, u canonical.URL) bool {
	return budget > 0 && int(b.used[b.counter(budget, u)]) >= b.list[budget-1].MaxPages
}

// count counts a URL that was accepted. Seeds may count beyond the budget.
func (b *budgets) count(budget int, u canonical.URL) {
	if budget == 0 {
		return
	}
	if key := b.counter(budget, u); b.used[key] < math.MaxInt32 {
		b.used[key]++
	}
}

// Recount counts the URLs that earlier runs of a crawl have accepted for the budgets of this
// one. It comes before Run, and takes as long as the sequence and the patterns do; without
// budgets it does not begin. The error is that of the sequence, or of a URL that is none.
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

// reasonBudget is the reason of links that are dropped for their budget.
const reasonBudget = "budget"

// overBudget drops a link for which nothing is left of its budget, unless it is known. The
// first time for each budget it says so. Such links have a counter apart from those that the
// frontier had no room for: a spent budget stays spent, so nobody need tell of them again;
// see refuses.
func (d *discovery) overBudget(link *found) bool {
	b, it := d.p.budgets, &link.item
	if it.Seed || !b.spent(link.budget, it.URL) {
		return false
	}
	if d.frontier.Known(link.fp) {
		return true
	}
	d.p.stats.overBudget.Add(1)
	if i := link.budget - 1; !b.told[i] {
		b.told[i] = true
		d.p.cfg.Log.Warn("links are being dropped",
			slog.String("reason", reasonBudget), slog.String("first", it.URL.String()),
			slog.String("fix", fmt.Sprintf("raise scope.budgets[%d]", i)))
	}
	return true
}
