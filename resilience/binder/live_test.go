package binder_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/resilience/binder"
	"github.com/treadlight/crawl/transport"
)

type page struct {
	mu  sync.Mutex
	doc string
	err error
}

func (p *page) set(doc string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doc, p.err = doc, err
}

func (p *page) source(context.Context) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return []byte(p.doc), p.err
}

// follow makes a chain around a transport that is never asked.
func follow(t *testing.T, cfg binder.LiveConfig) *binder.LiveChain {
	t.Helper()
	l := must(binder.NewLiveChain(t.Context(), cfg, http.NewFileTransport(http.Dir(t.TempDir())), binder.HTTPOptions{}))
	t.Cleanup(func() { _ = l.Close() })
	return l
}

const (
	second1 = `{"Timeout": {"Seconds": 1}}`
	second2 = `{"Timeout": {"Seconds": 2}}`
)

func TestLiveSwaps(t *testing.T) {
	doc := &page{doc: second1}
	l := follow(t, binder.LiveConfig{Source: doc.source})
	require.Equal(t, time.Second, l.Model().Timeout.Limit)
	reload(t, l, doc, second2)
	require.Equal(t, 2*time.Second, l.Model().Timeout.Limit)
	require.NoError(t, l.Close())
	_, err := l.Reload(t.Context())
	require.ErrorIs(t, err, resilience.ErrClosed)
	require.Nil(t, l.Model())
	require.NoError(t, l.Close())
}

func TestLiveDoesNotSwapForTheSame(t *testing.T) {
	doc := &page{doc: second1}
	told := 0
	l := follow(t, binder.LiveConfig{Source: doc.source, OnReload: func(*binder.Model, error) { told++ }})
	for _, same := range []string{second1, ` {"resilience": {"timeout": {"seconds": 1.0}}}`} {
		doc.set(same, nil)
		require.False(t, must(l.Reload(t.Context())))
	}
	require.Zero(t, told)
}

func TestLiveKeepsTheOldForABadDocument(t *testing.T) {
	doc := &page{doc: second1}
	var told []string
	l := follow(t, binder.LiveConfig{Source: doc.source, OnReload: func(m *binder.Model, err error) {
		told = append(told, m.Timeout.Limit.String()+" "+errText(err))
	}})
	for _, step := range []struct {
		doc string
		err error
	}{
		{`{"Timeout": {"Seconds": -1}}`, nil},
		{`{"Timeout": {"Seconds": -1}}`, nil}, // told already
		{``, nil},
		{``, errDown},
		{second1, nil}, // what was told is taken back, though nothing else has changed
		{second1, nil},
		{``, errDown},
		{`{"Fallback": {}}`, nil}, // loads, and cannot be bound
	} {
		doc.set(step.doc, step.err)
		changed, err := l.Reload(t.Context())
		require.Equal(t, step.doc == second1, err == nil)
		require.False(t, changed)
		require.Equal(t, time.Second, l.Model().Timeout.Limit)
	}
	reload(t, l, doc, second2)
	require.Equal(t, []string{
		"1s Timeout.Seconds: -1 is below 0.001; give a number of seconds from 0.001 to 86400 [line 1]",
		"1s the document is empty; write {} for no policy at all",
		"1s down",
		"1s ok",
		"1s down",
		"1s Fallback: a document cannot say what to return instead: give Options.Fallback, or remove the section",
		"2s ok",
	}, told)
}

func errText(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

func TestLiveOfACallerWhoGaveUp(t *testing.T) {
	l := follow(t, binder.LiveConfig{
		Source:   func(ctx context.Context) ([]byte, error) { return []byte(second1), ctx.Err() },
		OnReload: func(_ *binder.Model, err error) { t.Errorf("OnReload with %v, want no call", err) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Reload(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestNewLiveRefuses(t *testing.T) {
	good := &page{doc: second1}
	for want, cfg := range map[string]binder.LiveConfig{
		"binder: LiveConfig.Source is nil: give File or a function":                {},
		"binder: LiveConfig.Poll is -1s: give a positive duration, or zero for 5s": {Source: good.source, Poll: -time.Second},
		"down": {Source: (&page{err: errDown}).source},
		"the document is empty; write {} for no policy at all":                                                 {Source: (&page{}).source},
		"Fallback: a document cannot say what to return instead: give Options.Fallback, or remove the section": {Source: (&page{doc: `{"Fallback": {}}`}).source},
	} {
		_, err := binder.NewLiveChain(t.Context(), cfg, http.DefaultTransport, binder.HTTPOptions{})
		require.EqualError(t, err, want)
	}
}

func TestLiveRunFollowsTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		doc := &page{doc: second1}
		var at []time.Duration
		begun := time.Now()
		l := follow(t, binder.LiveConfig{
			Source: doc.source, Poll: 3 * time.Second,
			OnReload: func(*binder.Model, error) { at = append(at, time.Since(begun)) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		time.Sleep(4 * time.Second)
		doc.set(second2, nil)
		time.Sleep(6 * time.Second)
		doc.set("rubbish", nil)
		time.Sleep(60 * time.Second)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Equal(t, []time.Duration{6 * time.Second, 12 * time.Second}, at)

		go func() { ended <- l.Run(t.Context()) }()
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-ended, resilience.ErrClosed)
	})
}

// Requests, reloads and a Close at the same time: each request ends well, also on a chain that was replaced.
func TestLiveUnderLoad(t *testing.T) {
	doc := &page{doc: second1}
	l := follow(t, binder.LiveConfig{Source: doc.source})
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", http.NoBody)
				assert.NoError(t, err)
				res, err := l.RoundTrip(req)
				if errors.Is(err, resilience.ErrClosed) {
					return
				}
				if assert.NoError(t, err) {
					assert.NoError(t, res.Body.Close())
				}
			}
		})
	}
	for i := range 200 {
		reload(t, l, doc, []string{second2, second1}[i%2])
	}
	require.NoError(t, l.Close())
	users.Wait()
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resilience.json")
	source := binder.File(path)
	_, err := source(t.Context())
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, doc := range []string{second1, second2} {
		require.NoError(t, os.WriteFile(path, []byte(doc), 0o600))
		require.Equal(t, doc, string(must(source(t.Context()))))
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	_, err = source(t.Context())
	require.ErrorContains(t, err, "is not a regular file")
}

func TestFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.json")
	require.NoError(t, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	data := must(binder.File(path)(t.Context()))
	require.Len(t, data, binder.DocumentMax+1)
	_, err := binder.Load(data)
	require.ErrorContains(t, err, "larger than 64 KiB")
}

func inMemory(t *testing.T, handler http.HandlerFunc, test func(*testing.T, *http.Transport)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		site := fetchtest.Serve(t, map[string]http.Handler{"a.test": handler})
		base := &http.Transport{DialContext: site.DialContext}
		defer base.CloseIdleConnections()
		test(t, base)
	})
}

func bindHTTP(t *testing.T, doc string, base http.RoundTripper, o binder.HTTPOptions) *binder.Chain {
	t.Helper()
	c := must(binder.BindHTTP(load(t, doc), base, o))
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func get(t *testing.T, rt http.RoundTripper) *http.Response {
	t.Helper()
	req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", http.NoBody))
	return must(rt.RoundTrip(req))
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	body := must(io.ReadAll(res.Body))
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
	inMemory(t, script(nil, 200), func(t *testing.T, base *http.Transport) {
		c := bindHTTP(t, whole, base, binder.HTTPOptions{
			Fallback: func(*http.Request, *http.Response, error) (*http.Response, error) { return nil, errDown },
		})
		require.Equal(t, "OK", text(t, get(t, c)))
		c.CloseIdleConnections()
	})
}

func TestHTTPFallback(t *testing.T) {
	inMemory(t, script(nil, 503), func(t *testing.T, base *http.Transport) {
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
	inMemory(t, script(nil, 200), func(t *testing.T, base *http.Transport) {
		c := bindHTTP(t, `{"BulkheadIsolation": {"MaxConcurrentRequests": 1, "MaxQueueSize": 0}}`, base, binder.HTTPOptions{})
		first := get(t, c) // holds its place to the end of the body
		req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", http.NoBody))
		_, err := c.RoundTrip(req)
		full, ok := errors.AsType[*resilience.BulkheadError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "a.test", full.Key)
		require.Equal(t, "OK", text(t, first))
		require.Equal(t, "OK", text(t, get(t, c)))
	})
}

func liveChain(t *testing.T, doc *page, base http.RoundTripper, o binder.HTTPOptions) *binder.LiveChain {
	t.Helper()
	l := must(binder.NewLiveChain(t.Context(), binder.LiveConfig{Source: doc.source}, base, o))
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func reload(t *testing.T, l *binder.LiveChain, doc *page, text string) {
	t.Helper()
	doc.set(text, nil)
	require.True(t, must(l.Reload(t.Context())))
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
	inMemory(t, slow, func(t *testing.T, base *http.Transport) {
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
	inMemory(t, script(nil, 500, 200), func(t *testing.T, base *http.Transport) {
		doc := &page{doc: circuitDoc("1")}
		l := liveChain(t, doc, base, binder.HTTPOptions{})
		require.Equal(t, "Internal Server Error", text(t, get(t, l)))

		reload(t, l, doc, strings.Replace(circuitDoc("1"), "{", `{"Timeout": {}, `, 1))
		req := must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.test/", strings.NewReader("body")))
		_, err := l.RoundTrip(req)
		require.ErrorIs(t, err, resilience.ErrOpen, "its section is the same")

		reload(t, l, doc, circuitDoc("2"))
		require.Equal(t, "OK", text(t, get(t, l)), "its section has changed")
	})
}

func TestLiveChainWithSharedCircuits(t *testing.T) {
	inMemory(t, script(nil, 500), func(t *testing.T, base *http.Transport) {
		shared := must(resilience.NewBreakers(resilience.BreakersConfig{}))
		doc := &page{doc: circuitDoc("1")}
		l := liveChain(t, doc, base, binder.HTTPOptions{Deps: binder.Deps{Breakers: shared}})
		text(t, get(t, l))
		require.False(t, shared.Healthy())

		doc.set(circuitDoc("2"), nil)
		_, err := l.Reload(t.Context())
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
	req := must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.test/", body))
	_, err := l.RoundTrip(req)
	require.ErrorIs(t, err, resilience.ErrClosed)
	require.True(t, body.closed)
}
