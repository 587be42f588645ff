package fetch_test

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/reach"
	"github.com/treadlight/crawl/internal/fetch/resolve"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

func seeds(urls ...string) *reach.Openings {
	o := new(reach.Openings)
	for _, s := range urls {
		u, err := url.Parse(s)
		if err != nil {
			panic(err)
		}
		n, _ := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
		o.Name(u.Hostname(), uint16(n))
	}
	return o
}

// names is a resolver with an answer of its own, which counts how often it was looked up. Less
// than zero keeps nothing.
func names(t *testing.T, ttl int, answer string) (*resolve.Resolver, *atomic.Int32) {
	t.Helper()
	asked := new(atomic.Int32)
	cfg := resolve.Config{Lookup: func(context.Context, string, string) ([]netip.Addr, error) {
		asked.Add(1)
		return []netip.Addr{netip.MustParseAddr(answer)}, nil
	}}
	if ttl < 0 {
		cfg.TTL = -1
	}
	return resolver(t, cfg), asked
}

func resolver(t *testing.T, cfg resolve.Config) *resolve.Resolver {
	t.Helper()
	r, err := resolve.New(cfg)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// TestNamesThatLeadInwards: no name may, in whatever form the address comes.
func TestNamesThatLeadInwards(t *testing.T) {
	h, port := hostile(t)
	for _, inward := range []string{
		"127.0.0.1", "::1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::",
		"::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::", "2001::1", "fe80::1", "fc00::1", "ff02::1",
		"224.0.0.1", "255.255.255.255", "192.0.0.1", "198.18.0.1",
	} {
		r, _ := names(t, -1, inward)
		c := newClient(t, fetch.Config{Resolver: r, Openings: seeds("http://other.test:"+port, "http://rebound.test")})
		before := h.Seen("/")
		e, err := failed(t, c, "http://rebound.test:"+port+"/")
		require.Equal(t, outcome.AddressDenied, e.Class(), "%s: %v", inward, err)
		require.Equal(t, before, h.Seen("/"))
	}
}

// TestRebinding: a name that has been found at a good address is found at a bad one. What is
// checked is what is dialled, at each connection, also from the memory of the resolver.
func TestRebinding(t *testing.T) {
	_, port := hostile(t)
	url := "http://rebound.test:" + port + "/"
	for _, ttl := range []int{-1, 0} {
		r, asked := names(t, ttl, "127.0.0.1")
		c := newClient(t, fetch.Config{Resolver: r, Openings: seeds(url)}) // to which the address is a good one
		fetched(t, c, url)
		c = newClient(t, fetch.Config{Resolver: r})
		_, err := c.Fetch(t.Context(), fetch.Request{URL: url})
		require.Equal(t, outcome.AddressDenied, asError(t, err).Class())
		require.EqualValues(t, map[int]int{-1: 2, 0: 1}[ttl], asked.Load())
	}
}

// TestNamesOfSeedsLeadWhereTheyLed: where a seed's name leads is decided by the first answer,
// whether that comes before the first connection or with it.
func TestNamesOfSeedsLeadWhereTheyLed(t *testing.T) {
	h, port := hostile(t)
	n, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	const public = "192.0.66.2" // nobody connects to it: the answer before counts
	for _, tc := range []struct {
		first, then string
		allowed     bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{public, "127.0.0.1", false},
		{"127.0.0.2", "127.0.0.1", false},
		{"127.0.0.1 " + public, "127.0.0.1", false},
		{"169.254.169.254", "127.0.0.1", false},
		{"::ffff:127.0.0.1", "127.0.0.1", true},
		{"", "127.0.0.1", true}, // there was no answer yet
	} {
		answer := tc.first
		r := resolver(t, resolve.Config{TTL: -1, Lookup: func(context.Context, string, string) ([]netip.Addr, error) {
			var addrs []netip.Addr
			for a := range strings.FieldsSeq(answer) {
				addrs = append(addrs, netip.MustParseAddr(a))
			}
			return addrs, nil
		}})
		url := "http://seed.test:" + port + "/"
		c := newClient(t, fetch.Config{Resolver: r, Openings: seeds(url)})
		c.Settle(t.Context(), "seed.test", uint16(n), false)
		answer = tc.then
		before := h.Seen("/")
		_, err = c.Fetch(t.Context(), fetch.Request{URL: url})
		if tc.allowed {
			require.NoError(t, err, "%+v", tc)
			continue
		}
		require.Equal(t, outcome.AddressDenied, asError(t, err).Class(), "%+v: %v", tc, err)
		require.ErrorContains(t, err, "127.0.0.1:"+port+" of seed.test")
		require.ErrorContains(t, err, "--allow-private")
		require.Equal(t, before, h.Seen("/"))
	}
}

// TestAStaticAddressIsTheUsersWord: it may be anywhere, and only for the host and port that it was given for.
func TestAStaticAddressIsTheUsersWord(t *testing.T) {
	h, port := hostile(t)
	at, err := resolve.ParseStatic("a.test:" + port + ":127.0.0.1")
	require.NoError(t, err)
	c := newClient(t, fetch.Config{Resolver: resolver(t, resolve.Config{Static: []resolve.Static{at}, Lookup: func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}})})
	res := fetched(t, c, "http://a.test:"+port+"/")
	require.Equal(t, h.Addr(), res.RemoteAddr)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	for _, u := range []string{"http://a.test:" + strconv.Itoa(n%65535+1) + "/", "http://b.test:" + port + "/"} {
		_, err = c.Fetch(t.Context(), fetch.Request{URL: u})
		require.Equal(t, outcome.AddressDenied, asError(t, err).Class(), u)
	}
}

// TestAddressesAreKept over connections, and doubted when nobody is there.
func TestAddressesAreKept(t *testing.T) {
	_, port := hostile(t)
	r, asked := names(t, 0, "127.0.0.1")
	c := newClient(t, fetch.Config{Resolver: r, AllowPrivate: true})
	for range 3 {
		_, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test:" + port + string(fetchtest.Reset)})
		require.Error(t, err, "so that the next one needs a connection")
		fetched(t, c, "http://a.test:"+port+"/")
	}
	require.EqualValues(t, 1, asked.Load())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, gone, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	for n := range 2 {
		_, err = c.Fetch(t.Context(), fetch.Request{URL: "http://a.test:" + gone + "/"})
		require.Equal(t, outcome.Network, asError(t, err).Class())
		require.EqualValues(t, 1+n, asked.Load(), "nobody was there: perhaps it has moved")
	}
}
