package fetchtest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// HostileServer breaks the rules of HTTP in the way that the path of a request names, a
// [Behavior]; it answers another path with a small page.
type HostileServer struct {
	listener net.Listener // nil when only pipes are served
	running  sync.WaitGroup
	over     context.Context // ends with the test, and every slow behavior with it
	stop     context.CancelFunc

	mu     sync.Mutex // guards what follows
	conns  map[net.Conn]struct{}
	closed bool
	seen   map[Behavior]int
}

// Hostile starts a server on a loopback socket. It ends with t.
func Hostile(t testing.TB) *HostileServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("fetchtest: listen: %v", err)
	}
	for _, pack := range bombs {
		pack() // now, and not during a client's timeout
	}
	h := HostilePipes(t)
	h.listener = l
	h.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.start(c)
		}
	})
	return h
}

// HostilePipes is a server without a socket, for synctest bubbles: its DialContext reaches it
// under every address. It ends with t.
func HostilePipes(t testing.TB) *HostileServer {
	t.Helper()
	h := &HostileServer{conns: make(map[net.Conn]struct{}), seen: make(map[Behavior]int)}
	h.over, h.stop = context.WithCancel(context.Background())
	t.Cleanup(h.close)
	return h
}

// URL is where this behavior is met.
func (h *HostileServer) URL(b Behavior) string { return "http://" + h.Addr() + string(b) }

// Addr is the host and port of the server; a made-up one if it has no socket.
func (h *HostileServer) Addr() string {
	if h.listener == nil {
		return "hostile.test"
	}
	return h.listener.Addr().String()
}

// Seen is how many requests have asked for this behavior.
func (h *HostileServer) Seen(b Behavior) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen[b]
}

// DialContext connects to the server through a pipe; it fits fetch.Config.
func (h *HostileServer) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	if !h.start(far) {
		return nil, net.ErrClosed
	}
	return near, nil
}

func (h *HostileServer) start(c net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		_ = c.Close() // nobody is there to be told
		return false
	}
	h.conns[c] = struct{}{}
	h.running.Go(func() {
		h.serve(c)
		_ = c.Close() // some behaviors have closed it already
		h.mu.Lock()
		delete(h.conns, c)
		h.mu.Unlock()
	})
	return true
}

func (h *HostileServer) close() {
	h.stop()
	if h.listener != nil {
		_ = h.listener.Close() // only to end Accept
	}
	h.mu.Lock()
	h.closed = true
	for c := range h.conns {
		_ = c.Close() // only to end its goroutine
	}
	h.mu.Unlock()
	h.running.Wait()
}

func (h *HostileServer) serve(c net.Conn) {
	br := bufio.NewReader(c)
	if first, err := br.Peek(1); err == nil && first[0] == 0x16 { // a TLS ClientHello
		_, _ = io.WriteString(c, "\x16\x7f\x7fthis is no handshake") // garbage either way
		return
	}
	for n := 1; ; n++ {
		b, err := readHead(br)
		if err != nil {
			return
		}
		h.mu.Lock()
		h.seen[b]++
		h.mu.Unlock()
		act, ok := behaviors[b]
		if !ok {
			act = plain
		}
		if !act(&victim{Conn: c, h: h, requests: n}) {
			return
		}
	}
}

func readHead(br *bufio.Reader) (Behavior, error) {
	var path string
	for first := true; ; first = false {
		line, err := br.ReadString('\n')
		if err != nil {
			return "", err
		}
		line = strings.TrimSpace(line)
		if first {
			fields := strings.Fields(line)
			if len(fields) != 3 {
				return "", errors.New("not a request line")
			}
			path = fields[1]
		} else if line == "" {
			return Behavior(path), nil
		}
	}
}
