package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/fetch/lifetime"
	"github.com/treadlight/crawl/internal/fetch/reach"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
)

// BaseConfig says where a [Base] connects to. The zero BaseConfig is usable.
type BaseConfig struct {
	// AllowPrivate lets redirects lead to private and loopback addresses; else only the program's own hosts may be
	// there. None leads to link-local or cloud metadata addresses.
	AllowPrivate bool
	Strict       bool // holds what a program itself asks for to the rule for redirects
}

// The bounds of a [Base] are those of the crawl's own transport.
const (
	connectTimeout  = 10 * time.Second // for the lookup of a name and the connection together
	headerTimeout   = 20 * time.Second // for the header once the request is sent
	idleTimeout     = 90 * time.Second // for how long a connection is kept
	tlsTimeout      = 10 * time.Second
	maxConnsPerHost = 8         // a request beyond it waits
	maxHeader       = 256 << 10 // four times what common servers refuse to send
	maxIdle         = 1000      // for all hosts: each costs two goroutines
)

// Base is a transport with the bounds that net/http leaves open. After Close it makes and keeps no connection. It
// speaks HTTP/1.1 and HTTP/2, and consults no proxy of the environment.
//
// A redirect to another host leads only to the public Internet; the address is checked when dialled. Safe for
// concurrent use.
type Base struct {
	rt      *http.Transport
	open    func(ctx context.Context, network, addr string) (net.Conn, error)
	guarded func(ctx context.Context, network, addr string) (net.Conn, error)

	life *lifetime.Lifetime // of the dials under way
}

// NewBase builds a transport, and connects to nothing.
func NewBase(cfg BaseConfig) *Base {
	b := &Base{life: lifetime.New()}
	var none *reach.Openings
	b.guarded = (&net.Dialer{Control: none.Control("", cfg.AllowPrivate, denied)}).DialContext
	if b.open = b.guarded; !cfg.Strict {
		b.open = (&net.Dialer{}).DialContext
	}
	b.rt = &http.Transport{
		DialContext: b.dial, TLSHandshakeTimeout: tlsTimeout, ResponseHeaderTimeout: headerTimeout,
		MaxResponseHeaderBytes: maxHeader, MaxConnsPerHost: maxConnsPerHost, MaxIdleConnsPerHost: maxConnsPerHost,
		MaxIdleConns: maxIdle, IdleConnTimeout: idleTimeout, ForceAttemptHTTP2: true,
	}
	return b
}

// Class is what became of a request. Its String, which is its text in JSON too, is one of unknown (the zero Class), ok, redirect,
// client_error, throttled, unavailable, gateway, server_error, timeout, network, dns, no_host, tls, protocol, decode, too_large,
// bomb, filtered, address_denied, proxy and canceled. Transient reports whether the same request may succeed later, Overload
// whether the host has too much to do.
type Class = outcome.Class

// AddressError says that a request was not sent, as it led to an address that is not public.
type AddressError struct {
	Addr string // the address, and its port
}

var _ outcome.Classed = (*AddressError)(nil)

// Error says where the request led, and what allows it.
func (e *AddressError) Error() string {
	return fmt.Sprintf("the request, or a redirect, leads to %s, which is not on the public Internet: set AllowPrivate to have private addresses asked", e.Addr)
}

// Class is "address_denied".
func (e *AddressError) Class() Class { return outcome.AddressDenied }

func denied(addr string) error { return &AddressError{addr} }

// redirected marks the context of a request whose host the server chose.
type redirected struct{}

// RoundTrip sends a request. After Close it fails with [resilience.ErrClosed].
func (b *Base) RoundTrip(req *http.Request) (*http.Response, error) {
	if b.life.Over() {
		closeBody(req)
		return nil, resilience.ErrClosed
	}
	if elsewhere(req) {
		req = req.WithContext(context.WithValue(req.Context(), redirected{}, true))
	}
	res, err := b.rt.RoundTrip(req)
	if b.life.Over() {
		// Close came between: net/http keeps connections again once it is asked for one.
		b.rt.CloseIdleConnections()
	}
	return res, err
}

// elsewhere reports whether a redirect has led req to another host than the program's.
func elsewhere(req *http.Request) bool {
	first := req
	for first.Response != nil && first.Response.Request != nil {
		first = first.Response.Request
	}
	return first != req && !strings.EqualFold(first.URL.Hostname(), req.URL.Hostname())
}

// dial makes a connection. net/http's goroutine may outlive the request, so Close ends and awaits it.
func (b *Base) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !b.life.Begin() {
		return nil, resilience.ErrClosed
	}
	defer b.life.Done()
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	defer context.AfterFunc(b.life.Context(), cancel)()
	open := b.open
	if ctx.Value(redirected{}) != nil {
		open = b.guarded
	}
	conn, err := open(ctx, network, addr)
	switch {
	case err == nil:
		return conn, nil
	case b.life.Over():
		return nil, errors.Join(resilience.ErrClosed, err)
	}
	return nil, err
}

// CloseIdleConnections ends the connections that are kept.
func (b *Base) CloseIdleConnections() { b.rt.CloseIdleConnections() }

// Close ends idle connections and those in the making; others end with their requests. It may be called again; its
// error is nil.
func (b *Base) Close() error {
	b.life.End()
	b.rt.CloseIdleConnections()
	return nil
}
