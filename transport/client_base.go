package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock/lifetime"
	"github.com/treadlight/crawl/internal/fetch/reach"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
)

// BaseConfig says which addresses a [Base] may connect to. The zero BaseConfig is ready for use.
type BaseConfig struct {
	// AllowPrivate lets redirects lead to private and loopback addresses; otherwise only hosts that the program itself
	// requests may have such addresses. No redirect may lead to link-local addresses or those of cloud metadata.
	AllowPrivate bool
	Strict       bool // applies the rule for redirects to the program's own requests too
}

// The bounds of a [Base] are those of the crawl's own transport.
const (
	connectTimeout  = 10 * time.Second // for looking up the name and connecting, together
	headerTimeout   = 20 * time.Second // from the end of the request to the header of the response
	idleTimeout     = 90 * time.Second // how long an idle connection is kept
	tlsTimeout      = 10 * time.Second
	maxConnsPerHost = 8         // further requests wait
	maxHeader       = 256 << 10 // four times the size that common servers refuse to send
	maxIdle         = 1000      // for all hosts together: each costs two goroutines
)

// Base is an http.Transport with bounds where net/http has none by default. It speaks HTTP/1.1 and HTTP/2 and ignores
// proxies in the environment. After Close it opens and keeps no connection.
//
// A redirect to another host may lead only to the public Internet; the address is checked when the connection is made.
// It is safe for concurrent use.
type Base struct {
	rt      *http.Transport
	open    func(ctx context.Context, network, addr string) (net.Conn, error)
	guarded func(ctx context.Context, network, addr string) (net.Conn, error)

	life *lifetime.Lifetime // of the connections being made
}

// NewBase returns a transport. It does not connect yet.
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

// Class says what became of a request. Its String, which is also its text in JSON, is one of unknown (the zero Class),
// ok, redirect, client_error, throttled, unavailable, gateway, server_error, timeout, network, dns, no_host, tls,
// protocol, decode, too_large, bomb, filtered, address_denied, proxy and canceled. Transient reports whether the same
// request may succeed later, and Overload whether the host has too much to do.
type Class = outcome.Class

// AddressError says that a request was not sent, because it led to an address that is not public.
type AddressError struct {
	Addr string // address and port
}

var _ outcome.Classed = (*AddressError)(nil)

// Error returns where the request led, and what allows it.
func (e *AddressError) Error() string {
	return fmt.Sprintf("the request, or a redirect, leads to %s, which is not on the public Internet: set AllowPrivate to have private addresses asked", e.Addr)
}

// Class returns address_denied.
func (e *AddressError) Class() Class { return outcome.AddressDenied }

func denied(addr string) error { return &AddressError{addr} }

// redirected is the key that marks the context of a request whose host was chosen by the server.
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
		// Close was called meanwhile: net/http keeps idle connections again after a further request.
		b.rt.CloseIdleConnections()
	}
	return res, err
}

// elsewhere reports whether a redirect led req to another host than the one that the program requested.
func elsewhere(req *http.Request) bool {
	first := req
	for first.Response != nil && first.Response.Request != nil {
		first = first.Response.Request
	}
	return first != req && !strings.EqualFold(first.URL.Hostname(), req.URL.Hostname())
}

// dial makes a connection. net/http dials on a goroutine that may outlive the request, so Close cancels it and waits
// for it.
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

// CloseIdleConnections closes the connections that are idle.
func (b *Base) CloseIdleConnections() { b.rt.CloseIdleConnections() }

// Close closes idle connections and those being made; others are closed when their requests end. It may be called
// again; its error is nil.
func (b *Base) Close() error {
	b.life.End()
	b.rt.CloseIdleConnections()
	return nil
}
