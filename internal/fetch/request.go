package fetch

import (
	"bytes"
	"cmp"
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
	"github.com/treadlight/crawl/internal/fetch/http1"
	"github.com/treadlight/crawl/internal/fetch/redact"
)

// Request is one request: a GET unless it has a Method.
type Request struct {
	URL     string      // absolute, http or https; user information becomes Basic authentication, the fragment is not sent
	Method  string      // empty means GET
	Payload []byte      // the request body; nil means none
	Header  http.Header // replaces fields of the Client's header of the same name
	Cookie  string      // of the page that makes the request; sent before the Client's, and instead of those of the same names
	// Anonymous leaves out the Client's cookies, credentials, and header fields for single hosts, and stores no cookie.
	// False sends and stores them as the Config says.
	Anonymous bool
	MaxBody   int64 // bounds the decoded body, in bytes; zero means the bound of the Config
	// Filter decides which bodies are read. For others Fetch fails with [OpFilter] and class filtered, and returns a
	// Response with the header. Nil reads all.
	Filter *Filter
	// Wanted, if set, is called with the first 8 KiB of a longer body, decoded. If it returns false, no more is read:
	// the Response has these, is Truncated, and is no error. It is not called for a Stream.
	Wanted func(res *Response, head []byte) bool
	// Stream, if set, is called when the header has arrived, and returns what reads the body while it arrives, whatever
	// Filter says. If it returns nil, the body is read into Response.Body.
	Stream  func(*Response) *Stream
	Capture bool // sets Response.Capture, which costs a copy of all that is received
	// OnHeader, if set, is called by Fetch's goroutine when the header has arrived, before the body is read, so that a
	// Retry-After takes effect at once. The Response has no Body, and of Timings only FirstByte and Reused. With an
	// Again it is called for every response.
	OnHeader func(*Response)
	// Permit, if set, takes the permit for the request. It is called by Fetch's goroutine, after the policies and
	// before anything is sent. If it fails, Fetch fails with its error, of class canceled. Nil means that the caller
	// holds the permit.
	Permit func(context.Context) error
	// Again, if set, allows Config.Repeating to send the request again. It is called by Fetch's goroutine before each
	// repetition, with the previous Response without its Body, or the previous error, and takes the permit. If it
	// fails, Fetch fails as with Permit. Nil means that the request is sent once.
	Again func(ctx context.Context, before *Response, err error) error
}

// acceptEncoding lists the codings that requests offer. Deflate is decoded but not offered, as servers disagree on its
// format.
const acceptEncoding = "gzip, br, zstd"

// headers returns the fields of all requests, and the fields of Config.Header that only trusted hosts get. Both are not
// changed later.
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

// secret reports whether the name of a field suggests that its value is a credential.
func secret(name string) bool { return (*redact.Redactor)(nil).SecretHeader(name) }

func overlay(h, over http.Header) {
	for name, values := range over {
		h[http.CanonicalHeaderKey(name)] = values
	}
}

// draft is the header of one request. It shares the Client's header until a field is set.
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

// mergeCookies returns the cookies of first, and those of then whose names first does not have.
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

// header returns the header of one request; more specific fields replace general ones. Nil means the Client's own
// header.
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

// introduce adds what only this host gets: credentials, its own fields, its cookies.
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

// hide removes credentials from the header of a request in the clear, unless Trusted allows that, and reports whether
// there were any.
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
	if x.req.Method != "" {
		req.Method = x.req.Method
	}
	if len(x.req.Payload) > 0 {
		body := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.req.Payload)), nil }
		req.GetBody, req.ContentLength = body, int64(len(x.req.Payload))
		req.Body, _ = body()
	}
	return req
}

type target struct {
	tls  bool
	host string        // with the port, as in the URL
	uri  string        // path and query, or the absolute form
	user *url.Userinfo // nil means none
	url  *url.URL
	via  *url.URL // the proxy that gets the whole URL; nil means none
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

// absolute returns the request target for a proxy: the whole URL.
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

// parseURL parses raw such that path and query are sent unchanged. Where net/url would refuse or rewrite a path that
// browsers accept ("/100%", "/a|b"), the path becomes Opaque.
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
	if !http1.Visible(path) || !http1.Visible(query) {
		return nil, errBadURL
	}
	u.RawQuery, u.ForceQuery = query, hasQuery
	u.Path, err = url.PathUnescape(path)
	if u.RawPath = path; err != nil || u.EscapedPath() != path {
		path = cmp.Or(path, "/")
		if strings.HasPrefix(path, "//") {
			path = "//" + u.Host + path
		}
		u.Opaque = path
	}
	return u, nil
}
