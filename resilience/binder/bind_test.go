package binder_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/resilience/binder"
)

var errDown = errors.New("down")

func bindInt(t testing.TB, doc string, o binder.Options[int]) *binder.Policies[int] {
	t.Helper()
	o.Status = func(v int) int { return v }
	p := must(binder.Bind(load(t, doc), o))
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// callTimes are the instants at which a call that fails n times is made.
func callTimes(t *testing.T, p resilience.Policy[int], n int) []time.Duration {
	t.Helper()
	begun := time.Now()
	var times []time.Duration
	_, err := p.Execute(t.Context(), func(context.Context) (int, error) {
		times = append(times, time.Since(begun))
		if len(times) <= n {
			return 0, errDown
		}
		return 1, nil
	})
	if err != nil {
		require.ErrorIs(t, err, errDown)
	}
	return times
}

func TestEverySectionIsBound(t *testing.T) {
	o := binder.Options[int]{
		Key:      func(context.Context) string { return "key" },
		Fallback: func(context.Context, int, error) (int, error) { return 0, nil },
	}
	p := bindInt(t, whole, o)
	for name, policy := range map[string]resilience.Policy[int]{
		"Fallback": p.Fallback, "Retry": p.Retry, "Hedge": p.Hedge, "Breaker": p.Breaker,
		"Isolation": p.Isolation, "Bulkhead": p.Bulkhead, "Timeout": p.Timeout,
	} {
		require.NotNil(t, policy, name)
	}
	require.Equal(t, "api", p.Circuit.Name())
	require.Equal(t, 200, must(p.Execute(t.Context(), func(context.Context) (int, error) { return 200, nil })))
}

func TestAbsentSectionIsNoPolicy(t *testing.T) {
	p := bindInt(t, `{}`, binder.Options[int]{})
	for _, policy := range []resilience.Policy[int]{p.Fallback, p.Retry, p.Hedge, p.Breaker, p.Isolation, p.Bulkhead, p.Timeout} {
		require.Nil(t, policy)
	}
	require.Nil(t, p.Circuit)
	require.Len(t, callTimes(t, p, 9), 1)
}

func TestBindRetry(t *testing.T) {
	ms := func(list ...int) []time.Duration {
		times := make([]time.Duration, len(list))
		for i, n := range list {
			times[i] = time.Duration(n) * time.Millisecond
		}
		return times
	}
	for _, tc := range []struct {
		name, retry string
		failures    int
		want        []time.Duration
	}{
		{"none", `"MaxRetries": 2, "Backoff": {"Type": "none"}`, 9, ms(0, 0, 0)},
		{"constant", `"MaxRetries": 3, "Backoff": {"Type": "constant", "BaseMs": 100, "UseJitter": false}`, 9, ms(0, 100, 200, 300)},
		{"linear", `"MaxRetries": 3, "Backoff": {"Type": "linear", "BaseMs": 100, "UseJitter": false}`, 9, ms(0, 100, 300, 600)},
		{"exponential", `"MaxRetries": 4, "Backoff": {"BaseMs": 100, "MaxDelayMs": 400, "UseJitter": false}`, 9, ms(0, 100, 300, 700, 1100)},
		{"success", `"MaxRetries": 3, "Backoff": {"Type": "none"}`, 1, ms(0, 0)},
		{"no retries", `"MaxRetries": 0`, 9, ms(0)},
		{"for ever", `"MaxRetries": 0, "RetryForever": true, "Backoff": {"Type": "constant", "BaseMs": 1, "UseJitter": false}`, 5, ms(0, 1, 2, 3, 4, 5)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := bindInt(t, `{"Retry": {`+tc.retry+`}}`, binder.Options[int]{})
				require.Equal(t, tc.want, callTimes(t, p, tc.failures))
			})
		})
	}
}

func TestBindRandomPauses(t *testing.T) {
	for _, tc := range []struct {
		name, backoff string
		random        edge
		want          time.Duration // of the first pause
	}{
		{"jitter, shortest", `"Type": "constant", "BaseMs": 100`, false, 0},
		{"jitter, longest", `"Type": "constant", "BaseMs": 100`, true, 100 * time.Millisecond},
		{"decorrelated, shortest", `"Type": "decorrelated_jitter", "BaseMs": 100`, false, 100 * time.Millisecond},
		{"decorrelated, longest", `"Type": "decorrelated_jitter", "BaseMs": 100, "UseJitter": false`, true, 300 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := bindInt(t, `{"Retry": {"MaxRetries": 1, "Backoff": {`+tc.backoff+`}}}`, binder.Options[int]{Deps: binder.Deps{Random: tc.random}})
				require.Equal(t, tc.want, callTimes(t, p, 1)[1])
			})
		})
	}
}

type edge bool

func (e edge) Int64N(n int64) int64 {
	if e {
		return n - 1
	}
	return 0
}

func TestBindTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bindInt(t, `{"Timeout": {"Seconds": 1.5}}`, binder.Options[int]{Deps: binder.Deps{Name: "slow"}})
		begun := time.Now()
		_, err := p.Execute(t.Context(), func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		require.ErrorIs(t, err, resilience.ErrTimeout)
		require.ErrorContains(t, err, "slow")
		require.Equal(t, 1500*time.Millisecond, time.Since(begun))
	})
}

func TestBindCircuitBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bindInt(t, `{"CircuitBreaker": {"FailureThreshold": 2, "SuccessThreshold": 2, "BreakSeconds": 4}}`, binder.Options[int]{})
		for range 2 {
			require.Len(t, callTimes(t, p, 9), 1)
		}
		_, err := p.Execute(t.Context(), func(context.Context) (int, error) { return 1, nil })
		require.EqualError(t, err, "circuit open (default): next try in 4s")
		time.Sleep(4 * time.Second)
		require.Len(t, callTimes(t, p, 0), 1)
		require.Equal(t, breaker.HalfOpen, p.Circuit.Snapshot().State, "one success of two")
		require.Len(t, callTimes(t, p, 0), 1)
		require.Equal(t, breaker.Closed, p.Circuit.Snapshot().State)
	})
}

func TestBindBulkhead(t *testing.T) {
	for _, tc := range []struct {
		name, bulkhead string
		second, third  time.Duration // when they are refused
	}{
		{"waits", `"MaxConcurrency": 1, "MaxQueueDepth": 1, "QueueTimeoutSeconds": 2`, 2 * time.Second, 0},
		{"no time", `"MaxConcurrency": 1, "MaxQueueDepth": 1, "QueueTimeoutSeconds": 0`, 0, 0},
		{"no queue", `"MaxConcurrency": 1, "MaxQueueDepth": 0, "QueueTimeoutSeconds": 2`, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := bindInt(t, `{"Bulkhead": {`+tc.bulkhead+`}}`, binder.Options[int]{})
				release := occupy(t.Context(), t, p)
				second := refusal(t.Context(), t, p)
				synctest.Wait()
				require.Equal(t, tc.third, <-refusal(t.Context(), t, p))
				require.Equal(t, tc.second, <-second)
				release()
			})
		})
	}
}

func occupy(ctx context.Context, t *testing.T, p resilience.Policy[int]) (release func()) {
	t.Helper()
	busy, done := make(chan struct{}), make(chan struct{})
	go func() {
		_, err := p.Execute(ctx, func(context.Context) (int, error) { <-busy; return 1, nil })
		assert.NoError(t, err)
		close(done)
	}()
	synctest.Wait()
	return func() { close(busy); <-done }
}

func refusal(ctx context.Context, t *testing.T, p resilience.Policy[int]) <-chan time.Duration {
	t.Helper()
	after := make(chan time.Duration, 1)
	begun := time.Now()
	go func() {
		_, err := p.Execute(ctx, func(context.Context) (int, error) { return 1, nil })
		assert.ErrorIs(t, err, resilience.ErrBulkheadFull)
		after <- time.Since(begun)
	}()
	return after
}

type keyed struct{}

func TestBindBulkheadIsolation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bindInt(t, `{"BulkheadIsolation": {"MaxConcurrentRequests": 1, "MaxQueueSize": 1, "QueueTimeoutSeconds": 3}}`, binder.Options[int]{
			Key: func(ctx context.Context) string { return ctx.Value(keyed{}).(string) },
		})
		a, b := context.WithValue(t.Context(), keyed{}, "a"), context.WithValue(t.Context(), keyed{}, "b")
		release := occupy(a, t, p)
		occupy(b, t, p)() // has a pool of its own
		require.Equal(t, 3*time.Second, <-refusal(a, t, p))
		release()
	})
}

func TestBindHedging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bindInt(t, `{"Hedging": {"HedgeAfterMs": 300, "MaxHedgedAttempts": 2}}`, binder.Options[int]{})
		begun := time.Now()
		var calls atomic.Int32
		v := must(p.Execute(t.Context(), func(ctx context.Context) (int, error) {
			n := int(calls.Add(1))
			if n == 3 {
				return n, nil
			}
			<-ctx.Done()
			return n, ctx.Err()
		}))
		require.Equal(t, 3, v)
		require.Equal(t, 600*time.Millisecond, time.Since(begun))
		synctest.Wait()
	})
}

func TestBindFallback(t *testing.T) {
	p := bindInt(t, `{"Fallback": {"StatusCodes": [503]}}`, binder.Options[int]{
		Fallback: func(_ context.Context, v int, _ error) (int, error) { return -v, nil },
	})
	for _, tc := range []struct {
		v    int
		err  error
		want int
	}{{503, nil, -503}, {500, nil, 500}, {7, errDown, -7}} {
		require.Equal(t, tc.want, must(p.Execute(t.Context(), func(context.Context) (int, error) { return tc.v, tc.err })))
	}
}

func TestBindWhatNoDocumentCanSay(t *testing.T) {
	for doc, want := range map[string]string{
		`{"Fallback": {}}`:                          "Fallback: a document cannot say what to return instead: give Options.Fallback, or remove the section",
		`{"Bulkhead": {}, "BulkheadIsolation": {}}`: "BulkheadIsolation: a document cannot say what to isolate by: give Options.Key, or remove the section",
	} {
		_, err := binder.Bind(load(t, doc), binder.Options[int]{})
		require.EqualError(t, err, want)
	}
}

func TestBindSharedCircuits(t *testing.T) {
	shared := must(resilience.NewBreakers(resilience.BreakersConfig{}))
	o := binder.Options[int]{Deps: binder.Deps{Breakers: shared}}
	a := bindInt(t, `{"CircuitBreaker": {"CircuitName": "api"}}`, o)
	b := bindInt(t, `{"CircuitBreaker": {"CircuitName": "api"}}`, o)
	require.Same(t, a.Circuit, b.Circuit)
	require.NotSame(t, a.Circuit, bindInt(t, `{"CircuitBreaker": {"CircuitName": "other"}}`, o).Circuit)
	_, err := binder.Bind(load(t, `{"Bulkhead": {}, "CircuitBreaker": {"CircuitName": "api", "FailureThreshold": 9}}`), o)
	require.ErrorContains(t, err, `CircuitBreaker: breakers: "api" has Failures = 5, not 9`)
	require.Equal(t, []string{"api", "other"}, shared.Names())
}

// A retry around a hedge counts the call that was asked for, once.
func TestBindBudgetIsSpentOnce(t *testing.T) {
	budget := must(resilience.NewBudget(resilience.BudgetConfig{}))
	o := binder.Options[int]{Deps: binder.Deps{Budget: budget}}
	both := bindInt(t, `{"Retry": {}, "Hedging": {}}`, o)
	hedge := bindInt(t, `{"Hedging": {}}`, o)
	for _, p := range []*binder.Policies[int]{both, hedge} {
		require.Len(t, callTimes(t, p, 0), 1)
	}
	calls, extra := budget.Spent()
	require.Equal(t, []int64{2, 0}, []int64{calls, extra})
}

func TestBindEvents(t *testing.T) {
	hub := new(resilience.Hub)
	var names []string
	off := resilience.Subscribe(hub, func(e resilience.RetryEvent) { names = append(names, e.Name) })
	p := bindInt(t, `{"Retry": {"Backoff": {"Type": "none"}}}`, binder.Options[int]{Deps: binder.Deps{Hub: hub, Name: "api"}})
	require.Len(t, callTimes(t, p, 2), 3)
	require.NoError(t, hub.Close())
	off()
	require.Equal(t, []string{"api", "api"}, names)
}

func TestClosedPoliciesRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bindInt(t, `{"Bulkhead": {"MaxConcurrency": 1, "QueueTimeoutSeconds": 60}}`, binder.Options[int]{})
		release := occupy(t.Context(), t, p)
		waiting := make(chan error)
		go func() {
			_, err := p.Execute(t.Context(), func(context.Context) (int, error) { return 1, nil })
			waiting <- err
		}()
		synctest.Wait()
		require.NoError(t, p.Close())
		require.ErrorIs(t, <-waiting, resilience.ErrClosed)
		_, err := p.Execute(t.Context(), func(context.Context) (int, error) { return 1, nil })
		require.ErrorIs(t, err, resilience.ErrClosed)
		release()
	})
}

// A caller with more hosts than usual says so.
func TestKeysOfIsolation(t *testing.T) {
	type key struct{}
	p := must(binder.Bind(&binder.Model{BulkheadIsolation: &binder.BulkheadIsolation{MaxConcurrency: 1}}, binder.Options[int]{
		Deps: binder.Deps{Keys: 2}, Key: func(ctx context.Context) string { return ctx.Value(key{}).(string) },
	}))
	defer func() { require.NoError(t, p.Close()) }()
	nest := func(names ...string) (err error) {
		run := func(context.Context) (int, error) { return 0, nil }
		for _, name := range names {
			inner := run
			run = func(ctx context.Context) (int, error) {
				return p.Execute(context.WithValue(ctx, key{}, name), inner)
			}
		}
		_, err = run(t.Context())
		return err
	}
	require.NoError(t, nest("a", "b"))
	require.ErrorIs(t, nest("a", "b", "c"), resilience.ErrBulkheadFull)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
