package http1

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Request is a GET, unless it has a Method. The zero Request is an error.
type Request struct {
	Method    string     // empty means GET; other methods use a new connection, as they may not be sent twice
	Body      []byte     // sent as it is, with its length; nil means none
	TLS       bool       // uses https
	Host      string     // as in a URL: a name or an address, with a port unless it is the default; required
	Target    string     // path and query, or the absolute form; required
	Fields    []byte     // the header as [AppendHeader] writes it, without Host
	Recording *Recording // records the exchange; nil records nothing
}

var (
	errMethod = errors.New("http1: a method that would break the request")
	errHost   = errors.New("http1: no host that can be asked")
	errTarget = errors.New("http1: a request target that would break the request")
	errHeader = errors.New("http1: a header field that would break the request")
)

// check refuses requests that would end a line early, or that name no host.
func (r *Request) check() error {
	if r.Host == "" || r.Host[0] == ':' || !Visible(r.Host) || !httpguts.ValidHostHeader(r.Host) {
		return errHost
	}
	if r.Target == "" || !Visible(r.Target) {
		return errTarget
	}
	if !httpguts.ValidHeaderFieldName(r.method()) {
		return errMethod
	}
	return nil
}

// Visible reports whether s has only visible ASCII characters. Others would break the request line.
func Visible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// AppendTo appends the request as it is sent (RFC 9112, 3).
func (r *Request) AppendTo(b []byte) []byte {
	b = append(append(append(append(b, r.method()...), ' '), r.Target...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, withoutZone(r.Host)...), "\r\n"...)
	b = append(b, r.Fields...)
	if len(r.Body) > 0 || r.method() == http.MethodPost {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(r.Body)), 10), "\r\n"...)
	}
	return append(append(b, "\r\n"...), r.Body...)
}

func (r *Request) method() string { return cmp.Or(r.Method, http.MethodGet) }

// AppendHeader appends the fields of h except Host, User-Agent first and the others by name. It fails if a field would
// break the request.
func AppendHeader(b []byte, h http.Header) ([]byte, error) {
	for _, name := range inOrder(h) {
		if !httpguts.ValidHeaderFieldName(name) {
			return b, errHeader
		}
		for _, v := range h[name] {
			if !httpguts.ValidHeaderFieldValue(v) {
				return b, errHeader
			}
			b = append(append(append(append(b, name...), ": "...), v...), "\r\n"...)
		}
	}
	return b, nil
}

func inOrder(h http.Header) []string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(h)), func(name string) bool { return http.CanonicalHeaderKey(name) == "Host" })
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return names
}

func rank(name string) int {
	if name == "User-Agent" {
		return 0
	}
	return 1
}

// withoutZone removes the zone of an IPv6 address, which only has a meaning on this machine (RFC 6874, 4).
func withoutZone(host string) string {
	if host[0] != '[' {
		return host
	}
	from, to := strings.IndexByte(host, '%'), strings.LastIndexByte(host, ']')
	if from < 0 || to < from {
		return host
	}
	return host[:from] + host[to:]
}

func (r *Request) address() string {
	port := "80"
	if r.TLS {
		port = "443"
	}
	i := strings.LastIndexByte(r.Host, ':')
	switch {
	case i <= strings.LastIndexByte(r.Host, ']'):
		return r.Host + ":" + port
	case i == len(r.Host)-1: // "host:" means the default port, too
		return r.Host + port
	}
	return r.Host
}
