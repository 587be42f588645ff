package integration_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fault is what a network does to its connections.
type fault int

const (
	passes  fault = iota // bytes come through, later
	hangs                // bytes are taken and none come out
	resets               // each connection is reset at its next byte, also a new one
	refuses              // nobody listens, and connections are closed
)

// lan is a network between a client and a server of this machine: what goes through it comes out half a round trip later, in
// each direction and in its order, however much is under way.
type lan struct {
	addr   string // where clients connect
	target string
	trip   time.Duration
	work   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	fault fault
	open  map[io.Closer]struct{} // the listener and the connections
}

// newLAN listens on loopback and ends with the test.
func newLAN(t testing.TB, target string, trip time.Duration) *lan {
	t.Helper()
	p := &lan{addr: "127.0.0.1:0", target: target, trip: trip, open: map[io.Closer]struct{}{}}
	p.listen(t)
	t.Cleanup(func() {
		p.turn(t, refuses)
		p.work.Wait()
	})
	return p
}

func (p *lan) listen(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", p.addr)
	require.NoError(t, err)
	p.addr = l.Addr().String()
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

// turn sets what happens to connections from now on, those that are open too.
func (p *lan) turn(t testing.TB, to fault) {
	t.Helper()
	p.mu.Lock()
	was := p.fault
	p.fault = to
	if to == refuses {
		for c := range p.open {
			_ = c.Close()
		}
		clear(p.open)
	}
	p.mu.Unlock()
	if was == refuses && to != refuses {
		p.listen(t)
	}
}

func (p *lan) keep(c io.Closer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault != refuses {
		p.open[c] = struct{}{}
	}
	return p.fault != refuses
}

func (p *lan) drop(c io.Closer) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	_ = c.Close()
}

// join connects c with the target until one of them is closed. The handshake takes a round trip too, which loopback
// does not show.
func (p *lan) join(c net.Conn) {
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
	there.Wait()
}

// pass carries bytes one way; the first of them are later by extra. At the end it closes both.
func (p *lan) pass(from, to net.Conn, extra time.Duration) {
	type chunk struct {
		due   time.Time
		bytes []byte
	}
	way := make(chan chunk, 4096)
	var there sync.WaitGroup
	there.Go(func() {
		for c := range way {
			time.Sleep(time.Until(c.due))
			if _, err := to.Write(c.bytes); err != nil {
				_ = from.Close()
			}
		}
	})
	for buf := make([]byte, 64<<10); ; {
		n, err := from.Read(buf)
		p.mu.Lock()
		fault := p.fault
		p.mu.Unlock()
		if n > 0 && fault == resets {
			_ = from.(*net.TCPConn).SetLinger(0)
			break
		}
		if n > 0 && fault == passes {
			way <- chunk{time.Now().Add(p.trip/2 + extra), append([]byte(nil), buf[:n]...)}
			extra = 0
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
