package admissiontest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

// Fault is what a [Proxy] does to its connections.
type Fault int

// The faults.
const (
	Passes  Fault = iota // bytes come through, later
	Hangs                // bytes are taken and none come out
	Resets               // each connection is reset at its next byte, also a new one
	Refuses              // nobody listens, and connections are closed
)

// Proxy is a network between a client and a server of this machine: whatever goes through it comes out
// half a round trip later, in each direction and in its order, however much is under way. All methods are
// safe for concurrent use.
type Proxy struct {
	Addr string // where clients connect

	target string
	trip   time.Duration
	work   sync.WaitGroup

	mu     sync.Mutex // guards what follows
	fault  Fault
	open   map[io.Closer]struct{} // the listener and the connections
	closed bool
}

// NewProxy listens on loopback and ends with the test.
func NewProxy(t testing.TB, target string, roundTrip time.Duration) *Proxy {
	t.Helper()
	p := &Proxy{Addr: "127.0.0.1:0", target: target, trip: roundTrip, open: map[io.Closer]struct{}{}}
	p.listen(t)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.cut()
		p.work.Wait()
	})
	return p
}

func (p *Proxy) listen(t testing.TB) {
	l, err := net.Listen("tcp", p.Addr)
	require.NoError(t, err)
	p.Addr = l.Addr().String()
	p.keep(l)
	p.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.join(c) })
		}
	})
}

// Break sets what happens to connections from now on, those that are open too.
func (p *Proxy) Break(t testing.TB, f Fault) {
	t.Helper()
	p.mu.Lock()
	was := p.fault
	p.fault = f
	p.mu.Unlock()
	if f == Refuses {
		p.cut()
	} else if was == Refuses {
		p.listen(t)
	}
}

// cut closes the listener and all connections.
func (p *Proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
	clear(p.open)
}

func (p *Proxy) keep(c io.Closer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.open[c] = struct{}{}
	}
	return !p.closed
}

func (p *Proxy) drop(c io.Closer) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	_ = c.Close()
}

// join connects c with the target until one of them is closed. The handshake takes a round trip too,
// which loopback does not show.
func (p *Proxy) join(c net.Conn) {
	defer p.drop(c)
	s, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.drop(s)
	if !p.keep(c) || !p.keep(s) {
		return
	}
	var there sync.WaitGroup
	there.Go(func() { p.pass(c, s, p.trip) })
	p.pass(s, c, 0)
	_ = c.Close()
	there.Wait()
}

// pass carries bytes one way; the first of them are later by extra.
func (p *Proxy) pass(from, to net.Conn, extra time.Duration) {
	type chunk struct {
		due   time.Time
		bytes []byte
	}
	way := make(chan chunk, 4096)
	var there sync.WaitGroup
	there.Go(func() {
		for c := range way {
			// It does not end early.
			_ = clock.Sleep(context.Background(), clock.System(), c.due.Sub(clock.System().Now()))
			if _, err := to.Write(c.bytes); err != nil {
				_ = from.Close()
			}
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		fault := p.fault
		p.mu.Unlock()
		switch {
		case n > 0 && fault == Passes:
			way <- chunk{clock.System().Now().Add(p.trip/2 + extra), append([]byte(nil), buf[:n]...)}
			extra = 0
		case n > 0 && fault == Resets:
			if tcp, ok := from.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			err = io.ErrClosedPipe
		}
		if err != nil {
			break
		}
	}
	close(way)
	there.Wait()
	_ = from.Close()
	_ = to.Close()
}
