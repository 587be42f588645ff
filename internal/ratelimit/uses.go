package ratelimit

import (
	"cmp"
	"slices"
	"strings"
)

// maxActive bounds the scopes that are noted between two calls of ScopeUses.
const maxActive = 1 << 16

// ScopeUse is how much of a scope's budget that processes share this one has used.
type ScopeUse struct {
	Name  string // of the setting: "ip_rps" or "site_rps"
	Scope string // the address, of IPv6 the /64, or the registrable domain
	Used  int64  // requests
}

// ScopeUses tells in which scopes of IPRPS and SiteRPS most was used since it was called
// before: up to n of each setting, the busiest first. Of more than 65,536 scopes the first that
// were used are looked at. Without Config.Fleet there are none.
func (l *AdaptiveRateLimiter) ScopeUses(n int) (all []ScopeUse) {
	h := &l.shared
	h.mu.Lock()
	for _, f := range h.active {
		scope := strings.TrimPrefix(f.key, l.cfg.FleetName+"/")
		kind, name, _ := strings.Cut(scope, ":")
		all = append(all, ScopeUse{kind + "_rps", name, f.used - f.told})
		f.told, f.listed = f.used, false
	}
	clear(h.active)
	h.active = h.active[:0]
	h.mu.Unlock()
	slices.SortFunc(all, func(a, b ScopeUse) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Used, a.Used), cmp.Compare(a.Scope, b.Scope))
	})
	kept := make(map[string]int)
	return slices.DeleteFunc(all, func(u ScopeUse) bool {
		kept[u.Name]++
		return kept[u.Name] > n
	})
}
