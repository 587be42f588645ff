package ratelimit

import (
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Domain is the name of a URL's host for its limits: lower case, ASCII (IDNA), without a trailing dot or port 80 or
// 443, so that http and https share one budget. Other ports stay. IPv6 addresses are bracketed and canonical; mapped
// IPv4 ones are IPv4. An invalid name is only lowered. Domain(Domain(h)) is Domain(h).
//
// A name in this form is returned without allocation.
func Domain(host string) string {
	if isClean(host) {
		return host
	}
	name, port := splitPort(strings.TrimRight(host, "."))
	if addr, ok := literal(name); ok {
		name = addr
	} else {
		name = strings.TrimRight(strings.ToLower(name), ".")
		if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
			if mapped, err := idna.Lookup.ToASCII(name); err == nil { // as a browser looks it up
				name = strings.TrimRight(mapped, ".")
			}
		}
	}
	if port != "" {
		name += ":" + port
	}
	return name
}

// cleanByte has the bytes of domains; a table is twice as fast as comparisons in every Acquire.
var cleanByte = func() (table [256]bool) {
	for _, c := range "abcdefghijklmnopqrstuvwxyz0123456789-_" {
		table[c] = true
	}
	return table
}()

func isClean(host string) bool {
	for i := range len(host) {
		c := host[i]
		if cleanByte[c] {
			continue
		}
		if c == ':' {
			port := host[i+1:]
			return isDigits(port) && port[0] != '0' && port != "80" && port != "443"
		}
		if c != '.' || i+1 == len(host) || host[i+1] == ':' {
			return false
		}
	}
	return true
}

func isDigits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// splitPort cuts a port off, and drops a default one. Several colons without brackets are an IPv6 address.
func splitPort(host string) (name, port string) {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.LastIndexByte(host, ']') > colon {
		return host, ""
	}
	if strings.IndexByte(host, ':') != colon && host[colon-1] != ']' {
		return host, ""
	}
	name, port = host[:colon], host[colon+1:]
	if port != "" && !isDigits(port) {
		return host, "" // no port, so part of some broken name
	}
	port = strings.TrimLeft(port, "0")
	if port == "80" || port == "443" {
		port = ""
	}
	return name, port
}

func literal(name string) (string, bool) {
	inner, bracketed := strings.CutPrefix(name, "[")
	if bracketed {
		inner = strings.TrimSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(inner)
	if err != nil {
		return "", false
	}
	if addr = addr.Unmap(); addr.Is4() {
		return addr.String(), true
	}
	return "[" + addr.String() + "]", true
}
