package reach

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// special has an address at each end of every range of the registries of special addresses (IANA,
// "IPv4 Special-Purpose Address Registry" and that of IPv6, with multicast beside them), and those
// by which the services of clouds are known.
var special = []string{
	"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.0", "127.0.0.1", "127.255.255.255",
	"169.254.0.0", "169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.8", "192.0.0.9", "192.0.0.10",
	"192.0.0.170", "192.0.0.171", "192.0.0.192", "192.0.0.255", "192.0.2.0", "192.0.2.255", "192.31.196.0", "192.31.196.255",
	"192.52.193.0", "192.52.193.255", "192.88.99.0", "192.88.99.2", "192.88.99.255", "192.168.0.0", "192.168.255.255", "192.175.48.0", "192.175.48.255",
	"198.18.0.0", "198.19.255.255", "198.51.100.0", "198.51.100.255", "203.0.113.0", "203.0.113.255", "224.0.0.0", "239.255.255.255",
	"240.0.0.0", "255.255.255.254", "255.255.255.255", "100.100.100.200", "168.63.129.16",
	"::", "::1", "::7f00:1", "::ffff:0.0.0.0", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
	"64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
	"100::", "100::ffff:ffff:ffff:ffff", "100:0:0:1::", "2001::", "2001:0:ffff::", "2001:1::1", "2001:1::2", "2001:1::3", "2001:2::", "2001:3::",
	"2001:4:112::", "2001:10::", "2001:20::", "2001:30::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
	"2002::", "2002:7f00:1::", "2002:a00:1::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2620:4f:8000::", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
	"5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fd00:ec2::254", "fd20:ce::254",
	"fe80::", "fe80::1%eth0", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fec0::1", "ff00::", "ff02::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
}

const port = 8080

func pair(a string, p uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(a), p) }

// Whatever is not public is open for nobody who did not name it, in every range.
func TestSpecialAddressesAreClosed(t *testing.T) {
	for _, a := range special {
		addr := netip.MustParseAddr(a)
		require.NotEqual(t, Public, Of(addr), a)
		var none *Openings
		var o Openings
		require.False(t, o.Name(a, port), "an address is no name")
		require.True(t, o.Name("name.test", port))
		o.Decide("name.test", []netip.Addr{addr})
		asName := Of(addr) == Private
		for _, tc := range []struct {
			host          string
			port          uint16
			usual, opened bool // without private ones for everybody, and with them
		}{
			{a, port, true, true},
			{a, port + 1, false, asName},
			{"name.test", port, asName, asName},
			{"NAME.test.", port, asName, asName},
			{"name.test", port + 1, false, asName},
			{"sub.name.test", port, false, asName},
			{"other.test", port, false, asName},
			{"", port, false, asName},
		} {
			require.Equal(t, tc.usual, o.Allows(tc.host, pair(a, tc.port), false), "%s: %+v", a, tc)
			require.Equal(t, tc.opened, o.Allows(tc.host, pair(a, tc.port), true), "%s: %+v", a, tc)
			require.False(t, none.Allows(tc.host, pair(a, tc.port), false), "%s: %+v", a, tc)
		}
	}
	for _, a := range []string{"8.8.8.8", "2606:4700:4700::1111", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"} {
		var none *Openings
		require.True(t, none.Allows("a.test", pair(a, port), false), a)
	}
}

// A name leads where it led at first, if that was private altogether, and nowhere else.
func TestNamesThatChangeTheirMind(t *testing.T) {
	const at, then, public = "10.0.0.1", "10.0.0.2", "8.8.8.8"
	for _, tc := range []struct {
		answers [][]string
		open    []string
	}{
		{[][]string{{at}}, []string{at}},
		{[][]string{{at, then}}, []string{at, then}},
		{[][]string{{at}, {then}}, []string{at}},
		{[][]string{{at}, {then}, {at}}, []string{at}},
		{[][]string{{public}, {at}}, nil},
		{[][]string{{public, at}, {at}}, nil},
		{[][]string{{at}, {public}, {at}}, nil},
		{[][]string{{at}, {at, public}}, nil},
		{[][]string{{"169.254.169.254"}, {at}}, nil},
		{[][]string{{at, "169.254.169.254"}}, nil},
		{[][]string{{at}, {"169.254.169.254"}}, []string{at}},
		{nil, nil},
	} {
		kept := make(map[string][]netip.Addr)
		o := Openings{OnOpen: func(host string, port uint16, addrs []netip.Addr) { kept[fmt.Sprint(host, port)] = addrs }}
		require.True(t, o.Name("a.test", port))
		require.True(t, o.Name("A.test.", port), "until it is known")
		require.True(t, o.Awaits("a.test", port))
		for _, answer := range tc.answers {
			var addrs []netip.Addr
			for _, a := range answer {
				addrs = append(addrs, netip.MustParseAddr(a))
			}
			o.Decide("a.test", addrs)
			require.False(t, o.Awaits("a.test", port))
		}
		again := new(Openings) // in a run that goes on
		for _, addrs := range kept {
			if len(addrs) > 0 {
				again.Restore("a.test", port, addrs)
			}
		}
		again.Shut("a.test")
		if tc.answers != nil {
			require.False(t, o.Name("a.test", 81), "it is known")
		}
		require.False(t, again.Name("a.test", 81), "it is not to be looked up")
		again.Decide("a.test", []netip.Addr{netip.MustParseAddr("10.0.0.3")})
		for _, a := range []string{at, then, "10.0.0.3", "169.254.169.254"} {
			want := false
			for _, is := range tc.open {
				want = want || is == a
			}
			for name, o := range map[string]*Openings{"first": &o, "resumed": again} {
				require.Equal(t, want, o.Allows("a.test", pair(a, port), false), "%s %s %+v", name, a, tc)
				require.Equal(t, want, o.Allows("a.test", pair(a, 81), false), "another seed: %s %s %+v", name, a, tc)
				require.False(t, o.Allows("a.test", pair(a, 82), false))
				require.False(t, o.Allows("b.test", pair(a, port), false))
			}
			require.Equal(t, want, again.Allows(a, pair(a, port), false), "the user named the address: %s %+v", a, tc)
		}
	}
}

// Localhost is this machine, and so are its addresses for whoever writes them.
func TestLocalhost(t *testing.T) {
	for _, seed := range []string{"localhost", "LOCALHOST.", "app.localhost", "127.0.0.1", "::1"} {
		var o Openings
		require.False(t, o.Name(seed, port), seed)
		at := "127.0.0.1"
		if seed == "::1" {
			at = seed
		}
		for _, host := range []string{seed, at, "localhost", "x.localhost"} {
			require.True(t, o.Allows(host, pair(at, port), false), "%s after %s", host, seed)
			require.False(t, o.Allows(host, pair(at, port+1), false), "%s after %s", host, seed)
		}
		require.False(t, o.Allows("a.test", pair(at, port), false))
		require.False(t, o.Allows("localhost", pair("127.0.0.2", port), false))
		o.Decide("localhost", []netip.Addr{netip.MustParseAddr("10.0.0.1")})
		require.False(t, o.Allows("localhost", pair("10.0.0.1", port), false), "whatever anybody says")
	}
}

func TestControl(t *testing.T) {
	denied := errors.New("denied")
	refuse := func(string) error { return denied }
	for _, tc := range []struct {
		network, addr string
		usual, near   bool // what may be dialled, and where private ones are allowed
	}{
		{"tcp4", "8.8.8.8:80", true, true},
		{"tcp6", "[64:ff9b::8.8.8.8]:443", true, true},
		{"tcp4", "10.0.0.1:80", false, true},
		{"tcp6", "[64:ff9b::10.0.0.1]:80", false, true},
		{"tcp4", "169.254.169.254:80", false, false},
		{"tcp6", "[fe80::1%eth0]:80", false, false},
		{"tcp6", "[64:ff9b::a9fe:a9fe]:80", false, false},
		{"udp4", "8.8.8.8:53", false, false},
		{"unix", "/run/docker.sock", false, false},
		{"tcp4", "example.com:80", false, false},
	} {
		var none *Openings
		for private, want := range map[bool]bool{false: tc.usual, true: tc.near} {
			err := none.Control("a.test", private, refuse)(tc.network, tc.addr, nil)
			require.Equal(t, want, err == nil, "%s %s, %v: %v", tc.network, tc.addr, private, err)
		}
	}
}

func TestOf(t *testing.T) {
	for want, addrs := range map[Reach][]string{
		Public: {
			"8.8.8.8", "93.184.216.34", "1.1.1.1", "192.0.66.2", "2606:4700:4700::1111", "2001:4860:4860::8888",
			"::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "64:ff9b::5db8:d822",
			"168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0",
		},
		Private: {
			"127.0.0.1", "127.255.255.254", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "100.127.255.255",
			"0.0.0.0", "0.1.2.3", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
			"::", "::1", "::8.8.8.8", "fc00::1", "fd12:3456::1", "fd00:ec3::254", "fec0::1", "ff02::1", "2001:db8::1", "2001::1",
			"2002:7f00:1::", "2002:808:808::", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
			"64:ff9b::127.0.0.1", "64:ff9b::a00:1", "64:ff9b::192.168.0.1", "64:ff9b::", "64:ff9b::255.255.255.255",
			"64:ff9b:1::8.8.8.8", "64:ff9b:0:0:0:1::1", "64:ff9a::8.8.8.8", "100::1", "5f00::1",
		},
		Link: {
			"169.254.0.0", "169.254.169.254", "169.254.170.2", "169.254.255.255", "fe80::1", "fe80::1%eth0", "febf::1",
			"fd00:ec2::254", "fd00:ec2::253", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192",
			"::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "64:ff9b::a83f:8110", "64:ff9b::100.100.100.200",
		},
	} {
		for _, a := range addrs {
			require.Equal(t, want, Of(netip.MustParseAddr(a)), a)
		}
	}
	require.Equal(t, Link, Of(netip.Addr{}), "no address")
}

// Whatever is embedded in an address of NAT64 reaches as far as it does by itself.
func FuzzNAT64(f *testing.F) {
	f.Add(uint32(0x7f000001))
	f.Add(uint32(0xa9fea9fe))
	f.Add(uint32(0x08080808))
	f.Fuzz(func(t *testing.T, n uint32) {
		four := [4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
		six := [16]byte{1: 0x64, 2: 0xff, 3: 0x9b, 12: four[0], 13: four[1], 14: four[2], 15: four[3]}
		require.Equal(t, Of(netip.AddrFrom4(four)), Of(netip.AddrFrom16(six)), "%v", four)
	})
}
