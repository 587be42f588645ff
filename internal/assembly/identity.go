package assembly

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch/access"
	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/fetch/resolve"
)

// identity is how a crawl identifies itself to hosts, and how it connects to them: the section access of the settings,
// with the named files read and the variables looked up.
type identity struct {
	header      http.Header
	table       *access.Table
	jar         cookies.Keeper
	resolver    *resolve.Resolver
	roots       *x509.CertPool
	certificate *tls.Certificate
	proxy       *url.URL
	proxyFor    func(*url.URL) (*url.URL, error)
}

// identify reads what the settings name. The error joins one error per wrong setting, by its path, and contains no
// secret.
func identify(cfg *Config, clk clock.Clock, lookup func(string) (string, bool)) (*identity, error) {
	a, id := &cfg.Access, &identity{header: make(http.Header)}
	r := &identityReader{cfg: cfg, lookup: lookup}
	r.headers("fetch.headers", cfg.Fetch.Headers, id.header)
	id.certificate = r.pair("access", a.Cert, a.Key)
	id.roots = r.authorities(a.CAFile)
	switch a.Proxy {
	case "", config.ProxyDirect:
	case config.ProxyEnv:
		id.proxyFor = httpproxy.FromEnvironment().ProxyFunc()
	default:
		id.proxy = r.proxyURL("access.proxy", a.Proxy)
	}
	id.table = r.table()
	if id.jar = cfg.Cookies; id.jar == nil {
		id.jar = r.cookies(a, clk)
	}
	id.resolver = r.resolver(a, clk)
	return id, errors.Join(r.errs...)
}

// identityReader reads the parts of an identity, and collects all errors.
type identityReader struct {
	cfg    *Config
	lookup func(string) (string, bool)
	errs   []error
}

// fail records what is wrong with a setting, if anything is, and reports whether anything is.
func (r *identityReader) fail(path string, err error) bool {
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", path, err))
	}
	return err != nil
}

// expand replaces the variables in a text. It reports false if it could not.
func (r *identityReader) expand(path, s string) (string, bool) {
	text, err := access.Expand(s, r.lookup)
	return text, !r.fail(path, err)
}

func (r *identityReader) headers(path string, lines []string, to http.Header) {
	for i, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		if value, ok := r.expand(fmt.Sprintf("%s[%d]", path, i), strings.TrimSpace(value)); ok {
			to.Add(strings.TrimSpace(name), value)
		}
	}
}

func (r *identityReader) table() *access.Table {
	var cfg access.Config
	for i, item := range r.cfg.Access.Auth {
		if strings.HasPrefix(item, config.LoginWord) {
			continue
		}
		match, auth, _ := access.CutLogin(item) // config has checked the format
		cfg.Logins = append(cfg.Logins, access.Login{Match: match, Authorization: r.auth(fmt.Sprintf("access.auth[%d]", i), auth)})
	}
	// Rules for the pace alone have no effect here but to hide others, and cost each request a lookup.
	if slices.ContainsFunc(r.cfg.Hosts, func(h config.Host) bool { return h.HasAccess() }) {
		for i := range r.cfg.Hosts {
			cfg.Rules = append(cfg.Rules, r.rule(&r.cfg.Hosts[i], fmt.Sprintf("hosts[%d]", i)))
		}
	}
	if name := r.cfg.Access.Netrc; name != "" {
		r.file("access.netrc", name, func(f io.Reader) (err error) {
			cfg.Netrc, err = access.ParseNetrc(f)
			return err
		})
	}
	if len(cfg.Logins)+len(cfg.Rules)+len(cfg.Netrc) == 0 {
		return nil
	}
	table, err := access.New(cfg)
	r.fail("hosts", err)
	return table
}

// auth returns the value of Authorization for "user:password" or "bearer TOKEN".
func (r *identityReader) auth(path, s string) string {
	s, ok := r.expand(path, s)
	if !ok || s == "" {
		return ""
	}
	value, err := access.ParseAuth(s)
	r.fail(path, err)
	return value
}

// rule translates a rule of the settings, except for its rates.
func (r *identityReader) rule(h *config.Host, path string) access.Rule {
	rule := access.Rule{
		Match: h.Match, Direct: h.Proxy == config.ProxyDirect,
		Authorization: r.auth(path+".auth", h.Auth), Certificate: r.pair(path, h.Cert, h.Key),
	}
	if len(h.Headers) > 0 {
		rule.Header = make(http.Header)
		r.headers(path+".headers", h.Headers, rule.Header)
	}
	if h.Proxy != "" && !rule.Direct {
		rule.Proxy = r.proxyURL(path+".proxy", h.Proxy)
	}
	return rule
}

func (r *identityReader) proxyURL(path, s string) *url.URL {
	s, ok := r.expand(path, s)
	if !ok {
		return nil
	}
	u, err := access.ParseProxy(s)
	r.fail(path, err)
	return u
}

// pair reads a certificate and its key, which may be in the same file.
func (r *identityReader) pair(path, cert, key string) *tls.Certificate {
	if cert == "" {
		return nil
	}
	certPEM, okCert := r.pem(path+".cert", cert)
	keyPEM, okKey := certPEM, okCert
	where := cert
	if key != "" {
		keyPEM, okKey = r.pem(path+".key", key)
		where += " and " + key
	}
	if !okCert || !okKey {
		return nil
	}
	c, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		err = fmt.Errorf("%s: %w: give PEM files of a certificate and the key that belongs to it, without a password", where, err)
	}
	if r.fail(path+".cert", err) {
		return nil
	}
	return &c
}

func (r *identityReader) pem(path, name string) (data []byte, ok bool) {
	data, err := access.ReadFile(name, access.MaxPEM)
	return data, !r.fail(path, err)
}

// authorities returns the system's certificate authorities and those of a file, or nil without a file.
func (r *identityReader) authorities(name string) *x509.CertPool {
	if name == "" {
		return nil
	}
	roots, err := access.ReadAuthorities(name)
	r.fail("access.ca_file", err)
	return roots
}

// file opens a file and calls read with it. An error names the file.
func (r *identityReader) file(path, name string, read func(io.Reader) error) {
	f, err := os.Open(name)
	if err == nil {
		defer f.Close() //nolint:errcheck // nothing was written
		if err = read(f); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	r.fail(path, err)
}

// keepsCookies reports whether the crawl sends back the cookies that responses set.
func keepsCookies(a *config.Access) bool { return a.Cookies || a.CookieFile != "" || a.Login() != "" }

// cookies makes the cookie jar, or returns nil if cookies are not kept.
func (r *identityReader) cookies(a *config.Access, clk clock.Clock) cookies.Keeper {
	if !keepsCookies(a) {
		return nil
	}
	jar, err := cookies.New(cookies.Config{Clock: clk})
	if r.fail("access.cookies", err) || a.CookieFile == "" {
		return jar // not used if there is an error
	}
	r.file("access.cookie_file", a.CookieFile, jar.Load)
	return jar
}

// resolver makes the resolver of host names.
func (r *identityReader) resolver(a *config.Access, clk clock.Clock) *resolve.Resolver {
	cfg := resolve.Config{Server: a.DNSServer, Timeout: r.cfg.Fetch.ConnectTimeout(), Clock: clk, Lookup: r.cfg.Lookup}
	if cfg.Lookup != nil {
		cfg.TTL = -1 // look up each time; zero would mean the default
	}
	switch a.Family {
	case "ipv4":
		cfg.Family = resolve.IPv4
	case "ipv6":
		cfg.Family = resolve.IPv6
	}
	for i, item := range a.Resolve {
		st, err := resolve.ParseStatic(item)
		r.fail(fmt.Sprintf("access.resolve[%d]", i), err)
		cfg.Static = append(cfg.Static, st)
	}
	resolver, err := resolve.New(cfg)
	r.fail("access", err)
	return resolver
}
