package fetch

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/fetch/http1"
)

// transport sends requests. A nil header means the Client's own.
type transport interface {
	roundTrip(x *exchange, to target, h http.Header) (*http.Response, error)
	CloseIdleConnections()
}

// newTransport returns the transport of the program if Config has one, net/http's if HTTP/2 is wanted, and otherwise
// our own, which takes a third less CPU time. The dialer handles proxies.
func newTransport(cfg Config, d *dialer, base http.Header) (transport, error) {
	if cfg.Transport != nil {
		return foreign{cfg.Transport}, nil
	}
	if cfg.HTTP2 {
		return standard{newStandard(cfg, d)}, nil
	}
	fields, err := http1.AppendHeader(nil, base)
	return own{http1.New(http1.Config{
		Dial: d.dial, DialTLS: d.dialTLS, MaxHeaderBytes: cfg.MaxHeaderBytes,
		MaxPerHost: cfg.MaxConnsPerHost, MaxIdle: maxIdle, IdleTimeout: idleTimeout,
	}), fields}, err
}

const proxyAuthorization = "Proxy-Authorization"

type own struct {
	*http1.Transport
	base []byte // the Client's header on the wire
}

func (o own) roundTrip(x *exchange, to target, h http.Header) (*http.Response, error) {
	rec := x.record()
	req := http1.Request{Method: x.asked.method, Body: x.asked.payload, TLS: to.tls, Host: to.host, Target: to.uri, Fields: o.base, Recording: rec.onWire()}
	if h != nil {
		var err error
		if req.Fields, err = http1.AppendHeader(nil, h); err != nil {
			return nil, err
		}
	}
	if to.via != nil {
		rec.asksOf(x, to, req.Fields)
		req.Target = to.absolute()
		if auth := proxyAuth(to.via); auth != "" {
			req.Fields = append(slices.Clip(req.Fields), proxyAuthorization+": "+auth+"\r\n"...)
		}
	}
	l := &x.leg
	if l.ctx = x.caller; x.via != nil {
		l = &leg{x: x, ctx: x.via} // the leg of an earlier response may still be in use
	}
	if err := l.watch(); err != nil {
		return nil, err
	}
	return o.Do(&req, l)
}

// leg is the use of one connection by a request. It closes the connection when the request must end.
type leg struct {
	x      *exchange
	ctx    context.Context // of the caller, or of the policies
	unhook func() bool     // stops the hook on ctx; nil if ctx cannot end
	late   bool            // the hook on ctx may still run

	mu   sync.Mutex // guards what follows
	conn *conn      // set while the leg may close it
	why  error      // why conn was closed, or is to be closed when it is set
}

var _ http1.Watch = (*leg)(nil)

// watch makes the end of ctx end the leg. It fails if ctx has ended already.
func (l *leg) watch() error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if l.ctx.Done() != nil {
		ctx := l.ctx
		l.unhook = context.AfterFunc(ctx, func() { l.cut(context.Cause(ctx)) })
	}
	return nil
}

func (l *leg) cut(why error) {
	l.mu.Lock()
	if l.why == nil {
		l.why = why
	}
	c := l.conn
	l.mu.Unlock()
	if c != nil {
		_ = c.Close() // below TLS, whose close would send an alert and wait
	}
}

func (l *leg) Context() context.Context { return l.x.sent() }

func (l *leg) Connected(c net.Conn, reused bool) {
	l.x.gotConn(httptrace.GotConnInfo{Conn: c, Reused: reused})
	l.mu.Lock()
	l.conn = l.x.conn
	why := l.why
	l.mu.Unlock()
	if why != nil { // the end came before there was a connection
		l.cut(why)
	}
}

func (l *leg) FirstByte() { l.x.FirstByte() }

func (l *leg) Release() error {
	if l.unhook != nil && !l.unhook() {
		l.late = true
		l.cut(context.Cause(l.ctx)) // unless the hook has done that already
	}
	l.unhook = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = nil
	return l.why
}

// pingAfter and pingTimeout bound the time to detect dead HTTP/2 connections, which TCP detects later.
const pingAfter, pingTimeout = 15 * time.Second, 15 * time.Second

type standard struct{ *http.Transport }

func newStandard(cfg Config, d *dialer) *http.Transport {
	t := &http.Transport{
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		TLSClientConfig:        d.tls.Clone(), // it offers HTTP/2
		TLSHandshakeTimeout:    tlsTimeout,
		MaxResponseHeaderBytes: cfg.MaxHeaderBytes,
		MaxConnsPerHost:        cfg.MaxConnsPerHost,
		MaxIdleConnsPerHost:    cfg.MaxConnsPerHost,
		MaxIdleConns:           maxIdle,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true, // the Client decodes bodies, within a bound
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(true)
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	return t
}

// roundTrip makes one attempt. A proxy for plain HTTP gets the whole URL unchanged.
func (s standard) roundTrip(x *exchange, to target, h http.Header) (*http.Response, error) {
	req := x.newRequest(x.sent(), to.url, h)
	rec := x.record()
	if err := rec.asks(x, to, req.Header); err != nil {
		return nil, err
	}
	if to.via != nil {
		whole := *to.url
		whole.Opaque, _, _ = strings.Cut(strings.TrimPrefix(to.absolute(), "http:"), "?")
		req.URL = &whole
		if auth := proxyAuth(to.via); auth != "" {
			req.Header = maps.Clone(req.Header)
			req.Header[proxyAuthorization] = []string{auth}
		}
	}
	hres, err := s.RoundTrip(req)
	if err == nil {
		rec.hear(hres)
	}
	return hres, err
}
