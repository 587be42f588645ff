package testsite

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
)

// Memory is a network within the process, for testing/synctest bubbles: its connections are
// net.Pipes. A dial to an address where nobody listens is refused. The zero Memory is ready to
// use, within one bubble. It is safe for concurrent use.
type Memory struct {
	mu        sync.Mutex // guards what follows
	listeners map[netip.AddrPort]*memListener
	dialed    uint16
}

// memoryPort is the port that port 0 stands for: the same in every run, as links have it.
const memoryPort = 8080

// Listen is a [Config.Listen]. It fails if the address is taken.
func (m *Memory) Listen(address string) (net.Listener, error) {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "memory", Err: err}
	}
	if addr.Port() == 0 {
		addr = netip.AddrPortFrom(addr.Addr(), memoryPort)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listeners[addr] != nil {
		return nil, &net.OpError{Op: "listen", Net: "memory", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	if m.listeners == nil {
		m.listeners = make(map[netip.AddrPort]*memListener)
	}
	ln := &memListener{net: m, addr: addr, incoming: make(chan net.Conn), closed: make(chan struct{})}
	m.listeners[addr] = ln
	return ln, nil
}

// DialContext is one for net/http.Transport, of any network. The address must be numeric.
func (m *Memory) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: err}
	}
	ln, local := m.lookUp(addr)
	refused := &net.OpError{Op: "dial", Net: "memory", Addr: net.TCPAddrFromAddrPort(addr), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if ln == nil {
		return nil, refused
	}
	near, far := net.Pipe()
	select {
	case ln.incoming <- &memConn{Conn: far, local: addr, remote: local}:
		return &memConn{Conn: near, local: local, remote: addr}, nil
	case <-ln.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// lookUp is the listener at addr, or nil, and an address for the client.
func (m *Memory) lookUp(addr netip.AddrPort) (*memListener, netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dialed++
	return m.listeners[addr], netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), m.dialed)
}

// memListener has no backlog: a dial waits until it is accepted.
type memListener struct {
	net      *Memory
	addr     netip.AddrPort
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *memListener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.addr) }

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close frees the address, so that the host can listen there again.
func (l *memListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		delete(l.net.listeners, l.addr)
	})
	return nil
}

// memConn is a pipe with addresses; a write to a closed peer fails as on a socket.
type memConn struct {
	net.Conn
	local, remote netip.AddrPort
}

func (c *memConn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local) }
func (c *memConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

func (c *memConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = &net.OpError{Op: "write", Net: "memory", Err: os.NewSyscallError("write", syscall.EPIPE)}
	}
	return n, err
}
