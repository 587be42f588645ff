package fetchtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is net/http's own over a Net's connections.
func client(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) *http.Client {
	t.Helper()
	tr := &http.Transport{DialContext: dial}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func get(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	res, err := c.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(body)
}

func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) })
}

func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := fetchtest.Serve(t, map[string]http.Handler{"a.test": text("a"), "a.test:8080": text("a8080"), "b.test": text("b"), "down.test": nil})
		c := client(t, site.DialContext)
		begin := time.Now()
		require.Equal(t, "a", get(t, c, "http://a.test/1"))
		time.Sleep(3 * time.Second)
		require.Equal(t, "b", get(t, c, "http://b.test/x?y"))
		require.Equal(t, "a", get(t, c, "http://a.test/2"))
		time.Sleep(2 * time.Second)
		require.Equal(t, "a", get(t, c, "http://a.test/1"))
		require.Equal(t, "a8080", get(t, c, "http://a.test:8080/"))
		require.Equal(t, "a", get(t, c, "http://a.test:81/"))

		require.Equal(t, []fetchtest.Request{{Host: "b.test", Path: "/x?y", At: begin.Add(3 * time.Second), Conn: 2}}, site.Requests("b.test"))
		require.Len(t, site.Requests("a.test"), 4)
		require.Len(t, site.Requests(), 6)
		require.Equal(t, 2, site.Count("a.test", "/1"))
		require.Equal(t, 4, site.Count("a.test", ""))
		require.Zero(t, site.MinGap("a.test"), "the last two came at once")
		require.Equal(t, time.Duration(math.MaxInt64), site.MinGap("b.test"))
		require.Equal(t, 1, site.Requests("a.test")[1].Conn, "connections are kept")
	})
}

func TestMinGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := fetchtest.Serve(t, map[string]http.Handler{"a.test": text("a")})
		c := client(t, site.DialContext)
		for _, pause := range []time.Duration{5, 2, 9} {
			get(t, c, "http://a.test/")
			time.Sleep(pause * time.Second)
		}
		require.Equal(t, 2*time.Second, site.MinGap("a.test"))
	})
}

func TestDialErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := fetchtest.Serve(t, map[string]http.Handler{"a.test": text("a"), "down.test": nil})
		_, err := site.DialContext(t.Context(), "tcp", "c.test:80")
		dns, ok := errors.AsType[*net.DNSError](err)
		require.True(t, ok && dns.IsNotFound, err)
		_, err = site.DialContext(t.Context(), "tcp", "down.test:80")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		_, err = site.DialContext(t.Context(), "tcp", "no port")
		require.Error(t, err)
		require.NoError(t, site.Close())
		_, err = site.DialContext(t.Context(), "tcp", "a.test:80")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
}

// TestServeEndsClean leaves a handler waiting and a connection open at the end of a
// test: the bubble would not end if anything of the Net were left.
func TestServeEndsClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })})
		conn, err := site.DialContext(t.Context(), "tcp", "a.test:80")
		require.NoError(t, err)
		require.Equal(t, "a.test:80", conn.RemoteAddr().String())
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, site.Count("a.test", "/"))
	})
}

func TestHostileKeepsBehaving(t *testing.T) {
	h := fetchtest.Hostile(t)
	c := client(t, nil)
	require.Equal(t, "ok", get(t, c, h.URL("/anything")))
	require.Equal(t, "ok", get(t, c, h.URL("/anything")))
	require.Equal(t, 2, h.Seen("/anything"))
	require.Zero(t, h.Seen(fetchtest.Hang))
}

// TestHostileEndsClean leaves a client on each behaviour when the test ends.
func TestHostileEndsClean(t *testing.T) {
	for _, b := range fetchtest.Behaviors() {
		t.Run(string(b)[1:], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := fetchtest.HostilePipes(t)
				conn, err := h.DialContext(t.Context(), "tcp", "any.test:80")
				require.NoError(t, err)
				_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: any.test\r\n\r\n", b)
				require.NoError(t, err)
				synctest.Wait()
				require.Equal(t, 1, h.Seen(b))
			})
		})
	}
}

func TestMemoryConnects(t *testing.T) {
	var m fetchtest.Memory
	ln, err := m.Listen("127.0.0.1:0")
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8080", ln.Addr().String())
	accepted := make(chan net.Conn)
	go func() {
		c, _ := ln.Accept()
		accepted <- c
	}()
	near, err := m.DialContext(t.Context(), "tcp", "127.0.0.1:8080")
	require.NoError(t, err)
	far := <-accepted
	require.Equal(t, near.LocalAddr(), far.RemoteAddr())
	require.Equal(t, near.RemoteAddr(), far.LocalAddr())

	go func() { _, _ = far.Write([]byte("hello")) }()
	buf := make([]byte, 5)
	_, err = near.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "hello", string(buf))

	require.NoError(t, far.Close())
	_, err = near.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
	require.Equal(t, outcome.Network, outcome.Of(0, err), "a client takes it for a network")
	require.NoError(t, near.Close())
	require.NoError(t, ln.Close())
	require.NoError(t, ln.Close(), "closing twice is fine")
	_, err = ln.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestMemoryRefuses(t *testing.T) {
	var m fetchtest.Memory
	_, err := m.DialContext(t.Context(), "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Equal(t, outcome.Network, outcome.Of(0, err))
	_, err = m.DialContext(t.Context(), "tcp", "example.test:80")
	require.Error(t, err)

	ln, err := m.Listen("127.0.0.1:1")
	require.NoError(t, err)
	_, err = m.Listen("127.0.0.1:1")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody accepts, so this decides
	_, err = m.DialContext(ctx, "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, ln.Close())
}
