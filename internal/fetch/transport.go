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

// transport is what requests leave by. A nil header is the Client's own.
type transport interface {
	roundTrip(x *exchange, to target, h http.Header) (*http.Response, error)
	CloseIdleConnections()
}

// newTransport is the program's, or our own, with a third less CPU time, or net/http's for HTTP/2. The dialler does proxies.
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
		l = &leg{x: x, ctx: x.via} // the answer before may not be done with
	}
	if err := l.watch(); err != nil {
		return nil, err
	}
	return o.Do(&req, l)
}

// leg is a request's time on one connection, which it closes when the request must end.
type leg struct {
	x      *exchange
	ctx    context.Context // that of the caller, or of the policies
	unhook func() bool     // of ctx; nil if it cannot end
	late   bool            // the hook may still act

	mu   sync.Mutex // guards what follows
	conn *conn      // while it may be closed
	why  error      // it was, or is to be when there is one
}

var _ http1.Watch = (*leg)(nil)

// watch lets the end of ctx end the leg, or fails if it has come already.
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
		_ = c.Close() // below TLS, which would say goodbye and wait
	}
}

func (l *leg) Context() context.Context { return l.x.sent() }

func (l *leg) Connected(c net.Conn, reused bool) {
	l.x.gotConn(httptrace.GotConnInfo{Conn: c, Reused: reused})
	l.mu.Lock()
	l.conn = l.x.conn
	why := l.why
	l.mu.Unlock()
	if why != nil { // it came while nobody could be told
		l.cut(why)
	}
}

func (l *leg) FirstByte() { l.x.FirstByte() }

func (l *leg) Release() error {
	if l.unhook != nil && !l.unhook() {
		l.late = true
		l.cut(context.Cause(l.ctx)) // if the hook has not yet said so
	}
	l.unhook = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = nil
	return l.why
}

// pingAfter and pingTimeout find dead HTTP/2 connections before TCP does.
const pingAfter, pingTimeout = 15 * time.Second, 15 * time.Second

type standard struct{ *http.Transport }

func newStandard(cfg Config, d *dialer) *http.Transport {
	t := &http.Transport{
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		TLSClientConfig:        d.tls.Clone(), // says that it may offer HTTP/2
		TLSHandshakeTimeout:    tlsTimeout,
		MaxResponseHeaderBytes: cfg.MaxHeaderBytes,
		MaxConnsPerHost:        cfg.MaxConnsPerHost,
		MaxIdleConnsPerHost:    cfg.MaxConnsPerHost,
		MaxIdleConns:           maxIdle,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true, // decoding is ours, with a bound
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(true)
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	return t
}

// roundTrip is one try. Through a proxy for plain HTTP it carries the whole URL unchanged.
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
