package ratelimit

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// useSpan is over how long rates of use are taken. A budget lets three quarters of a second's
	// worth go at once, which in a shorter span would be most of it.
	useSpan = 15 * time.Second

	// busiestScopes is how many scopes of each budget are told of.
	busiestScopes = 8
)

// UseRates tells how fast this process uses the budgets that processes share, by the names of
// their settings. It is not safe for concurrent use.
type UseRates struct {
	l      *AdaptiveRateLimiter
	marks  []useMark // of budgets, the oldest first, and no two closer than a second
	scopes []scopeMark
	last   time.Time // of scopes
}

// useMark is what had been used of budgets at an instant.
type useMark struct {
	at   time.Time
	used map[string]int64
}

// scopeMark is what was used of scopes since the mark before.
type scopeMark struct {
	from, at time.Time
	used     []scopeUse
}

// NewUseRates returns rates of use that begin now.
func NewUseRates(l *AdaptiveRateLimiter) *UseRates {
	return &UseRates{l: l, last: l.cfg.Clock.Now()}
}

// Budgets is what is used of each budget a second, over the last useSpan; of
// ratelimit.global_concurrency it is how many requests are under way. Nil: none is shared.
func (r *UseRates) Budgets() map[string]float64 {
	uses := r.l.budgetUses()
	if uses == nil {
		return nil
	}
	used := make(map[string]int64, len(uses))
	for _, u := range uses {
		used["ratelimit."+u.name] = u.used
	}
	all := r.over(r.l.cfg.Clock.Now(), used)
	const slots = "ratelimit.global_concurrency"
	if n, ok := used[slots]; ok {
		all[slots] = float64(n)
	}
	return all
}

// over is what was used a second over the last useSpan, or since the first call.
func (r *UseRates) over(now time.Time, used map[string]int64) map[string]float64 {
	if len(r.marks) == 0 || now.Sub(r.marks[len(r.marks)-1].at) >= time.Second {
		r.marks = append(r.marks, useMark{now, used})
	}
	for len(r.marks) > 1 && now.Sub(r.marks[1].at) >= useSpan {
		r.marks = r.marks[1:]
	}
	since := &r.marks[0]
	span := max(now.Sub(since.at), time.Second).Seconds() // what goes at once is no rate
	all := make(map[string]float64, len(used))
	for name, n := range used {
		all[name] = float64(n-since.used[name]) / span
	}
	return all
}

// Scopes is where most is used a second of the budgets that each address and each site has, over
// the last useSpan: the busiest scopes of each.
func (r *UseRates) Scopes() map[string]map[string]float64 {
	now := r.l.cfg.Clock.Now()
	if now.Sub(r.last) >= time.Second || len(r.scopes) == 0 {
		r.scopes = append(r.scopes, scopeMark{r.last, now, r.l.scopeUses(busiestScopes)})
		r.last = now
	}
	for len(r.scopes) > 1 && now.Sub(r.scopes[0].at) >= useSpan {
		r.scopes = r.scopes[1:]
	}
	var all map[string]map[string]float64
	span := max(r.last.Sub(r.scopes[0].from), time.Second).Seconds()
	for _, m := range r.scopes {
		for _, u := range m.used {
			name := "ratelimit." + u.name
			if all == nil {
				all = make(map[string]map[string]float64)
			}
			if all[name] == nil {
				all[name] = make(map[string]float64)
			}
			all[name][u.scope] += float64(u.used) / span
		}
	}
	for _, scopes := range all {
		keepBusiest(scopes, busiestScopes)
	}
	return all
}

// keepBusiest keeps the n scopes with the highest rates.
func keepBusiest(scopes map[string]float64, n int) {
	names := slices.SortedFunc(maps.Keys(scopes), func(a, b string) int {
		return cmp.Or(cmp.Compare(scopes[b], scopes[a]), cmp.Compare(a, b))
	})
	for _, name := range names[min(n, len(names)):] {
		delete(scopes, name)
	}
}

// maxActive bounds the scopes that are noted between two calls of scopeUses.
const maxActive = 1 << 16

// scopeUse is how much of a scope's budget that processes share this one has used.
type scopeUse struct {
	name  string // of the setting: "ip_rps" or "site_rps"
	scope string // the address, of IPv6 the /64, or the registrable domain
	used  int64  // requests
}

// scopeUses tells in which scopes of IPRPS and SiteRPS most was used since it was called
// before: up to n of each setting, the busiest first. Of more than 65,536 scopes the first that
// were used are looked at. Without Config.Fleet there are none.
func (l *AdaptiveRateLimiter) scopeUses(n int) (all []scopeUse) {
	h := &l.shared
	h.mu.Lock()
	for _, f := range h.active {
		scope := strings.TrimPrefix(f.key, l.cfg.FleetName+"/")
		kind, name, _ := strings.Cut(scope, ":")
		all = append(all, scopeUse{kind + "_rps", name, f.used - f.reported})
		f.reported, f.listed = f.used, false
	}
	clear(h.active)
	h.active = h.active[:0]
	h.mu.Unlock()
	slices.SortFunc(all, func(a, b scopeUse) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(b.used, a.used), cmp.Compare(a.scope, b.scope))
	})
	kept := make(map[string]int)
	return slices.DeleteFunc(all, func(u scopeUse) bool {
		kept[u.name]++
		return kept[u.name] > n
	})
}
