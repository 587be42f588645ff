package fetch

import (
	"context"
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch/reach"
	"github.com/treadlight/crawl/internal/fetch/resolve"
)

// A proxy is not told to connect inwards either: to no address, no name that means nothing
// elsewhere, and none that leads there as far as can be found out here.
func TestInward(t *testing.T) {
	found := map[string]string{"public.test": "8.8.8.8", "private.test": "10.0.0.1", "cloud.test": "169.254.169.254", "seed.test": "10.0.0.2", "moved.test": "10.0.0.3"}
	resolver, err := resolve.New(resolve.Config{Lookup: func(ctx context.Context, _, host string) ([]netip.Addr, error) {
		if a, ok := found[host]; ok {
			return []netip.Addr{netip.MustParseAddr(a)}, nil
		}
		<-ctx.Done() // as where nobody answers
		return nil, ctx.Err()
	}})
	require.NoError(t, err)
	defer resolver.Close()
	for _, tc := range []struct {
		addr                  string
		usual, unseen, opened bool // whether it may: by http, by socks5h, and with AllowPrivate
	}{
		{"example.com:80", true, true, true},
		{"public.test:80", true, true, true},
		{"private.test:80", false, true, true},
		{"cloud.test:80", false, true, true},
		{"seed.test:80", true, true, true},
		{"seed.test:81", false, true, true},
		{"moved.test:80", false, true, true},
		{"intranet:80", false, false, true},
		{"wiki:80", true, true, true}, // the user named it
		{"wiki:81", false, false, true},
		{"8.8.8.8:80", true, true, true},
		{"[64:ff9b::8.8.8.8]:80", true, true, true},
		{"10.0.0.1:80", false, false, true},
		{"10.0.0.9:80", true, true, true},
		{"10.0.0.9:81", false, false, true},
		{"[64:ff9b::10.0.0.1]:80", false, false, true},
		{"localhost:80", false, false, true},
		{"x.localhost.:80", false, false, true},
		{"169.254.169.254:80", false, false, false},
		{"[fe80::1%eth0]:80", false, false, false},
		{"[64:ff9b::169.254.169.254]:80", false, false, false},
		{"100.100.100.200:80", false, false, false},
	} {
		for _, how := range []struct {
			proxy string
			open  bool
			want  bool
		}{{"http://p.test", false, tc.usual}, {"socks5h://p.test", false, tc.unseen}, {"http://p.test", true, tc.opened}} {
			o := new(reach.Openings)
			o.Name("10.0.0.9", 80)
			o.Name("wiki", 80)
			for _, name := range []string{"seed.test", "moved.test"} {
				o.Name(name, 80)
				o.Decide(name, []netip.Addr{netip.MustParseAddr("10.0.0.2")})
			}
			d, err := newDialer(Config{Openings: o, AllowPrivate: how.open, Resolver: resolver}, nil)
			require.NoError(t, err)
			via, err := url.Parse(how.proxy)
			require.NoError(t, err)
			ctx, done := context.WithCancel(t.Context())
			if _, ok := found[tc.addr[:len(tc.addr)-len(":80")]]; !ok {
				done() // nobody waits
			}
			require.Equal(t, how.want, d.inward(ctx, via, tc.addr) == nil, "%s by %s, private ones allowed %v", tc.addr, how.proxy, how.open)
			done()
			d.close()
		}
	}
	require.ErrorContains(t, refuse("169.254.169.254")("169.254.169.254:80"), "only dialled if a seed or --resolve names it")
	require.EqualError(t, refuse("a.test")("10.0.0.1:80"),
		"address 10.0.0.1:80 of a.test is not on the public Internet, and no seed opened it when the crawl began: to have it dialled, give --allow-private")
}
