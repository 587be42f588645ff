package fetch_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/resolve"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

func TestMain(m *testing.M) {
	// What the package comment says of net/http and the standard logger would clutter
	// the tests of hostile servers; the one that is about it listens for itself.
	log.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

func newClient(t testing.TB, cfg fetch.Config) *fetch.Client {
	t.Helper()
	if cfg.Resolver == nil { // no test asks a name server of this machine
		cfg.Resolver = resolver(t, resolve.Config{Lookup: func(_ context.Context, _, host string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}})
	}
	c := must(fetch.New(cfg))
	t.Cleanup(c.Close)
	return c
}

func inMemory(t *testing.T, cfg fetch.Config, hosts map[string]http.Handler, test func(*testing.T, *fetch.Client, *fetchtest.Net)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		site := fetchtest.Serve(t, hosts)
		cfg.DialContext = site.DialContext
		test(t, newClient(t, cfg), site)
	})
}

// inBubble is a subtest of which the time is its own.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func onePage(handler http.HandlerFunc) map[string]http.Handler {
	return map[string]http.Handler{"a.test": handler}
}

func asError(t testing.TB, err error) *fetch.Error {
	t.Helper()
	e, ok := errors.AsType[*fetch.Error](err)
	require.True(t, ok, "error is %T (%v), want *fetch.Error", err, err)
	require.Equal(t, e.Class(), outcome.Of(200, err), "outcome.Of does not see the class")
	return e
}

func hostile(t testing.TB) (h *fetchtest.HostileServer, port string) {
	t.Helper()
	h = fetchtest.Hostile(t)
	_, port, err := net.SplitHostPort(h.Addr())
	require.NoError(t, err)
	return h, port
}

func fetched(t testing.TB, c *fetch.Client, url string, why ...any) *fetch.Response {
	t.Helper()
	res, err := c.Fetch(t.Context(), fetch.Request{URL: url})
	if len(why) == 0 {
		why = []any{url}
	}
	require.NoError(t, err, why...)
	return res
}

func failed(t testing.TB, c *fetch.Client, url string) (*fetch.Error, error) {
	t.Helper()
	_, err := c.Fetch(t.Context(), fetch.Request{URL: url})
	return asError(t, err), err
}

// loopback is a raw server: it hands each connection to serve and ends with the test.
func loopback(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				serve(c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

func discard(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// pipeTo dials into serve, which gets the far end.
func pipeTo(serve func(net.Conn)) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			serve(far)
			_ = far.Close()
		}()
		return near, nil
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
