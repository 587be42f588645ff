// Package canonical gives every resource one spelling.
//
// A [URL] is an immutable, comparable value that holds the canonical string; it is made by [Parse] from text that
// people or files give, and by [URL.Resolve] from the links of pages. Two URLs are the same resource exactly when
// they are ==.
//
// The canonical string is the WHATWG serialisation of an http or https URL, and further:
//
//   - There is no fragment.
//   - Hex digits of escapes are upper case, and an escaped unreserved character (RFC 3986 §2.3)
//     is unescaped. A "%" that escapes nothing stays, and never becomes part of an escape.
//   - A host name has no trailing dot.
//   - An empty query stays: by RFC 3986 §6.2.3 "/?" may be another resource than "/".
//
// Other schemes ([ErrScheme]), credentials, names that DNS cannot hold and anything longer than [MaxLength]
// ([ErrLong]) are refused. What may merge resources that differ, such as sorting parameters, is left to [Rules].
//
// Path, query and relative references are resolved here, in one pass and one allocation, because pages hold many
// links; host names other than plain ones go through nlnwa/whatwg-url, for IDNA and the many forms of IP addresses.
// Fuzz tests compare both on every input.
package canonical

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// MaxLength is the longest canonical string, in bytes: servers refuse longer request lines (8 KiB by default in
// Apache and nginx).
const MaxLength = 8 << 10

// ErrScheme says that a reference has another scheme than http or https, such as mailto:, javascript: or data:.
var ErrScheme = errors.New("scheme is not http or https")

// ErrLong says that a reference, or the URL it resolves to, is longer than [MaxLength].
var ErrLong = fmt.Errorf("longer than %d bytes", MaxLength)

var (
	errEmpty    = errors.New("empty URL")
	errRelative = errors.New("no scheme in front: write https:// before it")
	errUserinfo = errors.New("credentials in a URL would end up in records: remove the part before the @")
	errNoHost   = errors.New("no host")
	errHost     = errors.New("not a valid host or port")
	errLabel    = errors.New("host name has an empty label")
	errLongHost = errors.New("host name is longer than 253 bytes")
)

// URL is one resource. The zero URL is none: IsZero is true and every part is empty. Values may be compared with ==
// and used as map keys.
type URL struct {
	s    string
	host uint16 // where the host begins
	port uint16 // where the host name ends: at ":", or at the path
	path uint16 // where the path begins
}

// Parse reads an absolute http or https URL. The error says what is wrong and never repeats credentials.
func Parse(s string) (URL, error) {
	u, err := URL{}.Resolve(s)
	if err != nil {
		return URL{}, explain(s, err)
	}
	return u, nil
}

// Resolve resolves ref as a link in the document u: absolute, relative, or only a fragment, which is u itself. It
// never panics. The error wraps [ErrScheme] for another scheme.
func (u URL) Resolve(ref string) (URL, error) { return resolve(u, ref) }

// ResolveBytes is Resolve for a buffer, of which it keeps nothing.
func (u URL) ResolveBytes(ref []byte) (URL, error) { return resolve(u, ref) }

func (u URL) String() string { return u.s }

// IsZero reports whether u is no URL at all.
func (u URL) IsZero() bool { return u.s == "" }

// Scheme is "http" or "https".
func (u URL) Scheme() string {
	if u.s == "" {
		return ""
	}
	return u.s[:u.host-uint16(len("://"))]
}

// Host is the lower-case ASCII name or address, with the port unless it is the default.
func (u URL) Host() string { return u.s[u.host:u.path] }

// Hostname is the host without port and, for IPv6, without brackets.
func (u URL) Hostname() string {
	return strings.Trim(u.s[u.host:u.port], "[]")
}

// Origin is scheme://host[:port].
func (u URL) Origin() string { return u.s[:u.path] }

// Path is the path with the query, as in a request line. It begins with "/".
func (u URL) Path() string { return u.s[u.path:] }

// Dir is the canonical string up to the last slash of its path, inclusive.
func (u URL) Dir() string {
	end := u.path
	if u.s == "" {
		return ""
	}
	for i, c := range []byte(u.s[u.path:]) {
		if c == '?' {
			break
		}
		if c == '/' {
			end = u.path + uint16(i)
		}
	}
	return u.s[:end+1]
}

// HostPath is the canonical string without its scheme.
func (u URL) HostPath() string { return u.s[u.host:] }

// Parsed is u for net/url, made without a parse if all its characters are ordinary ones. It is never nil.
func (u URL) Parsed() *url.URL {
	for _, c := range []byte(u.s[u.host:]) {
		if !ordinary[c] {
			parsed, err := url.Parse(u.s)
			if err != nil { // as for a "%" that escapes nothing
				return &url.URL{Opaque: u.s}
			}
			return parsed
		}
	}
	return &url.URL{Scheme: u.Scheme(), Host: u.Host(), Path: u.Path()}
}

// ordinary are characters of a host or path that net/url has as they are.
var ordinary = func() (is [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/$&+,:;=@") {
		is[c] = true
	}
	return is
}()

// Fingerprint is a 64-bit hash of the canonical string under the secret key of one crawl. It does not allocate.
func (u URL) Fingerprint(key uint64) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(key)
	_, _ = d.WriteString(u.s) // a hash has nowhere to fail
	return d.Sum64()
}

// Restore is the URL whose String is s, ten times as fast as Parse. It does not validate: s must come from String in
// this process.
func Restore(s string) URL {
	host := len("http://")
	if s[len("http")] == 's' {
		host++
	}
	path := host + strings.IndexByte(s[host:], '/')
	port := path
	if i := strings.LastIndexByte(s[host:path], ':'); i >= 0 && s[path-1] != ']' {
		port = host + i
	}
	return URL{s: s, host: uint16(host), port: uint16(port), path: uint16(path)}
}

func explain(s string, err error) error {
	if strings.ContainsRune(s, '@') { // may hold a password
		return err
	}
	const shown = 200 // bytes
	if len(s) > shown {
		s = s[:shown] + "…"
	}
	if host, port, ok := strings.Cut(s, ":"); ok && errors.Is(err, ErrScheme) && port != "" && port[0] >= '0' && port[0] <= '9' {
		return fmt.Errorf("%q: %w: is %q a host? write https:// before it", s, err, host)
	}
	return fmt.Errorf("%q: %w", s, err)
}
