package render

import (
	"bufio"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// hole is the proxy of a browser, and the only way in which the browser can connect to anything. It forwards nothing:
// requests that a page may make are answered before they would be sent. So no other process on this machine can misuse
// it.
type hole struct {
	l     net.Listener
	log   *slog.Logger
	conns sync.WaitGroup
}

func newHole(log *slog.Logger) (*hole, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it lasts as long as the browser
	if err != nil {
		return nil, err
	}
	h := &hole{l: l, log: log}
	h.conns.Go(h.serve)
	return h, nil
}

func (h *hole) url() string { return "http://" + h.l.Addr().String() }

// serve logs what each connection requests, refuses it, and closes the connection.
func (h *hole) serve() {
	room := make(chan struct{}, 16)
	for {
		c, err := h.l.Accept()
		if err != nil {
			return
		}
		room <- struct{}{}
		h.conns.Go(func() {
			defer func() { _ = c.Close(); <-room }()
			_ = c.SetDeadline(time.Now().Add(100 * time.Millisecond)) //nolint:forbidigo // a bound, which nothing waits for
			line, _ := bufio.NewReaderSize(c, 512).ReadSlice('\n')
			h.log.Debug("what a browser asked for by itself was not passed on", slog.String("request", strings.TrimSpace(string(line))))
			_, _ = c.Write([]byte("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
		})
	}
}

func (h *hole) close() {
	_ = h.l.Close()
	h.conns.Wait()
}
