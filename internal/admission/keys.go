package admission

import (
	"errors"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// KeyFunc returns the key under which a request is counted. It must be safe for concurrent use and must not change the
// request.
//
// Each key function of this package begins its keys with a prefix of its own, so that a user who calls himself
// "192.0.2.1" is not counted with that address. An error means that nobody can be counted; then the rule's OnError
// decides. Return an error only for what a client cannot cause, or clients use it to pass the limit.
type KeyFunc = func(r *http.Request) (string, error)

// Global returns a function that counts all requests together.
func Global() KeyFunc {
	return func(*http.Request) (string, error) { return "global", nil }
}

// Header returns a function that counts by the first value of a header, such as X-API-Key, or by the Host, in lower
// case. A request without the header is counted by missing; nil means ClientIP without proxies.
//
// A client that invents values has an account of its own for each. Count by a header only behind a server that verifies
// it, or count by the address too.
func Header(name string, missing KeyFunc) KeyFunc {
	name = http.CanonicalHeaderKey(name)
	return byName("header:"+name+":", func(r *http.Request) (string, error) { // a name contains no colon
		if name == "Host" { // net/http moves Host out of the headers
			return strings.ToLower(r.Host), nil
		}
		if lines := r.Header[name]; len(lines) > 0 {
			return lines[0], nil
		}
		return "", nil
	}, missing)
}

// byName returns a function that puts prefix before what key returns, and calls missing if key returns nothing.
func byName(prefix string, key, missing KeyFunc) KeyFunc {
	if missing == nil {
		missing = ClientIP()
	}
	return func(r *http.Request) (string, error) {
		switch k, err := key(r); {
		case err != nil:
			return "", err
		case k != "":
			return prefix + k, nil
		}
		return missing(r)
	}
}

// User returns a function that counts by the user. principal returns the user's name, such as from the context into
// which the authentication has put it. A request without a user is counted by missing, and not together with all others
// without one; nil means ClientIP without proxies.
func User(principal func(*http.Request) string, missing KeyFunc) KeyFunc {
	return byName("user:", func(r *http.Request) (string, error) {
		if principal == nil {
			return "", nil
		}
		return principal(r), nil
	}, missing)
}

// Route returns a function that counts all requests to a route together: by the pattern that http.ServeMux has matched
// or, in front of a mux, by method and path. The path is decoded, cleaned, without parameters and in one case, so that
// other spellings of it have no account of their own. A client that varies the path has an account for each, so count
// by the address too.
func Route() KeyFunc {
	return func(r *http.Request) (string, error) {
		if r.Pattern != "" {
			return "route:" + r.Pattern, nil
		}
		return "route:" + r.Method + " " + canonical(r.URL), nil // equal to a pattern with a method, as a mux has it
	}
}

// Composite returns a function that counts by several keys at once. The length of each part precedes it, so that two
// lists of parts never make the same key, whatever characters they contain.
func Composite(parts ...KeyFunc) KeyFunc {
	parts = append([]KeyFunc(nil), parts...)
	return func(r *http.Request) (string, error) {
		if len(parts) == 0 {
			return "", errors.New("a composite key has no parts")
		}
		var b strings.Builder
		b.WriteString("all:")
		for _, part := range parts {
			key, err := part(r)
			if err != nil {
				return "", err
			}
			b.WriteString(strconv.Itoa(len(key)))
			b.WriteByte(':')
			b.WriteString(key)
		}
		return b.String(), nil
	}
}

const (
	// ipv6Bits is the prefix length by which IPv6 addresses are counted: that of the smallest network that a customer
	// gets (RFC 6177), who may use any address in it.
	ipv6Bits = 64

	// ipPrefix begins the keys that are addresses.
	ipPrefix = "ip:"

	// noAddress is the key of all peers without an address: they cannot be told apart.
	noAddress = ipPrefix + "none"
)

// The headers of proxies in the form of net/http's map.
const (
	forwardedFor = "X-Forwarded-For"
	realIP       = "X-Real-Ip"
)

// ClientIP returns a function that counts by the client's address: an IPv6 address by its /64, and an IPv4 address
// mapped into IPv6 as the IPv4 address.
//
// Without trusted prefixes that is the address of the connection, whatever headers say. If the connection comes from a
// trusted address, X-Forwarded-For is read from the right, where the nearest proxy wrote, to the left. The first
// address that is not trusted is the client's, because a trusted proxy saw it. If a hop cannot be read, the hop before
// it, to the right, counts as the client. Without that header X-Real-IP is read. A trusted proxy must set or remove the
// X-Forwarded-For of its clients; a proxy that only sets X-Real-IP passes on theirs. RFC 7239's Forwarded is not read.
//
// A peer without an address, as over a Unix socket, is as local as loopback: it is trusted if 127.0.0.1 or ::1 is. The
// function never returns an error.
func ClientIP(trusted ...netip.Prefix) KeyFunc {
	proxies := make(proxyList, 0, len(trusted))
	for _, p := range trusted {
		proxies = append(proxies, unmapPrefix(p))
	}
	return func(r *http.Request) (string, error) {
		if len(proxies) == 0 {
			if host := quad(r.RemoteAddr); host != "" { // the usual case
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

func unmapPrefix(p netip.Prefix) netip.Prefix {
	const mapped = 96 // bits in front of an IPv4 address that is mapped into IPv6
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked()
}

type proxyList []netip.Prefix

func (l proxyList) contains(a netip.Addr) bool {
	return slices.ContainsFunc(l, func(p netip.Prefix) bool { return p.Contains(a) })
}

// trust reports whether the peer is trusted. ok is false for a peer without an address.
func (l proxyList) trust(peer netip.Addr, ok bool) bool {
	if ok {
		return l.contains(peer)
	}
	return l.contains(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || l.contains(netip.IPv6Loopback())
}

func (l proxyList) client(h http.Header) (netip.Addr, bool) {
	if lines := h[forwardedFor]; len(lines) > 0 {
		return l.walk(lines)
	}
	if lines := h[realIP]; len(lines) == 1 { // with two lines, one came from the client
		return parseHop(lines[0])
	}
	return netip.Addr{}, false
}

// walk reads the lines, which together are one list, from the right. It allocates nothing: a client may send a megabyte
// of them. If all hops are trusted, the leftmost is the client.
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

// parseHop parses an address, which may have a port and brackets around it. It drops the zone, which means something
// only on the proxy that wrote it.
func parseHop(s string) (netip.Addr, bool) {
	s = textproto.TrimString(s)
	if s == "" {
		return netip.Addr{}, false
	}
	if last := s[len(s)-1]; last == ']' && s[0] == '[' {
		s = s[1 : len(s)-1]
		if !strings.Contains(s, ":") {
			return netip.Addr{}, false // only IPv6 addresses have brackets
		}
	} else if s[0] == '[' || strings.Count(s, ":") == 1 {
		ap, err := netip.ParseAddrPort(s)
		return ap.Addr().WithZone("").Unmap(), err == nil
	}
	a, err := netip.ParseAddr(s)
	return a.WithZone("").Unmap(), err == nil
}

// quad returns the host of a text like "192.0.2.1:4711", which the server writes for a connection over IPv4, without
// parsing the address and formatting it again. For every other text it returns the empty string.
func quad(s string) string {
	dots := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.':
			dots++
		case c == ':' && dots == 3:
			return s[:i]
		case c < '0' || c > '9':
			return ""
		}
	}
	return ""
}

func addrKey(a netip.Addr) string {
	const longest = len(ipPrefix + "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255/64")
	b := append(make([]byte, 0, longest), ipPrefix...)
	if a.Is4() {
		return string(a.AppendTo(b))
	}
	network, err := a.Prefix(ipv6Bits)
	if err != nil { // cannot happen: the address is valid and has 128 bits
		return noAddress
	}
	return string(network.AppendTo(b))
}
