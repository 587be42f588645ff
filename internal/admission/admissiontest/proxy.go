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

// Proxy is a network between a client and a server of this machine: whatever goes through
// it comes out half a round trip later, in each direction and in its order, however much is
// under way. All methods are safe for concurrent use.
type Proxy struct {
	Addr string // where clients connect

	target string
	mu     sync.Mutex // guards what follows
	trip   time.Duration
	fault  Fault
	listen net.Listener
	open   map[net.Conn]struct{}
	closed bool
	work   sync.WaitGroup
}

// NewProxy listens on loopback and ends with the test.
func NewProxy(t testing.TB, target string, roundTrip time.Duration) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{Addr: l.Addr().String(), target: target, trip: roundTrip, listen: l, open: map[net.Conn]struct{}{}}
	p.work.Go(func() { p.accept(l) })
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.cut()
		p.work.Wait()
	})
	return p
}

// RoundTrip sets the delay of what is sent from now on.
func (p *Proxy) RoundTrip(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trip = d
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
	}
	if was == Refuses && f != Refuses {
		l, err := net.Listen("tcp", p.Addr)
		require.NoError(t, err)
		p.mu.Lock()
		p.listen = l
		p.mu.Unlock()
		p.work.Go(func() { p.accept(l) })
	}
}

// cut closes the listener and all connections.
func (p *Proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.listen.Close()
	for c := range p.open {
		_ = c.Close()
	}
}

func (p *Proxy) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.join(c) })
	}
}

// join connects c with the target until one of them is closed. The handshake takes a round
// trip too, which loopback does not show.
func (p *Proxy) join(c net.Conn) {
	defer p.drop(c)
	if !p.keep(c) {
		return
	}
	s, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.drop(s)
	if !p.keep(s) {
		return
	}
	p.mu.Lock()
	handshake := p.trip
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.pass(c, s, handshake)
	}()
	p.pass(s, c, 0)
	_ = c.Close()
	<-done
}

func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.open[c] = struct{}{}
	}
	return !p.closed
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	_ = c.Close()
}

// chunk is bytes on their way.
type chunk struct {
	due   time.Time
	bytes []byte
}

// pass carries bytes one way; the first of them are later by extra.
func (p *Proxy) pass(from, to net.Conn, extra time.Duration) {
	way := make(chan chunk, 4096)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c := range way {
			// It does not end early.
			_ = clock.Sleep(context.Background(), clock.System(), c.due.Sub(clock.System().Now()))
			if _, err := to.Write(c.bytes); err != nil {
				_ = from.Close()
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		trip, fault := p.trip, p.fault
		p.mu.Unlock()
		switch {
		case n > 0 && fault == Passes:
			way <- chunk{clock.System().Now().Add(trip/2 + extra), append([]byte(nil), buf[:n]...)}
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
	<-done
	_ = from.Close()
	_ = to.Close()
}
