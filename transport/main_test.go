package transport_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type stub func(*http.Request) (*http.Response, error)

func (f stub) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	return f(req)
}

func always(status int, body string) stub {
	return func(req *http.Request) (*http.Response, error) {
		return transport.NewResponse(req, status, nil, []byte(body)), nil
	}
}

type tracked struct {
	io.Reader
	closed atomic.Int32
}

func (b *tracked) Close() error {
	b.closed.Add(1)
	return nil
}

func body(text string) *tracked { return &tracked{Reader: strings.NewReader(text)} }

type brokenReader struct {
	io.Reader
	err error
}

func (r brokenReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		err = r.err
	}
	return n, err
}

func newRequest(ctx context.Context, method, url string, body io.Reader) *http.Request {
	return must(http.NewRequestWithContext(ctx, method, url, body))
}

func get(t testing.TB, url string) *http.Request {
	t.Helper()
	return newRequest(t.Context(), http.MethodGet, url, nil)
}

func read(res *http.Response) string {
	defer res.Body.Close()
	b := must(io.ReadAll(res.Body))
	return string(b)
}

func do(t testing.TB, rt http.RoundTripper, req *http.Request) (int, string) {
	t.Helper()
	res := must(rt.RoundTrip(req))
	return res.StatusCode, read(res)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func inMemory(t *testing.T, handler http.HandlerFunc, test func(*testing.T, *http.Transport)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		site := fetchtest.Serve(t, map[string]http.Handler{"a.test": handler})
		base := &http.Transport{DialContext: site.DialContext}
		t.Cleanup(base.CloseIdleConnections)
		test(t, base)
	})
}

// onLoopback is a server on a real socket and a transport to it, with a counter of the connections made.
func onLoopback(t testing.TB, handler http.HandlerFunc) (url string, base *http.Transport, conns *atomic.Int32) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	base = &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return server.URL, base, new(atomic.Int32)
}

// counting adds to conns for every connection that was made for req.
func counting(req *http.Request, conns *atomic.Int32) *http.Request {
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			conns.Add(1)
		}
	}}
	return req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
}

// inBubble is a subtest of which the time is its own.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
