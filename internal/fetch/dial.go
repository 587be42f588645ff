package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// dialer makes the connections of one Client and knows when none is left in the making.
type dialer struct {
	cfg     Config
	tls     *tls.Config
	open    func(ctx context.Context, network, addr string) (net.Conn, error)
	guarded func(ctx context.Context, network, addr string) (net.Conn, error)

	closing context.Context // ends when the Client closes, and every dial with it
	stop    context.CancelFunc

	mu     sync.Mutex // guards what follows
	closed bool
	inside sync.WaitGroup // dials under way; Add only while not closed
}

func newDialer(cfg Config) *dialer {
	d := &dialer{cfg: cfg, tls: tlsConfig(cfg)}
	d.closing, d.stop = context.WithCancel(context.Background())
	if cfg.DialContext != nil {
		d.open, d.guarded = cfg.DialContext, cfg.DialContext
		return d
	}
	guard := ssrf.New(ssrf.WithAnyPort())
	d.open = (&net.Dialer{}).DialContext
	d.guarded = (&net.Dialer{Control: func(network, addr string, c syscall.RawConn) error {
		if err := guard.Safe(network, addr, c); err != nil {
			return &addressError{addr: addr}
		}
		return nil
	}}).DialContext
	return d
}

// sessions is how many hosts' TLS sessions are kept for resumption: as many as there
// are connections to lose. What is forgotten costs a full handshake.
const sessions = defaultMaxIdle

func tlsConfig(cfg Config) *tls.Config {
	protos := []string{"http/1.1"}
	if cfg.HTTP2 {
		protos = []string{"h2", "http/1.1"}
	}
	return &tls.Config{
		NextProtos:         protos,
		InsecureSkipVerify: cfg.Insecure, // the user's explicit choice
		ClientSessionCache: tls.NewLRUClientSessionCache(sessions),
	}
}

// addressError says that an address was not dialled, and what to do about it.
type addressError struct{ addr string }

func (e *addressError) Error() string {
	return fmt.Sprintf("address %s is not on the public Internet; it is only dialled for a host named as a seed or allowed", e.addr)
}

// Class implements outcome.Classed.
func (e *addressError) Class() outcome.Class { return outcome.AddressDenied }

// named reports whether host may have any address.
func (d *dialer) named(host string) bool {
	host = strings.ToLower(host)
	return d.cfg.AllowPrivate ||
		d.cfg.Proxy != nil && strings.EqualFold(d.cfg.Proxy.Hostname(), host) ||
		d.cfg.Allow != nil && d.cfg.Allow(host)
}

// enter admits a dial unless the Client is closed; leave ends it.
func (d *dialer) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.inside.Add(1)
	return true
}

func (d *dialer) leave() { d.inside.Done() }

// close ends the dials under way and waits for them.
func (d *dialer) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.stop()
	d.inside.Wait()
}

// within is ctx for one phase: it also ends after limit and when the Client closes.
func (d *dialer) within(ctx context.Context, limit time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	unhook := context.AfterFunc(d.closing, cancel)
	return ctx, func() { unhook(); cancel() }
}

// dial makes a plain connection. net/http's transport calls it in a goroutine of its own,
// with a context that outlives the request for which it began to dial.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !d.enter() {
		return nil, errClosed
	}
	defer d.leave()
	c, err := d.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (d *dialer) connect(ctx context.Context, network, addr string) (*conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &phaseError{OpConnect, err}
	}
	phase, done := d.within(ctx, d.cfg.ConnectTimeout)
	defer done()
	open := d.guarded
	if d.named(host) {
		open = d.open
	}
	lookup := stopwatch{clk: d.cfg.Clock}
	begin := d.cfg.Clock.Now()
	raw, err := open(lookup.trace(phase), network, addr)
	if err != nil {
		return nil, d.failed(ctx, OpConnect, err)
	}
	c := &conn{Conn: raw, remote: raw.RemoteAddr().String()}
	c.dns = time.Duration(lookup.total.Load())
	c.connect = max(0, d.cfg.Clock.Since(begin)-c.dns)
	return c, nil
}

// failed names the phase of a dial that failed; a lookup is part of a dial. If nobody waits
// for it any more, the reason of that goes before what became of it.
func (d *dialer) failed(ctx context.Context, op Op, err error) error {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		op = OpDNS
	}
	if d.closing.Err() != nil {
		err = errClosed
	} else if gone := context.Cause(ctx); gone != nil {
		err = gone
	}
	return &phaseError{op, err}
}

// dialTLS makes a connection and shakes hands. Doing it here instead of in the
// transport names the phase of a failure and keeps the times with the connection, not
// with the request that happened to cause it.
func (d *dialer) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	if !d.enter() {
		return nil, errClosed
	}
	defer d.leave()
	raw, err := d.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	cfg := d.tls.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(addr) // connect has split it already
	secure := tls.Client(raw, cfg)
	phase, done := d.within(ctx, d.cfg.TLSTimeout)
	defer done()
	begin := d.cfg.Clock.Now()
	if err := secure.HandshakeContext(phase); err != nil {
		_ = raw.Close() // the handshake's error says more
		return nil, d.failed(ctx, OpTLS, err)
	}
	raw.tls = d.cfg.Clock.Since(begin)
	return secure, nil
}

// stopwatch adds up the lookups of one dial.
type stopwatch struct {
	clk   clock.Clock
	begin time.Time
	total atomic.Int64 // nanoseconds; a lookup given up may end in another goroutine
}

func (s *stopwatch) trace(ctx context.Context) context.Context {
	s.begin = s.clk.Now()
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSDone: func(httptrace.DNSDoneInfo) { s.total.Store(int64(s.clk.Since(s.begin))) },
	})
}

// conn counts what was written to a connection and remembers how it came about. The
// times are set before the transport sees it and never change.
type conn struct {
	net.Conn
	remote            string
	dns, connect, tls time.Duration
	began             atomic.Int64 // writes begun
	written           atomic.Int64 // bytes that certainly left, TLS included
}

func (c *conn) Write(p []byte) (int, error) {
	c.began.Add(1)
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// Inner is the connection that is counted.
func (c *conn) Inner() net.Conn { return c.Conn }

// inner finds the conn below what the transport holds, or nil.
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
