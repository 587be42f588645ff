package fetch

import (
	"context"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Request is one GET.
type Request struct {
	// URL is absolute, http or https. User information in it is sent as Basic
	// authentication, a fragment is not sent.
	URL string
	// Header is sent over the Config's, name by name. Nil adds nothing.
	Header http.Header
	// MaxBody bounds the decoded body in bytes. Zero means the Config's bound.
	MaxBody int64
	// OnHeader, if set, is called by Fetch's own goroutine when the header of the answer
	// is there, before the body is read: an order to wait holds from then on, and a body
	// may take its time. The Response has no Body yet, and of its Timings only FirstByte
	// and Reused. With an Again it is called for every answer, also for one that another
	// follows. Nil means nobody is told.
	OnHeader func(*Response)
	// Permit, if set, spends the permit of the request: it is called by Fetch's own goroutine
	// when the policies have let it pass and nothing has been sent, so that no time is lost
	// between the two in a policy's queue. If it fails, nothing is sent and Fetch fails with
	// its error, of class canceled. Nil means that the caller holds the permit.
	Permit func(context.Context) error
	// Again, if set, lets the request be sent again, as Config.Repeating decides: it is
	// called by Fetch's own goroutine before each further time, with what came before, a
	// Response without a Body or an error, and spends the permit for what comes now. If it
	// fails, nothing is sent and Fetch fails with its error, of class canceled. Nil means
	// that the request is sent once.
	Again func(ctx context.Context, before *Response, err error) error
}

// acceptEncoding lists what the decoders take, in no order of preference: servers
// choose by what they have at hand. Deflate is accepted but not asked for, because
// servers disagree on what it means.
const acceptEncoding = "gzip, br, zstd"

// baseHeader is sent as it is by requests that add nothing, so it must not change.
func baseHeader(cfg Config) http.Header {
	h := http.Header{
		"User-Agent":      {cfg.UserAgent},
		"Accept":          {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
		"Accept-Encoding": {acceptEncoding},
	}
	overlay(h, cfg.Header)
	return h
}

func overlay(h, over http.Header) {
	for name, values := range over {
		h[http.CanonicalHeaderKey(name)] = values
	}
}

// header is the header of one request; nil if that is the Client's own.
func (c *Client) header(req *Request, user *url.Userinfo) http.Header {
	if len(req.Header) == 0 && user == nil {
		return nil
	}
	h := maps.Clone(c.base)
	if user != nil {
		password, _ := user.Password()
		pair := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
		h["Authorization"] = []string{"Basic " + pair}
	}
	overlay(h, req.Header)
	return h
}

// newRequest is a request as net/http has it.
func (c *Client) newRequest(ctx context.Context, u *url.URL, h http.Header) *http.Request {
	if h == nil {
		h = c.base
	}
	req := c.template.WithContext(ctx)
	req.URL, req.Host, req.Header = u, u.Host, h
	return req
}

// target is what a URL asks whom for.
type target struct {
	tls  bool
	host string        // with the port, as in the URL
	uri  string        // path and query, or the absolute form
	user *url.Userinfo // nil if there is none
	url  *url.URL      // nil until somebody asks
}

// targetOf is the target of a URL as parseURL makes it.
func targetOf(u *url.URL) (target, error) {
	host, err := httpguts.PunycodeHostPort(u.Host)
	if err != nil || !httpguts.ValidHostHeader(host) {
		return target{}, errBadURL
	}
	return target{u.Scheme == "https", host, u.RequestURI(), u.User, u}, nil
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
// ("/100%", "/a|b"), the path is passed on opaque; absolute writes it in absolute
// form, which a proxy needs.
func parseURL(raw string, absolute bool) (*url.URL, error) {
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
		if absolute || strings.HasPrefix(path, "//") {
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
