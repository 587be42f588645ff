package admission

import (
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
)

const (
	// ipv6Bits is what of an IPv6 address is counted by: the smallest network that is
	// given to a customer (RFC 6177), who may take any address of it.
	ipv6Bits = 64

	// ipPrefix marks the keys that are addresses.
	ipPrefix = "ip:"

	// noAddress is the key of peers that have no address. Nothing tells them apart.
	noAddress = ipPrefix + "none"
)

// The headers of proxies, as net/http keeps them.
const (
	forwardedFor = "X-Forwarded-For"
	realIP       = "X-Real-Ip"
)

// ClientIP counts by the address of the client: an IPv6 one by its /64, and an IPv4 one
// mapped into IPv6 as itself.
//
// Without trusted prefixes that is the address of the connection, whatever headers say.
// If the connection comes from a trusted one, X-Forwarded-For is read from the right,
// where the nearest proxy wrote, to the left: the first address that is not trusted is
// the client's, because a trusted proxy saw it. A hop that cannot be read ends the walk
// at the hop before. Without that header X-Real-IP tells. A trusted proxy must set or
// remove the X-Forwarded-For of its clients; one that only sets X-Real-IP passes on
// theirs. RFC 7239's Forwarded is not read.
//
// A peer without an address, as over a Unix socket, is as local as loopback: it is
// trusted if 127.0.0.1 or ::1 is. It never returns an error.
func ClientIP(trusted ...netip.Prefix) KeyFunc {
	proxies := make(proxyList, 0, len(trusted))
	for _, p := range trusted {
		proxies = append(proxies, unmapPrefix(p))
	}
	return func(r *http.Request) (string, error) {
		if len(proxies) == 0 {
			if host, ok := quadWithPort(r.RemoteAddr); ok { // nearly always
				return ipPrefix + host, nil
			}
		}
		peer, ok := parseHop(r.RemoteAddr)
		if len(proxies) > 0 && proxies.trust(peer, ok) {
			if client, found := proxies.client(r.Header); found {
				peer, ok = client, true
			}
		}
		if !ok {
			return noAddress, nil
		}
		return addrKey(peer), nil
	}
}

// unmapPrefix is a prefix of IPv4 addresses mapped into IPv6 as one of IPv4.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	const mapped = 96 // bits in front of the address
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked()
}

// proxyList is the prefixes of trusted proxies.
type proxyList []netip.Prefix

func (l proxyList) contains(a netip.Addr) bool {
	for _, p := range l {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// trust reports whether the peer is trusted, which may have no address.
func (l proxyList) trust(peer netip.Addr, ok bool) bool {
	if ok {
		return l.contains(peer)
	}
	return l.contains(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || l.contains(netip.IPv6Loopback())
}

// client is the address that the headers of a trusted proxy tell.
func (l proxyList) client(h http.Header) (netip.Addr, bool) {
	if lines := h[forwardedFor]; len(lines) > 0 {
		return l.walk(lines)
	}
	if lines := h[realIP]; len(lines) == 1 { // of two, one was passed on
		return parseHop(lines[0])
	}
	return netip.Addr{}, false
}

// walk reads the lines, which together are one list, from the right. It allocates
// nothing: a client may send a megabyte of them. If all hops are trusted the leftmost is
// the client.
func (l proxyList) walk(lines []string) (client netip.Addr, found bool) {
	for _, line := range slices.Backward(lines) {
		rest, more := line, true
		for more {
			var hop string
			if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
				rest, hop = rest[:comma], rest[comma+1:]
			} else {
				hop, more = rest, false
			}
			addr, ok := parseHop(hop)
			if !ok {
				return client, found
			}
			client, found = addr, true
			if !l.contains(addr) {
				return client, found
			}
		}
	}
	return client, found
}

// parseHop reads an address, which may have a port and brackets around it. Its zone is
// left out: it means something on that proxy only.
func parseHop(s string) (netip.Addr, bool) {
	s = textproto.TrimString(s)
	if s == "" {
		return netip.Addr{}, false
	}
	if last := s[len(s)-1]; last == ']' && s[0] == '[' {
		s = s[1 : len(s)-1]
		if !strings.Contains(s, ":") {
			return netip.Addr{}, false // only IPv6 has brackets
		}
	} else if s[0] == '[' || strings.Count(s, ":") == 1 {
		ap, err := netip.ParseAddrPort(s)
		return ap.Addr().WithZone("").Unmap(), err == nil
	}
	a, err := netip.ParseAddr(s)
	return a.WithZone("").Unmap(), err == nil
}

// quadWithPort is the address of a text like "192.0.2.1:4711", which is what net/http says
// of nearly every connection, without reading it as a number and writing it again. There
// is but one way to write an IPv4 address, so that the text is the key. Of all else it is
// not ok, which only means that parseHop has to look.
func quadWithPort(s string) (host string, ok bool) {
	value, digits, dots, limit := 0, 0, 0, 255
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case '0' <= c && c <= '9':
			value, digits = value*10+int(c-'0'), digits+1
			if value > limit || digits > 1 && value < 10 { // too large, or with a zero in front
				return "", false
			}
			continue
		case digits == 0:
			return "", false
		case c == '.' && dots < 3:
			dots++
		case c == ':' && dots == 3 && host == "":
			host, limit = s[:i], 65535
		default:
			return "", false
		}
		value, digits = 0, 0
	}
	return host, host != "" && digits > 0
}

// addrKey is the key of an address that is unmapped and has no zone.
func addrKey(a netip.Addr) string {
	const longest = len(ipPrefix + "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255/64")
	b := append(make([]byte, 0, longest), ipPrefix...)
	if a.Is4() {
		return string(a.AppendTo(b))
	}
	network, err := a.Prefix(ipv6Bits)
	if err != nil { // there is an address, and it has 128 bits
		return noAddress
	}
	return string(network.AppendTo(b))
}
