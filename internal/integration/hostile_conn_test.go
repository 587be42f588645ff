package integration_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
)

// memo counts requests by path.
type memo struct {
	mu   sync.Mutex
	seen map[string]int
}

// visit is how many requests for path there have been, this one included.
func (m *memo) visit(path string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = make(map[string]int)
	}
	m.seen[path]++
	return m.seen[path]
}

// Connections may end at any moment: every page is had in the end, with one record.
func TestConnectionsThatEnd(t *testing.T) {
	const pages = 60
	refs := make([]string, pages)
	for i := range refs {
		refs[i] = fmt.Sprintf("/%d", i)
	}
	index := anchors(refs...)
	full := func(c net.Conn, path string) bool {
		switch path {
		case "/robots.txt":
			return say(c, "404 Not Found", "", "")
		case "/":
			return sayPage(c, index)
		}
		return sayPage(c, "page "+path)
	}
	// once answers every path well but the first time.
	once := func(m *memo, first func(c net.Conn, path string)) func(net.Conn, string) bool {
		return func(c net.Conn, path string) bool {
			if m.visit(path) > 1 || path == "/" || path == "/robots.txt" {
				return full(c, path)
			}
			first(c, path)
			return false
		}
	}
	for _, tc := range []struct {
		name   string
		answer func(m *memo) func(c net.Conn, path string) bool
		tries  int // the most that a page may need
	}{
		{"after every answer", func(*memo) func(net.Conn, string) bool {
			return func(c net.Conn, path string) bool { full(c, path); return false }
		}, 1},
		{"after every answer, and says so", func(*memo) func(net.Conn, string) bool {
			return func(c net.Conn, path string) bool {
				if path != "/" {
					return say(c, "200 OK", "Connection: close\r\n", "x") && false
				}
				return say(c, "200 OK", "Connection: close\r\n"+htmlHeader, index) && false
			}
		}, 1},
		{"half, after every answer", func(*memo) func(net.Conn, string) bool {
			return func(c net.Conn, path string) bool {
				full(c, path)
				if tcp, ok := c.(*countedConn).Conn.(*net.TCPConn); ok {
					_ = tcp.CloseWrite() // the peer may be gone
				}
				_, _ = io.Copy(io.Discard, c)
				return false
			}
		}, 1},
		{"without an answer", func(m *memo) func(net.Conn, string) bool {
			return once(m, func(net.Conn, string) {})
		}, 2},
		{"by a reset", func(m *memo) func(net.Conn, string) bool {
			return once(m, func(c net.Conn, _ string) {
				if tcp, ok := c.(*countedConn).Conn.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0) // the peer may be gone
				}
			})
		}, 2},
		{"in the header", func(m *memo) func(net.Conn, string) bool {
			return once(m, func(c net.Conn, _ string) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: te") })
		}, 2},
		{"in the body", func(m *memo) func(net.Conn, string) bool {
			return once(m, func(c net.Conn, _ string) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
			})
		}, 2},
	} {
		for _, conns := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s, %d at a time", tc.name, conns), func(t *testing.T) {
				h := newRawHost(t, tc.answer(new(memo)))
				origin := h.listen(t, "127.0.24.1:0")
				cfg := unpaced()
				cfg.PerHostMax, cfg.Sitemaps.Enabled = conns, false
				cfg.RateLimit.RetryBaseDelay = time.Millisecond
				list, snap := visit(t, cfg, origin+"/")
				got := byURL(t, list)
				require.Len(t, got, pages+1)
				for url, rec := range got {
					require.Equal(t, 200, rec.Status, "%s: %+v", url, rec.Error)
					require.Empty(t, class(rec), url)
					require.LessOrEqual(t, rec.Attempt, tc.tries, url)
				}
				require.LessOrEqual(t, snap.Requests, int64(tc.tries+1)*(pages+2))
			})
		}
	}
}

// However many workers there are, a host sees no more requests at a time than it should.
func TestRequestsAtATime(t *testing.T) {
	for _, limit := range []int{1, 3} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			var mu sync.Mutex
			now, most := 0, 0
			refs := make([]string, 200)
			for i := range refs {
				refs[i] = fmt.Sprintf("/%d", i)
			}
			h := newRawHost(t, func(c net.Conn, path string) bool {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				var answer strings.Builder
				say(&answer, "200 OK", htmlHeader, anchors(refs...))
				mu.Lock()
				now-- // before the answer goes out: after it the client may ask again
				mu.Unlock()
				_, err := io.WriteString(c, answer.String())
				return err == nil && len(path)%2 == 0
			})
			cfg := unpaced()
			cfg.PerHostMax, cfg.Sitemaps.Enabled = limit, false
			list, _ := visit(t, cfg, h.listen(t, "127.0.24.2:0")+"/")
			require.Len(t, byURL(t, list), len(refs)+1)
			require.LessOrEqual(t, most, limit)
		})
	}
}

// A server that talks before it is asked gets what it deserves, which depends on who is
// faster; the crawl has a record and an end either way.
func TestAnswersBeforeTheQuestion(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.24.3:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				sayPage(c, anchors("/1", "/2", "/3"))
				_, _ = io.Copy(io.Discard, c) // until the client has had enough
			})
		}
	})
	cfg := unpaced()
	cfg.Robots.Enabled = false
	cfg.RateLimit.RetryMaxAttempts = 1
	cfg.Fetch.Timeout = time.Second
	out := &records{}
	cfg.Sinks = []crawl.Sink{out}
	c, err := assembly.New(cfg)
	require.NoError(t, err)
	if err := c.Run(t.Context(), "http://"+ln.Addr().String()+"/"); err != nil {
		require.ErrorIs(t, err, crawl.ErrUnreachable)
	}
	require.NoError(t, ln.Close())
	serving.Wait()
	for url, rec := range byURL(t, out.list) {
		require.Contains(t, []string{"", "network", "protocol", "timeout"}, class(rec), url)
	}
	require.NotEmpty(t, out.list)
}
