package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"
)

// Config configures a [Transport]. All fields are required.
type Config struct {
	// Dial and DialTLS connect to an address with a port. DialTLS also does the TLS handshake.
	Dial, DialTLS  func(ctx context.Context, network, addr string) (net.Conn, error)
	MaxHeaderBytes int64         // bounds the header of a response, including informational responses before it
	MaxPerHost     int           // bounds the connections to one host, kept ones included; more requests wait
	MaxIdle        int           // bounds the connections kept for all hosts together
	IdleTimeout    time.Duration // how long a connection is kept without use
}

// Transport sends requests and keeps connections. It is safe for concurrent use.
type Transport struct {
	cfg     Config
	pool    pool
	readers sync.Pool // of *bufio.Reader, for connections in use
	get     http.Request
}

// New returns a Transport without connections.
func New(cfg Config) *Transport {
	t := &Transport{cfg: cfg, get: http.Request{Method: http.MethodGet}}
	t.pool.init(&t.cfg)
	return t
}

// CloseIdleConnections closes the kept connections. From then on none is kept.
func (t *Transport) CloseIdleConnections() { t.pool.close() }

// errNoAnswer means that a connection ended where a response should begin. It wraps io.EOF and differs from the error
// of a broken response.
var errNoAnswer = fmt.Errorf("http1: the server closed the connection without an answer: %w", io.EOF)

// readSize is the size of the buffer of a connection in use. Most pages fit, and arrive with one read.
const readSize = 32 << 10

// Do sends a request and returns when the header of the response has arrived. The body must be read or closed. The
// response's Request has its method only. Until the end of the body, the end of ctx ends the request: its cause becomes
// the error. Of trace, GotConn and GotFirstResponseByte are required and called, in this goroutine; others are not.
func (t *Transport) Do(ctx context.Context, r *Request, trace *httptrace.ClientTrace) (*http.Response, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c, reused, err := t.connect(ctx, r)
	if err != nil {
		return nil, err
	}
	trace.GotConn(httptrace.GotConnInfo{Conn: c.Conn, Reused: reused})
	c.ctx, c.unhook = ctx, context.AfterFunc(ctx, func() { _ = underlying(c.Conn).Close() })
	resp, err := t.exchange(c, r, trace)
	if err != nil {
		return nil, t.finish(c, false, err)
	}
	return resp, nil
}

func (t *Transport) exchange(c *conn, r *Request, trace *httptrace.ClientTrace) (*http.Response, error) {
	if err := c.send(r); err != nil {
		return nil, err
	}
	in, _ := t.readers.Get().(*bufio.Reader)
	if in == nil {
		in = bufio.NewReaderSize(nil, readSize)
	}
	in.Reset(c)
	c.in, c.left = in, t.cfg.MaxHeaderBytes
	if _, err := in.Peek(1); err != nil {
		if err == io.EOF {
			err = errNoAnswer
		}
		return nil, err
	}
	trace.GotFirstResponseByte()
	req := &t.get
	if r.Method != "" {
		req = &http.Request{Method: r.Method}
	}
	resp, err := t.readFinal(c, req)
	if err != nil {
		if c.left <= 0 {
			err = &HeaderTooLargeError{t.cfg.MaxHeaderBytes}
		}
		return nil, err
	}
	c.left = math.MaxInt64
	if c.record != nil {
		c.record.headed(in, resp.ContentLength, slices.Contains(resp.TransferEncoding, "chunked"))
	}
	if resp.Body == http.NoBody {
		c.whole(true)
		// The response is complete, so whether its context has ended meanwhile does not matter.
		_ = t.finish(c, reusable(resp, c), nil)
		return resp, nil
	}
	resp.Body = &body{ReadCloser: resp.Body, t: t, c: c, resp: resp}
	return resp, nil
}

// readFinal reads the header of the final response. It skips informational responses; MaxHeaderBytes bounds them all. A
// switch of protocols is final.
func (t *Transport) readFinal(c *conn, req *http.Request) (*http.Response, error) {
	in := c.in
	for {
		old := chunkedOld(in)
		resp, err := http.ReadResponse(in, req)
		if err == nil && resp.Body != http.NoBody {
			unchunk(resp, in, old)
		}
		if err != nil || resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
		if c.record != nil {
			c.record.restart(in)
		}
	}
}

// unchunk replaces the reader of a chunked body by ours. The connection of a chunked HTTP/1.0 response is not reused
// (RFC 9112 section 6.1).
func unchunk(resp *http.Response, in *bufio.Reader, old bool) {
	if old {
		resp.Close = true
		if !beginsChunk(in) {
			return
		}
		resp.TransferEncoding, resp.ContentLength = []string{"chunked"}, -1
	}
	if slices.Contains(resp.TransferEncoding, "chunked") {
		resp.Body = &chunkedBody{chunks{in: in}, resp}
	}
}

// HeaderTooLargeError says that the header of a response is longer than Config.MaxHeaderBytes.
type HeaderTooLargeError struct{ Max int64 }

func (e *HeaderTooLargeError) Error() string {
	return fmt.Sprintf("the header of the answer is longer than %d bytes", e.Max)
}

// reusable reports whether a connection may serve another request: nothing may follow the response.
func reusable(resp *http.Response, c *conn) bool {
	return !resp.Close && resp.StatusCode >= http.StatusOK && c.in.Buffered() == 0
}

// connect returns a kept connection if it is alive, or a new one. If the latest kept connection is dead, the others are
// not tried.
func (t *Transport) connect(ctx context.Context, r *Request) (c *conn, reused bool, err error) {
	if err := r.check(); err != nil {
		return nil, false, err
	}
	key := hostKey{r.TLS, r.Host}
	c, err = t.pool.take(ctx, key)
	if err != nil {
		return nil, false, err
	}
	if c != nil {
		if r.Method == "" && c.alive() {
			return c, true, nil
		}
		c.discard()
	}
	dial := t.cfg.Dial
	if r.TLS {
		dial = t.cfg.DialTLS
	}
	raw, err := dial(ctx, "tcp", r.address())
	if err != nil {
		t.pool.drop(key)
		return nil, false, err
	}
	return newConn(raw, key), false, nil
}

// finish ends the use of a connection, and keeps or closes it. It returns err, or why the context of the request ended.
func (t *Transport) finish(c *conn, keep bool, err error) error {
	if !c.unhook() {
		keep = false
		if err != nil && !errors.Is(err, io.EOF) {
			err = context.Cause(c.ctx)
		}
	}
	c.ctx, c.unhook = nil, nil
	if c.in != nil {
		if c.record != nil {
			c.record.end(c.in)
		}
		c.in.Reset(nil)
		t.readers.Put(c.in)
		c.in = nil
	}
	c.record = nil
	if keep {
		t.pool.put(c)
		return err
	}
	c.discard()
	t.pool.drop(c.key)
	return err
}
