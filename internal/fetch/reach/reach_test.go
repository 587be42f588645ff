package reach

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

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
