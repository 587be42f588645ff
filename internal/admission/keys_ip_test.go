package admission

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuadWithPort(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1:1":           "192.0.2.1",
		"0.0.0.0:0":             "0.0.0.0",
		"255.255.255.255:65535": "255.255.255.255",
		"256.0.2.1:1":           "",
		"192.0.2.01:1":          "",
		"192.0.2.00:1":          "",
		"192.0.2.1:65536":       "",
		"192.0.2.1:":            "",
		"192.0.2.1":             "",
		"192.0.2.1:1:1":         "",
		"192.0.2.1:1.1":         "",
		"192.0.2:1":             "",
		"192.0.2.:1":            "",
		"192.0..2.1:1":          "",
		"192.0.2.1.1:1":         "",
		" 192.0.2.1:1":          "",
		"192.0.2.1:-1":          "",
		"[::1]:1":               "",
		"[::ffff:192.0.2.1]:1":  "",
		"@":                     "",
		"":                      "",
	} {
		host, ok := quadWithPort(text)
		require.Equal(t, want != "", ok, text)
		if ok {
			require.Equal(t, want, host, text)
		}
	}
}

// FuzzQuadWithPort has the law of the short way: what it takes has the key that the long
// one comes to, and it takes all that a connection says of IPv4.
func FuzzQuadWithPort(f *testing.F) {
	for _, seed := range []string{"192.0.2.1:1", "1.2.3.4:65535", "1.2.3.4:007", "01.2.3.4:5", "[::1%x]:2", "1.2.3.4", "999.1.1.1:1"} {
		f.Add(seed, uint32(0xC0000201), uint16(4711))
	}
	f.Fuzz(func(t *testing.T, text string, quad uint32, port uint16) {
		if host, ok := quadWithPort(text); ok {
			addr, read := parseHop(text)
			if !read || ipPrefix+host != addrKey(addr) {
				t.Errorf("%q has the key of %q, want that of %v, %v", text, host, addr, read)
			}
		}
		peer := netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(quad >> 24), byte(quad >> 16), byte(quad >> 8), byte(quad)}), port)
		if host, ok := quadWithPort(peer.String()); !ok || host != peer.Addr().String() {
			t.Errorf("of %v it takes %q, %v", peer, host, ok)
		}
	})
}
