package resilience_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/resilience"
)

const (
	closed   = breaker.Closed
	open     = breaker.Open
	halfOpen = breaker.HalfOpen
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type circuit struct {
	*resilience.Breaker
	t       *testing.T
	clk     *clocktest.Fake
	tickets map[string]resilience.Ticket
}

func newCircuit(t *testing.T, cfg resilience.BreakerConfig) *circuit {
	t.Helper()
	clk := clocktest.NewFake(epoch)
	cfg.Clock = clk
	b := must(resilience.NewBreaker(cfg))
	return &circuit{Breaker: b, t: t, clk: clk, tickets: map[string]resilience.Ticket{}}
}

// moment is what happens at an instant and where the breaker then stands. What happens is words: "ok", "fail" and
// "ignore" are whole calls, "slow" is one of a minute that succeeds and ends at that instant; "allow a" begins a
// call, and "ok a", "fail a", "ignore a" end it; "deny 10s" is a refusal with that time to wait.
type moment struct {
	at    time.Duration
	do    string
	state breaker.State
}

func (c *circuit) run(moments ...moment) {
	c.t.Helper()
	for _, m := range moments {
		c.clk.Advance(m.at - c.clk.Since(epoch))
		for do := range strings.SplitSeq(m.do, ", ") {
			c.do(m.at, do)
		}
		if got := c.State(); got != m.state {
			c.t.Fatalf("after %q at %v the breaker is %v, want %v", m.do, m.at, got, m.state)
		}
	}
}

func (c *circuit) do(at time.Duration, do string) {
	c.t.Helper()
	verb, name, named := strings.Cut(do, " ")
	switch verb {
	case "":
		return
	case "deny":
		_, err := c.Allow()
		var refusal *resilience.OpenError
		require.ErrorAs(c.t, err, &refusal, "at %v", at)
		require.ErrorIs(c.t, err, resilience.ErrOpen)
		require.Equal(c.t, name, refusal.RetryAfter.String(), "RetryAfter at %v", at)
		return
	case "isolate":
		c.Isolate()
		return
	case "reset":
		c.Reset()
		return
	}
	ticket, began := c.tickets[name]
	if !began {
		var err error
		ticket, err = c.Allow()
		require.NoError(c.t, err, "%q at %v", do, at)
	}
	if verb == "allow" {
		c.tickets[name] = ticket
		return
	}
	ticket.Done(map[string]resilience.Classification{"ok": resilience.Success, "fail": resilience.Failure, "ignore": resilience.Ignored}[verb])
	if named {
		delete(c.tickets, name)
	}
}

const s = time.Second

func TestBreakerTables(t *testing.T) {
	constant := resilience.BreakerConfig{Failures: 2, BreakFor: 10 * s}
	for _, tc := range []struct {
		name    string
		cfg     resilience.BreakerConfig
		moments []moment
	}{
		{"failures in a row open", resilience.BreakerConfig{Failures: 3, BreakFor: 10 * s}, []moment{
			{0, "fail, fail, ok, fail, fail", closed},
			{1 * s, "fail", open},
			{1 * s, "deny 10s", open},
			{11*s - 1, "deny 1ns", open},
			{11 * s, "", halfOpen},
			{11 * s, "ok", closed},
		}},
		{"a failed probe opens for the whole time again", constant, []moment{
			{0, "fail, fail", open},
			{10 * s, "fail", open},
			{19 * s, "deny 1s", open},
			{20 * s, "ok", closed},
		}},
		{"one slot is enough to close after three successes", resilience.BreakerConfig{Failures: 1, BreakFor: 10 * s, SuccessThreshold: 3}, []moment{
			{0, "fail", open},
			{10 * s, "ok, ok", halfOpen},
			{10 * s, "ok", closed},
		}},
		{"a lost probe's slot is lent again", resilience.BreakerConfig{Failures: 1, BreakFor: 10 * s}, []moment{
			{0, "fail", open},
			{10 * s, "allow a", halfOpen},
			{19 * s, "deny 1s", halfOpen},
			{20 * s, "allow b, deny 10s", halfOpen},
			{21 * s, "ignore a, deny 9s", halfOpen}, // not a's slot any more
			{22 * s, "ok b", closed},
		}},
		{"no classification, no effect", constant, []moment{
			{0, "fail, ignore, ignore", closed},
			{0, "fail", open},
			{10 * s, "ignore, ignore", halfOpen},
			{10 * s, "ok", closed},
		}},
		{"half of them by default", resilience.BreakerConfig{Window: resilience.CountWindow(4), MinCalls: 4}, []moment{
			{0, "ok, ok, ok, fail", closed},
			{0, "fail", open},
		}},
		{"by hand", constant, []moment{
			{0, "fail, fail", open},
			{15 * s, "", halfOpen},
			{15 * s, "isolate, deny 0s", open},
			{1000 * s, "deny 0s", open},
			{1000 * s, "reset, fail", closed},
			{1000 * s, "fail", open},
			{1001 * s, "reset, ok", closed},
		}},
		{"for ever", resilience.BreakerConfig{Failures: 1, BreakFor: math.MaxInt64}, []moment{ // now and that is no instant in the past
			{1 * s, "fail", open},
			{24 * time.Hour, "deny " + (math.MaxInt64 - 24*time.Hour).String(), open},
		}},
		{"slow by default means all of them", resilience.BreakerConfig{Window: resilience.CountWindow(3), SlowCall: 3 * s, BreakFor: 10 * s}, []moment{
			{0, "allow a, allow b, allow c, allow d", closed},
			{3 * s, "ok, ok a, ok b, ok c", open},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { newCircuit(t, tc.cfg).run(tc.moments...) })
	}
}

type wound struct {
	clock.Clock
	since time.Duration
}

func (w *wound) Since(time.Time) time.Duration { return w.since }

func TestBreakerTimeDoesNotGoBack(t *testing.T) {
	w := &wound{Clock: clock.System(), since: 10 * s}
	b := must(resilience.NewBreaker(resilience.BreakerConfig{BreakFor: 5 * s, Clock: w}))
	for range 5 {
		ticket := must(b.Allow())
		ticket.Done(resilience.Failure)
	}
	w.since = 15 * s
	require.Equal(t, halfOpen, b.State())
	w.since = 11 * s
	require.Equal(t, halfOpen, b.State())
	must(b.Allow())
}

func TestBreakerSnapshot(t *testing.T) {
	b := newCircuit(t, resilience.BreakerConfig{Name: "api", Window: resilience.CountWindow(10), MinCalls: 3, SlowCall: s, BreakFor: 10 * s})
	b.run(moment{0, "allow late, allow slow, ignore", closed}, moment{2 * s, "fail, fail, ok slow", open}, moment{4 * s, "deny 8s, fail late", open})
	got := b.Snapshot()
	require.Equal(t, resilience.BreakerSnapshot{
		Name: "api", State: open, Since: epoch.Add(2 * s), RetryAfter: 8 * s,
		Window: "last 10 calls", Calls: 3, Failures: 2, FailureRate: 2. / 3, SlowRate: 1. / 3,
		Totals: resilience.BreakerCounts{Succeeded: 1, Failed: 2, Slow: 1, Ignored: 1, Late: 1, Rejected: 1, Trips: 1},
	}, got)
	require.False(t, got.Healthy())
	require.False(t, b.Healthy())
	b.run(moment{12 * s, "", halfOpen})
	require.False(t, b.Healthy(), "only probes pass")
	require.False(t, b.Snapshot().Healthy())
	b.Isolate()
	require.True(t, b.Snapshot().Isolated)
	b.Reset()
	got = b.Snapshot()
	require.Zero(t, got.Calls)
	require.Equal(t, uint64(2), got.Totals.Failed, "totals stay")
}

func TestBreakerAllocatesNothing(t *testing.T) {
	for _, w := range []resilience.Window{resilience.ConsecutiveWindow(), resilience.CountWindow(100), resilience.TimeWindow(10*s, 10)} {
		b := must(resilience.NewBreaker(resilience.BreakerConfig{Window: w, SlowCall: time.Minute}))
		allocs := testing.AllocsPerRun(100, func() {
			ticket, _ := b.Allow()
			ticket.Done(resilience.Success)
		})
		require.Zero(t, allocs, w)
	}
}

// These are mistakes that breakers in use have made, one test each.

type circuitPolicy struct {
	*resilience.CircuitBreaker[string]
	core *resilience.Breaker
}

func newPolicy(cfg resilience.BreakerConfig, of resilience.CircuitBreakerConfig[string]) circuitPolicy {
	core := must(resilience.NewBreaker(cfg))
	p := must(resilience.NewCircuitBreaker(core, of))
	return circuitPolicy{p, core}
}

func down(context.Context) (string, error) { return "", errDown }
func up(context.Context) (string, error)   { return "up", nil }

// A caller who gives up is neither a failure nor a success of the callee.
func TestTrapCallerCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolicy(resilience.BreakerConfig{Failures: 3, BreakFor: s}, resilience.CircuitBreakerConfig[string]{})
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
			p := newPolicy(resilience.BreakerConfig{Failures: 1}, resilience.CircuitBreakerConfig[string]{})
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
		p := newPolicy(resilience.BreakerConfig{Failures: 1, BreakFor: s, SlowCall: s}, resilience.CircuitBreakerConfig[string]{
			Classify: bad,
			Bind: func(v string, f func(error)) string {
				end = f
				return v + ", bound"
			},
		})
		b := p.core
		require.Equal(t, "up, bound", must(p.Execute(t.Context(), up)))
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
		require.Equal(t, "bad", must(p.Execute(t.Context(), func(context.Context) (string, error) { return "bad", nil })))
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
		p := newPolicy(resilience.BreakerConfig{
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
