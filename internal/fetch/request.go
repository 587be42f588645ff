package fetch

import (
	"bytes"
	"context"
	"io"
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

// Request is one request, a GET unless it has a Method.
type Request struct {
	URL     string      // absolute, http or https; user information is sent as Basic authentication, a fragment is not sent
	Method  string      // empty is GET
	Payload []byte      // the body that is sent; nil is none
	Header  http.Header // sent over the Config's, name by name
	Cookie  string      // of the page that asks; sent before the Client's, and instead of those of the same names
	// Anonymous leaves out the Client's cookies, credentials and header fields that are single hosts' own, and keeps no
	// cookie. False: they are as the Config says.
	Anonymous bool
	MaxBody   int64 // of the decoded body in bytes; zero means the Config's bound
	// Filter says which bodies are wanted. For others Fetch fails with [OpFilter] and class filtered, beside a
	// Response with the header. Nil: all.
	Filter *Filter
	// Stream, if set, is asked at the header who takes the body as it comes, whatever Filter says. Nil: Response.Body does.
	Stream  func(*Response) *Stream
	Capture bool // asks for Response.Capture, which costs a copy of all that comes
	// OnHeader, if set, is called by Fetch's goroutine at the header, before the body is read, so that orders to wait
	// hold at once. The Response has no Body, and of Timings only FirstByte and Reused. With an Again it is called for
	// every answer.
	OnHeader func(*Response)
	// Permit, if set, spends the request's permit, on Fetch's goroutine, after the policies and before anything is
	// sent. If it fails, Fetch fails with its error, of class canceled. Nil: the caller holds the permit.
	Permit func(context.Context) error
	// Again, if set, allows resending by Config.Repeating: it is called by Fetch's goroutine before each further time,
	// with the Response without a Body or the error before, and spends the permit. It fails as Permit does. Nil: the
	// request is sent once.
	Again func(ctx context.Context, before *Response, err error) error
}

// acceptEncoding lists the codings asked for. Deflate is accepted only, as servers disagree on it.
const acceptEncoding = "gzip, br, zstd"

// headers are the immutable fields of all requests, and those of Config.Header for trusted hosts only.
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

func (d *draft) get(name string) []string {
	if d.h == nil {
		return d.base[name]
	}
	return d.h[name]
}

// mergeCookies are those of first, and those of then that first has not.
func mergeCookies(first, then string) string {
	has := map[string]bool{}
	all := strings.Split(first, "; ")
	for _, c := range all {
		name, _, _ := strings.Cut(c, "=")
		has[name] = true
	}
	for c := range strings.SplitSeq(then, "; ") {
		if name, _, _ := strings.Cut(c, "="); c != "" && !has[name] {
			all = append(all, c)
		}
	}
	return strings.Join(all, "; ")
}

// header is the header of one request, the more specific first; nil: the Client's own.
func (c *Client) header(req *Request, to target) http.Header {
	d := draft{base: c.base}
	if c.personal && !req.Anonymous {
		c.introduce(&d, to)
	}
	if to.user != nil {
		password, _ := to.user.Password()
		d.put(http.Header{"Authorization": {access.Basic(to.user.Username() + ":" + password)}})
	}
	if req.Cookie != "" && !req.Anonymous {
		d.put(http.Header{"Cookie": {mergeCookies(req.Cookie, strings.Join(d.get("Cookie"), "; "))}})
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
		d.put(http.Header{"Cookie": {strings.Join(append(slices.Clone(d.get("Cookie")), jar), "; ")}}) // one line, RFC 6265 section 5.4
	}
}

// hide removes credentials for a host in the clear, unless it was named so, and reports whether there were any.
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

func (x *exchange) newRequest(ctx context.Context, u *url.URL, h http.Header) *http.Request {
	if h == nil {
		h = x.c.base
	}
	req := x.c.template.WithContext(ctx)
	req.URL, req.Host, req.Header = u, u.Host, h
	if x.asked.method != "" {
		req.Method = x.asked.method
	}
	if len(x.asked.payload) > 0 {
		body := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.asked.payload)), nil }
		req.GetBody, req.ContentLength = body, int64(len(x.asked.payload))
		req.Body, _ = body()
	}
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

func authorityOf(host string, secure bool) string {
	host = strings.ToLower(host)
	if secure {
		return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":")
	}
	return strings.TrimSuffix(strings.TrimSuffix(host, ":80"), ":")
}

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

// plain is the target of a usual URL, a host by name or IPv4 address and a path sent as it is, without making a url.
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

// plainHost is the length of the name and port that s begins with, or zero.
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

// parseURL reads raw such that path and query reach the wire unchanged: as opaque, where net/url would refuse or
// rewrite a path that browsers accept ("/100%", "/a|b").
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

// printable refuses what would break the request line, and non-ASCII.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
