// Package reach tells how far an address reaches: whether anybody could have named it, or only
// somebody within the network or on the machine that the crawler runs on.
//
// An address that stands for an IPv4 address behind it is judged by that one: those mapped into IPv6 (RFC 4291,
// 2.5.5.2), and those of the well-known prefix of NAT64 (RFC 6052, 2.1), by which networks without IPv4 reach all of
// it. A prefix that a network has for its own NAT64 (RFC 8215) is its own affair, and private.
//
// [Openings] are the exceptions: the addresses that are not public and that a user has named.
// Whoever connects for others asks them at the moment of the connection.
package reach

import (
	"net/netip"
	"slices"

	"code.dny.dev/ssrf"
)

// Reach is how far an address reaches.
type Reach uint8

// The reaches, the widest first.
const (
	// Public is an address of the Internet.
	Public Reach = iota
	// Private is set aside for other than Internet hosts: private, loopback, shared, multicast and so on.
	Private
	// Link is link-local or a cloud's metadata address. No site is there.
	Link
)

// links are the addresses of Link; those of clouds may be in private or public ranges.
var links = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),     // RFC 3927; AWS, Azure, Google, Oracle and others tell secrets at 169.254.169.254
	netip.MustParsePrefix("fe80::/10"),          // RFC 4291
	netip.MustParsePrefix("fd00:ec2::/32"),      // AWS: metadata, names, time
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google: metadata
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba: metadata
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure: wire server
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle: metadata of old
}

// guard knows the registries of special addresses (IANA, RFC 6890).
var guard = ssrf.New(ssrf.WithAnyPort())

// Of is the reach of an address. Its zone does not matter. One that is not valid is Link.
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

// behind is the IPv4 address that one of NAT64 stands for, and else the address itself.
func behind(a netip.Addr) netip.Addr {
	if !ssrf.IPv6NAT64Prefix.Contains(a) {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}
