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

// KeyFunc says who is counted for a request. It must be safe for concurrent use and must not change the request.
//
// Those of this package begin each key with what it is of, so that a user who calls himself "192.0.2.1" is not counted
// with that address. An error means that nobody can be counted; then the rule's OnError decides. Return one only for
// what a client cannot bring about, or it is a way round the limit.
type KeyFunc func(r *http.Request) (string, error)

// Global counts all requests together.
func Global() KeyFunc {
	return func(*http.Request) (string, error) { return "global", nil }
}

// Header counts by the first value of a header, such as X-API-Key, or by the Host, in
// lower case. A request without it is counted by missing: nil means ClientIP without proxies.
//
// Whoever invents a value has an account of his own for each. Count by a header behind
// what verifies it, or count by the address too.
func Header(name string, missing KeyFunc) KeyFunc {
	name = http.CanonicalHeaderKey(name)
	return byName("header:"+name+":", func(r *http.Request) (string, error) { // a name has no colon
		if name == "Host" { // which net/http takes out of the headers
			return strings.ToLower(r.Host), nil
		}
		if lines := r.Header[name]; len(lines) > 0 {
			return lines[0], nil
		}
		return "", nil
	}, missing)
}

// byName puts a prefix before what key says, and counts by missing if that is nothing.
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

// User counts by the user, whom principal names, such as from the context into which the authentication has put him.
// Who has no name is counted by missing, and not with all others who have none: nil means ClientIP without proxies.
func User(principal func(*http.Request) string, missing KeyFunc) KeyFunc {
	return byName("user:", func(r *http.Request) (string, error) {
		if principal == nil {
			return "", nil
		}
		return principal(r), nil
	}, missing)
}

// Route counts all requests to a route together: by the pattern that http.ServeMux has matched, or, in front of a mux,
// by method and path, decoded, cleaned, without parameters and in one case, so that other spellings of a path have no
// account of their own. A client that varies the path has one for each, so count by the address too.
func Route() KeyFunc {
	return func(r *http.Request) (string, error) {
		if r.Pattern != "" {
			return "route:" + r.Pattern, nil
		}
		return "route:" + r.Method + " " + canonical(r.URL), nil // a pattern with a method matches it there, too
	}
}

// Composite counts by several things at once. Each part comes after its length, so that
// two lists of parts never make one key, whatever characters are in them.
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

// ClientIP counts by the address of the client: an IPv6 one by its /64, and an IPv4 one mapped into IPv6 as itself.
//
// Without trusted prefixes that is the address of the connection, whatever headers say. If the connection comes from a
// trusted one, X-Forwarded-For is read from the right, where the nearest proxy wrote, to the left: the first address
// that is not trusted is the client's, because a trusted proxy saw it. A hop that cannot be read ends the walk at the
// hop before. Without that header X-Real-IP tells. A trusted proxy must set or remove the X-Forwarded-For of its
// clients; one that only sets X-Real-IP passes on theirs. RFC 7239's Forwarded is not read.
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
			if host := quad(r.RemoteAddr); host != "" { // nearly always
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
	const mapped = 96 // bits in front of the address
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked()
}

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

func (l proxyList) client(h http.Header) (netip.Addr, bool) {
	if lines := h[forwardedFor]; len(lines) > 0 {
		return l.walk(lines)
	}
	if lines := h[realIP]; len(lines) == 1 { // of two, one was passed on
		return parseHop(lines[0])
	}
	return netip.Addr{}, false
}

// walk reads the lines, which together are one list, from the right. It allocates nothing: a client may send a
// megabyte of them. If all hops are trusted the leftmost is the client.
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

// quad is the host of a text like "192.0.2.1:4711", as the server writes it of a connection, without
// reading it as a number and writing it again. Of all else it is empty.
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
	if err != nil { // there is an address, and it has 128 bits
		return noAddress
	}
	return string(network.AppendTo(b))
}
