package http1

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// net/http's transport, with which answers are compared, speaks to the standard logger
	// when a server says more than it announced.
	log.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

// waiter is the context of a request, and notes whether its connection was reused.
type waiter struct {
	ctx    context.Context
	reused bool
}

func wait(ctx context.Context) *waiter { return &waiter{ctx: ctx} }

func (w *waiter) do(tr *Transport, r *Request) (*http.Response, error) {
	return tr.Do(w.ctx, r, &httptrace.ClientTrace{
		GotConn:              func(info httptrace.GotConnInfo) { w.reused = info.Reused },
		GotFirstResponseByte: func() {},
	})
}

// site is hosts in memory. Each connection is served by serve, which gets the server's end
// and its number, the first being 1; when serve returns the connection is closed.
type site struct {
	serve func(c net.Conn, n int)

	mu      sync.Mutex // guards what follows
	dialled int
	open    map[int]net.Conn // the client's ends that have not been closed
	most    int              // open at a time
	running sync.WaitGroup
}

type end struct {
	net.Conn
	s *site
	n int
}

func (e *end) Close() error {
	e.s.mu.Lock()
	delete(e.s.open, e.n)
	e.s.mu.Unlock()
	return e.Conn.Close()
}

func (s *site) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialled++
	n := s.dialled
	if s.open == nil {
		s.open = make(map[int]net.Conn)
	}
	c := &end{near, s, n}
	s.open[n] = c
	s.most = max(s.most, len(s.open))
	s.running.Go(func() {
		s.serve(far, n)
		_ = far.Close()
	})
	return c, nil
}

func (s *site) dials() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dialled
}

func (s *site) kept() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *site) transport(t *testing.T, change func(*Config)) *Transport {
	t.Helper()
	cfg := Config{
		Dial: s.dial, MaxHeaderBytes: 4 << 10, MaxPerHost: 2, MaxIdle: 4, IdleTimeout: 90 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	tr := New(cfg)
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		s.running.Wait()
		require.Zero(t, s.kept(), "connections left open")
		require.Empty(t, tr.pool.hosts, "hosts left in the pool")
		require.Zero(t, tr.pool.idle.Len())
	})
	return tr
}

// requests reads requests and answers each with what answer says; it ends when that is false, or the connection does.
func requests(answer func(c net.Conn, path string) bool) func(net.Conn, int) {
	return func(c net.Conn, _ int) {
		in := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(in)
			if err != nil || !answer(c, req.RequestURI) {
				return
			}
		}
	}
}

func say(c net.Conn, text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

const page = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"

func get(tr *Transport, w *waiter, host, path string) (string, error) {
	resp, err := w.do(tr, &Request{Host: host, Target: path})
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return string(b), err
}
