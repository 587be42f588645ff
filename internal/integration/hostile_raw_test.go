package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// rawHost answers requests with bytes as they are, on sockets or pipes, and keeps the
// requests as they came.
type rawHost struct {
	// answer writes to c and reports whether the connection goes on. It may be called by
	// several goroutines at a time.
	answer func(c net.Conn, path string) bool

	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	conns  map[net.Conn]bool
	closed bool
	heads  []string // up to the blank line
	paths  []string
	sent   map[string]int64 // bytes by path
}

// newRawHost makes a host that ends with t.
func newRawHost(t *testing.T, answer func(c net.Conn, path string) bool) *rawHost {
	h := &rawHost{answer: answer, conns: make(map[net.Conn]bool), sent: make(map[string]int64)}
	t.Cleanup(func() {
		h.mu.Lock()
		h.closed = true
		for c := range h.conns {
			_ = c.Close() // only to end its goroutine
		}
		h.mu.Unlock()
		h.running.Wait()
	})
	return h
}

// listen serves on a loopback address and returns the origin.
func (h *rawHost) listen(t *testing.T, addr string) string {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			c, err := ln.Accept()
			if err != nil || !h.start(c) {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close() // only to end Accept
		<-accepting
	})
	return "http://" + ln.Addr().String()
}

// dial connects through a pipe, whatever the address.
func (h *rawHost) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	if !h.start(far) {
		return nil, net.ErrClosed
	}
	return socketLike{near}, nil
}

// socketLike is a pipe on which writing to a peer that has gone fails as on a socket.
type socketLike struct{ net.Conn }

func (c socketLike) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = &net.OpError{Op: "write", Net: "pipe", Err: syscall.EPIPE}
	}
	return n, err
}

func (h *rawHost) start(c net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		_ = c.Close() // nobody is there to be told
		return false
	}
	h.conns[c] = true
	h.running.Go(func() {
		h.serve(c)
		_ = c.Close() // it may be closed already
		h.mu.Lock()
		delete(h.conns, c)
		h.mu.Unlock()
	})
	return true
}

func (h *rawHost) serve(c net.Conn) {
	br := bufio.NewReader(c)
	for {
		head, path, err := readRequest(br)
		if err != nil {
			return
		}
		h.mu.Lock()
		h.heads, h.paths = append(h.heads, head), append(h.paths, path)
		h.mu.Unlock()
		counted := &countedConn{Conn: c}
		on := h.answer(counted, path)
		h.mu.Lock()
		h.sent[path] += counted.n
		h.mu.Unlock()
		if !on {
			return
		}
	}
}

// readRequest reads up to the blank line.
func readRequest(br *bufio.Reader) (head, path string, err error) {
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		if line == "\r\n" || line == "\n" {
			break
		}
		head += line
	}
	fields := strings.Fields(head)
	if len(fields) < 2 {
		return "", "", errors.New("not a request")
	}
	return head, fields[1], nil
}

// countedConn counts what is written.
type countedConn struct {
	net.Conn
	n int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.n += int64(n)
	return n, err
}

// count is how many requests asked for a path.
func (h *rawHost) count(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, p := range h.paths {
		if p == path {
			n++
		}
	}
	return n
}

// bytes is how much was sent in answer to requests for a path.
func (h *rawHost) bytes(path string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent[path]
}

// say writes an answer with a length and reports that the connection goes on.
func say(c io.Writer, status, header, body string) bool {
	_, err := fmt.Fprintf(c, "HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", status, header, len(body), body)
	return err == nil
}

const htmlHeader = "Content-Type: text/html\r\n"

// sayPage answers with HTML.
func sayPage(c io.Writer, body string) bool { return say(c, "200 OK", htmlHeader, body) }

// forever writes text until the peer is gone.
func forever(c io.Writer, text string) bool {
	text = strings.Repeat(text, 1+4096/len(text))
	for {
		if _, err := io.WriteString(c, text); err != nil {
			return false
		}
	}
}
