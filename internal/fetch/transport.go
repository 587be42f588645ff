package fetch

import (
	"maps"
	"net/http"
	"slices"
	"strings"
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
	req := http1.Request{Method: x.req.Method, Body: x.req.Payload, TLS: to.tls, Host: to.host, Target: to.uri, Fields: o.base, Recording: rec.onWire()}
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
	return o.Do(x.sent(), &req, &x.trace)
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
	req := x.newRequest(x.traced(), to.url, h)
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
