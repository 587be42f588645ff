package access

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// ParseAuth returns the value of the Authorization field for "user:password" (Basic, RFC 7617) or "bearer TOKEN" (RFC
// 6750). Its errors do not repeat any of it.
func ParseAuth(s string) (string, error) {
	if scheme, token, ok := strings.Cut(s, " "); ok && strings.EqualFold(scheme, "bearer") {
		token = strings.TrimSpace(token)
		if token == "" || strings.ContainsAny(token, " \t") || !httpguts.ValidHeaderFieldValue(token) {
			return "", errors.New(`has no token that can be sent; write "bearer TOKEN", without spaces in the token`)
		}
		return "Bearer " + token, nil
	}
	if user, _, ok := strings.Cut(s, ":"); !ok || user == "" {
		return "", errors.New(`is neither "user:password" nor "bearer TOKEN"; write one of them`)
	}
	return login(s)
}

// login returns the value for "user:password". Control characters are an error (RFC 7617 section 2).
func login(pair string) (string, error) {
	for i := range len(pair) {
		if pair[i] < ' ' || pair[i] == 0x7f {
			return "", errors.New("has control characters; remove them")
		}
	}
	return Basic(pair), nil
}

// Basic returns the value of Authorization or Proxy-Authorization for "user:password".
func Basic(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }

// CutLogin splits "HOST=AUTH" into a pattern for hosts and text for ParseAuth.
func CutLogin(s string) (match, auth string, err error) {
	match, auth, ok := strings.Cut(s, "=")
	if !ok || match == "" || auth == "" {
		return "", "", errors.New(`has no host with its credentials; write "HOST=user:password" or "HOST=bearer TOKEN"`)
	}
	return match, auth, nil
}

// proxyPorts has the default ports of proxies, by scheme.
var proxyPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

var errProxy = errors.New("is no proxy; write http://, https:// or socks5:// with a host and a port, and user:password@ before it if need be")

// ParseProxy parses the URL of a proxy: http (the default), https or socks5 (or socks5h, which is the same here: the
// proxy looks names up). The result has a port. Its errors do not repeat any of it.
func ParseProxy(s string) (*url.URL, error) {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, errProxy // the error of url.Parse contains the password
	}
	port, ok := proxyPorts[u.Scheme]
	if !ok || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errProxy
	}
	if strings.Contains(u.Hostname(), ":") {
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			return nil, errProxy
		}
	}
	u.Path, u.RawPath = "", ""
	if u.Port() == "" {
		u.Host = strings.TrimSuffix(u.Host, ":") + ":" + port
	}
	return u, nil
}

// RedactProxy returns the URL of a proxy with its user and password replaced by mask.
func RedactProxy(s, mask string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		scheme, rest = "", s
	} else {
		scheme += "://"
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		return scheme + mask + "@" + rest[i+1:]
	}
	return s
}

// Expand replaces ${NAME} by the value of the variable; $${ stands for a literal ${. The error names a variable that is
// unknown or empty.
func Expand(s string, lookup func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		name, rest, ok := strings.Cut(s[i+2:], "}")
		if !ok || name == "" {
			return "", errors.New("has a ${ without a name and a }; write ${NAME}, or $${ for the characters themselves")
		}
		value, ok := lookup(name)
		if !ok || value == "" {
			return "", fmt.Errorf("takes the variable %s, which is not set; set it, or write $${ for the characters themselves", name)
		}
		b.WriteString(s[:i] + value)
		s = rest
	}
}

// Expands reports whether Expand would look up a variable, or would fail.
func Expands(s string) bool {
	_, err := Expand(s, func(string) (string, bool) { return "", false })
	return err != nil
}
