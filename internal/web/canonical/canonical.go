// Package canonical gives every resource one spelling of its URL.
//
// A [URL] is an immutable, comparable value that holds the canonical string. It is made by [Parse] from text of people
// or files, and by [URL.Resolve] from the links of pages. Two URLs are the same resource exactly if they are ==.
//
// The canonical string is the WHATWG serialization of an http or https URL, with these differences:
//
//   - There is no fragment.
//   - Hex digits of escapes are upper case, and an escaped unreserved character (RFC 3986 §2.3)
//     is unescaped. A "%" that escapes nothing is kept, and never becomes part of an escape.
//   - A host name has no trailing dot.
//   - An empty query is kept: by RFC 3986 §6.2.3 "/?" may be a different resource than "/".
//
// Other schemes ([ErrScheme]), credentials, names that DNS cannot hold and URLs longer than [MaxLength] ([ErrLong]) are
// errors. Changes that may merge different resources, such as sorting parameters, are left to [Rules].
//
// Path, query and relative references are resolved here, in one pass with one allocation, because pages have many links.
// Host names other than plain ones are parsed by nlnwa/whatwg-url, for IDNA and the many forms of IP addresses. Fuzz
// tests compare both on every input.
package canonical

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// MaxLength bounds a canonical string, in bytes: servers refuse longer request lines (8 KiB by default in Apache and
// nginx).
const MaxLength = 8 << 10

// ErrScheme says that a reference has a scheme other than http or https, such as mailto:, javascript: or data:.
var ErrScheme = errors.New("scheme is not http or https")

// ErrLong says that a reference, or the URL it resolves to, is longer than [MaxLength].
var ErrLong = fmt.Errorf("longer than %d bytes", MaxLength)

var (
	errEmpty    = errors.New("empty URL")
	errRelative = errors.New("no scheme in front: write https:// before it")
	errUserinfo = errors.New("credentials in a URL would end up in records: remove the part before the @, and give it as --auth HOST=user:password")
	errNoHost   = errors.New("no host")
	errHost     = errors.New("not a valid host or port")
	errLabel    = errors.New("host name has an empty label")
	errLongHost = errors.New("host name is longer than 253 bytes")
)

// URL identifies one resource. The zero URL stands for none: IsZero is true and every part is empty. Values may be
// compared with == and used as map keys.
type URL struct {
	s    string
	host uint16 // where the host begins
	port uint16 // where the host name ends: at ":", or at the path
	path uint16 // where the path begins
}

// Parse parses an absolute http or https URL. The error says what is wrong and never repeats credentials.
func Parse(s string) (URL, error) {
	u, err := URL{}.Resolve(s)
	if err != nil {
		return URL{}, explain(s, err)
	}
	return u, nil
}

// Resolve resolves ref as a link in the document u. It may be absolute, relative, or only a fragment, which gives u
// itself. It never panics. For another scheme the error wraps [ErrScheme].
func (u URL) Resolve(ref string) (URL, error) { return resolve(u, ref) }

// ResolveBytes is Resolve for a byte slice, which it does not keep.
func (u URL) ResolveBytes(ref []byte) (URL, error) { return resolve(u, ref) }

func (u URL) String() string { return u.s }

// IsZero reports whether u is the zero URL.
func (u URL) IsZero() bool { return u.s == "" }

// Scheme returns "http" or "https".
func (u URL) Scheme() string {
	if u.s == "" {
		return ""
	}
	return u.s[:u.host-uint16(len("://"))]
}

// Host returns the name or address in lower-case ASCII, with the port unless it is the default.
func (u URL) Host() string { return u.s[u.host:u.path] }

// Hostname returns the host without port and, for IPv6, without brackets.
func (u URL) Hostname() string {
	return strings.Trim(u.s[u.host:u.port], "[]")
}

// Origin returns scheme://host[:port].
func (u URL) Origin() string { return u.s[:u.path] }

// Path returns the path with the query, as in a request line. It begins with "/".
func (u URL) Path() string { return u.s[u.path:] }

// Dir returns the canonical string up to and including the last slash of its path.
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

// HostPath returns the canonical string without its scheme.
func (u URL) HostPath() string { return u.s[u.host:] }

// Parsed returns u as a *url.URL, without parsing if all its characters are ordinary. It is never nil.
func (u URL) Parsed() *url.URL {
	for _, c := range []byte(u.s[u.host:]) {
		if !ordinary[c] {
			parsed, err := url.Parse(u.s)
			if err != nil { // for example for a "%" that escapes nothing
				return &url.URL{Opaque: u.s}
			}
			return parsed
		}
	}
	return &url.URL{Scheme: u.Scheme(), Host: u.Host(), Path: u.Path()}
}

// ordinary are the characters of hosts and paths that net/url leaves as they are.
var ordinary = func() (is [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/$&+,:;=@") {
		is[c] = true
	}
	return is
}()

// Fingerprint returns a 64-bit hash of the canonical string, seeded with the secret key of a crawl. It does not
// allocate.
func (u URL) Fingerprint(key uint64) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(key)
	_, _ = d.WriteString(u.s) // never fails
	return d.Sum64()
}

// Restore returns the URL whose String is s, ten times as fast as Parse. It does not validate: s must be the result of
// String in this process.
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
