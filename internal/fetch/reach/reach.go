// Package reach classifies IP addresses by who can reach them: everybody, or only hosts in the network or on the
// machine where the crawler runs.
//
// An address that stands for an IPv4 address is classified as that one. These are addresses mapped into IPv6 (RFC 4291,
// 2.5.5.2), and those of the well-known prefix of NAT64 (RFC 6052, 2.1), by which networks without IPv4 reach all of
// it. The prefix that a network uses for its own NAT64 (RFC 8215) is private.
//
// [Openings] are the exceptions: non-public addresses that the user has named. They are checked when a connection is
// made.
package reach

import (
	"net/netip"
	"slices"

	"code.dny.dev/ssrf"
)

// Reach says how far an address reaches.
type Reach uint8

// The reaches, the widest first.
const (
	// Public means an address of the Internet.
	Public Reach = iota
	// Private means an address that is not for Internet hosts: private, loopback, shared, multicast and so on.
	Private
	// Link means a link-local address or the metadata address of a cloud. No site has such an address.
	Link
)

// links lists the addresses of Link. Those of clouds may lie in private or public ranges.
var links = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),     // RFC 3927; AWS, Azure, Google, Oracle and others serve credentials at 169.254.169.254
	netip.MustParsePrefix("fe80::/10"),          // RFC 4291
	netip.MustParsePrefix("fd00:ec2::/32"),      // AWS: metadata, names, time
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google: metadata
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba: metadata
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure: wire server
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle: older metadata
}

// guard checks addresses against the registries of special addresses (IANA, RFC 6890).
var guard = ssrf.New(ssrf.WithAnyPort())

// Of returns the reach of an address. Its zone is ignored. An invalid address is Link.
func Of(a netip.Addr) Reach {
	a = behind(a.Unmap().WithZone(""))
	switch {
	case !a.IsValid() || slices.ContainsFunc(links, func(p netip.Prefix) bool { return p.Contains(a) }):
		return Link
	case guard.SafeAddr(a) != nil:
		return Private
	}
	return Public
}

// behind returns the IPv4 address that a NAT64 address stands for, and any other address unchanged.
func behind(a netip.Addr) netip.Addr {
	if !ssrf.IPv6NAT64Prefix.Contains(a) {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}
