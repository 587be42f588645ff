package summary

import (
	"cmp"
	"slices"
)

// repeats finds pages that repeat others: those that the crawl has marked, and of those it
// has not, the ones with the same digest. It keeps at most max digests and as many groups.
type repeats struct {
	max, list int
	groups    map[string]*Group // by the page that is repeated
	first     map[string]string // digests, and the page that had it first
	total     Duplicates
	beyond    int64
}

func (x *repeats) add(r *record) {
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
	g.Total++
	if len(g.URLs) < listedOfGroup {
		g.URLs = append(g.URLs, r.URL)
	}
}

// listedOfGroup is how many pages of a group are named: enough to see the pattern.
const listedOfGroup = 5

// same is the page before it with the same body; empty if there is none, or it is the same
// URL in another record.
func (x *repeats) same(r *record) string {
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

func (x *repeats) told() Duplicates {
	for _, g := range x.groups {
		x.total.Groups = append(x.total.Groups, *g)
	}
	slices.SortFunc(x.total.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Of, b.Of))
	})
	x.total.Groups = x.total.Groups[:min(len(x.total.Groups), x.list)]
	return x.total
}
