package resilience_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/resilience"
)

type stand[T any] struct {
	name   string
	notes  *[]string
	closed error // what Close returns
}

func (s stand[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	*s.notes = append(*s.notes, "into "+s.name)
	defer func() { *s.notes = append(*s.notes, "out of "+s.name) }()
	return fn(ctx)
}

func (s stand[T]) Close() error {
	*s.notes = append(*s.notes, "close "+s.name)
	return s.closed
}

func TestRegistry(t *testing.T) {
	var r resilience.Registry
	var notes []string
	errClose := errors.New("it sticks")
	a, b := stand[string]{"a", &notes, errClose}, stand[int]{"b", &notes, nil}
	for _, err := range []error{
		resilience.Register[int](&r, "b", b), resilience.Register[string](&r, "a", a),
		resilience.Register[string](&r, "c", stand[string]{"c", &notes, nil}),
	} {
		require.NoError(t, err)
	}
	wantEqual(t, "Names", r.Names(), []string{"a", "b", "c"})
	assert.Equal(t, resilience.Policy[string](a), must(resilience.Lookup[string](&r, "a")))
	lookup := func(name string) error {
		_, err := resilience.Lookup[string](&r, name)
		return err
	}
	for want, err := range map[string]error{
		"is taken":               resilience.Register[string](&r, "a", a),
		"want a name":            resilience.Register[string](&r, "", a),
		"and a policy":           resilience.Register[string](&r, "d", nil),
		`there are ["a" "b" "c"`: lookup("d"),
		"stand[int]":             lookup("b"),
	} {
		assert.ErrorContains(t, err, want)
	}
	assert.NoError(t, errors.Join(r.Remove("c"), r.Remove("c")), "also of what is not there")
	assert.ErrorIs(t, r.Close(), errClose)
	assert.NoError(t, r.Close())
	wantEqual(t, "closed", notes, []string{"close c", "close a", "close b"})
	assert.ErrorIs(t, resilience.Register[string](&r, "a", a), resilience.ErrClosed)
	assert.ErrorIs(t, lookup("a"), resilience.ErrClosed)
}

// What is replaced is closed; what is refused is not, and stays the caller's.
func TestRegistryReplaces(t *testing.T) {
	var r resilience.Registry
	var notes []string
	errClose := errors.New("it sticks")
	a, b, c := stand[string]{"a", &notes, nil}, stand[int]{"b", &notes, errClose}, stand[string]{"c", &notes, nil}
	assert.ErrorContains(t, resilience.Replace[string](&r, "x", a), "none to replace")
	assert.NoError(t, resilience.Put[string](&r, "x", a))
	assert.NoError(t, resilience.Replace[int](&r, "x", b))
	must(resilience.Lookup[int](&r, "x"))
	assert.ErrorIs(t, resilience.Put[string](&r, "x", c), errClose)
	assert.Equal(t, resilience.Policy[string](c), must(resilience.Lookup[string](&r, "x")))
	wantEqual(t, "closed", notes, []string{"close a", "close b"})
	r.Close()
	for _, err := range []error{resilience.Put[string](&r, "x", a), resilience.Replace[string](&r, "x", a)} {
		assert.ErrorIs(t, err, resilience.ErrClosed)
	}
	wantEqual(t, "closed", notes, []string{"close a", "close b", "close c"})
}

func TestBreakersShareByName(t *testing.T) {
	r := must(resilience.NewBreakers(resilience.BreakersConfig{}))
	var wg sync.WaitGroup
	got := make([]*resilience.Breaker, 8)
	for i := range got {
		wg.Go(func() { got[i], _ = r.Get("api", resilience.BreakerConfig{Failures: 3}) })
	}
	wg.Wait()
	require.NotNil(t, got[0])
	for _, b := range got {
		require.Same(t, got[0], b)
	}
	require.Same(t, got[0], must(r.Get("api", resilience.BreakerConfig{Name: "api", Failures: 3, BreakFor: 15 * s})))
	other := must(r.Get("other", resilience.BreakerConfig{}))
	require.NotSame(t, got[0], other)
	require.Equal(t, []string{"api", "other"}, r.Names())
	have, ok := r.Lookup("api")
	require.True(t, ok)
	require.Same(t, got[0], have)
	_, ok = r.Lookup("none")
	require.False(t, ok, "looking makes none")
	require.Len(t, r.Names(), 2)
}

// Every field there is makes a conflict, and the error says which it was.
func TestTrapSameNameOtherSettings(t *testing.T) {
	base := func() resilience.BreakerConfig {
		return resilience.BreakerConfig{
			Window: resilience.CountWindow(20), FailureRate: 0.5, MinCalls: 10, SlowCall: s, SlowRate: 0.5,
			SuccessThreshold: 2, BreakFor: 10 * s,
			Clock: clocktest.NewFake(epoch), Hub: new(resilience.Hub),
		}
	}
	changes := map[string]func(*resilience.BreakerConfig){
		"Window":           func(c *resilience.BreakerConfig) { c.Window = resilience.CountWindow(21) },
		"FailureRate":      func(c *resilience.BreakerConfig) { c.FailureRate = 0.6 },
		"MinCalls":         func(c *resilience.BreakerConfig) { c.MinCalls = 11 },
		"SlowCall":         func(c *resilience.BreakerConfig) { c.SlowCall = 2 * s },
		"SlowRate":         func(c *resilience.BreakerConfig) { c.SlowRate = 0.6 },
		"SuccessThreshold": func(c *resilience.BreakerConfig) { c.SuccessThreshold = 3 },
		"BreakFor":         func(c *resilience.BreakerConfig) { c.BreakFor = 11 * s },
		"Clock":            func(c *resilience.BreakerConfig) { c.Clock = clocktest.NewFake(epoch) },
		"Hub":              func(c *resilience.BreakerConfig) { c.Hub = new(resilience.Hub) },
	}
	first := base()
	for field, change := range changes {
		r := must(resilience.NewBreakers(resilience.BreakersConfig{}))
		must(r.Get("api", first))
		again := first
		change(&again)
		b, err := r.Get("api", again)
		require.ErrorContains(t, err, fmt.Sprintf(`breakers: "api" has %s = `, field))
		require.Nil(t, b)
	}
	r := must(resilience.NewBreakers(resilience.BreakersConfig{}))
	must(r.Get("run", resilience.BreakerConfig{Failures: 3}))
	_, err := r.Get("run", resilience.BreakerConfig{Failures: 5})
	require.ErrorContains(t, err, `"run" has Failures = 3, not 5`)
	// Name and Failures are the two that are not in the list.
	require.Equal(t, len(changes)+2, reflect.TypeFor[resilience.BreakerConfig]().NumField())
}

func TestBreakersRefuse(t *testing.T) {
	r := must(resilience.NewBreakers(resilience.BreakersConfig{Max: 1}))
	_, err := r.Get("", resilience.BreakerConfig{})
	require.ErrorContains(t, err, "want a name")
	_, err = r.Get("a", resilience.BreakerConfig{Name: "b"})
	require.ErrorContains(t, err, `Name = "b"`)
	_, err = r.Get("a", resilience.BreakerConfig{Failures: -1})
	require.ErrorContains(t, err, "Failures = -1")
	require.Empty(t, r.Names())
	must(r.Get("a", resilience.BreakerConfig{}))
	_, err = r.Get("b", resilience.BreakerConfig{})
	require.ErrorContains(t, err, "raise Max")
	must(r.Get("a", resilience.BreakerConfig{}))
}

// The registry's clock and hub are those of breakers that bring none.
func TestBreakersHealth(t *testing.T) {
	clk := clocktest.NewFake(epoch)
	r := must(resilience.NewBreakers(resilience.BreakersConfig{Clock: clk}))
	handler := r.Handler()
	get := func(method string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, "/health", nil))
		return w
	}
	require.True(t, r.Healthy())
	require.JSONEq(t, `{"healthy":true,"circuits":{}}`, get(http.MethodGet).Body.String())

	a := must(r.Get("a", resilience.BreakerConfig{BreakFor: 10 * s}))
	must(r.Get("b", resilience.BreakerConfig{}))
	require.Equal(t, http.StatusOK, get(http.MethodGet).Code)
	for range 5 {
		ticket := must(a.Allow())
		ticket.Done(resilience.Failure)
	}
	clk.Advance(4 * s)
	require.False(t, r.Healthy())
	w := get(http.MethodGet)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	var body struct {
		Healthy  bool
		Circuits map[string]resilience.BreakerSnapshot
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	require.False(t, body.Healthy)
	require.Equal(t, r.Snapshot(), body.Circuits)
	require.Equal(t, 6*s, body.Circuits["a"].RetryAfter)
	require.Equal(t, open, body.Circuits["a"].State)
	require.Equal(t, closed, body.Circuits["b"].State)

	clk.Advance(6 * s)
	require.Equal(t, http.StatusServiceUnavailable, get(http.MethodHead).Code, "half-open: only probes pass")
	a.Isolate()
	require.Equal(t, http.StatusServiceUnavailable, get(http.MethodHead).Code)
	w = get(http.MethodPost)
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
}
