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

	// maxActive bounds the scopes that are noted between two calls of scopeUses.
	maxActive = 1 << 16
)

// UseRates tells how fast this process uses the budgets that processes share, by the names of
// their settings. It is not safe for concurrent use.
type UseRates struct {
	l      *AdaptiveRateLimiter
	marks  []useMark // of budgets, the oldest first, and no two closer than a second
	scopes []scopeMark
	last   time.Time // of scopes
}

type useMark struct {
	at   time.Time
	used map[string]int64
}

// scopeUse is how much is used of the budgets of scopes, by the name of the setting and the scope:
// an address, of IPv6 the /64, or a registrable domain.
type scopeUse map[string]map[string]float64

func (u scopeUse) add(name, scope string, n float64) {
	if u[name] == nil {
		u[name] = make(map[string]float64)
	}
	u[name][scope] += n
}

type scopeMark struct {
	from time.Time
	used scopeUse
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
		r.scopes = append(r.scopes, scopeMark{r.last, r.l.scopeUses(busiestScopes)})
		r.last = now
	}
	for len(r.scopes) > 1 && now.Sub(r.scopes[1].from) >= useSpan {
		r.scopes = r.scopes[1:]
	}
	all := make(scopeUse)
	span := max(r.last.Sub(r.scopes[0].from), time.Second).Seconds()
	for _, m := range r.scopes {
		for name, scopes := range m.used {
			for scope, n := range scopes {
				all.add(name, scope, n/span)
			}
		}
	}
	for _, scopes := range all {
		keepBusiest(scopes, busiestScopes)
	}
	return all
}

func keepBusiest(scopes map[string]float64, n int) {
	names := slices.SortedFunc(maps.Keys(scopes), func(a, b string) int {
		return cmp.Or(cmp.Compare(scopes[b], scopes[a]), cmp.Compare(a, b))
	})
	for _, name := range names[min(n, len(names)):] {
		delete(scopes, name)
	}
}

// scopeUses tells in which scopes of IPRPS and SiteRPS most was used since it was called
// before: n of each setting. Of more than maxActive scopes the first that were used are looked
// at. Without Config.Fleet there are none.
func (l *AdaptiveRateLimiter) scopeUses(n int) scopeUse {
	all := make(scopeUse)
	h := &l.shared
	h.mu.Lock()
	for _, f := range h.active {
		kind, scope, _ := strings.Cut(strings.TrimPrefix(f.key, l.cfg.FleetName+"/"), ":")
		all.add("ratelimit."+kind+"_rps", scope, float64(f.used-f.reported))
		f.reported, f.listed = f.used, false
	}
	clear(h.active)
	h.active = h.active[:0]
	h.mu.Unlock()
	for _, scopes := range all {
		keepBusiest(scopes, n)
	}
	return all
}
