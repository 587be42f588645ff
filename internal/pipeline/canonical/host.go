package canonical

import (
	"strings"

	whatwg "github.com/nlnwa/whatwg-url/url"
)

const (
	// maxHost is the longest name DNS can hold, RFC 1035 §2.3.4.
	maxHost = 253
	// maxAuthority bounds what we let the library look at. A name of 253 bytes can
	// be longer in the page, as UTF-8 that is escaped on top, but not ten times.
	maxAuthority = 10 * maxHost
)

// appendHost appends the host of an authority, with its port unless it is the
// scheme's own. Most pages link to their own host, and most others have plain names.
func appendHost[T text](dst []byte, base URL, scheme string, authority T) ([]byte, error) {
	if string(authority) == base.Host() && scheme == base.Scheme() {
		return append(dst, authority...), nil
	}
	if index(authority, '@') < len(authority) {
		return nil, errUserinfo
	}
	if len(authority) == 0 {
		return nil, errNoHost
	}
	if out, ok := appendPlainHost(dst, authority); ok {
		return out, nil
	}
	host, err := parseHost(scheme, authority)
	return append(dst, host...), err
}

// appendPlainHost appends a name of letters, digits, hyphens and underscores without
// a port, in lower case. It is not ok if the name needs a closer look: a last label
// that begins with a digit may be an IPv4 address, and one with "--" in third place
// may be punycode to be checked.
func appendPlainHost[T text](dst []byte, name T) ([]byte, bool) {
	if len(name) > maxHost {
		return nil, false
	}
	label := 0 // where the current one begins
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '.' && i > label:
			label = i + 1
		case classes[c]&inHost == 0, c == '-' && i == label+3:
			return nil, false
		}
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	if label == len(name) || classes[name[label]]&alpha == 0 {
		return nil, false
	}
	return dst, true
}

// parseHost hands an authority to the library and holds the answer against what DNS
// can look up.
func parseHost[T text](scheme string, authority T) (string, error) {
	if len(authority) > maxAuthority {
		return "", errLongHost
	}
	u, err := whatwg.Parse(scheme + "://" + string(authority) + "/")
	if err != nil {
		return "", errHost
	}
	name := strings.TrimSuffix(u.Hostname(), ".")
	switch {
	case name == "":
		return "", errNoHost
	case len(name) > maxHost:
		return "", errLongHost
	case name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, ".."):
		return "", errLabel
	}
	if port := u.Port(); port != "" {
		name += ":" + port
	}
	return name, nil
}
