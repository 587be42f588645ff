package canonical

import (
	"strings"

	whatwg "github.com/nlnwa/whatwg-url/url"
)

const (
	maxHost      = 253          // RFC 1035 §2.3.4
	maxAuthority = 10 * maxHost // given to the library: escaped UTF-8 is longer than the name
)

// appendHost appends the host of an authority, with its port unless it is the default. Most
// links are to their own host, and most others have plain names.
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
	if out, ok := appendPlainHost(dst, scheme, authority); ok {
		return out, nil
	}
	host, err := parseHost(scheme, authority)
	return append(dst, host...), err
}

// appendPlainHost appends a plain name (letters, digits, hyphens, underscores) or dotted IPv4
// address in lower case, with its port unless it is the default. It is not ok for anything else:
// other forms of numbers may be addresses, and "--" in third place may be punycode.
func appendPlainHost[T text](dst []byte, scheme string, authority T) ([]byte, bool) {
	colon := index(authority, ':')
	dst, ok := appendPlainName(dst, authority[:colon])
	if !ok || colon == len(authority) {
		return dst, ok
	}
	port := authority[colon+1:]
	if !isPlainNumber(port, 0xffff) {
		return nil, false
	}
	if string(port) == defaultPort(scheme) {
		return dst, true
	}
	return append(append(dst, ':'), port...), true
}

func appendPlainName[T text](dst []byte, name T) ([]byte, bool) {
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
	switch {
	case label == len(name):
		return nil, false
	case classes[name[label]]&alpha == 0: // such a last label makes it an address, or nothing
		return dst, isPlainIPv4(name)
	}
	return dst, true
}

// isPlainIPv4 matches four decimal numbers without leading zeros.
func isPlainIPv4[T text](s T) bool {
	for range 3 {
		dot := index(s, '.')
		if dot == len(s) || !isPlainNumber(s[:dot], 0xff) {
			return false
		}
		s = s[dot+1:]
	}
	return isPlainNumber(s, 0xff)
}

// isPlainNumber matches a decimal number up to limit without leading zeros.
func isPlainNumber[T text](s T, limit int) bool {
	if len(s) == 0 || s[0] == '0' && len(s) > 1 {
		return false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
		if n = 10*n + int(s[i]-'0'); n > limit {
			return false
		}
	}
	return true
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// parseHost uses the library, and checks that DNS can hold the result.
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
