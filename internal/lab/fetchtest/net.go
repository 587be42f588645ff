// Package fetchtest has servers for tests of clients.
//
// [Serve] has named hosts with ordinary handlers in memory, reached through
// [Net.DialContext], for testing/synctest bubbles. It records every request with its instant.
// A [Memory] is the network alone.
//
// [Hostile] is a server that breaks the rules of HTTP in one way per path. It listens on a
// loopback socket, or serves pipes inside a bubble.
//
// Both end with their test and leave no goroutine behind.
package fetchtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Request is one request that a [Net] has received.
type Request struct {
	Host string    // as named to Serve
	Path string    // path and query as sent
	At   time.Time // when the handler was called
	Conn int       // number of the connection, in order of dialling, from 1
}

// Net is a set of named hosts. It is safe for concurrent use.
type Net struct {
	hosts    map[string]http.Handler
	server   *http.Server
	listener *listener
	busy     sync.WaitGroup // handlers running
	dialled  atomic.Int64

	mu       sync.Mutex // guards what follows
	ended    bool       // no handler begins any more
	requests []Request
}

// Serve starts a Net that ends with t. A key is a host name ("a.test": every port) or
// a host and port ("a.test:8080", which goes first); all speak plain HTTP/1.1. A nil
// handler is a host that refuses connections; a name that is missing does not resolve.
func Serve(t testing.TB, hosts map[string]http.Handler) *Net {
	t.Helper()
	n := &Net{hosts: hosts, listener: newListener("fetchtest:80")}
	n.server = &http.Server{
		Handler:     http.HandlerFunc(n.handle),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    log.New(io.Discard, "", 0), //nolint:forbidigo // silence: broken connections are what tests are about
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := n.server.Serve(n.listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("fetchtest: serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		_ = n.server.Close() // of pipes: nothing can fail
		<-done
		n.mu.Lock()
		n.ended = true
		n.mu.Unlock()
		n.busy.Wait()
	})
	return n
}

type connKey struct{}

func (n *Net) handle(w http.ResponseWriter, r *http.Request) {
	p, ok := r.Context().Value(connKey{}).(*pipe)
	if !ok {
		http.Error(w, "not dialled through this Net", http.StatusInternalServerError)
		return
	}
	n.mu.Lock()
	if n.ended { // a connection may have a request left when the test ends
		n.mu.Unlock()
		return
	}
	n.busy.Add(1)
	defer n.busy.Done()
	n.requests = append(n.requests, Request{Host: p.host, Path: r.RequestURI, At: time.Now(), Conn: p.number}) //nolint:forbidigo // the bubble's time
	n.mu.Unlock()
	n.hosts[p.host].ServeHTTP(w, r)
}

// DialContext connects to a host of the Net; it fits fetch.Config.
func (n *Net) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	key := addr
	if _, ok := n.hosts[key]; !ok {
		key = host
	}
	h, ok := n.hosts[key]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	number := int(n.dialled.Add(1))
	if h == nil {
		return (*listener)(nil).connect(ctx, addr, number, key)
	}
	return n.listener.connect(ctx, addr, number, key)
}

// Requests are all requests so far, in order of arrival, or those of the hosts named.
func (n *Net) Requests(hosts ...string) []Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.requests), func(r Request) bool { return len(hosts) > 0 && !slices.Contains(hosts, r.Host) })
}

// Count is how many requests a host has received for a path and query, or in all if path is "".
func (n *Net) Count(host, path string) int {
	return len(slices.DeleteFunc(n.Requests(host), func(r Request) bool { return path != "" && r.Path != path }))
}

// MinGap is the smallest time between two requests to host, or the largest duration if there
// were fewer than two.
func (n *Net) MinGap(host string) time.Duration {
	const none = time.Duration(1<<63 - 1)
	gap := none
	list := n.Requests(host)
	for i := 1; i < len(list); i++ {
		gap = min(gap, list[i].At.Sub(list[i-1].At))
	}
	return gap
}

// Memory is a network within the process, for testing/synctest bubbles: its connections are
// net.Pipes. A dial to an address where nobody listens is refused. The zero Memory is ready to
// use, within one bubble. It is safe for concurrent use.
type Memory struct {
	mu        sync.Mutex // guards what follows
	listeners map[string]*listener
	dialled   int
}

// Listen opens a listener at HOST:PORT; port 0 is 8080, the same in every run, as links have it. It
// fails if the address is taken.
func (m *Memory) Listen(addr string) (net.Listener, error) {
	if host, ok := strings.CutSuffix(addr, ":0"); ok {
		addr = host + ":8080"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listeners[addr] != nil {
		return nil, &net.OpError{Op: "listen", Net: "memory", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	if m.listeners == nil {
		m.listeners = make(map[string]*listener)
	}
	l := newListener(addr)
	l.onClose = func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.listeners, addr)
	}
	m.listeners[addr] = l
	return l, nil
}

// DialContext connects to a listener; it fits net/http.Transport and fetch.Config.
func (m *Memory) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	m.mu.Lock()
	m.dialled++
	l, number := m.listeners[addr], m.dialled
	m.mu.Unlock()
	return l.connect(ctx, addr, number, "")
}

// listener has no backlog: a dial waits until it is accepted.
type listener struct {
	addr     address
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
	onClose  func() // frees the address
}

func newListener(addr string) *listener {
	return &listener{addr: address(addr), incoming: make(chan net.Conn), closed: make(chan struct{}), onClose: func() {}}
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.onClose()
	})
	return nil
}

// connect is the client's end of a connection; refused if l is nil.
func (l *listener) connect(ctx context.Context, addr string, number int, host string) (net.Conn, error) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: address(addr), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if l == nil {
		return nil, refused
	}
	near, far := net.Pipe()
	client := address(fmt.Sprintf("127.0.0.1:%d", number))
	select {
	case l.incoming <- &pipe{Conn: far, local: address(addr), remote: client, host: host, number: number}:
		return &pipe{Conn: near, local: client, remote: address(addr)}, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type pipe struct {
	net.Conn
	local, remote address
	host          string // of a Net, that was dialled
	number        int
}

func (p *pipe) LocalAddr() net.Addr  { return p.local }
func (p *pipe) RemoteAddr() net.Addr { return p.remote }

// Write fails as on a socket where the peer is closed.
func (p *pipe) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = &net.OpError{Op: "write", Net: "memory", Err: os.NewSyscallError("write", syscall.EPIPE)}
	}
	return n, err
}

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
