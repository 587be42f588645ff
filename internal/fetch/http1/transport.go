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
	"slices"
	"sync"
	"time"
)

// Config is what a [Transport] is made of. All fields are required.
type Config struct {
	// Dial and DialTLS connect to an address with a port; DialTLS also shakes hands.
	Dial, DialTLS  func(ctx context.Context, network, addr string) (net.Conn, error)
	MaxHeaderBytes int64         // of the header of an answer, informational ones before it included
	MaxPerHost     int           // connections to one host, kept ones included; a request beyond it waits
	MaxIdle        int           // connections kept for all hosts together
	IdleTimeout    time.Duration // for how long a connection is kept
}

// Watch is who waits for an answer. The waiting goroutine calls Connected and FirstByte at most once, in this order,
// and Release once, at the end.
type Watch interface {
	// Context ends the wait for a connection. It is asked for only if there is any.
	Context() context.Context
	// Connected tells of the connection of the request, and whether it was reused. Until Release the Watch may close c
	// from any goroutine, to end a read or a write.
	Connected(c net.Conn, reused bool)
	// FirstByte tells that the answer begins.
	FirstByte()
	// Release takes c, if any, from the Watch. It returns nil, or why the Watch has closed c, the error of the
	// request.
	Release() error
}

// Transport sends requests and keeps connections. It is safe for concurrent use.
type Transport struct {
	cfg     Config
	pool    pool
	readers sync.Pool // of *bufio.Reader, for connections that are lent
	get     http.Request
}

// New returns a Transport without connections.
func New(cfg Config) *Transport {
	t := &Transport{cfg: cfg, get: http.Request{Method: http.MethodGet}}
	t.pool.init(&t.cfg)
	return t
}

// CloseIdleConnections closes the connections that are kept, and from now on keeps none.
func (t *Transport) CloseIdleConnections() { t.pool.close() }

// errNoAnswer is the end of a connection where an answer should begin; as an EOF it differs from a broken answer.
var errNoAnswer = fmt.Errorf("http1: the server closed the connection without an answer: %w", io.EOF)

// readSize is the buffer of a lent connection. Most pages fit, and come with one read.
const readSize = 32 << 10

// Do sends a request and returns at the header of the answer. The body must be read or closed. The answer's Request
// has its method only.
func (t *Transport) Do(r *Request, w Watch) (*http.Response, error) {
	c, reused, err := t.connect(r, w)
	if err != nil {
		_ = w.Release() // the dialler knows what has ended it, and in which phase
		return nil, err
	}
	c.watch = w
	w.Connected(c.Conn, reused)
	resp, err := t.exchange(c, r)
	if err != nil {
		return nil, t.finish(c, false, err)
	}
	return resp, nil
}

func (t *Transport) exchange(c *conn, r *Request) (*http.Response, error) {
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
	c.watch.FirstByte()
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
		// What has ended the watch meanwhile comes too late: the answer is complete.
		_ = t.finish(c, reusable(resp, c), nil)
		return resp, nil
	}
	resp.Body = &body{ReadCloser: resp.Body, t: t, c: c, resp: resp}
	return resp, nil
}

// readFinal skips informational answers, bounded by their bytes. A switch of protocols is final.
func (t *Transport) readFinal(c *conn, req *http.Request) (*http.Response, error) {
	in := c.in
	for {
		if req.Method != http.MethodHead {
			if resp := readPlain(in, req); resp != nil {
				return resp, nil
			}
		}
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

// unchunk has a chunked body read by our reader. The connection of an HTTP/1.0 one is not reused (RFC 9112 section
// 6.1).
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

// HeaderTooLargeError says that the header of an answer went on beyond Config.MaxHeaderBytes.
type HeaderTooLargeError struct{ Max int64 }

func (e *HeaderTooLargeError) Error() string {
	return fmt.Sprintf("the header of the answer is longer than %d bytes", e.Max)
}

// reusable reports whether a connection may serve again: nothing may follow the answer.
func reusable(resp *http.Response, c *conn) bool {
	return !resp.Close && resp.StatusCode >= http.StatusOK && c.in.Buffered() == 0
}

// connect lends a kept connection if it lives, or a new one. If the latest kept one is dead, the others are not tried.
func (t *Transport) connect(r *Request, w Watch) (c *conn, reused bool, err error) {
	if err := r.check(); err != nil {
		return nil, false, err
	}
	key := hostKey{r.TLS, r.Host}
	c, err = t.pool.take(key, w)
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
	raw, err := dial(w.Context(), "tcp", r.address())
	if err != nil {
		t.pool.drop(key)
		return nil, false, err
	}
	return newConn(raw, key), false, nil
}

// finish takes a lent connection back, to be kept or closed, and returns err or what ended the watch.
func (t *Transport) finish(c *conn, keep bool, err error) error {
	if cause := c.watch.Release(); cause != nil {
		keep = false
		if err != nil && !errors.Is(err, io.EOF) {
			err = cause
		}
	}
	c.watch = nil
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
