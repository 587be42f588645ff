package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/fetch/access"
	"github.com/treadlight/crawl/internal/observe/endpoint"
)

// Words that may be given instead of a proxy.
const (
	// ProxyEnv means the proxy that the environment names.
	ProxyEnv    = "env"
	ProxyDirect = "direct" // no proxy
)

// errPrinted is the error for a redacted secret, which must not be read back as if it were the secret.
var errPrinted = errors.New("has " + redacted + " where a secret stood when it was printed; give the secret again")

// auth checks credentials. Its messages repeat nothing of them, nor of an item that may contain them in the wrong
// place.
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
	if file, ok := strings.CutPrefix(s, LoginWord); ok {
		return noStream(file)
	}
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

// expandable checks the form of ${NAME}; whether the variable exists is checked elsewhere.
func expandable(s string) error {
	_, err := access.Expand(s, func(string) (string, bool) { return "x", true })
	return err
}

func proxy(s string) error {
	if s == ProxyEnv || s == ProxyDirect {
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
	if s == ProxyEnv {
		return errors.New("env is for access.proxy only; give a proxy, or direct for none")
	}
	return proxy(s)
}

// redactAuth hides credentials, but shows that they are in a variable.
func redactAuth(s string) string {
	if s == "" || strings.HasPrefix(s, "${") && strings.Index(s, "}") == len(s)-1 {
		return s
	}
	return redacted
}

func redactAuthItem(s string) string {
	if strings.HasPrefix(s, LoginWord) { // the item names a file, and the secrets are in the file
		return s
	}
	match, rest, err := access.CutLogin(s)
	if err != nil {
		return redacted
	}
	return match + "=" + redactAuth(rest)
}

func redactProxy(s string) string { return access.RedactProxy(s, redacted) }

// browserProgram checks the name of a program or a URL, which may contain secrets.
func browserProgram(s string) error {
	if strings.Contains(s, "://") && strings.Contains(s, redacted) {
		return errPrinted
	}
	return noStream(s)
}

// redactBrowser hides the user and the query of a URL.
func redactBrowser(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	s = redactProxy(s)
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		s = s[:i+1] + redacted
	}
	return s
}

// SecretHeaders returns the names of the headers that are sent only to trusted hosts.
func (f *Fetch) SecretHeaders() (names []string) {
	for _, line := range f.Headers {
		name, _, _ := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); secretHeader(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// HasAccess reports whether the rule says how to identify to its hosts, or how to connect to them.
func (h *Host) HasAccess() bool {
	return len(h.Headers) > 0 || h.Auth+h.Proxy+h.Cert+h.Key != ""
}

func (c checker) certificates() {
	a := &c.cfg.Access
	if a.Key != "" && a.Cert == "" {
		c.wrong("access.key", "is the key of a certificate that is missing; give access.cert (--cert) as well")
	}
	for i := range c.cfg.Hosts {
		if h := &c.cfg.Hosts[i]; h.Key != "" && h.Cert == "" {
			path := document.Item(hostsPath, i) + ".key"
			c.wrong(path, "is the key of a certificate that is missing; give cert as well")
		}
	}
}

func (c checker) warnAccess() {
	if names := c.cfg.Fetch.SecretHeaders(); len(names) > 0 {
		c.warn("fetch.headers: %s goes only to the hosts that seeds name, as it looks like a credential; for other hosts give it under hosts", strings.Join(names, ", "))
	}
	if u, err := url.Parse(c.cfg.Access.Proxy); err == nil && strings.HasPrefix(u.Scheme, "socks") && len(c.cfg.Access.Resolve) > 0 {
		c.warn("access.resolve: a proxy looks names up itself, so that this is for hosts without one only")
	}
}

func redactAll(s string) string {
	if s == "" {
		return s
	}
	return redacted
}

// listen checks that not everybody can control the crawl. A redacted token must not be read back as if it were the
// token.
func (c checker) listen() {
	const path, other = "listen.addr", "listen.token"
	at, token := c.cfg.Listen.Addr, c.cfg.Listen.Token
	if at == "" || c.bad[path] || c.bad[other] {
		return
	}
	a, err := endpoint.ParseAddress(at)
	if err == nil {
		err = a.Check(token)
	}
	switch {
	case token == redacted:
		c.wrong(other, "stands where a secret stood when it was printed; give the secret again")
	case errors.Is(err, endpoint.ErrToken):
		c.wrong(other, "%v", err)
	case err != nil:
		c.wrong(path, "%v; the token is %s (CRAWL_LISTEN_TOKEN)", err, other)
	}
}

// standardEnv reads the variables that the specification of OpenTelemetry defines. They apply to all programs, so
// whatever is written for this program is stronger, even in a file.
func (l loader) standardEnv(vars map[string]string) {
	if strings.EqualFold(vars["OTEL_SDK_DISABLED"], "true") || vars["OTEL_TRACES_EXPORTER"] == "none" {
		return
	}
	for _, v := range [][2]string{ // the last variable that is set applies
		{"traces.endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"traces.endpoint", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{"traces.headers", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"traces.headers", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"},
	} {
		value := strings.TrimSpace(vars[v[1]])
		switch {
		case v[0] == "traces.headers":
			value = strings.Join(baggage(value), "\n")
		case value != "" && v[1] == "OTEL_EXPORTER_OTLP_ENDPOINT": // the variable for traces alone is used as it is
			value = strings.TrimSuffix(value, "/") + "/v1/traces"
		}
		if value != "" {
			l.standard(v[0], v[1], value)
		}
	}
	switch vars["OTEL_TRACES_SAMPLER"] {
	case "always_off", "parentbased_always_off":
		l.standard("traces.sample", "OTEL_TRACES_SAMPLER", "0")
	case "traceidratio", "parentbased_traceidratio":
		if share := vars["OTEL_TRACES_SAMPLER_ARG"]; share != "" {
			l.standard("traces.sample", "OTEL_TRACES_SAMPLER_ARG", share)
		}
	}
}

func (l loader) standard(path, name, value string) {
	if l.origins[path].Source != fromFile && !l.bad[path] {
		l.storeEnv(path, value, Origin{Source: fromEnv, Name: name})
	}
}

// baggage reads a list of headers as that specification writes them: name=value, separated by commas, with values
// escaped as in URLs.
func baggage(list string) (headers []string) {
	for item := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		if name != "" {
			headers = append(headers, strings.TrimSpace(name)+": "+strings.TrimSpace(value))
		}
	}
	return headers
}

// LoginWord begins an item of [Access].Auth that names the file of a login by a form.
const LoginWord = "login "

// Login returns the file of the login by a form; empty if there is none.
func (a *Access) Login() string {
	for _, item := range a.Auth {
		if file, ok := strings.CutPrefix(item, LoginWord); ok {
			return strings.TrimSpace(file)
		}
	}
	return ""
}

func (c checker) login() {
	n := 0
	for _, item := range c.cfg.Access.Auth {
		if strings.HasPrefix(item, LoginWord) {
			n++
		}
	}
	if n > 1 {
		c.wrong("access.auth", "there are %d logins by a form, and a crawl has one session; give --login once", n)
	}
}
