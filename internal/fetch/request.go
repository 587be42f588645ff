package fetch

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/treadlight/crawl/internal/fetch/access"
	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/fetch/redact"
)

// Request is one GET.
type Request struct {
	URL     string      // absolute, http or https; user information is sent as Basic authentication, a fragment is not sent
	Header  http.Header // sent over the Config's, name by name
	MaxBody int64       // of the decoded body in bytes; zero means the Config's bound
	// Filter says which bodies are wanted. The others are not read: Fetch then fails with
	// [OpFilter] and class filtered, and the Response beside it has the header. Nil means all.
	Filter  *Filter
	Capture bool // asks for Response.Capture, which costs a copy of all that comes
	// OnHeader, if set, is called by Fetch's own goroutine when the header of the answer
	// is there, before the body is read: an order to wait holds from then on, and a body
	// may take its time. The Response has no Body yet, and of its Timings only FirstByte
	// and Reused. With an Again it is called for every answer, also for one that another follows.
	OnHeader func(*Response)
	// Permit, if set, spends the permit of the request: it is called by Fetch's own goroutine
	// when the policies have let it pass and nothing has been sent. If it fails, nothing is sent
	// and Fetch fails with its error, of class canceled. Nil means that the caller holds the permit.
	Permit func(context.Context) error
	// Again, if set, lets the request be sent again, as Config.Repeating decides: it is
	// called by Fetch's own goroutine before each further time, with what came before, a
	// Response without a Body or an error, and spends the permit for what comes now. It fails
	// as Permit does. Nil means that the request is sent once.
	Again func(ctx context.Context, before *Response, err error) error
}

// acceptEncoding lists what the decoders take. Deflate is accepted but not asked for, because
// servers disagree on what it means.
const acceptEncoding = "gzip, br, zstd"

// headers are what all requests send, which must not change, and the fields of Config.Header that
// only trusted hosts get.
func headers(cfg Config) (base, secrets http.Header) {
	base = http.Header{
		"User-Agent":      {cfg.UserAgent},
		"Accept":          {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
		"Accept-Encoding": {acceptEncoding},
	}
	secrets = make(http.Header)
	for name, values := range cfg.Header {
		to := base
		if cfg.Trusted != nil && secret(name) {
			to = secrets
		}
		to[http.CanonicalHeaderKey(name)] = values
	}
	return base, secrets
}

// secret reports whether a field looks as if its value opened something.
func secret(name string) bool { return (*redact.Redactor)(nil).SecretHeader(name) }

func overlay(h, over http.Header) {
	for name, values := range over {
		h[http.CanonicalHeaderKey(name)] = values
	}
}

// draft is the header of one request: the Client's own, until something is put over it.
type draft struct{ base, h http.Header }

func (d *draft) put(over http.Header) {
	if len(over) == 0 {
		return
	}
	if d.h == nil {
		d.h = maps.Clone(d.base)
	}
	overlay(d.h, over)
}

// header is the header of one request; nil if that is the Client's own. What is said of
// fewer requests goes over what is said of more.
func (c *Client) header(req *Request, to target) http.Header {
	d := draft{base: c.base}
	if c.personal {
		c.introduce(&d, to)
	}
	if to.user != nil {
		password, _ := to.user.Password()
		d.put(http.Header{"Authorization": {access.Basic(to.user.Username() + ":" + password)}})
	}
	d.put(req.Header)
	return d.h
}

// introduce adds what the host may know of us: credentials, its own fields, its cookies.
func (c *Client) introduce(d *draft, to target) {
	authority := authorityOf(to.host, to.tls)
	if len(c.secrets) > 0 && c.cfg.Trusted(authority, to.tls) {
		d.put(c.secrets)
	}
	own := make(http.Header)
	if rule := c.cfg.Access.Rule(authority); rule != nil {
		overlay(own, rule.Header)
	}
	if auth := c.cfg.Access.Authorization(authority); auth != "" {
		own["Authorization"] = []string{auth}
	}
	if !to.tls && c.cfg.Trusted != nil && c.hide(own, authority) && c.cfg.Withheld != nil {
		c.cfg.Withheld(authority)
	}
	d.put(own)
	if c.cfg.Cookies == nil {
		return
	}
	if jar := c.cfg.Cookies.Header(to.origin()); jar != "" {
		before := c.base["Cookie"]
		if d.h != nil {
			before = d.h["Cookie"]
		}
		d.put(http.Header{"Cookie": {strings.Join(append(slices.Clone(before), jar), "; ")}}) // one line, RFC 6265 section 5.4
	}
}

// hide takes credentials out of what goes to a host in the clear, unless it was named so,
// and reports whether there were any.
func (c *Client) hide(h http.Header, authority string) (hidden bool) {
	for name := range h {
		if secret(name) && !c.cfg.Trusted(authority, false) {
			delete(h, name)
			hidden = true
		}
	}
	return hidden
}

func (c *Client) keepCookies(to target, h http.Header) {
	if c.cfg.Cookies != nil {
		c.cfg.Cookies.Set(to.origin(), h["Set-Cookie"])
	}
}

func (c *Client) newRequest(ctx context.Context, u *url.URL, h http.Header) *http.Request {
	if h == nil {
		h = c.base
	}
	req := c.template.WithContext(ctx)
	req.URL, req.Host, req.Header = u, u.Host, h
	return req
}

type target struct {
	tls  bool
	host string        // with the port, as in the URL
	uri  string        // path and query, or the absolute form
	user *url.Userinfo // nil if there is none
	url  *url.URL      // nil until somebody asks
	via  *url.URL      // the proxy that takes whole URLs; nil for none
}

// authorityOf is a host as rules name it: in lower case, its port unless that is the usual
// one.
func authorityOf(host string, secure bool) string {
	host = strings.ToLower(host)
	if secure {
		return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":")
	}
	return strings.TrimSuffix(strings.TrimSuffix(host, ":80"), ":")
}

// origin is the target as cookies see it.
func (t *target) origin() cookies.Origin {
	host := authorityOf(t.host, t.tls)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	path, _, _ := strings.Cut(t.uri, "?")
	if i := strings.Index(path, "://"); i > 0 { // the absolute form
		_, path, _ = strings.Cut(path[i+len("://"):], "/")
		path = "/" + path
	}
	return cookies.Origin{TLS: t.tls, Host: strings.Trim(strings.TrimSuffix(host, "."), "[]"), Path: path}
}

// absolute is the target as a proxy wants it: the whole URL.
func (t *target) absolute() string {
	if !strings.HasPrefix(t.uri, "/") {
		return t.uri
	}
	return "http://" + t.host + t.uri
}

func targetOf(u *url.URL) (target, error) {
	host, err := httpguts.PunycodeHostPort(u.Host)
	if err != nil || !httpguts.ValidHostHeader(host) {
		return target{}, errBadURL
	}
	return target{tls: u.Scheme == "https", host: host, uri: u.RequestURI(), user: u.User, url: u}, nil
}

// plain is the target of a URL with nothing unusual in it, as nearly all are: a host by name
// or IPv4 address, and a path, whose bytes reach the wire as they are. It makes no url.
func plain(raw string) (t target, ok bool) {
	rest, ok := strings.CutPrefix(raw, "http://")
	if !ok {
		if rest, t.tls = strings.CutPrefix(raw, "https://"); !t.tls {
			return t, false
		}
	}
	n := plainHost(rest)
	if n == 0 || n == len(rest) || rest[n] != '/' || strings.HasPrefix(rest[n:], "//") {
		return t, false
	}
	t.host = rest[:n]
	t.uri, _, _ = strings.Cut(rest[n:], "#")
	return t, printable(t.uri)
}

// plainHost is the length of the name, and of the port if there is one, that s begins with;
// zero if it is none.
func plainHost(s string) int {
	i := 0
	for i < len(s) && (s[i] == '.' || s[i] == '-' || '0' <= s[i] && s[i] <= '9' || 'a' <= s[i] && s[i] <= 'z') {
		i++
	}
	if i == 0 || i == len(s) || s[i] != ':' {
		return i
	}
	colon := i
	for i++; i < len(s) && '0' <= s[i] && s[i] <= '9'; i++ {
	}
	if i == colon+1 {
		return 0
	}
	return i
}

// parseURL reads raw such that the bytes of its path and query reach the wire as they
// are. Where package net/url would refuse or rewrite a path that browsers accept
// ("/100%", "/a|b"), the path is passed on opaque.
func parseURL(raw string) (*url.URL, error) {
	raw, _, _ = strings.Cut(raw, "#")
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return nil, errBadURL
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	u, err := url.Parse(scheme + "://" + rest[:end])
	if err != nil || u.Hostname() == "" {
		return nil, errBadURL
	}
	path, query, hasQuery := strings.Cut(rest[end:], "?")
	if !printable(path) || !printable(query) {
		return nil, errBadURL
	}
	u.RawQuery, u.ForceQuery = query, hasQuery
	u.Path, err = url.PathUnescape(path)
	if u.RawPath = path; err != nil || u.EscapedPath() != path {
		if path == "" {
			path = "/"
		}
		if strings.HasPrefix(path, "//") {
			path = "//" + u.Host + path
		}
		u.Opaque = path
	}
	return u, nil
}

// printable refuses what would end the request line early or smuggle another, and
// what is not ASCII: whoever spelled the URL decides on its encoding.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
