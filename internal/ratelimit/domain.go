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

// Patterns finds the first of several patterns that matches a host. A pattern is a host, "*.NAME" for all below a name, or
// "*" for all; without a port it matches all ports. The zero Patterns is empty.
type Patterns struct {
	exact map[string]int // "example.com", "example.com:8080"
	below map[string]int // ".example.com", ".example.com:8080"; "" is all hosts
}

// Add adds a pattern, in the form of [Domain], under its number, unless there is the same one already. It returns false
// if the pattern is invalid.
func (p *Patterns) Add(pattern string, i int) bool {
	if p.exact == nil {
		p.exact, p.below = make(map[string]int), make(map[string]int)
	}
	to, name := p.exact, pattern
	if rest, ok := strings.CutPrefix(pattern, "*."); ok {
		to, name = p.below, "."+rest
	}
	if pattern == "*" {
		to, name = p.below, ""
	} else if host := withoutPort(name); host == "" || host == "." || strings.ContainsAny(name, "*/ ") {
		return false
	}
	if _, ok := to[name]; !ok {
		to[name] = i
	}
	return true
}

// Find returns the lowest number of a pattern that matches a domain, in the form of [Domain]; -1 if none does.
func (p *Patterns) Find(domain string) int {
	first := -1
	see := func(m map[string]int, name string) {
		if i, ok := m[name]; ok && (first < 0 || i < first) {
			first = i
		}
	}
	host := withoutPort(domain)
	see(p.exact, host)
	see(p.exact, domain)
	see(p.below, "")
	if len(p.below) == 0 || strings.HasPrefix(host, "[") {
		return first
	}
	for i := 1; i < len(host); i++ {
		if host[i] == '.' {
			see(p.below, host[i:])
			see(p.below, domain[i:])
		}
	}
	return first
}

func withoutPort(domain string) string {
	colon := strings.LastIndexByte(domain, ':')
	if colon < 0 || strings.HasSuffix(domain, "]") {
		return domain
	}
	return domain[:colon]
}
