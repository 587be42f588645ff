package fetchtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
)

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
