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
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Config is what a [Transport] is made of. All fields are required.
type Config struct {
	// Dial and DialTLS make connections to an address with a port; the second one shakes
	// hands as well.
	Dial, DialTLS func(ctx context.Context, network, addr string) (net.Conn, error)
	// MaxHeaderBytes bounds the header of an answer, informational ones before it included.
	MaxHeaderBytes int64
	// MaxPerHost bounds the connections to one host, kept ones included; a request beyond
	// it waits.
	MaxPerHost int
	// MaxIdle bounds the connections kept for all hosts together.
	MaxIdle int
	// IdleTimeout is for how long a connection is kept.
	IdleTimeout time.Duration
}

// Transport is an [http.RoundTripper]. It is safe for concurrent use.
type Transport struct {
	cfg     Config
	pool    pool
	readers sync.Pool // of *bufio.Reader, for connections that are lent
	texts   sync.Pool // of *[]byte, for requests on their way
}

// New returns a Transport without connections.
func New(cfg Config) *Transport {
	t := &Transport{cfg: cfg}
	t.pool.init(&t.cfg)
	return t
}

// CloseIdleConnections closes the connections that are kept, and from now on keeps none.
func (t *Transport) CloseIdleConnections() { t.pool.close() }

var (
	errBody   = errors.New("http1: a request with a body: only GET and HEAD are sent")
	errHost   = errors.New("http1: no host that can be asked")
	errHeader = errors.New("http1: a header field that would break the request")
	errClosed = fmt.Errorf("http1: the server closed the connection without an answer: %w", io.EOF)
)

// readSize is the buffer of a lent connection. Most pages fit, and come with one read.
const readSize = 32 << 10

// RoundTrip sends a GET or HEAD request and returns when the header of the answer is there.
// The body must be read to its end or closed, as always. The end of the request's context
// ends both, at once.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	text, _ := t.texts.Get().(*[]byte)
	if text == nil {
		text = new([]byte)
	}
	defer t.texts.Put(text)
	var err error
	if *text, err = appendRequest((*text)[:0], req); err != nil {
		return nil, err
	}
	addr, err := address(req)
	if err != nil {
		return nil, err
	}
	ctx := req.Context()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c, err := t.connect(ctx, req.URL.Scheme, addr)
	if err != nil {
		return nil, err
	}
	// Whoever waits for the network cannot look at the context.
	c.unwatch = context.AfterFunc(ctx, func() { _ = c.Close() })
	resp, err := t.exchange(c, req, *text)
	if err != nil {
		t.finish(c, false)
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	return resp, nil
}

// exchange writes the request and reads the header of the answer.
func (t *Transport) exchange(c *conn, req *http.Request, text []byte) (*http.Response, error) {
	if _, err := c.Write(text); err != nil {
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
			err = errClosed
		}
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GotFirstResponseByte != nil {
		trace.GotFirstResponseByte()
	}
	resp, err := readFinal(in, req)
	if err != nil {
		if c.left <= 0 {
			err = &HeaderTooLargeError{t.cfg.MaxHeaderBytes}
		}
		return nil, err
	}
	c.left = math.MaxInt64
	if resp.Body == http.NoBody || resp.StatusCode < http.StatusOK {
		t.finish(c, reusable(resp, c))
		return resp, nil
	}
	resp.Body = &body{ReadCloser: resp.Body, t: t, c: c, resp: resp}
	return resp, nil
}

// readFinal reads answers until one is not informational; how many may come before is
// bounded by their bytes. A switch of protocols is final: nobody has asked for it, and it is
// the caller who says so.
func readFinal(in *bufio.Reader, req *http.Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(in, req)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil || resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// HeaderTooLargeError says that the header of an answer went on beyond Config.MaxHeaderBytes.
type HeaderTooLargeError struct{ Max int64 }

func (e *HeaderTooLargeError) Error() string {
	return fmt.Sprintf("the header of the answer is longer than %d bytes", e.Max)
}

// reusable reports whether a connection may serve again, now that the answer was read.
func reusable(resp *http.Response, c *conn) bool {
	return !resp.Close && resp.StatusCode >= http.StatusOK && c.in.Buffered() == 0
}

// connect lends a connection to the address: a kept one if there is any that lives, a new
// one otherwise.
func (t *Transport) connect(ctx context.Context, scheme, addr string) (*conn, error) {
	key := hostKey{scheme, addr}
	for {
		c, err := t.pool.take(ctx, key)
		if err != nil {
			return nil, err
		}
		if c == nil {
			return t.dial(ctx, key)
		}
		if alive(c.Conn) {
			got(ctx, c, true)
			return c, nil
		}
		_ = c.Close()
		t.pool.drop(key)
	}
}

// dial makes a connection for which the pool has a place.
func (t *Transport) dial(ctx context.Context, key hostKey) (*conn, error) {
	dial := t.cfg.Dial
	if key.scheme == "https" {
		dial = t.cfg.DialTLS
	}
	raw, err := dial(ctx, "tcp", key.addr)
	if err != nil {
		t.pool.drop(key)
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	c := &conn{Conn: raw, key: key}
	got(ctx, c, false)
	return c, nil
}

func got(ctx context.Context, c *conn, reused bool) {
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.Conn, Reused: reused, WasIdle: reused})
	}
}

// finish takes a lent connection back, to be kept or closed.
func (t *Transport) finish(c *conn, keep bool) {
	if !c.unwatch() { // it is being closed
		keep = false
	}
	if c.in != nil {
		c.in.Reset(nil)
		t.readers.Put(c.in)
		c.in = nil
	}
	if keep {
		t.pool.put(c)
		return
	}
	_ = c.Close() // of a connection that is given up there is nothing to learn
	t.pool.drop(c.key)
}

// conn is one connection.
type conn struct {
	net.Conn
	key     hostKey
	in      *bufio.Reader // while it is lent
	left    int64         // bytes that may still be read
	unwatch func() bool   // ends the watch of the context; false if it has acted
	idle    time.Time     // since when it is kept
}

func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// body gives the connection back when it has been read, or is closed. Like every body it has
// one reader.
type body struct {
	io.ReadCloser
	t    *Transport
	c    *conn
	resp *http.Response
	err  error // once set, for good
}

var errBodyClosed = errors.New("http1: read of a body that was closed")

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(err, err == io.EOF && reusable(b.resp, b.c))
	}
	return n, err
}

// Close closes the connection too unless all of the body was read.
func (b *body) Close() error {
	if b.err == nil {
		b.end(errBodyClosed, false)
	}
	return nil
}

func (b *body) end(err error, keep bool) {
	b.err = err
	b.t.finish(b.c, keep)
}

// appendRequest appends the request as it is on the wire (RFC 9112, 3).
func appendRequest(b []byte, req *http.Request) ([]byte, error) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead || req.Body != nil && req.Body != http.NoBody {
		return b, errBody
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	host, err := httpguts.PunycodeHostPort(withoutZone(host))
	if err != nil || host == "" || !httpguts.ValidHostHeader(host) {
		return b, errHost
	}
	uri := req.URL.RequestURI()
	if strings.ContainsAny(uri, " \t\r\n\x00") {
		return b, errHeader
	}
	b = append(append(append(append(b, req.Method...), ' '), uri...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, host...), "\r\n"...)
	var names [16]string // more are rare, and then cost an allocation
	for _, name := range inOrder(names[:0], req.Header) {
		if !httpguts.ValidHeaderFieldName(name) {
			return b, errHeader
		}
		for _, v := range req.Header[name] {
			if !httpguts.ValidHeaderFieldValue(v) {
				return b, errHeader
			}
			b = append(append(append(append(b, name...), ": "...), v...), "\r\n"...)
		}
	}
	return append(b, "\r\n"...), nil
}

// inOrder appends the names of a header as they are sent: User-Agent, and the others by
// name, so that one request looks like the next.
func inOrder(names []string, h http.Header) []string {
	for name := range h {
		if name != "Host" {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		const first = "User-Agent"
		switch {
		case a == first:
			return -1
		case b == first:
			return 1
		}
		return strings.Compare(a, b)
	})
	return names
}

// withoutZone is a host without the zone of an IPv6 address, which means something to this
// machine only (RFC 6874, 4).
func withoutZone(host string) string {
	from := strings.IndexByte(host, '%')
	to := strings.LastIndexByte(host, ']')
	if !strings.HasPrefix(host, "[") || from < 0 || to < from {
		return host
	}
	return host[:from] + host[to:]
}

// address is where the host of a request listens.
func address(req *http.Request) (string, error) {
	host, err := httpguts.PunycodeHostPort(req.URL.Host)
	if err != nil || req.URL.Hostname() == "" {
		return "", errHost
	}
	if port := req.URL.Port(); port != "" {
		return host, nil
	}
	host = strings.TrimSuffix(host, ":")
	switch req.URL.Scheme {
	case "http":
		return host + ":80", nil
	case "https":
		return host + ":443", nil
	}
	return "", fmt.Errorf("http1: scheme %q is not http or https", req.URL.Scheme)
}
