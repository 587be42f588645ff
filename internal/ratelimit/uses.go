package ratelimit

import (
	"cmp"
	"slices"
	"strings"
)

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
		all = append(all, scopeUse{kind + "_rps", name, f.used - f.told})
		f.told, f.listed = f.used, false
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
