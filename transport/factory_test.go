package transport_test

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

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
	other := must(f.Client("b"))
	require.NotSame(t, clients[0], other)
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
		peers[name] = read(t, res)
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
	f, err := transport.NewFactory(transport.FactoryConfig{Transport: mine, Configure: clients(map[string]transport.ClientConfig{
		"b": {Chain: chain("b", nil)}, "a": {Chain: chain("a", broken)},
	})})
	require.NoError(t, err)
	for _, name := range []string{"b", "a"} {
		_, err := f.Client(name)
		require.NoError(t, err)
	}
	require.ErrorIs(t, f.Close(), broken)
	require.NoError(t, f.Close())
	require.Equal(t, []string{"a", "b"}, closed, "and not the transport, which is the caller's")
	_, err = f.Client("a")
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

// A name whose client cannot be built is tried again, and takes nobody's place.
func TestFactoryTriesAgain(t *testing.T) {
	fail := errors.New("not yet")
	f := newFactory(t, transport.FactoryConfig{MaxClients: 1, Configure: func(string) (transport.ClientConfig, error) {
		return transport.ClientConfig{}, fail
	}})
	for _, name := range []string{"a", "b"} {
		_, err := f.Client(name)
		require.ErrorIs(t, err, fail)
	}
	fail = nil
	_, err := f.Client("a")
	require.NoError(t, err)
	_, err = f.Client("b")
	require.EqualError(t, err, `client "b": it is one more than FactoryConfig.MaxClients, which is 1`)
}

func TestFactorySurvivesAPanic(t *testing.T) {
	fault := true
	f := newFactory(t, transport.FactoryConfig{Configure: func(string) (transport.ClientConfig, error) {
		if fault {
			panic("fault")
		}
		return transport.ClientConfig{}, nil
	}})
	require.Panics(t, func() { _, _ = f.Client("a") })
	fault = false
	_, err := f.Client("a")
	require.NoError(t, err)
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
	other, err := f.Client("b")
	require.NoError(t, err)
	require.NoError(t, f.Invalidate("a"))
	_, err = old.Get(t.Context(), "http://a.test/")
	require.ErrorIs(t, err, resilience.ErrClosed)
	next := must(f.Client("a"))
	require.NotSame(t, old, next)
	same := must(f.Client("b"))
	require.Same(t, other, same)
	require.EqualValues(t, 3, built.Load())
}
