package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

type conn struct {
	net.Conn
	key    hostKey
	socket *socket         // the socket below; nil if there is none
	out    []byte          // buffer for the request; kept to be reused
	in     *bufio.Reader   // set while the connection is in use
	ctx    context.Context // of the request; set while the connection is in use
	unhook func() bool     // keeps the end of ctx from closing the connection; set while it is in use
	left   int64           // bytes that may still be read
	record *Recording      // set while the connection is in use and recorded
	idle   time.Time       // when it was kept
}

func newConn(c net.Conn, key hostKey) *conn {
	return &conn{Conn: c, key: key, socket: socketOf(underlying(c))}
}

// underlying returns the connection below TLS, and below any wrapper with a method Inner.
func underlying(c net.Conn) net.Conn {
	for {
		switch in := c.(type) {
		case *tls.Conn:
			c = in.NetConn()
		case interface{ Inner() net.Conn }:
			c = in.Inner()
		default:
			return c
		}
	}
}

// maxKeptText bounds the buffer for requests that a connection keeps, in bytes.
const maxKeptText = 2 << 10

func (c *conn) send(r *Request) error {
	text := r.AppendTo(c.out[:0])
	if c.record = r.Recording; c.record != nil {
		c.record.asked(text)
	}
	_, err := c.Write(text)
	if c.out = nil; cap(text) <= maxKeptText {
		c.out = text
	}
	return err
}

// Read reads from the connection, within the bound of left.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if c.record != nil {
		c.record.read(p[:n])
	}
	return n, err
}

func (c *conn) whole(yes bool) {
	if c.record != nil {
		c.record.Whole = yes
	}
}

// discard closes a connection without the TLS close-notify, which may block for seconds.
func (c *conn) discard() {
	_ = underlying(c.Conn).Close()
	_ = c.Close()
}

// alive reports whether a kept connection may be used again: it is open and there is nothing to read. It takes one
// system call.
func (c *conn) alive() bool {
	if _, secure := c.Conn.(*tls.Conn); secure || c.socket == nil {
		if !quiet(c.Conn) {
			return false
		}
	}
	return c.socket == nil || c.socket.silent()
}

// quiet reports whether there is nothing to read. It reads without waiting, because in-memory connections and TLS may
// hold bytes that the system does not know of.
func quiet(c net.Conn) bool {
	if c.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	var b [1]byte
	n, err := c.Read(b[:])
	timeout, ok := errors.AsType[net.Error](err)
	return n == 0 && ok && timeout.Timeout() && c.SetReadDeadline(time.Time{}) == nil
}

// body returns the connection when it is read to its end or closed. It has one reader.
type body struct {
	io.ReadCloser
	t    *Transport
	c    *conn
	resp *http.Response
	err  error // never changes once set
}

var errBodyClosed = errors.New("http1: read of a body that was closed")

// Read reads the body. Once it has returned an error, it always returns that error: io.EOF at the end of the body.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.c.whole(err == io.EOF)
		b.err = b.t.finish(b.c, err == io.EOF && reusable(b.resp, b.c), err)
	}
	return n, b.err
}

// Close ends the use of the connection. Unless the whole body was read, the connection is closed, too.
func (b *body) Close() error {
	if b.err == nil {
		b.err = errBodyClosed
		_ = b.t.finish(b.c, false, nil)
	}
	return nil
}
