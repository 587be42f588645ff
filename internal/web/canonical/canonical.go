// Package canonical gives every resource one spelling.
//
// A [URL] is an immutable, comparable value that holds the canonical string; the
// only ways to make one are [Parse], for what people type and files list, and
// [URL.Resolve], for what pages link to. Two URLs are the same resource exactly
// when they are ==, so the seen-set, the frontier and the records need no rule of
// their own.
//
// The canonical string is the WHATWG serialisation of an http or https URL with
// these additions:
//
//   - The fragment is gone: it is never sent.
//   - Escapes are normal: hex digits are upper case, and an escaped unreserved
//     character (RFC 3986 §2.3) stands for itself. A "%" that escapes nothing stays
//     as it was written; what follows it is never joined to it.
//   - A host name has no trailing dot. "example.com." is the same machine, and two
//     spellings would be two politeness budgets.
//   - An empty query stays: RFC 3986 §6.2.3 lets "/?" be another resource than "/".
//
// Refused are other schemes ([ErrScheme], so that mailto: and javascript: can be
// told from mistakes), credentials, names that DNS cannot hold, and anything longer
// than [MaxLength] ([ErrLong]). Neither sorting of parameters nor removal of tracking
// parameters happens here: both can merge resources that differ.
//
// # Why not only a library
//
// Pages hold more links than a crawl holds anything else. Path, query and relative
// references are resolved here, in one pass and one allocation; host names other
// than plain lower-case ones go through nlnwa/whatwg-url, because IDNA and the many
// forms of IP addresses are where hand-written code goes wrong. The fuzz tests hold
// the two together: for every input this package and the library agree.
package canonical

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// MaxLength is the longest canonical string, in bytes. Servers refuse request
// lines beyond 8 KiB (the default of Apache and nginx), and a longer link is almost
// always a trap that grows on every page.
const MaxLength = 8 << 10

// ErrScheme says that a reference is well formed as far as it was read but asks for
// something other than http or https, such as mailto:, javascript: or data:.
var ErrScheme = errors.New("scheme is not http or https")

// ErrLong says that a reference, or the URL it stands for, is longer than [MaxLength].
var ErrLong = fmt.Errorf("longer than %d bytes", MaxLength)

// What else can be wrong. Callers treat all of these alike, so they have no names
// outside of this package.
var (
	errEmpty    = errors.New("empty URL")
	errRelative = errors.New("no scheme in front: write https:// before it")
	errUserinfo = errors.New("credentials in a URL would end up in records: remove the part before the @")
	errNoHost   = errors.New("no host")
	errHost     = errors.New("not a valid host or port")
	errLabel    = errors.New("host name has an empty label")
	errLongHost = errors.New("host name is longer than 253 bytes")
)

// URL is one resource. The zero URL is none: IsZero is true and every part is
// empty. Values are immutable, may be compared with == and used as map keys, and
// share the memory of one string.
type URL struct {
	s    string
	host uint16 // where the host begins
	port uint16 // where the host name ends: at ":", or at the path
	path uint16 // where the path begins
}

// Parse reads an absolute http or https URL as a person types it or a file lists
// it. The error says what is wrong and never repeats credentials.
func Parse(s string) (URL, error) {
	u, err := URL{}.Resolve(s)
	if err != nil {
		return URL{}, explain(s, err)
	}
	return u, nil
}

// Resolve reads ref as a link found in the document base: absolute, relative to the
// scheme, the host, the directory or the query, or only a fragment, which is base
// itself. It never panics. An error wraps [ErrScheme] if ref is for another scheme.
func (u URL) Resolve(ref string) (URL, error) { return resolve(u, ref) }

// ResolveBytes is Resolve for a reference that lies in a buffer. It keeps no part of
// ref.
func (u URL) ResolveBytes(ref []byte) (URL, error) { return resolve(u, ref) }

// String is the canonical spelling.
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

// Host is the politeness key: the lower-case ASCII name or address, with the port
// unless it is the scheme's own.
func (u URL) Host() string { return u.s[u.host:u.path] }

// Hostname is the host without port and, for IPv6, without brackets.
func (u URL) Hostname() string {
	return strings.Trim(u.s[u.host:u.port], "[]")
}

// Origin is scheme://host[:port], what robots.txt is fetched from.
func (u URL) Origin() string { return u.s[:u.path] }

// Path is the path with the query: what a request line asks for. It begins with "/".
func (u URL) Path() string { return u.s[u.path:] }

// Dir is the canonical string up to and including the last slash of its path: what
// references relative to a page are relative to.
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

// HostPath is Host and Path in one piece: the canonical string without its scheme.
func (u URL) HostPath() string { return u.s[u.host:] }

// Fingerprint is a 64-bit hash of the canonical string under key. The key belongs
// to one crawl, so that nobody outside can choose URLs that collide. It does not
// allocate.
func (u URL) Fingerprint(key uint64) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(key)
	_, _ = d.WriteString(u.s) // a hash has nowhere to fail
	return d.Sum64()
}

// AppendText appends the canonical string, and with UnmarshalText lets a URL stand
// in files and configuration.
func (u URL) AppendText(b []byte) ([]byte, error) { return append(b, u.s...), nil }

// MarshalText is the canonical string.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.s), nil }

// UnmarshalText reads what MarshalText wrote, or any other spelling. Empty text is
// the zero URL.
func (u *URL) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*u = URL{}
		return nil
	}
	v, err := Parse(string(text))
	if err == nil {
		*u = v
	}
	return err
}

// Restore is the URL of which s is the String, at a tenth of what Parse takes. It does not look
// whether s is one: of any other string the parts are wrong, or it panics. So s is what this
// process was told by String, and nothing that was stored outside of it.
func Restore(s string) URL { return view(s) }

// view finds the parts of a string that is canonical already.
func view(s string) URL {
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

// explain puts err into words for the person who wrote s.
func explain(s string, err error) error {
	if strings.ContainsRune(s, '@') { // may hold a password
		return err
	}
	const shown = 200 // enough to find the line, short enough for a terminal
	if len(s) > shown {
		s = s[:shown] + "…"
	}
	if host, port, ok := strings.Cut(s, ":"); ok && errors.Is(err, ErrScheme) && port != "" && port[0] >= '0' && port[0] <= '9' {
		return fmt.Errorf("%q: %w: is %q a host? write https:// before it", s, err, host)
	}
	return fmt.Errorf("%q: %w", s, err)
}
