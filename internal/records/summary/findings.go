package summary

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

const (
	longestChain  = 50 // the longest chain that is followed; crawls follow no longer ones
	listedOfGroup = 5  // pages that are listed per group: enough to see the pattern
)

func (c *collector) addBroken(r *visit) {
	c.sum.Broken.Total++
	if len(c.broken) >= c.cfg.MaxBroken {
		return
	}
	c.broken[r.URL] = &BrokenLink{URL: r.URL, Status: r.Status, Class: r.Error.Class}
	if r.Referrer != "" {
		c.fallback[r.URL] = r.Referrer
	}
}

// link records the broken pages that a page links to. A page that has the same URL among its links and among its
// resources counts once.
func (c *collector) link(l *linkRecord) {
	for _, list := range [][]string{l.Links, l.Resources, {l.RedirectTo}} {
		for _, to := range list {
			b := c.broken[to]
			if b == nil || len(b.Referrers) > 0 && b.Referrers[len(b.Referrers)-1] == l.URL {
				continue
			}
			if b.Pages++; len(b.Referrers) < c.cfg.Referrers {
				b.Referrers = append(b.Referrers, l.URL)
			}
		}
	}
}

// listed sorts values, and returns at most as many as lists have.
func listed[T any](c *collector, values []T, order func(a, b T) int) []T {
	slices.SortFunc(values, order)
	return values[:min(len(values), c.cfg.List)]
}

func (c *collector) finish() *Summary {
	s := &c.sum
	s.Statuses, s.Errors, s.Depths, s.Changes.Counts = c.statuses.counts(), c.errors.counts(), c.depths.counts(), c.changes.counts()
	slices.SortFunc(s.Depths, func(a, b Count) int { // numerically: "10" comes after "9"
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	s.Types = make([]Type, 0, len(c.types))
	for _, t := range c.types {
		s.Types = append(s.Types, *t)
	}
	slices.SortFunc(s.Types, func(a, b Type) int { return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Name, b.Name)) })
	s.Sizes, s.Latency = c.sizes.spread(1), c.latency.spread(stepsPerMS)
	all := c.spent.all()
	for i, name := range phaseNames {
		if *all[i] > 0 {
			s.Spent = append(s.Spent, Spent{name, *all[i] / 1000})
		}
	}
	slices.SortStableFunc(s.Spent, func(a, b Spent) int { return cmp.Compare(b.Seconds, a.Seconds) })
	hosts := make([]Host, 0, len(c.hosts))
	for _, h := range c.hosts {
		h.Latency = h.latency.spread(stepsPerMS)
		hosts = append(hosts, h.Host)
	}
	s.Hosts.Total, s.Hosts.Listed = len(hosts), listed(c, hosts, func(a, b Host) int {
		return cmp.Or(cmp.Compare(b.Latency.P95, a.Latency.P95), cmp.Compare(a.Host, b.Host))
	})
	broken := make([]BrokenLink, 0, len(c.broken))
	for u, b := range c.broken {
		// A URL that only a sitemap or a record without links names is in no list of links.
		if from := c.fallback[u]; b.Pages == 0 && from != "" {
			b.Pages, b.Referrers = 1, []string{from}
		}
		broken = append(broken, *b)
	}
	s.Broken.Listed = listed(c, broken, func(a, b BrokenLink) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.URL, b.URL))
	})
	s.Redirects = c.redirects.result
	s.Redirects.Listed = c.chains(&s.Redirects)
	s.Duplicates = c.repeats.total
	for _, g := range c.repeats.groups {
		s.Duplicates.Groups = append(s.Duplicates.Groups, *g)
	}
	s.Duplicates.Groups = listed(c, s.Duplicates.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Of, b.Of))
	})
	slices.SortStableFunc(s.Maps.Listed, func(a, b Map) int { return cmp.Compare(b.Problems, a.Problems) })
	s.Left = c.left()
	return s
}

func (c *collector) left() (out []string) {
	say := func(n int64, format string, bound int) {
		if n > 0 {
			out = append(out, fmt.Sprintf(format, bound, n))
		}
	}
	say(c.sum.Hosts.Beyond, "hosts beyond the first %d are not told apart: they have %d pages", c.cfg.MaxHosts)
	say(c.sum.Broken.Total-int64(len(c.broken)), "of broken pages beyond the first %d it is not told who links to them: they are %d", c.cfg.MaxBroken)
	say(c.redirects.beyond, "chains of redirects are followed through the first %d: there are %d more", c.cfg.MaxRedirects)
	say(c.repeats.beyond, "repetitions were looked for among the first %d bodies and groups: %d pages were beyond", c.cfg.MaxDigests)
	return out
}

// redirects holds the targets of redirects, for at most max URLs.
type redirects struct {
	max    int
	to     map[string]string
	result Redirects
	beyond int64
}

func (x *redirects) add(r *visit) {
	if r.RedirectTo == "" || r.Status < 300 || r.Status > 399 {
		return
	}
	x.result.Total++
	x.result.Permanent += one(r.Status == 301 || r.Status == 308)
	if len(x.to) >= x.max {
		x.beyond++
		return
	}
	x.to[r.URL] = r.RedirectTo
}

// chains finds the chains of redirects, and counts them in all. A chain begins at a URL to which no redirect leads.
// Redirects that are in no such chain form a loop, or lead into one.
func (c *collector) chains(all *Redirects) []Chain {
	to := c.redirects.to
	led := make(map[string]int, len(to))
	for from, next := range to {
		if from != next {
			led[next] = 1
		}
	}
	var chains []Chain
	seen := make(map[string]bool, len(to))
	starts := slices.SortedFunc(maps.Keys(to), func(a, b string) int {
		return cmp.Or(cmp.Compare(led[a], led[b]), cmp.Compare(a, b))
	})
	for _, from := range starts {
		if seen[from] {
			continue
		}
		x := c.redirects.follow(from, seen)
		if b := c.broken[x.URLs[len(x.URLs)-1]]; b != nil {
			x.Status, x.Class = b.Status, b.Class
		}
		long := !x.Loop && len(x.URLs) > 2
		all.Loops += one(x.Loop)
		all.Chains += one(long)
		if x.Loop || long || x.Status != 0 || x.Class != "" {
			chains = append(chains, x)
		}
	}
	return listed(c, chains, func(a, b Chain) int {
		return cmp.Or(cmp.Compare(one(b.Loop), one(a.Loop)), cmp.Compare(len(b.URLs), len(a.URLs)), cmp.Compare(a.URLs[0], b.URLs[0]))
	})
}

// follow follows a chain until it ends, returns to one of its URLs, or becomes too long.
func (x *redirects) follow(from string, seen map[string]bool) Chain {
	c := Chain{URLs: []string{from}}
	for at := from; len(c.URLs) <= longestChain && !c.Loop; {
		seen[at] = true
		to, more := x.to[at]
		if !more {
			break
		}
		c.Loop = slices.Contains(c.URLs, to)
		c.URLs = append(c.URLs, to)
		at = to
	}
	return c
}

// repeats finds pages that repeat others: those that the crawl has marked, and among the others those with equal
// digests. It keeps at most max digests and as many groups.
type repeats struct {
	max    int
	groups map[string]*Group // by the URL of the page that is repeated
	first  map[string]string // by digest: the URL of the first page that had it
	total  Duplicates
	beyond int64
}

func (x *repeats) add(r *visit) {
	of := r.DuplicateOf
	switch {
	case r.Duplicate == "near":
		x.total.Near++
	case r.Duplicate != "":
		x.total.Exact++
	case r.Digest == "" || r.Bytes == 0 || r.Status != 200:
		return
	default:
		if of = x.same(r); of == "" {
			return
		}
		x.total.Exact++
	}
	g := x.groups[of]
	if g == nil {
		if len(x.groups) >= x.max {
			x.beyond++
			return
		}
		g = &Group{Of: of}
		x.groups[of] = g
	}
	if g.Total++; len(g.URLs) < listedOfGroup {
		g.URLs = append(g.URLs, r.URL)
	}
}

// same returns the URL of the first page with the same body; empty if there is none, or if it is the same URL in
// another record.
func (x *repeats) same(r *visit) string {
	of, known := x.first[r.Digest]
	switch {
	case known && of != r.URL:
		return of
	case known:
	case len(x.first) >= x.max:
		x.beyond++
	default:
		x.first[r.Digest] = r.URL
	}
	return ""
}
