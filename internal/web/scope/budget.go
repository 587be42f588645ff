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

// Budget bounds the URLs of a kind, such as the days of a calendar that has no end. Of the URLs that match,
// MaxPages are accepted, whatever becomes of them; a URL that several budgets match counts for the first of
// them alone.
type Budget struct {
	Match    *regexp.Regexp
	MaxPages int  // from 1 to 2³¹-1
	PerCrawl bool // has all hosts share the budget; false: each host has one of its own
}

const (
	// maxCounters bounds what is counted apart, and is the hosts that a frontier has in memory by default. A million of
	// them took 38 MB.
	maxCounters = 1_000_000
	// sharedCounters are for what is beyond. So many that a host with a trap in it takes the budget of few others away.
	sharedCounters = 1 << 16
)

// Counters count by host and number. Nothing is ever forgotten, as that would open a budget anew: what is beyond the
// room shares counters, each with some others, and so counts for more. It is for one goroutine.
type Counters struct {
	seed maphash.Seed
	room int
	used map[uint64]int32 // by a hash, so that names take no memory
}

type counted struct {
	budget int
	host   string // empty: all of them
}

// NewCounters are all zero.
func NewCounters() Counters {
	return Counters{maphash.MakeSeed(), maxCounters, make(map[uint64]int32)}
}

// Next counts one more of a host, and returns how many came before.
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

// Budgets count the URLs that were accepted. Of may be called by any goroutine, all else by one.
type Budgets struct {
	counters Counters
	list     []Budget // never changes
}

// NewBudgets have nothing counted.
func NewBudgets(list []Budget) *Budgets {
	return &Budgets{counters: NewCounters(), list: slices.Clone(list)}
}

// Of is the budget of a URL, counted from 1; zero if it is of none.
func (b *Budgets) Of(url string) int {
	return 1 + slices.IndexFunc(b.list, func(one Budget) bool { return one.Match.MatchString(url) })
}

func (b *Budgets) counted(budget int, u canonical.URL) counted {
	if b.list[budget-1].PerCrawl {
		return counted{budget: budget}
	}
	return counted{budget, ratelimit.Domain(u.Host())} // as the frontier names it
}

// Spent reports whether no more of a budget may be accepted.
func (b *Budgets) Spent(budget int, u canonical.URL) bool {
	return budget > 0 && int(b.counters.used[b.counters.at(b.counted(budget, u))]) >= b.list[budget-1].MaxPages
}

// Count counts a URL that was accepted. Seeds may count beyond the budget.
func (b *Budgets) Count(budget int, u canonical.URL) {
	if budget > 0 {
		b.counters.next(b.counted(budget, u))
	}
}

// Recount counts URLs that were accepted earlier. Without budgets the sequence does not begin. The error is that of the
// sequence, or of a URL that is none.
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
