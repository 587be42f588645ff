package fetch

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/proxy"

	"github.com/treadlight/crawl/internal/fetch/access"
	"github.com/treadlight/crawl/internal/fetch/reach"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

type routes struct {
	proxy  *url.URL
	choose func(*url.URL) (*url.URL, error)
	access *access.Table
	none   bool // no request is ever sent by a proxy
}

func newRoutes(cfg Config) *routes {
	r := &routes{proxy: cfg.Proxy, choose: cfg.ProxyFor, access: cfg.Access}
	r.none = r.proxy == nil && r.choose == nil && r.access == nil
	return r
}

func (r *routes) of(secure bool, authority string) (*url.URL, error) {
	if r.none {
		return nil, nil //nolint:nilnil // no proxy, and nothing wrong
	}
	if rule := r.access.Rule(authority); rule != nil && (rule.Direct || rule.Proxy != nil) {
		return rule.Proxy, nil
	}
	if r.choose == nil {
		return r.proxy, nil
	}
	u := &url.URL{Scheme: "http", Host: authority}
	if secure {
		u.Scheme = "https"
	}
	p, err := r.choose(u)
	if err == nil && p != nil {
		err = checkProxy("ProxyFor", p)
	}
	if err != nil {
		return nil, &proxyError{"of the environment", errors.New("it is no URL of a proxy"), outcome.Proxy}
	}
	return p, nil
}

// relays reports whether a proxy gets requests with the whole URL, as for plain HTTP.
func relays(via *url.URL, secure bool) bool {
	return via != nil && !secure && (via.Scheme == "http" || via.Scheme == "https")
}

func proxyAuth(via *url.URL) string {
	if via.User == nil {
		return ""
	}
	password, _ := via.User.Password()
	return access.Basic(via.User.Username() + ":" + password)
}

type proxyError struct {
	proxy string
	err   error
	class outcome.Class
}

func newProxyError(via *url.URL, err error, class outcome.Class) *proxyError {
	shown := *via
	shown.User = nil
	return &proxyError{shown.String(), err, class}
}

func (e *proxyError) Error() string { return fmt.Sprintf("proxy %s: %v", e.proxy, e.err) }
func (e *proxyError) Unwrap() error { return e.err }

func (e *proxyError) Class() outcome.Class { return e.class }

var errProxyAuth = errors.New("it asks for credentials, or refuses those it got: give them as http://user:password@host:port")

// through connects by way of a proxy. If secure it connects to the host. Otherwise an HTTP proxy is only connected to,
// and gets the whole URL.
func (d *dialer) through(ctx context.Context, lookup *stopwatch, via *url.URL, addr string, secure bool) (net.Conn, error) {
	if err := d.inward(ctx, via, addr); err != nil {
		return nil, err
	}
	c, err := d.direct(ctx, lookup, "tcp", hostPort(via), true)
	if err != nil {
		return nil, newProxyError(via, err, outcome.Proxy)
	}
	if via.Scheme == "https" {
		cfg := d.tls.Clone()
		cfg.ServerName, cfg.NextProtos = via.Hostname(), []string{"http/1.1"}
		hop := tls.Client(c, cfg)
		if err := hop.HandshakeContext(ctx); err != nil {
			_ = c.Close()
			return nil, newProxyError(via, err, outcome.Proxy)
		}
		c = hop
	}
	switch {
	case strings.HasPrefix(via.Scheme, "socks"):
		err = socks(ctx, c, via, addr)
	case secure:
		err = d.tunnel(ctx, c, via, addr)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// lookHere bounds the lookup here of a name that a proxy connects to.
const lookHere = time.Second

// looksUp reports whether names for the proxy via are looked up here, where nil means no proxy. With socks5h they are
// not.
func (d *dialer) looksUp(via *url.URL) bool {
	return !d.cfg.AllowPrivate && d.cfg.DialContext == nil && d.cfg.Transport == nil && (via == nil || via.Scheme != "socks5h")
}

// inward refuses requests that would make a proxy connect to its own machine or network because of a link. Names are
// checked by a list of local domains and by a lookup here, whose result may differ from the proxy's.
func (d *dialer) inward(ctx context.Context, via *url.URL, addr string) error {
	host, port, err := splitHostPort(addr)
	if err != nil {
		return err
	}
	open, private := d.cfg.Openings, d.cfg.AllowPrivate
	if a, err := netip.ParseAddr(host); err == nil {
		return d.inwardAt(ctx, host, port, []netip.Addr{a})
	}
	if reach.Localhost(host) {
		return d.inwardAt(ctx, host, port, reach.Loopback)
	}
	if d.looksUp(via) {
		ctx, done := context.WithTimeout(ctx, lookHere)
		defer done()
		if at, err := d.resolver.Lookup(ctx, host, port); err == nil && !at.Static {
			open.Decide(host, at.Addrs)
			return d.inwardAt(ctx, host, port, at.Addrs)
		}
	}
	if isLocal(host) && !private && !open.Awaits(host, port) {
		return refuse(host)(addr)
	}
	return nil
}

// inwardAt refuses a host if one of its addresses may not be connected to.
func (d *dialer) inwardAt(ctx context.Context, host string, port uint16, addrs []netip.Addr) error {
	d.cfg.Openings.Inquire(ctx, host, port, addrs, d.cfg.AllowPrivate)
	for _, a := range addrs {
		if at := netip.AddrPortFrom(a, port); !d.cfg.Openings.Allows(host, at, d.cfg.AllowPrivate) {
			return refuse(host)(at.String())
		}
	}
	return nil
}

// localNames lists local domains: RFC 6761 section 6.3, RFC 6762 section 3, RFC 8375, and ICANN's internal.
var localNames = []string{"localhost", "local", "home.arpa", "internal", "localdomain"}

// isLocal reports whether a name is below one of those, or has no dot. No public site has a name without a dot.
func isLocal(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return !strings.Contains(host, ".") || slices.ContainsFunc(localNames, func(name string) bool {
		return strings.HasSuffix(host, "."+name)
	})
}

func hostPort(via *url.URL) string {
	port := via.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[via.Scheme]
	}
	port = cmp.Or(port, "1080")
	return net.JoinHostPort(via.Hostname(), port)
}

const maxConnect = 64 << 10

// tunnel makes an HTTP proxy connect to addr (RFC 9110, 9.3.6).
func (d *dialer) tunnel(ctx context.Context, c net.Conn, via *url.URL, addr string) error {
	unhook := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer unhook()
	req := "CONNECT " + addr + " HTTP/1.1\r\nHost: " + addr + "\r\nUser-Agent: " + d.cfg.UserAgent + "\r\n"
	if auth := proxyAuth(via); auth != "" {
		req += "Proxy-Authorization: " + auth + "\r\n"
	}
	if _, err := io.WriteString(c, req+"\r\n"); err != nil {
		return newProxyError(via, err, outcome.Proxy)
	}
	in := bufio.NewReader(io.LimitReader(c, maxConnect))
	res, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect}) //nolint:bodyclose // what follows is the tunnel
	if err != nil {
		return newProxyError(via, fmt.Errorf("its answer to CONNECT: %w", err), outcome.Proxy)
	}
	switch {
	case res.StatusCode/100 == 2 && in.Buffered() > 0: // a TLS server waits for the client to begin
		err = errors.New("it sends before it is spoken to")
	case res.StatusCode/100 != 2:
		return refusedBy(via, addr, res)
	case !unhook():
		err = context.Cause(ctx)
	}
	if err != nil {
		return newProxyError(via, err, outcome.Proxy)
	}
	return nil
}

// refusedBy returns an error whose class says why a proxy did not connect: because of the proxy itself, its rules, or
// the host.
func refusedBy(via *url.URL, addr string, res *http.Response) error {
	status := fmt.Errorf("it does not connect to %s: %d %s", addr, res.StatusCode, http.StatusText(res.StatusCode))
	switch {
	case res.StatusCode == http.StatusProxyAuthRequired:
		return newProxyError(via, errProxyAuth, outcome.Proxy)
	case res.StatusCode == http.StatusTooManyRequests:
		return newProxyError(via, status, outcome.Proxy)
	case res.StatusCode/100 == 4:
		return newProxyError(via, status, outcome.AddressDenied)
	}
	return newProxyError(via, status, outcome.Network) // it has tried: squid responds with 503, others with 502 or 500
}

// socks makes a SOCKS5 proxy connect to addr, and look up its name (RFC 1928).
func socks(ctx context.Context, c net.Conn, via *url.URL, addr string) error {
	var auth *proxy.Auth
	if via.User != nil {
		password, _ := via.User.Password()
		auth = &proxy.Auth{User: via.User.Username(), Password: password}
	}
	d, err := proxy.SOCKS5("tcp", hostPort(via), auth, nil)
	if err != nil {
		return newProxyError(via, err, outcome.Proxy)
	}
	on, ok := d.(interface {
		DialWithConn(ctx context.Context, c net.Conn, network, addr string) (net.Addr, error)
	})
	if !ok {
		return newProxyError(via, errors.New("its dialler takes no connection"), outcome.Proxy)
	}
	if _, err := on.DialWithConn(ctx, c, "tcp", addr); err != nil {
		return newProxyError(via, err, socksClass(err))
	}
	return nil
}

// socksClass returns the class of a failure, by whose fault it is. Package proxy has the replies of RFC 1928 section 6 only
// as texts.
func socksClass(err error) outcome.Class {
	text := err.Error()
	switch {
	case !strings.Contains(text, "unknown error"):
		return outcome.Proxy
	case strings.Contains(text, "not allowed by ruleset"):
		return outcome.AddressDenied
	}
	return outcome.Network
}
