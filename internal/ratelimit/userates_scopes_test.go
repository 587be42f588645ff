package ratelimit

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What was used of each scope is told once, of those that were used most, by the setting.
func TestScopeUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFleetWorld(t)
		l, _ := w.join(func(c *Config) { c.IPRPS, c.SiteRPS = 50, 100 })
		require.Empty(t, l.scopeUses(5))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		hosts := []string{"a.one.test", "b.one.test", "c.two.test"}
		for i, h := range hosts {
			l.SetAddress(h, netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", i+1)))
		}
		w.work(ctx, l, hosts, time.Millisecond)
		uses := l.scopeUses(2)
		require.Len(t, uses["ratelimit.ip_rps"], 2, "of three addresses")
		sites := uses["ratelimit.site_rps"]
		require.Len(t, sites, 2)
		require.Greater(t, sites["one.test"], sites["two.test"])
		require.InDelta(t, w.sum(), sites["one.test"]+sites["two.test"], 0.1, "every request is of a site")
		require.Empty(t, l.scopeUses(2), "it was told before")
		require.LessOrEqual(t, cap(l.shared.active), maxActive)
	})
}
