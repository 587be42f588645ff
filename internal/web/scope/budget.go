package scope

import (
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"regexp"
	"slices"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Budget bounds the URLs of a kind, such as the days of an endless calendar. Of the URLs that match, MaxPages are
// accepted, whatever becomes of them. A URL that several budgets match counts only for the first of them.
type Budget struct {
	Match    *regexp.Regexp
	MaxPages int  // from 1 to 2³¹-1
	PerCrawl bool // whether all hosts share the budget; false means that each host has its own
}

const (
	// maxCounters bounds the separate counters. It is also how many hosts a frontier holds in memory by default. A
	// million counters took 38 MB.
	maxCounters = 1_000_000
	// sharedCounters is how many counters all further hosts share: so many that a host with a trap uses up the budget
	// of few others.
	sharedCounters = 1 << 16
)

// Counters count by host and number. No count is ever forgotten, because that would renew a budget. If there are more
// hosts than room, the others share counters and so count for each other. They are for one goroutine.
type Counters struct {
	seed maphash.Seed
	room int
	used map[uint64]int32 // by a hash, so that names take no memory
}

type counted struct {
	budget int
	host   string // empty means all hosts
}

// NewCounters returns counters that are all zero.
func NewCounters() Counters {
	return Counters{maphash.MakeSeed(), maxCounters, make(map[uint64]int32)}
}

// Next adds one to the count of a host, and returns the count before.
func (c *Counters) Next(host string) int { return c.next(counted{host: ratelimit.Domain(host)}) }

func (c *Counters) at(of counted) uint64 {
	key := maphash.Comparable(c.seed, of)
	if _, ok := c.used[key]; !ok && len(c.used) >= c.room {
		return key % sharedCounters
	}
	return key
}

func (c *Counters) next(of counted) int {
	key := c.at(of)
	n := c.used[key]
	if n < math.MaxInt32 {
		c.used[key] = n + 1
	}
	return int(n)
}

// Budgets count the URLs that were accepted. Of may be called by any goroutine, all other methods by one only.
type Budgets struct {
	counters Counters
	list     []Budget // never changes
}

// NewBudgets returns budgets of which nothing is used.
func NewBudgets(list []Budget) *Budgets {
	return &Budgets{counters: NewCounters(), list: slices.Clone(list)}
}

// Of returns the number of the budget to which a URL belongs, from 1, or zero if it belongs to none.
func (b *Budgets) Of(url string) int {
	return 1 + slices.IndexFunc(b.list, func(one Budget) bool { return one.Match.MatchString(url) })
}

func (b *Budgets) counted(budget int, u canonical.URL) counted {
	if b.list[budget-1].PerCrawl {
		return counted{budget: budget}
	}
	return counted{budget, ratelimit.Domain(u.Host())} // as the frontier names hosts
}

// Spent reports whether the budget allows no further URL.
func (b *Budgets) Spent(budget int, u canonical.URL) bool {
	return budget > 0 && int(b.counters.used[b.counters.at(b.counted(budget, u))]) >= b.list[budget-1].MaxPages
}

// Count counts a URL that was accepted. Seeds count too, even beyond the budget.
func (b *Budgets) Count(budget int, u canonical.URL) {
	if budget > 0 {
		b.counters.next(b.counted(budget, u))
	}
}

// Recount counts URLs that were accepted earlier. Without budgets it does not read urls. The error is that of the
// sequence, or of a text that is no URL.
func (b *Budgets) Recount(urls iter.Seq2[string, error]) error {
	if len(b.list) == 0 {
		return nil
	}
	for text, err := range urls {
		if err != nil {
			return err
		}
		budget := b.Of(text)
		if budget == 0 {
			continue
		}
		u, err := canonical.Parse(text)
		if err != nil {
			return fmt.Errorf("count for scope.budgets: %w", err)
		}
		b.Count(budget, u)
	}
	return nil
}
