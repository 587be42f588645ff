package frontiertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Bound checks by random steps what a bound of the pages of a host means, wherever they are kept: never are more
// visited, and neither what is refused when its turn comes nor what is no page counts. So when all links are found
// again and again, each host has come in the end to as many as it may have, if there are so many. The last is not so
// of a store that hosts are inactive in, or that is opened anew, unless it is shared: of such a host the pages beyond
// the bound are dropped for good. backend makes a store of that bound for each check, and is nil for a frontier in
// memory.
func Bound(t *testing.T, backend func(t *rapid.T, most int) Backend) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		b := &bound{run: run{T: t, pacer: newPacer(), now: begin}, most: rapid.IntRange(1, 6).Draw(t, "most"), done: map[string]bool{}, visited: map[string]int{}}
		b.cfg = frontier.Config{Key: Key, Pacer: b.pacer, Slots: 4, PerHost: 2, Gate: refusing{}, MaxPagesPerHost: b.most}
		asleep := false
		if backend != nil {
			b.store = backend(t, b.most)
			b.cfg.Store, b.cfg.Owner = b.store, b.store.Owner()
			b.shared = b.cfg.Owner != nil
			b.cfg.Resident = rapid.IntRange(1, 30).Draw(t, "resident")
			if asleep = rapid.Bool().Draw(t, "asleep"); asleep {
				b.cfg.MaxHosts = rapid.IntRange(1, 2).Draw(t, "hosts")
			}
		}
		b.begin()
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			b.step(rapid.IntRange(0, 5).Draw(t, "what"), asleep)
		}
		for before := -1; before < len(b.done); {
			before = len(b.done)
			for _, u := range b.web() {
				b.find(u)
			}
			b.drain(func() { b.visit(0) }, b.leased)
		}
		for h := range boundHosts {
			host := boundHost(h)
			require.LessOrEqual(t, b.visited[host], b.most, host)
			if b.shared || !asleep {
				require.Equal(t, min(b.most, boundPages), b.visited[host], host)
			}
		}
	})
}

// The web has pages, some more that are refused, and sitemaps, of each host.
const (
	boundHosts = 3
	boundPages = 5
	boundOther = 4
)

func boundHost(n int) string { return fmt.Sprintf("h%d.test", n) }

// refusing is a gate that lets nothing pass that begins with no.
type refusing struct{}

// Check implements [frontier.Gate].
func (refusing) Check(it *frontier.Item, _ time.Time) frontier.Verdict {
	if strings.HasPrefix(it.URL.Path(), "/no") {
		return frontier.Verdict{Pass: frontier.Refuse, Refusal: &frontier.Refusal{Class: "robots", Reason: "it says no"}}
	}
	return frontier.Verdict{Pass: frontier.Go}
}

// bound is one run of a frontier whose hosts have a bound.
type bound struct {
	run
	most    int
	done    map[string]bool
	visited map[string]int // pages, by their hosts
}

// web is all that there is to find, in an order of its own each time.
func (b *bound) web() []string {
	var all []string
	for h := range boundHosts {
		for i := range boundPages {
			all = append(all, fmt.Sprintf("http://%s/%d", boundHost(h), i))
		}
		for i := range boundOther {
			all = append(all, fmt.Sprintf("http://%s/no%d", boundHost(h), i), fmt.Sprintf("http://%s/map%d", boundHost(h), i))
		}
	}
	return rapid.Permutation(all).Draw(b.T, "web")
}

func (b *bound) find(text string) {
	u, err := canonical.Parse(text)
	require.NoError(b, err)
	it := frontier.Item{URL: u, Rank: int32(len(text) % 2)}
	if strings.HasPrefix(u.Path(), "/map") {
		it.Kind = frontier.Sitemap
	}
	b.f.Add(b.now, it, b.f.Fingerprint(&it))
}

func (b *bound) step(what int, asleep bool) {
	switch {
	case what <= 1:
		for _, u := range b.web()[:rapid.IntRange(1, 12).Draw(b.T, "links")] {
			b.find(u)
		}
	case what == 2 && len(b.out) < b.cfg.Slots:
		if l, _ := b.f.Next(b.now); l != nil {
			b.leased(l)
		}
	case what == 3 && len(b.out) > 0:
		b.visit(rapid.IntRange(0, len(b.out)-1).Draw(b.T, "which"))
	case what == 4:
		b.answer()
	case what == 5 && asleep && rapid.IntRange(0, 4).Draw(b.T, "restart") == 0:
		b.begin()
	}
}

func (b *bound) leased(l *frontier.Lease) {
	if l.Refused == nil {
		b.pacer.take(l, b.now)
	}
	b.out = append(b.out, l)
}

// visit ends a lease. No URL is done twice.
func (b *bound) visit(i int) {
	l := b.out[i]
	b.out = append(b.out[:i], b.out[i+1:]...)
	if l.Refused == nil {
		b.f.Release(b.now, l, time.Millisecond, attribution.Outcome{Class: outcome.OK, Status: 200})
		if l.Kind == frontier.Page {
			b.visited[l.Host()]++
		}
	}
	require.False(b, b.done[l.URL.String()], "%s is done twice", l.URL)
	b.done[l.URL.String()] = true
	b.f.End(b.now, l, frontier.Done(nil))
}
