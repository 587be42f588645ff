package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/fetch/access"
	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/internal/fetch/resolve"
)

// The words that stand in the place of a proxy.
const (
	// ProxyEnv takes the proxy that the environment names.
	ProxyEnv    = "env"
	ProxyDirect = "direct" // none, for the hosts of a rule
)

// errPrinted is for a secret that was printed, and must not become one by being read back.
var errPrinted = errors.New("has " + redacted + " where a secret stood when it was printed; give the secret again")

// auth is for credentials. Messages repeat nothing of them, nor of an item that may have them
// in the wrong place.
func auth(s string) error {
	switch {
	case s == "":
		return nil
	case strings.Contains(s, redacted):
		return errPrinted
	case printable(s) != nil:
		return errors.New("has characters that cannot be printed, or is too long; write it on one line")
	case access.Expands(s):
		return expandable(s)
	}
	_, err := access.ParseAuth(s)
	return err
}

func authItem(s string) error {
	match, rest, err := access.CutLogin(s)
	if err != nil {
		return err
	}
	if err := hostPattern(match); err != nil {
		return err
	}
	if err := auth(rest); err != nil {
		return fmt.Errorf("for %s %w", match, err)
	}
	return nil
}

// expandable checks the form of ${NAME}; whether there is such a variable is another matter.
func expandable(s string) error {
	_, err := access.Expand(s, func(string) (string, bool) { return "x", true })
	return err
}

// proxy is for the proxy of all hosts, hostProxy for that of some.
func proxy(s string) error {
	if s == "" || s == ProxyEnv {
		return nil
	}
	if access.Expands(s) {
		return expandable(s)
	}
	u, err := access.ParseProxy(s)
	switch {
	case err != nil:
		return err
	case u.User != nil && strings.Contains(u.User.String(), redacted):
		return errPrinted
	}
	return nil
}

func hostProxy(s string) error {
	switch s {
	case ProxyDirect:
		return nil
	case ProxyEnv:
		return errors.New("env is for access.proxy only; give a proxy, or direct for none")
	}
	return proxy(s)
}

func resolveItem(s string) error {
	_, err := resolve.ParseStatic(s)
	return err
}

func dnsServer(s string) error {
	if s == "" {
		return nil
	}
	_, err := resolve.ParseServer(s)
	return err
}

// redactAuth hides credentials, but not that they are in a variable.
func redactAuth(s string) string {
	if s == "" || strings.HasPrefix(s, "${") && strings.Index(s, "}") == len(s)-1 {
		return s
	}
	return redacted
}

func redactAuthItem(s string) string {
	match, rest, err := access.CutLogin(s)
	if err != nil {
		return redacted
	}
	return match + "=" + redactAuth(rest)
}

func redactProxy(s string) string { return access.RedactProxy(s, redacted) }

// SecretHeaders are the names of the headers that go to trusted hosts only.
func (f *Fetch) SecretHeaders() (names []string) {
	for _, line := range f.Headers {
		name, _, _ := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); (*redact.Redactor)(nil).SecretHeader(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// HasAccess reports whether the rule says who we are to its hosts, or how to reach them.
func (h *Host) HasAccess() bool {
	return len(h.Headers) > 0 || h.Auth+h.Proxy+h.Cert+h.Key != ""
}

func (l *loader) checkAccess() {
	a := &l.cfg.Access
	if a.Key != "" && a.Cert == "" {
		l.report("access.key", l.origins["access.key"], "is the key of a certificate that is missing; give access.cert (--cert) as well")
	}
	for i := range l.cfg.Hosts {
		if h := &l.cfg.Hosts[i]; h.Key != "" && h.Cert == "" {
			path := document.Item(hostsPath, i) + ".key"
			l.report(path, l.origins[path], "is the key of a certificate that is missing; give cert as well")
		}
	}
}

func (l *loader) warnAccess() {
	if names := l.cfg.Fetch.SecretHeaders(); len(names) > 0 {
		l.warnings = append(l.warnings, fmt.Sprintf("fetch.headers: %s goes only to the hosts that seeds name, as it looks like a credential; for other hosts give it under hosts",
			strings.Join(names, ", ")))
	}
	if u, err := url.Parse(l.cfg.Access.Proxy); err == nil && strings.HasPrefix(u.Scheme, "socks") && len(l.cfg.Access.Resolve) > 0 {
		l.warnings = append(l.warnings, "access.resolve: a proxy looks names up itself, so that this is for hosts without one only")
	}
}
