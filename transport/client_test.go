package transport_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

func echo(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"method": req.Method, "path": req.URL.Path, "body": string(body),
		"type": req.Header.Get("Content-Type"), "accept": req.Header.Get("Accept"),
	})
}

// loopback serves handler on a real socket for the time of the test, which must leave no goroutine.
func loopback(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	site := httptest.NewServer(handler)
	t.Cleanup(site.Close)
	return site
}

func newClient(t *testing.T, cfg transport.ClientConfig) *transport.Client {
	t.Helper()
	c := must(transport.NewClient(cfg))
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestClientVerbs(t *testing.T) {
	site := loopback(t, echo)
	c := newClient(t, transport.ClientConfig{BaseURL: site.URL + "/api/"})
	ctx := t.Context()
	for _, tc := range []struct {
		name string
		send func() (*http.Response, error)
		want map[string]string
	}{
		{"Get", func() (*http.Response, error) { return c.Get(ctx, "a") }, map[string]string{"method": "GET", "path": "/api/a"}},
		{"Get of the root", func() (*http.Response, error) { return c.Get(ctx, "/a") }, map[string]string{"method": "GET", "path": "/a"}},
		{"Get of a whole URL", func() (*http.Response, error) { return c.Get(ctx, site.URL+"/b") }, map[string]string{"method": "GET", "path": "/b"}},
		{
			"Post", func() (*http.Response, error) { return c.Post(ctx, "a", "text/plain", strings.NewReader("x")) },
			map[string]string{"method": "POST", "path": "/api/a", "type": "text/plain", "body": "x"},
		},
		{
			"PostJSON", func() (*http.Response, error) { return c.PostJSON(ctx, "a", map[string]int{"n": 1}) },
			map[string]string{"method": "POST", "path": "/api/a", "type": "application/json", "accept": "application/json", "body": `{"n":1}`},
		},
		{
			"Put", func() (*http.Response, error) { return c.Put(ctx, "a", "text/plain", strings.NewReader("x")) },
			map[string]string{"method": "PUT", "path": "/api/a", "type": "text/plain", "body": "x"},
		},
		{
			"Patch without a type", func() (*http.Response, error) { return c.Patch(ctx, "a", "", strings.NewReader("x")) },
			map[string]string{"method": "PATCH", "path": "/api/a", "body": "x"},
		},
		{"Delete", func() (*http.Response, error) { return c.Delete(ctx, "a") }, map[string]string{"method": "DELETE", "path": "/api/a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := must(tc.send())
			want := map[string]string{"body": "", "type": "", "accept": ""}
			maps.Copy(want, tc.want)
			var got map[string]string
			require.NoError(t, c.DecodeJSON(res, &got))
			require.Equal(t, want, got)
		})
	}
	res := must(c.Head(ctx, "a"))
	require.NoError(t, res.Body.Close())
	require.Equal(t, "HEAD", res.Request.Method)

	var got map[string]string
	require.Error(t, c.GetJSON(ctx, "%", &got))
	require.NoError(t, c.GetJSON(ctx, "doc", &got))
	require.Equal(t, "application/json", got["accept"])
}

func TestClientDecodeJSON(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		status     int
		want       string
		class      outcome.Class
	}{
		{"document", `{"n": 1}`, 200, "", outcome.OK},
		{"white space", " {\"n\": 1}\n\n", 200, "", outcome.OK},
		{"as long as may be", `{"n":        1}`, 200, "", outcome.OK},
		{"longer", `{"n":         1}`, 200, "decode JSON from text/json: the body is longer than 15 bytes", outcome.TooLarge},
		{"two", `{"n":1}{"n":2}`, 200, "decode JSON from text/json: invalid character '{' after top-level value", outcome.Decode},
		{"none", ``, 200, "decode JSON from text/json: unexpected end of JSON input", outcome.Decode},
		{"another", `<html>`, 200, "decode JSON from text/json: invalid character '<' looking for beginning of value", outcome.Decode},
		{"another type", `{"n": "x"}`, 200, "decode JSON from text/json: json: cannot unmarshal string into Go value of type int", outcome.Decode},
		{"refusal", `no`, 404, "status 404 Not Found", outcome.ClientError},
		{"cut off", `{"n"`, 999, "unexpected EOF", outcome.Network},
	} {
		t.Run(tc.name, func(t *testing.T) {
			site := loopback(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/json")
				if tc.status == 999 {
					w.Header().Set("Content-Length", "9")
					tc.status = 200
				}
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			c := newClient(t, transport.ClientConfig{BaseURL: site.URL, MaxBody: 15})
			var got map[string]int
			err := c.GetJSON(t.Context(), "/?token=secret", &got)
			if tc.want == "" {
				require.NoError(t, err)
				require.Equal(t, map[string]int{"n": 1}, got)
				return
			}
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "secret")
			require.Equal(t, tc.class, outcome.Of(0, err))
			if decode, ok := errors.AsType[*transport.DecodeError](err); ok {
				require.ErrorIs(t, err, decode.Err)
			}
		})
	}
}

type noted struct {
	http.RoundTripper
	name string
	log  *[]string
	err  error
}

func (n *noted) Close() error {
	*n.log = append(*n.log, n.name)
	return n.err
}

func TestClientOwnsWhatItHasMade(t *testing.T) {
	site := loopback(t, echo)
	injected := &http.Transport{}
	defer injected.CloseIdleConnections()
	broken := errors.New("broken")
	var closed []string
	c := must(transport.NewClient(transport.ClientConfig{
		Transport: &noted{injected, "transport", &closed, nil},
		Chain: func(base http.RoundTripper) (http.RoundTripper, error) {
			return &noted{base, "chain", &closed, broken}, nil
		},
	}))
	res := must(c.Get(t.Context(), site.URL))
	transport.Discard(res)
	require.ErrorIs(t, c.Close(), broken)
	require.NoError(t, c.Close(), "once is enough")
	require.Equal(t, []string{"chain"}, closed, "the transport is the caller's")

	sent := body("x")
	_, err := c.Post(t.Context(), site.URL, "text/plain", sent)
	require.ErrorIs(t, err, resilience.ErrClosed)
	require.EqualValues(t, 1, sent.closed.Load())
	_, err = c.HTTP().Get(site.URL)
	require.ErrorIs(t, err, resilience.ErrClosed)
}

// A chain that hands the transport back has made nothing to be closed.
func TestClientChainOfNothing(t *testing.T) {
	var closed []string
	mine := &noted{http.NewFileTransport(http.Dir(t.TempDir())), "transport", &closed, nil}
	c := newClient(t, transport.ClientConfig{
		Transport: mine, Chain: func(base http.RoundTripper) (http.RoundTripper, error) { return base, nil },
	})
	require.NoError(t, c.Close())
	require.Empty(t, closed)
}

func TestClientCloseIdleConnections(t *testing.T) {
	site := loopback(t, func(w http.ResponseWriter, req *http.Request) { _, _ = io.WriteString(w, req.RemoteAddr) })
	c := newClient(t, transport.ClientConfig{BaseURL: site.URL})
	var peers [3]string
	for i := range peers {
		res := must(c.Get(t.Context(), "/"))
		peers[i] = read(res)
		if i == 1 {
			c.HTTP().CloseIdleConnections()
		}
	}
	require.Equal(t, peers[0], peers[1])
	require.NotEqual(t, peers[1], peers[2])
}

func TestNewClientRefuses(t *testing.T) {
	for want, cfg := range map[string]transport.ClientConfig{
		"transport: ClientConfig.MaxBody is -1: use a positive number of bytes, or zero for 10 MiB": {MaxBody: -1},
		`transport: ClientConfig.BaseURL is "ftp://a.test": use an absolute http or https URL`:      {BaseURL: "ftp://u:p@a.test"},
		`transport: ClientConfig.BaseURL is "/a": use an absolute http or https URL`:                {BaseURL: "/a"},
		"transport: ClientConfig.Base is set beside a Transport, which it cannot change: remove one of them": {
			Transport: http.NewFileTransport(http.Dir(".")), Base: transport.BaseConfig{AllowPrivate: true},
		},
		"broken": {Chain: func(http.RoundTripper) (http.RoundTripper, error) { return nil, errors.New("broken") }},
	} {
		_, err := transport.NewClient(cfg)
		require.EqualError(t, err, want)
	}
	c := newClient(t, transport.ClientConfig{BaseURL: "http://a.test"})
	_, err := c.Get(t.Context(), "http://a b/")
	require.ErrorContains(t, err, "invalid character")
	_, err = c.PostJSON(t.Context(), "/", func() {})
	require.ErrorContains(t, err, "unsupported type")
}

func TestBaseGuardsRedirects(t *testing.T) {
	var asked atomic.Int32
	inside := loopback(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	insideName := strings.Replace(inside.URL, "127.0.0.1", "localhost", 1)
	site := loopback(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/home" {
			echo(w, req)
			return
		}
		http.Redirect(w, req, req.URL.Query().Get("to"), http.StatusFound)
	})
	c := newClient(t, transport.ClientConfig{})
	ask := func(url string) error {
		res, err := c.Get(t.Context(), url)
		transport.Discard(res)
		return err
	}
	require.NoError(t, ask(site.URL+"/?to=/home"), "the host that the program has asked for")
	denied, ok := errors.AsType[*transport.AddressError](ask(site.URL + "/?to=" + insideName))
	require.True(t, ok)
	require.Equal(t, outcome.AddressDenied, denied.Class())
	require.ErrorContains(t, denied, "which is not on the public Internet")
	require.Error(t, ask(site.URL+"/?to=/%3Fto="+insideName), "in two hops")
	require.Zero(t, asked.Load())
	require.NoError(t, ask(insideName), "asked for directly")
	require.NoError(t, ask(strings.Replace(site.URL, "127.0.0.1", "LOCALHOST", 1)+"/?to="+insideName), "the same host, whatever the case")
	require.EqualValues(t, 2, asked.Load())
}

func TestBaseCloseEndsDials(t *testing.T) {
	before := goleak.IgnoreCurrent()
	silent := must(net.Listen("tcp", "127.0.0.1:0"))
	defer silent.Close()
	base := transport.NewBase(transport.BaseConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	req := must(http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/", silent.Addr()), http.NoBody))
	failed := make(chan error)
	go func() {
		_, err := base.RoundTrip(req)
		failed <- err
	}()
	conn := must(silent.Accept())
	require.NoError(t, base.Close())
	require.NoError(t, base.Close())
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	require.NoError(t, conn.Close())
	_, err := base.RoundTrip(req)
	require.ErrorIs(t, err, resilience.ErrClosed)
	goleak.VerifyNone(t, before)
}

func TestClientMaxBodyOfAllThereIs(t *testing.T) {
	c := newClient(t, transport.ClientConfig{MaxBody: math.MaxInt64, Transport: always(200, `{"a": 1}`)})
	var got map[string]int
	require.NoError(t, c.GetJSON(t.Context(), "http://a.test/", &got))
	require.Equal(t, map[string]int{"a": 1}, got)
}

// A request on its way in when Close comes has net/http keep connections again.
func TestBaseCloseBeforeALateRequest(t *testing.T) {
	release := make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-release
	}))
	defer site.Close()
	before := goleak.IgnoreCurrent()
	b := transport.NewBase(transport.BaseConfig{})
	early := must(b.RoundTrip(get(t, site.URL)))

	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { require.NoError(t, b.Close()) }, // the request has passed the door
	})
	_, err := b.RoundTrip(newRequest(context.WithoutCancel(ctx), http.MethodGet, site.URL, http.NoBody))
	require.ErrorIs(t, err, resilience.ErrClosed)

	close(release)
	must(io.Copy(io.Discard, early.Body))
	require.NoError(t, early.Body.Close())
	goleak.VerifyNone(t, before)
}

func newFactory(t *testing.T, cfg transport.FactoryConfig) *transport.Factory {
	t.Helper()
	f := must(transport.NewFactory(cfg))
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func clients(by map[string]transport.ClientConfig) func(string) (transport.ClientConfig, error) {
	return func(name string) (transport.ClientConfig, error) { return by[name], nil }
}

func TestFactoryBuildsOnce(t *testing.T) {
	var built atomic.Int32
	f := newFactory(t, transport.FactoryConfig{Configure: func(string) (transport.ClientConfig, error) {
		built.Add(1)
		return transport.ClientConfig{}, nil
	}})
	var clients [8]*transport.Client
	var callers sync.WaitGroup
	for i := range clients {
		callers.Go(func() {
			c, err := f.Client("a")
			assert.NoError(t, err)
			clients[i] = c
		})
	}
	callers.Wait()
	for _, c := range clients {
		require.Same(t, clients[0], c)
	}
	require.NotSame(t, clients[0], must(f.Client("b")))
	require.EqualValues(t, 2, built.Load())
	require.Equal(t, []string{"a", "b"}, f.Names())
}

// All clients share the factory's transport, and so its connections.
func TestFactorySharesItsTransport(t *testing.T) {
	site := loopback(t, func(w http.ResponseWriter, req *http.Request) { _, _ = w.Write([]byte(req.RemoteAddr)) })
	f := newFactory(t, transport.FactoryConfig{Configure: clients(map[string]transport.ClientConfig{
		"a": {BaseURL: site.URL}, "b": {BaseURL: site.URL}, "own": {BaseURL: site.URL, Base: transport.BaseConfig{AllowPrivate: true}},
	})})
	peers := map[string]string{}
	for _, name := range []string{"a", "b", "own"} {
		c := must(f.Client(name))
		res := must(c.Get(t.Context(), "/"))
		peers[name] = read(res)
	}
	require.Equal(t, peers["a"], peers["b"])
	require.NotEqual(t, peers["a"], peers["own"])
}

func TestFactoryCloses(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var closed []string
	mine := &noted{http.NewFileTransport(http.Dir(t.TempDir())), "transport", &closed, nil}
	chain := func(name string, err error) func(http.RoundTripper) (http.RoundTripper, error) {
		return func(base http.RoundTripper) (http.RoundTripper, error) { return &noted{base, name, &closed, err}, nil }
	}
	broken := errors.New("broken")
	f := must(transport.NewFactory(transport.FactoryConfig{Transport: mine, Configure: clients(map[string]transport.ClientConfig{
		"b": {Chain: chain("b", nil)}, "a": {Chain: chain("a", broken)},
	})}))
	for _, name := range []string{"b", "a"} {
		must(f.Client(name))
	}
	require.ErrorIs(t, f.Close(), broken)
	require.NoError(t, f.Close())
	require.Equal(t, []string{"a", "b"}, closed, "and not the transport, which is the caller's")
	_, err := f.Client("a")
	require.ErrorIs(t, err, resilience.ErrClosed)
}

func TestFactoryRefuses(t *testing.T) {
	some := clients(map[string]transport.ClientConfig{"a": {MaxBody: -1}})
	for want, cfg := range map[string]transport.FactoryConfig{
		"transport: FactoryConfig.Configure is nil: give a function that knows the clients": {},
		"transport: FactoryConfig.MaxClients is -1: use a positive number, or zero for 256": {Configure: some, MaxClients: -1},
		"transport: FactoryConfig.Base is set beside a Transport, which it cannot change: remove one of them": {
			Configure: some, Transport: http.NewFileTransport(http.Dir(".")), Base: transport.BaseConfig{AllowPrivate: true},
		},
	} {
		_, err := transport.NewFactory(cfg)
		require.EqualError(t, err, want)
	}
	_, err := newFactory(t, transport.FactoryConfig{Configure: some}).Client("a")
	require.ErrorContains(t, err, `client "a": transport: ClientConfig.MaxBody is -1`)
}

// A name whose client cannot be built, also by a panic, is tried again, and takes nobody's place.
func TestFactoryTriesAgain(t *testing.T) {
	fail, fault := errors.New("not yet"), true
	f := newFactory(t, transport.FactoryConfig{MaxClients: 1, Configure: func(string) (transport.ClientConfig, error) {
		if fault {
			panic("fault")
		}
		return transport.ClientConfig{}, fail
	}})
	require.Panics(t, func() { _, _ = f.Client("a") })
	fault = false
	for _, name := range []string{"a", "b"} {
		_, err := f.Client(name)
		require.ErrorIs(t, err, fail)
	}
	fail = nil
	must(f.Client("a"))
	_, err := f.Client("b")
	require.EqualError(t, err, `client "b": it is one more than FactoryConfig.MaxClients, which is 1`)
}

// An invalidated client is closed, and the next one is built of what is configured then.
func TestFactoryInvalidate(t *testing.T) {
	var built atomic.Int32
	f := newFactory(t, transport.FactoryConfig{MaxClients: 2, Configure: func(string) (transport.ClientConfig, error) {
		built.Add(1)
		return transport.ClientConfig{}, nil
	}})
	require.NoError(t, f.Invalidate("a"), "what was not built")
	old := must(f.Client("a"))
	other := must(f.Client("b"))
	require.NoError(t, f.Invalidate("a"))
	_, err := old.Get(t.Context(), "http://a.test/")
	require.ErrorIs(t, err, resilience.ErrClosed)
	require.NotSame(t, old, must(f.Client("a")))
	require.Same(t, other, must(f.Client("b")))
	require.EqualValues(t, 3, built.Load())
}
