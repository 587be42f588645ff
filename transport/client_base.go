package transport

import (
	"cmp"
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

// BaseConfig says how a [Base] connects. The zero BaseConfig is usable.
type BaseConfig struct {
	ConnectTimeout  time.Duration // for the lookup of a name and the connection together; zero means 10s
	HeaderTimeout   time.Duration // for the header once the request is sent; zero means 20s
	IdleTimeout     time.Duration // for how long a connection is kept; zero means 90s
	MaxConnsPerHost int           // a request beyond it waits; zero means 8
	// AllowPrivate lets redirects lead to private and loopback addresses. False means that only
	// the hosts a program itself asks for may be there. To link-local addresses, and those
	// where clouds keep secrets for their machines, none leads.
	AllowPrivate bool
	Strict       bool // holds what a program itself asks for to the rule for redirects
}

// The defaults of [BaseConfig] are those of the crawl's own transport.
const (
	defaultConnectTimeout  = 10 * time.Second
	defaultHeaderTimeout   = 20 * time.Second
	defaultIdleTimeout     = 90 * time.Second
	defaultMaxConnsPerHost = 8
	// tlsTimeout is net/http's own for its default transport.
	tlsTimeout = 10 * time.Second
	// maxHeader is four times what common servers refuse to send.
	maxHeader = 256 << 10
	// maxIdle bounds the connections kept for all hosts: each costs two goroutines.
	maxIdle = 1000
)

// Base is a transport with the bounds that net/http leaves open, and with an end: after
// Close it makes no connection and keeps none. It speaks HTTP/1.1 and HTTP/2, as the
// server likes, and consults no proxy of the environment.
//
// A redirect to another host is only followed to the public Internet, since it was the
// server that chose the address and not the program; the address is looked at when it is
// dialled, after the name was resolved. It is safe for concurrent use.
type Base struct {
	rt      *http.Transport
	connect time.Duration
	open    func(ctx context.Context, network, addr string) (net.Conn, error)
	guarded func(ctx context.Context, network, addr string) (net.Conn, error)

	life *lifetime.Lifetime // of the dials under way
}

// NewBase builds a transport, and connects to nothing. The error names the field of cfg
// that makes no sense.
func NewBase(cfg BaseConfig) (*Base, error) {
	for _, f := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"ConnectTimeout", &cfg.ConnectTimeout, defaultConnectTimeout},
		{"HeaderTimeout", &cfg.HeaderTimeout, defaultHeaderTimeout},
		{"IdleTimeout", &cfg.IdleTimeout, defaultIdleTimeout},
	} {
		var err error
		if *f.value, err = positive("BaseConfig."+f.name, *f.value, f.zero); err != nil {
			return nil, err
		}
	}
	if cfg.MaxConnsPerHost < 0 {
		return nil, fmt.Errorf("transport: BaseConfig.MaxConnsPerHost is %d: use a positive number, or zero for %d", cfg.MaxConnsPerHost, defaultMaxConnsPerHost)
	}
	cfg.MaxConnsPerHost = cmp.Or(cfg.MaxConnsPerHost, defaultMaxConnsPerHost)
	b := &Base{connect: cfg.ConnectTimeout, life: lifetime.New()}
	var none *reach.Openings
	b.guarded = (&net.Dialer{Control: none.Control("", cfg.AllowPrivate, denied)}).DialContext
	if b.open = b.guarded; !cfg.Strict {
		b.open = (&net.Dialer{}).DialContext
	}
	b.rt = &http.Transport{
		DialContext: b.dial, TLSHandshakeTimeout: tlsTimeout, ResponseHeaderTimeout: cfg.HeaderTimeout,
		MaxResponseHeaderBytes: maxHeader, MaxConnsPerHost: cfg.MaxConnsPerHost, MaxIdleConnsPerHost: cfg.MaxConnsPerHost,
		MaxIdleConns: maxIdle, IdleConnTimeout: cfg.IdleTimeout, ForceAttemptHTTP2: true,
	}
	return b, nil
}

// AddressError says that a request, or a redirect, led to an address that is not on the public
// Internet, and was not sent.
type AddressError struct{ Addr string }

var _ outcome.Classed = (*AddressError)(nil)

func (e *AddressError) Error() string {
	return fmt.Sprintf("the request, or a redirect, leads to %s, which is not on the public Internet: set AllowPrivate to have private addresses asked", e.Addr)
}

// Class implements outcome.Classed.
func (e *AddressError) Class() outcome.Class { return outcome.AddressDenied }

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

// elsewhere reports whether a redirect has led req to a host that the program has not
// asked for. http.Client leaves the answers that led there in the request.
func elsewhere(req *http.Request) bool {
	first := req
	for first.Response != nil && first.Response.Request != nil {
		first = first.Response.Request
	}
	return first != req && !strings.EqualFold(first.URL.Hostname(), req.URL.Hostname())
}

// dial makes a connection. net/http calls it on a goroutine that may outlive the request,
// so that Close has to end it and wait for it.
func (b *Base) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !b.life.Begin() {
		return nil, resilience.ErrClosed
	}
	defer b.life.Done()
	ctx, cancel := context.WithTimeout(ctx, b.connect)
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

// Close ends the connections that are kept and those in the making. Requests under way go
// on, and their connections end with them. It may be called again; its error is nil.
func (b *Base) Close() error {
	b.life.End()
	b.rt.CloseIdleConnections()
	return nil
}
