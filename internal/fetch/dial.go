package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock/lifetime"
	"github.com/treadlight/crawl/internal/fetch/reach"
	"github.com/treadlight/crawl/internal/fetch/resolve"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// dialer makes the connections of one Client and can wait until none is being made.
type dialer struct {
	cfg      Config
	tls      *tls.Config
	routes   *routes
	resolver *resolve.Resolver

	life *lifetime.Lifetime // of the connections that are being made

	mu    sync.Mutex         // guards what follows
	open2 map[*conn]struct{} // open connections that may use HTTP/2; nil without HTTP/2
}

func newDialer(cfg Config, r *routes) (*dialer, error) {
	d := &dialer{cfg: cfg, tls: tlsConfig(cfg), routes: r, resolver: cfg.Resolver, life: lifetime.New()}
	if d.resolver == nil {
		var err error
		if d.resolver, err = resolve.New(resolve.Config{Timeout: cfg.ConnectTimeout}); err != nil {
			return nil, err
		}
	}
	if cfg.HTTP2 {
		d.open2 = make(map[*conn]struct{})
	}
	return d, nil
}

// sessions is how many TLS sessions are kept for resumption.
const sessions = maxIdle

func tlsConfig(cfg Config) *tls.Config {
	protos := []string{"http/1.1"}
	if cfg.HTTP2 {
		protos = []string{"h2", "http/1.1"}
	}
	return &tls.Config{
		NextProtos:         protos,
		RootCAs:            cfg.RootCAs,
		InsecureSkipVerify: cfg.Insecure, // the user's explicit choice
		ClientSessionCache: tls.NewLRUClientSessionCache(sessions),
	}
}

type addressError struct{ host, addr string }

// refuse returns a function that makes the error for a refused address of a host. If the address is not known, the
// function gets the host and port.
func refuse(host string) func(addr string) error {
	return func(addr string) error { return &addressError{host, addr} }
}

func (e *addressError) Error() string {
	at, err := netip.ParseAddrPort(e.addr)
	if err == nil && reach.Of(at.Addr()) == reach.Link {
		return fmt.Sprintf("address %s is of this machine's link or cloud, where no site is; it is only dialled if a seed or --resolve names it", e.addr)
	}
	where := e.addr
	if err == nil && e.host != at.Addr().String() {
		where += " of " + e.host
	}
	return fmt.Sprintf("address %s is not on the public Internet, and no seed opened it when the crawl began: to have it dialled, give --allow-private, or set fetch.allow_private", where)
}

func (e *addressError) Class() outcome.Class { return outcome.AddressDenied }

func (d *dialer) close() {
	d.life.End()
	if d.resolver != d.cfg.Resolver {
		d.resolver.Close()
	}
}

// within returns ctx for one phase: it also ends after limit and when the Client is closed.
func (d *dialer) within(ctx context.Context, limit time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	unhook := context.AfterFunc(d.life.Context(), cancel)
	return ctx, func() { unhook(); cancel() }
}

// dial makes a plain connection. net/http calls it in a goroutine of its own, with a context that outlives the request.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !d.life.Begin() {
		return nil, errClosed
	}
	defer d.life.Done()
	c, err := d.connect(ctx, network, addr, false)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// connect makes a connection to addr, or to its proxy.
func (d *dialer) connect(ctx context.Context, network, addr string, secure bool) (*conn, error) {
	phase, done := d.within(ctx, d.cfg.ConnectTimeout)
	defer done()
	lookup := new(stopwatch)
	begin := now()
	via, err := d.routes.of(secure, authorityOf(addr, secure))
	if err != nil {
		return nil, &phaseError{OpProxy, err}
	}
	c := new(conn)
	if via != nil {
		c.proxied = true
		c.Conn, err = d.through(phase, lookup, via, addr, secure)
	} else if c.Conn, err = d.direct(phase, lookup, network, addr, false); err == nil {
		c.remote = c.RemoteAddr().String()
	}
	if err != nil {
		return nil, d.failed(ctx, OpConnect, err)
	}
	c.dns = time.Duration(lookup.total.Load())
	c.connect = max(0, since(begin)-c.dns)
	d.watch(c)
	return c, nil
}

// watch registers a connection until it is closed, because net/http keeps one with a canceled HTTP/2 request for up to
// half a minute without counting it as idle.
func (d *dialer) watch(c *conn) {
	if d.open2 == nil {
		return
	}
	d.mu.Lock()
	d.open2[c] = struct{}{}
	d.mu.Unlock()
	c.gone = func() {
		d.mu.Lock()
		delete(d.open2, c)
		d.mu.Unlock()
	}
}

func (d *dialer) closeRest() {
	d.mu.Lock()
	rest := slices.Collect(maps.Keys(d.open2))
	d.mu.Unlock()
	for _, c := range rest {
		_ = c.Close()
	}
}

// direct connects to addr. With free, which is for proxies, and for static addresses set by the user, any address is
// allowed.
func (d *dialer) direct(ctx context.Context, lookup *stopwatch, network, addr string, free bool) (net.Conn, error) {
	host, port, err := splitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ctx = lookup.trace(ctx)
	if d.cfg.DialContext != nil {
		return d.cfg.DialContext(ctx, network, addr)
	}
	at, err := d.resolver.Lookup(ctx, host, port)
	lookup.stop()
	if err != nil {
		return nil, err
	}
	var nd net.Dialer
	if !free && !at.Static {
		d.cfg.Openings.Decide(host, at.Addrs)
		d.cfg.Openings.Inquire(ctx, host, port, at.Addrs, d.cfg.AllowPrivate)
		nd.Control = d.cfg.Openings.Control(host, d.cfg.AllowPrivate, refuse(host))
	}
	c, err := race(ctx, at.Addrs, func(ctx context.Context, a netip.Addr) (net.Conn, error) {
		return nd.DialContext(ctx, network, netip.AddrPortFrom(a, port).String())
	})
	if err != nil && ctx.Err() == nil {
		d.resolver.Doubt(host)
	}
	return c, err
}

func splitHostPort(addr string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, &net.AddrError{Err: "invalid port", Addr: addr}
	}
	return host, uint16(n), nil
}

func joinHostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// failed adds the phase to the error of a failed connection attempt. If the Client was closed or ctx has ended, that is
// the error.
func (d *dialer) failed(ctx context.Context, op Op, err error) error {
	if _, ok := errors.AsType[*proxyError](err); ok {
		op = OpProxy
	} else if _, ok := errors.AsType[*net.DNSError](err); ok {
		op = OpDNS
	}
	if d.life.Over() {
		err = errClosed
	} else if gone := context.Cause(ctx); gone != nil {
		err = gone
	}
	return &phaseError{op, err}
}

// dialTLS connects and does the TLS handshake itself, so that errors name the phase and the connection has the timings.
func (d *dialer) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	if !d.life.Begin() {
		return nil, errClosed
	}
	defer d.life.Done()
	raw, err := d.connect(ctx, network, addr, true)
	if err != nil {
		return nil, err
	}
	cfg := d.tls.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(addr) // connect has checked the form
	if cert := d.certificate(authorityOf(addr, true)); cert != nil {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	secure := tls.Client(raw, cfg)
	phase, done := d.within(ctx, tlsTimeout)
	defer done()
	begin := now()
	if err := secure.HandshakeContext(phase); err != nil {
		_ = raw.Close() // the error of the handshake says more
		return nil, d.failed(ctx, OpTLS, err)
	}
	raw.tls = since(begin)
	return secure, nil
}

// certificate returns the certificate for hosts that request one, or nil.
func (d *dialer) certificate(authority string) *tls.Certificate {
	if r := d.cfg.Access.Rule(authority); r != nil && r.Certificate != nil {
		return r.Certificate
	}
	if d.cfg.Trusted != nil && !d.cfg.Trusted(authority, true) {
		return nil
	}
	return d.cfg.Certificate
}

type stopwatch struct {
	begin time.Time
	total atomic.Int64 // nanoseconds; a lookup that was given up may end in another goroutine
}

// trace starts the stopwatch. A dialer of the Config may report the end of the lookup by the returned context.
func (s *stopwatch) trace(ctx context.Context) context.Context {
	s.begin = now()
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSDone: func(httptrace.DNSDoneInfo) { s.stop() },
	})
}

func (s *stopwatch) stop() { s.total.Store(int64(since(s.begin))) }

// conn counts written bytes and has the timings of its making, which are set before the transport sees it.
type conn struct {
	net.Conn
	remote            string // address of the server; empty behind a proxy
	proxied           bool
	gone              func() // called when it is closed; nil calls nothing
	dns, connect, tls time.Duration
	began             atomic.Int64 // writes that were begun
	written           atomic.Int64 // bytes that were certainly sent, TLS included
}

func (c *conn) Write(p []byte) (int, error) {
	c.began.Add(1)
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	if c.gone != nil {
		c.gone()
	}
	return c.Conn.Close()
}

// Inner returns the wrapped connection.
func (c *conn) Inner() net.Conn { return c.Conn }

// inner returns the conn below a connection of the transport, or nil.
func inner(c net.Conn) *conn {
	for {
		switch in := c.(type) {
		case *conn:
			return in
		case *tls.Conn:
			c = in.NetConn()
		default:
			return nil
		}
	}
}
