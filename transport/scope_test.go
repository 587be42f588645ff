package transport_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

func response(body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: body}
}

type recorder struct {
	mu   sync.Mutex
	ends []error
}

func (r *recorder) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = append(r.ends, err)
}

func TestScopeEndsOnce(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		use  func(t *testing.T, b io.ReadCloser)
		body io.Reader
		want error
	}{
		"at the end": {func(_ *testing.T, b io.ReadCloser) {
			must(io.ReadAll(b))
		}, strings.NewReader("page"), nil},
		"at an error": {func(t *testing.T, b io.ReadCloser) {
			_, err := io.ReadAll(b)
			require.ErrorIs(t, err, broken)
		}, brokenReader{strings.NewReader("pa"), broken}, broken},
		"when closed": {func(t *testing.T, b io.ReadCloser) {
			must(io.ReadFull(b, make([]byte, 2)))
			require.NoError(t, b.Close())
		}, strings.NewReader("page"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var r recorder
			under := &tracked{Reader: tc.body}
			res := transport.Bind(response(under), r.end)
			require.Empty(t, r.ends, "before anything was read")
			tc.use(t, res.Body)
			require.Equal(t, []error{tc.want}, r.ends)
			require.NoError(t, res.Body.Close())
			_, _ = res.Body.Read(make([]byte, 1))
			require.NoError(t, res.Body.Close())
			require.Len(t, r.ends, 1)
		})
	}
}

// However many layers there are, a read passes through one wrapper, and the ends are called from the inside out.
func TestScopeIsMerged(t *testing.T) {
	const layers = 20 // more than fit inline
	var order []int
	res := transport.Bind(response(body("page")), func(error) { order = append(order, 0) })
	wrapper := res.Body
	for i := 1; i < layers; i++ {
		res = transport.Bind(res, func(error) { order = append(order, i) })
		require.Same(t, wrapper, res.Body)
	}
	require.Equal(t, "page", read(res))
	require.Len(t, order, layers)
	require.IsIncreasing(t, order)

	late := 0
	transport.Bind(res, func(err error) { late++; require.NoError(t, err) })
	require.Equal(t, 1, late, "a scope that is over ends what is added at once")
}

func TestScopeWithoutBodyEndsAtOnce(t *testing.T) {
	for _, b := range []io.ReadCloser{nil, http.NoBody} {
		var r recorder
		require.Equal(t, b, transport.Bind(response(b), r.end).Body)
		require.Equal(t, []error{nil}, r.ends)
	}
}

func TestScopeEndsAllWhenOnePanics(t *testing.T) {
	var r recorder
	res := transport.Bind(response(body("page")), r.end)
	transport.Bind(res, func(error) { panic("end") })
	for range 12 {
		transport.Bind(res, r.end)
	}
	require.PanicsWithValue(t, "end", func() { _ = res.Body.Close() })
	require.Len(t, r.ends, 13)
}

func TestScopeOfConcurrentReadAndClose(t *testing.T) {
	for range 100 {
		var r recorder
		res := transport.Bind(response(body(strings.Repeat("x", 100))), r.end)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = io.Copy(io.Discard, res.Body) })
		wg.Go(func() { _ = res.Body.Close() })
		wg.Go(func() { transport.Bind(res, r.end) })
		wg.Wait()
		require.Len(t, r.ends, 2)
	}
}

// The body is closed before the ends are called: who is let in by them may be waiting for its connection.
func TestScopeClosesTheBodyFirst(t *testing.T) {
	under := body("page")
	res := transport.Bind(response(under), func(error) { require.EqualValues(t, 1, under.closed.Load()) })
	require.NoError(t, res.Body.Close())
}

// A transport may tell no more of a request that was cancelled than "closed".
func TestScopeSaysWhyTheContextEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	res := response(&tracked{Reader: brokenReader{strings.NewReader(""), errors.New("closed")}})
	res.Request = newRequest(ctx, http.MethodGet, "http://a.test/", nil)
	var r recorder
	transport.Bind(res, r.end)
	cancel(errors.New("enough"))
	_, err := res.Body.Read(make([]byte, 1))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "closed")
	require.Equal(t, []error{err}, r.ends)
}

// Our own timeout is told as such, whatever the transport calls it.
func TestScopeTellsOfOurOwnTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := must(transport.NewTimeout(timeoutConfig{After: time.Second}))
		res := must(transport.Layers{AttemptTimeout: p}.Chain(stub(func(req *http.Request) (*http.Response, error) {
			return response(&tracked{Reader: waitingReader{req.Context()}}), nil
		})).RoundTrip(get(t, "http://a.test/")))
		_, err := res.Body.Read(make([]byte, 1))
		var timeout *resilience.TimeoutError
		require.ErrorAs(t, err, &timeout)
		require.Equal(t, time.Second, timeout.After)
	})
}

// waitingReader is a body that is closed from below when the request ends.
type waitingReader struct{ ctx context.Context }

func (r waitingReader) Read([]byte) (int, error) {
	<-r.ctx.Done()
	return 0, errors.New("closed")
}

// What nobody gets is read to its end if that is within 64 KiB, also if it is just there.
func TestDiscard(t *testing.T) {
	for _, tc := range []struct {
		size, length int
		left         int
	}{{0, -1, 0}, {64 << 10, -1, 0}, {64<<10 + 5, -1, 4}, {64<<10 + 5, 64<<10 + 5, 64<<10 + 5}} {
		under := strings.NewReader(strings.Repeat("x", tc.size))
		closer := &tracked{Reader: under}
		ended := false
		res := transport.Bind(response(closer), func(error) { ended = closer.closed.Load() == 0 })
		res.ContentLength = int64(tc.length)
		transport.Discard(res)
		require.Equal(t, tc.left, under.Len(), "of %d bytes", tc.size)
		require.Equal(t, tc.left == 0, ended, "the end was seen before it was closed")
		require.Positive(t, closer.closed.Load())
	}
	transport.Discard(nil)
	transport.Discard(&http.Response{})
}

// A body of 101 Switching Protocols can still be written to through all layers.
func TestSwitchingProtocols(t *testing.T) {
	url, base, _ := onLoopback(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString(line)
		_ = rw.Flush()
	})
	req := get(t, url)
	req.Header = http.Header{"Connection": {"upgrade"}, "Upgrade": {"echo"}}
	layers, counts := everyLayer(t)
	counts.host = req.URL.Host
	res := must(layers.Chain(base).RoundTrip(req))
	require.NoError(t, transport.CheckStatus(res))
	rw, ok := res.Body.(io.ReadWriteCloser)
	require.True(t, ok, "the body is a %T", res.Body)
	must(io.WriteString(rw, "hello\n"))
	require.Equal(t, "hello\n", must(bufio.NewReader(rw).ReadString('\n')))
	require.EqualValues(t, 1, counts.held())
	require.NoError(t, rw.Close())
	require.Zero(t, counts.held())
}
