package summary

import (
	"cmp"
	"slices"
)

// redirects are where URLs lead, for at most max of them.
type redirects struct {
	max    int
	to     map[string]string
	told   Redirects
	beyond int64
}

func (x *redirects) add(r *record) {
	if r.RedirectTo == "" || r.Status < 300 || r.Status > 399 {
		return
	}
	x.told.Total++
	if r.Status == 301 || r.Status == 308 {
		x.told.Permanent++
	}
	if len(x.to) >= x.max {
		x.beyond++
		return
	}
	x.to[r.URL] = r.RedirectTo
}

// longestChain is where a chain is cut: crawls follow no longer ones.
const longestChain = 50

// list finds the chains. A chain begins where no redirect leads; what is then still not in
// one is a loop, or what leads into one.
func (x *redirects) list(broken map[string]*BrokenLink, most int) Redirects {
	led := make(map[string]bool, len(x.to))
	for from, to := range x.to {
		if from != to {
			led[to] = true
		}
	}
	var chains []Chain
	seen := make(map[string]bool, len(x.to))
	for _, from := range x.starts(led) {
		if seen[from] {
			continue
		}
		c := x.follow(from, seen)
		if b := broken[c.URLs[len(c.URLs)-1]]; b != nil {
			c.Status, c.Class = b.Status, b.Class
		}
		switch {
		case c.Loop:
			x.told.Loops++
		case len(c.URLs) > 2:
			x.told.Chains++
		case c.Status == 0 && c.Class == "":
			continue
		}
		chains = append(chains, c)
	}
	slices.SortStableFunc(chains, func(a, b Chain) int {
		if a.Loop != b.Loop {
			if a.Loop {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(len(b.URLs), len(a.URLs)), cmp.Compare(a.URLs[0], b.URLs[0]))
	})
	x.told.Listed = chains[:min(len(chains), most)]
	return x.told
}

// starts are all redirects, those first to which none leads, so that a chain is found from
// its beginning.
func (x *redirects) starts(led map[string]bool) []string {
	all := make([]string, 0, len(x.to))
	for from := range x.to {
		all = append(all, from)
	}
	slices.SortFunc(all, func(a, b string) int {
		if led[a] != led[b] {
			if led[b] {
				return -1
			}
			return 1
		}
		return cmp.Compare(a, b)
	})
	return all
}

// follow walks a chain to its end, to where it comes back, or to where it gets too long.
func (x *redirects) follow(from string, seen map[string]bool) Chain {
	c := Chain{URLs: []string{from}}
	for at := from; len(c.URLs) <= longestChain; {
		seen[at] = true
		to, more := x.to[at]
		if !more {
			break
		}
		c.Loop = slices.Contains(c.URLs, to)
		c.URLs = append(c.URLs, to)
		if c.Loop {
			break
		}
		at = to
	}
	return c
}
