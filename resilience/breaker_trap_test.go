package resilience_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/resilience"
)

// These are mistakes that breakers in use have made, one test each.

type circuitPolicy struct {
	*resilience.CircuitBreaker[string]
	core *resilience.Breaker
}

func newPolicy(t *testing.T, cfg resilience.BreakerConfig, of resilience.CircuitBreakerConfig[string]) circuitPolicy {
	t.Helper()
	core := must(resilience.NewBreaker(cfg))
	p := must(resilience.NewCircuitBreaker(core, of))
	return circuitPolicy{p, core}
}

func down(context.Context) (string, error) { return "", errDown }
func up(context.Context) (string, error)   { return "up", nil }

// A caller who gives up is neither a failure nor a success of the callee.
func TestTrapCallerCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolicy(t, resilience.BreakerConfig{Failures: 3, BreakFor: s}, resilience.CircuitBreakerConfig[string]{})
		cancelled := func() {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := p.Execute(ctx, func(ctx context.Context) (string, error) {
				cancel()
				return "", ctx.Err()
			})
			require.ErrorIs(t, err, context.Canceled)
			ctx, cancel = context.WithTimeout(t.Context(), s)
			defer cancel()
			_, err = p.Execute(ctx, func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "", errDown // whatever it makes of it
			})
			require.ErrorIs(t, err, errDown)
		}
		for range 10 {
			cancelled()
		}
		require.Equal(t, closed, p.core.State())
		for range 3 {
			_, _ = p.Execute(t.Context(), down)
		}
		time.Sleep(s)
		cancelled()
		require.Equal(t, halfOpen, p.core.State())
		require.Equal(t, uint64(22), p.core.Snapshot().Totals.Ignored)
	})
}

// A timeout that is a policy's is a failure of the callee, wherever the policy stands.
func TestTimeoutOfAPolicyCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		limit := must(resilience.NewTimeout(resilience.TimeoutConfig[string]{After: s}))
		for _, inside := range []bool{true, false} {
			p := newPolicy(t, resilience.BreakerConfig{Failures: 1}, resilience.CircuitBreakerConfig[string]{})
			chain := resilience.Wrap[string](limit, p)
			if inside {
				chain = resilience.Wrap[string](p, limit)
			}
			_, err := chain.Execute(t.Context(), hang)
			require.ErrorIs(t, err, resilience.ErrTimeout)
			require.Equal(t, open, p.core.State(), "inside %v", inside)
		}
	})
}

// A listener and Break may ask the breaker anything: no lock is held.
func TestTrapCallbackThatAsksTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub resilience.Hub
		var b *resilience.Breaker
		var got []resilience.CircuitEvent
		resilience.Subscribe(&hub, func(e resilience.CircuitEvent) {
			_ = b.State()
			_ = b.Snapshot()
			got = append(got, resilience.CircuitEvent{Name: e.Name, From: e.From, To: e.To, Forced: e.Forced})
		})
		b = must(resilience.NewBreaker(resilience.BreakerConfig{Name: "api", Failures: 1, BreakFor: s, Hub: &hub}))
		p := must(resilience.NewCircuitBreaker(b, resilience.CircuitBreakerConfig[string]{}))
		_, _ = p.Execute(t.Context(), down)
		time.Sleep(s)
		_, _ = p.Execute(t.Context(), down)
		time.Sleep(s)
		_, _ = p.Execute(t.Context(), up)
		b.Isolate()
		b.Reset()
		synctest.Wait()
		require.NoError(t, hub.Close())
		require.Equal(t, []resilience.CircuitEvent{
			{Name: "api", From: closed, To: open},
			{Name: "api", From: open, To: halfOpen},
			{Name: "api", From: halfOpen, To: open},
			{Name: "api", From: open, To: halfOpen},
			{Name: "api", From: halfOpen, To: closed},
			{Name: "api", From: closed, To: open, Forced: true},
			{Name: "api", From: open, To: closed, Forced: true},
		}, got)
	})
}

// The same ticket ends once, so that a deferred Done covers what comes in between.
func TestTicketEndsOnce(t *testing.T) {
	b := newCircuit(t, resilience.BreakerConfig{Failures: 2})
	func() {
		ticket := must(b.Allow())
		defer ticket.Done(resilience.Failure)
		ticket.Done(resilience.Failure)
	}()
	require.Equal(t, closed, b.State())
	var none resilience.Ticket
	none.Done(resilience.Failure)
	require.Equal(t, uint64(1), b.Snapshot().Totals.Failed)
}

// With a Bind the classification comes with the end of the value's life; a failure is known at
// once, and a cancelled reader says nothing there either.
func TestBreakerClassificationAtTheEndOfTheValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var end func(error)
		p := newPolicy(t, resilience.BreakerConfig{Failures: 1, BreakFor: s, SlowCall: s}, resilience.CircuitBreakerConfig[string]{
			Classify: bad,
			Bind: func(v string, f func(error)) string {
				end = f
				return v + ", bound"
			},
		})
		b := p.core
		v, err := p.Execute(t.Context(), up)
		require.NoError(t, err)
		require.Equal(t, "up, bound", v)
		time.Sleep(time.Minute) // reading takes its time, which does not make the call slow
		require.Zero(t, b.Snapshot().Totals.Succeeded)
		end(nil)
		require.Equal(t, uint64(1), b.Snapshot().Totals.Succeeded)
		require.Equal(t, closed, b.State())

		ctx, cancel := context.WithCancel(t.Context())
		_, _ = p.Execute(ctx, up)
		cancel()
		end(context.Canceled)
		require.Equal(t, uint64(1), b.Snapshot().Totals.Ignored)

		_, _ = p.Execute(t.Context(), up)
		end(errDown)
		require.Equal(t, open, b.State(), "a value that broke off is a failure")

		time.Sleep(s)
		end = nil
		v, err = p.Execute(t.Context(), func(context.Context) (string, error) { return "bad", nil })
		require.NoError(t, err)
		require.Equal(t, "bad", v)
		require.Nil(t, end, "nothing to wait for")
		require.Equal(t, open, b.State())

		time.Sleep(s)
		_, _ = p.Execute(t.Context(), func(context.Context) (string, error) { time.Sleep(s); return "up", nil })
		end(nil)
		require.Equal(t, open, b.State(), "a slow probe has failed")
		require.Equal(t, uint64(1), b.Snapshot().Totals.Slow)
	})
}

// Many goroutines over many trips: events alternate as states do, every call is counted
// once, and at the end the breaker closes.
func TestBreakerUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub resilience.Hub
		var events []resilience.CircuitEvent
		resilience.Subscribe(&hub, func(e resilience.CircuitEvent) { events = append(events, e) })
		p := newPolicy(t, resilience.BreakerConfig{
			Window: resilience.CountWindow(10), MinCalls: 5, SuccessThreshold: 2,
			BreakFor: 50 * time.Millisecond, Hub: &hub,
		}, resilience.CircuitBreakerConfig[string]{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		ran := uint64(0)
		for g := range 8 {
			wg.Go(func() {
				for i := range 500 {
					_, err := p.Execute(t.Context(), func(context.Context) (string, error) {
						time.Sleep(time.Duration(g+1) * time.Millisecond)
						mu.Lock()
						ran++
						mu.Unlock()
						if i/50%2 == 1 && i < 450 {
							return "", errDown
						}
						return "up", nil
					})
					if errors.Is(err, resilience.ErrOpen) {
						time.Sleep(10 * time.Millisecond)
					}
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		require.NoError(t, hub.Close())
		require.Zero(t, hub.Dropped())
		totals := p.core.Snapshot().Totals
		require.Equal(t, ran, totals.Succeeded+totals.Failed+totals.Late)
		require.Equal(t, uint64(8*500), ran+totals.Rejected)
		require.Greater(t, totals.Trips, uint64(1))
		state := closed
		for _, e := range events {
			require.Equal(t, state, e.From)
			state = e.To
		}
		require.Equal(t, closed, state)
	})
}
