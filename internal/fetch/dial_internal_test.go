package fetch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch/reach"
)

// What no site is at is dialled for an address that was named, and never for a name: whoever
// has that in their hands would say where it leads.
func TestLeastReach(t *testing.T) {
	named := func(host string) bool { return host == "a.test" || host == "169.254.169.254" || host == "fe80::1" }
	for _, tc := range []struct {
		host          string
		usual, opened reach.Reach // without AllowPrivate and with it
	}{
		{"b.test", reach.Public, reach.Private},
		{"A.test", reach.Private, reach.Private},
		{"10.0.0.1", reach.Public, reach.Private},
		{"169.254.169.254", reach.Link, reach.Link},
		{"FE80::1", reach.Link, reach.Link},
		{"169.254.169.253", reach.Public, reach.Private},
	} {
		for _, open := range []bool{false, true} {
			d, err := newDialer(Config{Allow: named, AllowPrivate: open}, nil)
			require.NoError(t, err)
			want := tc.usual
			if open {
				want = tc.opened
			}
			require.Equal(t, want, d.least(tc.host), "%s, private ones allowed %v", tc.host, open)
			d.close()
		}
	}
}

// A proxy is not told to connect inwards either.
func TestInward(t *testing.T) {
	for _, tc := range []struct {
		addr          string
		usual, opened bool // whether it may
	}{
		{"example.com:80", true, true},
		{"8.8.8.8:80", true, true},
		{"[64:ff9b::8.8.8.8]:80", true, true},
		{"10.0.0.1:80", false, true},
		{"[64:ff9b::10.0.0.1]:80", false, true},
		{"localhost:80", false, true},
		{"169.254.169.254:80", false, false},
		{"[fe80::1%eth0]:80", false, false},
		{"[64:ff9b::169.254.169.254]:80", false, false},
		{"100.100.100.200:80", false, false},
	} {
		for _, open := range []bool{false, true} {
			d, err := newDialer(Config{AllowPrivate: open}, nil)
			require.NoError(t, err)
			want := tc.usual
			if open {
				want = tc.opened
			}
			require.Equal(t, want, d.inward(tc.addr) == nil, "%s, private ones allowed %v", tc.addr, open)
			d.close()
		}
	}
	require.ErrorContains(t, denied("169.254.169.254:80"), "only dialled if a seed or --resolve names it")
	require.ErrorContains(t, denied("10.0.0.1:80"), "is not on the public Internet")
}
