package binder_test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/resilience/binder"
	"github.com/treadlight/crawl/transport"
)

func inMemory(t *testing.T, handler http.HandlerFunc, test func(*testing.T, *http.Transport, *fetchtest.Net)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		site := fetchtest.Serve(t, map[string]http.Handler{"a.test": handler})
		base := &http.Transport{DialContext: site.DialContext}
		defer base.CloseIdleConnections()
		test(t, base, site)
	})
}

func bindHTTP(t *testing.T, doc string, base http.RoundTripper, o binder.HTTPOptions) *binder.Chain {
	t.Helper()
	c, err := binder.BindHTTP(load(t, doc), base, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func get(t *testing.T, rt http.RoundTripper) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", http.NoBody)
	require.NoError(t, err)
	res, err := rt.RoundTrip(req)
	require.NoError(t, err)
	return res
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return string(body)
}

func script(header http.Header, codes ...int) http.HandlerFunc {
	next := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		code := codes[min(next, len(codes)-1)]
		next++
		maps.Copy(w.Header(), header)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, http.StatusText(code))
	}
}

func TestHTTPWholeDocument(t *testing.T) {
	inMemory(t, script(nil, 200), func(t *testing.T, base *http.Transport, _ *fetchtest.Net) {
		c := bindHTTP(t, whole, base, binder.HTTPOptions{
			Fallback: func(*http.Request, *http.Response, error) (*http.Response, error) { return nil, errDown },
		})
		require.Equal(t, "OK", text(t, get(t, c)))
		c.CloseIdleConnections()
	})
}

func TestHTTPFallback(t *testing.T) {
	inMemory(t, script(nil, 503), func(t *testing.T, base *http.Transport, _ *fetchtest.Net) {
		c := bindHTTP(t, `{"Fallback": {}}`, base, binder.HTTPOptions{
			Fallback: func(req *http.Request, res *http.Response, _ error) (*http.Response, error) {
				return transport.NewResponse(req, 200, nil, []byte("instead of "+res.Status)), nil
			},
		})
		require.Equal(t, "instead of 503 Service Unavailable", text(t, get(t, c)))
		_, err := binder.BindHTTP(load(t, `{"Fallback": {}}`), base, binder.HTTPOptions{})
		require.ErrorContains(t, err, "Fallback: a document cannot say what to return instead")
	})
}

func TestHTTPIsolatesHosts(t *testing.T) {
	inMemory(t, script(nil, 200), func(t *testing.T, base *http.Transport, _ *fetchtest.Net) {
		c := bindHTTP(t, `{"BulkheadIsolation": {"MaxConcurrentRequests": 1, "MaxQueueSize": 0}}`, base, binder.HTTPOptions{})
		first := get(t, c) // holds its place to the end of the body
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", http.NoBody)
		require.NoError(t, err)
		_, err = c.RoundTrip(req)
		full, ok := errors.AsType[*resilience.BulkheadError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "a.test", full.Key)
		require.Equal(t, "OK", text(t, first))
		require.Equal(t, "OK", text(t, get(t, c)))
	})
}

func liveChain(t *testing.T, doc *page, base http.RoundTripper, o binder.HTTPOptions) *binder.LiveChain {
	t.Helper()
	l, err := binder.NewLiveChain(t.Context(), binder.LiveConfig{Source: doc.source}, base, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func reload(t *testing.T, l *binder.LiveChain, doc *page, text string) {
	t.Helper()
	doc.set(text, nil)
	changed, err := l.Reload(t.Context())
	require.NoError(t, err)
	require.True(t, changed)
}

// A request under way keeps the timeout it began with, and the chain that it is in is open until its body has ended.
func TestLiveChainFinishesOnTheOldOne(t *testing.T) {
	slow := func(w http.ResponseWriter, req *http.Request) {
		w.(http.Flusher).Flush()
		select {
		case <-time.After(5 * time.Second):
		case <-req.Context().Done():
		}
		_, _ = io.WriteString(w, "done")
	}
	inMemory(t, slow, func(t *testing.T, base *http.Transport, _ *fetchtest.Net) {
		doc := &page{doc: `{"Timeout": {"Seconds": 60}}`}
		l := liveChain(t, doc, base, binder.HTTPOptions{})
		old := get(t, l)
		reload(t, l, doc, second1)
		cut := get(t, l)
		_, err := io.ReadAll(cut.Body)
		require.ErrorIs(t, err, resilience.ErrTimeout)
		require.Equal(t, "done", text(t, old))
		l.CloseIdleConnections()
	})
}

func circuitDoc(failures string) string {
	return `{"CircuitBreaker": {"CircuitName": "a", "FailureThreshold": ` + failures + `, "BreakSeconds": 60}}`
}

func TestLiveChainKeepsItsCircuit(t *testing.T) {
	inMemory(t, script(nil, 500, 200), func(t *testing.T, base *http.Transport, _ *fetchtest.Net) {
		doc := &page{doc: circuitDoc("1")}
		l := liveChain(t, doc, base, binder.HTTPOptions{})
		require.Equal(t, "Internal Server Error", text(t, get(t, l)))

		reload(t, l, doc, strings.Replace(circuitDoc("1"), "{", `{"Timeout": {}, `, 1))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.test/", strings.NewReader("body"))
		require.NoError(t, err)
		_, err = l.RoundTrip(req)
		require.ErrorIs(t, err, resilience.ErrOpen, "its section is the same")

		reload(t, l, doc, circuitDoc("2"))
		require.Equal(t, "OK", text(t, get(t, l)), "its section has changed")
	})
}

func TestLiveChainWithSharedCircuits(t *testing.T) {
	inMemory(t, script(nil, 500), func(t *testing.T, base *http.Transport, _ *fetchtest.Net) {
		shared, err := resilience.NewBreakers(resilience.BreakersConfig{})
		require.NoError(t, err)
		doc := &page{doc: circuitDoc("1")}
		l := liveChain(t, doc, base, binder.HTTPOptions{Deps: binder.Deps{Breakers: shared}})
		text(t, get(t, l))
		require.False(t, shared.Healthy())

		doc.set(circuitDoc("2"), nil)
		_, err = l.Reload(t.Context())
		require.ErrorContains(t, err, "use the same settings or another name")
		require.Equal(t, 1, l.Model().CircuitBreaker.FailureThreshold)
		reload(t, l, doc, `{}`)
		text(t, get(t, l))
		reload(t, l, doc, circuitDoc("1"))
		require.False(t, shared.Healthy(), "the circuit has outlived a document without it")
	})
}

type closeNote struct {
	io.Reader
	closed bool
}

func (c *closeNote) Close() error {
	c.closed = true
	return nil
}

func TestLiveChainAfterClose(t *testing.T) {
	doc := &page{doc: `{}`}
	l := liveChain(t, doc, http.NewFileTransport(http.Dir(t.TempDir())), binder.HTTPOptions{})
	require.NoError(t, l.Close())
	body := &closeNote{Reader: strings.NewReader("x")}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.test/", body)
	require.NoError(t, err)
	_, err = l.RoundTrip(req)
	require.ErrorIs(t, err, resilience.ErrClosed)
	require.True(t, body.closed)
}
