// Package endpoint parses the address of a console and the URL of a trace collector as people write them. It is separate
// from both, so that programs that only check settings link neither.
package endpoint

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
)

// Address is the address at which a console listens. The zero Address stands for none.
type Address struct{ at netip.AddrPort }

// minToken is the least length of a token, the same as in package admission: a shorter one can be guessed at the rate
// at which a server responds.
const minToken = 16

// ErrToken means that a token is too short to be a secret.
var ErrToken = errors.New("the token is too short")

// ParseAddress parses an address as a person types it: an IP address or "localhost" with a port; or a port alone, with
// or without a colon, which means the loopback address. Port 0 means any free port. Other names are errors, because a
// name server decides which addresses they have.
func ParseAddress(text string) (Address, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = "", text
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Address{}, fmt.Errorf("%q is no address to listen at; give a port, as 8080, or ADDRESS:PORT", text)
	}
	if host == "" || strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return Address{}, fmt.Errorf("%q has a name; give an IP address or localhost, and a port", text)
	}
	return Address{netip.AddrPortFrom(ip.Unmap(), uint16(n))}, nil
}

// Check returns an error if a console must not listen at the address with that token. Empty means no token.
func (a Address) Check(token string) error {
	switch {
	case !a.at.IsValid():
		return errors.New("the address to listen at is missing: give ADDRESS:PORT")
	case token != "" && len(token) < minToken:
		return fmt.Errorf("%w: %d bytes; use %d or more, chosen at random", ErrToken, len(token), minToken)
	case token == "" && !a.at.Addr().IsLoopback():
		return fmt.Errorf("%v can be reached from other computers, and whoever reaches it steers the crawl: "+
			"set a token, or listen at 127.0.0.1:%d", a.at, a.at.Port())
	}
	return nil
}

// Listen opens the socket, and returns the address with the actual port.
func (a Address) Listen() (net.Listener, Address, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(a.at))
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w: another program listens there; give another port, or 0 for a free one", err)
	}
	if err != nil {
		return nil, a, err
	}
	got, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return nil, a, errors.Join(err, l.Close())
	}
	return l, Address{netip.AddrPortFrom(a.at.Addr(), got.Port())}, nil
}

// Port returns the port. Zero means any free port.
func (a Address) Port() uint16 { return a.at.Port() }

// URL returns the URL of the console as seen from this computer.
func (a Address) URL() string {
	host := a.at.Addr()
	switch {
	case host == netip.IPv4Unspecified():
		host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case host == netip.IPv6Unspecified():
		host = netip.IPv6Loopback()
	}
	return "http://" + netip.AddrPortFrom(host, a.at.Port()).String() + "/"
}

// AnswersTo reports whether a request with that host may be meant for a console at this address.
func (a Address) AnswersTo(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	ip = ip.Unmap().WithZone("")
	return ip.IsLoopback() || a.at.Addr().IsUnspecified() || ip == a.at.Addr().WithZone("")
}

// ParseCollector parses the URL of a collector as a person types it, and returns the URL to which spans are sent.
func ParseCollector(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New(`is no URL of a collector; write it as "http://localhost:4318"`)
	case u.User != nil:
		return nil, errors.New("has credentials; give them as a header (traces.headers)")
	case u.Port() == "4317":
		return nil, errors.New("has the port of OTLP over gRPC; give that of OTLP over HTTP, which is 4318")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	u.Fragment = ""
	return u, nil
}
