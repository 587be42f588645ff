package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/limit"
	"github.com/treadlight/crawl/resilience"
)

func TestWrap(t *testing.T) {
	var notes []string
	errA, errC := errors.New("a sticks"), errors.New("c sticks")
	inner := resilience.Wrap[string](stand[string]{"b", &notes, nil}, stand[string]{"c", &notes, errC})
	p := resilience.Wrap(stand[string]{"a", &notes, errA}, nil, inner)
	v, err := p.Execute(t.Context(), func(context.Context) (string, error) {
		notes = append(notes, "call")
		return "v", errDown
	})
	assert.True(t, v == "v" && errors.Is(err, errDown), "Execute = %q, %v, want what the call returned", v, err)
	if err := p.Close(); !errors.Is(err, errA) || !errors.Is(err, errC) {
		t.Errorf("Close = %v, want the errors of a and c", err)
	}
	assert.NoError(t, p.Close())
	wantEqual(t, "notes", notes, []string{
		"into a", "into b", "into c", "call", "out of c", "out of b", "out of a", "close a", "close b", "close c",
	})
	for name, p := range map[string]resilience.Policy[string]{"outer": p, "inner": inner} {
		if _, err := p.Execute(t.Context(), nil); !errors.Is(err, resilience.ErrClosed) {
			t.Errorf("%s: Execute after Close = %v, want ErrClosed", name, err)
		}
	}
}

func TestWrapOfNone(t *testing.T) {
	p := resilience.Wrap[string]()
	wantResult(t, "good")(p.Execute(t.Context(), newCallee(result{v: "good"}).call))
}

// subject is a policy under test, and how many calls it takes to be under way; nil for those that do not count.
type subject struct {
	resilience.Policy[string]
	inFlight func() int64
}

// each has one of every policy, those with a core in a state in which one call more or less is seen: a half-open
// breaker, and a bulkhead of one place. With a bind its values live on.
func each(bind resilience.Bind[string]) map[string]subject {
	core := must(resilience.NewBreaker(resilience.BreakerConfig{Failures: 1, BreakFor: 1, SuccessThreshold: 1000}))
	ticket := must(core.Allow())
	ticket.Done(resilience.Failure)
	time.Sleep(time.Nanosecond)
	probes := func() int64 {
		probe, err := core.Allow()
		if err != nil {
			return 1
		}
		probe.Done(resilience.Ignored)
		return 0
	}
	one := resilience.BulkheadConfig{MaxConcurrency: 1}
	bulkhead, isolation := must(resilience.NewBulkhead(one)), must(resilience.NewIsolation(one))
	key := func(context.Context) string { return "a" }
	return map[string]subject{
		"retry": {must(resilience.NewRetry(retryConfig{MaxAttempts: 3, Backoff: backoff.Constant(sec)})), nil},
		"fallback": {must(resilience.NewFallback(fallbackConfig{
			Action: func(context.Context, string, error) (string, error) { return "spare", nil },
		})), nil},
		"timeout": {must(resilience.NewTimeout(timeoutConfig{After: time.Minute, Bind: bind})), nil},
		"breaker": {must(
			resilience.NewCircuitBreaker(core, resilience.CircuitBreakerConfig[string]{Bind: bind})), probes},
		"bulkhead":  {must(resilience.NewBulkheadPolicy(bulkhead, bind)), func() int64 { return bulkhead.Statistics().InUse }},
		"isolation": {must(resilience.NewIsolationPolicy(isolation, key, bind)), func() int64 { return isolation.Statistics("a").InUse }},
	}
}

// A core may be shared, and so goes on when its policy is closed.
func TestClosedPoliciesRefuse(t *testing.T) {
	for name, p := range each(nil) {
		assert.NoError(t, errors.Join(p.Close(), p.Close()), name)
		_, err := p.Execute(t.Context(), nil)
		assert.ErrorIs(t, err, resilience.ErrClosed, name)
		if p.inFlight != nil {
			assert.Zero(t, p.inFlight(), "%s: its core", name)
		}
	}
}

// A call that panics or ends its goroutine does both through the policy, and so does a Bind. The policy leaves
// neither a timer nor a living context nor a taken place behind, and works as before. The bubble sees to
// the timers: it does not end while a goroutine waits for one.
func TestPanicAndGoexitPassThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policies := each(func(v string, end func(error)) string {
			if v == "panic" {
				panic("bind")
			}
			end(nil)
			return v
		})
		policies["all"] = subject{resilience.Wrap[string](policies["fallback"], policies["timeout"], policies["retry"], policies["bulkhead"]), nil}
		for name, p := range policies {
			var scope kept
			keep := func(fn func(context.Context) (string, error)) func(context.Context) (string, error) {
				return func(ctx context.Context) (string, error) {
					scope.keep(ctx)
					ctx.Done()
					return fn(ctx)
				}
			}
			ended := func(how string) {
				assert.False(t, scope.ctx != t.Context() && scope.ctx.Err() == nil, "%s: the scope lives on after a %s", name, how)
				if p.inFlight != nil {
					assert.Zero(t, p.inFlight(), "%s: after a %s", name, how)
				}
			}
			assert.True(t, panics(func() { p.Execute(t.Context(), keep(func(context.Context) (string, error) { panic("call") })) }), "%s: the panic was lost", name)
			ended("panic")
			panics(func() { p.Execute(t.Context(), keep(func(context.Context) (string, error) { return "panic", nil })) })
			ended("panic of Bind")
			returned := false
			goexits(func() {
				p.Execute(t.Context(), keep(exit))
				returned = true
			})
			assert.False(t, returned, "%s: Execute returned after Goexit", name)
			ended("Goexit")
			v, err := p.Execute(t.Context(), newCallee(result{v: "good"}).call)
			assert.Equal(t, []any{"good", nil}, []any{v, err}, "%s: the next call", name)
		}
	})
}

// A caller who has left already takes no place and no probe.
func TestEndedContextsTakeNothing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errDown)
	for name, p := range each(nil) {
		if p.inFlight == nil {
			continue
		}
		for range 1000 {
			_, err := p.Execute(ctx, func(context.Context) (string, error) { t.Error("called"); return "", nil })
			if !errors.Is(err, context.Canceled) || !errors.Is(err, errDown) || errors.Is(err, resilience.ErrBulkheadFull) {
				t.Fatalf("%s: %v, want why the caller left", name, err)
			}
		}
		assert.Zero(t, p.inFlight(), name)
	}
}

// Every constructor names the field to mend, and what it wants.
func TestConfigsAreChecked(t *testing.T) {
	count := resilience.CountWindow(10)
	for field, cfg := range map[string]any{
		"retry: MaxAttempts = -1":    retryConfig{MaxAttempts: -1},
		"retry: MaxAttempts = 2":     retryConfig{MaxAttempts: 2, Forever: true},
		"retry: MaxRetryAfter = -1s": retryConfig{MaxRetryAfter: -sec},
		"retry: When and Classify":   retryConfig{When: func(string, error, resilience.Attempt) bool { return false }, Classify: bad},
		"fallback: Action = nil":     fallbackConfig{},
		"timeout: After = 0s":        timeoutConfig{},
		"timeout: After = -1s":       timeoutConfig{After: -sec},
		"budget: Ratio = -1":         resilience.BudgetConfig{Ratio: -1},
		"budget: Ratio = 11":         resilience.BudgetConfig{Ratio: 11},
		"budget: Minimum = -1":       resilience.BudgetConfig{Minimum: -1},
		"budget: Span = 1ns":         resilience.BudgetConfig{Span: 1},

		"bulkhead: MaxConcurrency = 0":  resilience.BulkheadConfig{},
		"bulkhead: MaxQueue = -1":       resilience.BulkheadConfig{MaxConcurrency: 1, MaxQueue: -1},
		"bulkhead: QueueTimeout = -1ns": resilience.BulkheadConfig{MaxConcurrency: 1, QueueTimeout: -1},
		"bulkhead: MaxKeys = -1":        resilience.BulkheadConfig{MaxConcurrency: 1, MaxKeys: -1},

		"hedge: Delay = -1s":      resilience.HedgeConfig[string]{Delay: -s},
		"hedge: Quantile = 1":     resilience.HedgeConfig[string]{Quantile: 1},
		"hedge: Quantile = -0.5":  resilience.HedgeConfig[string]{Quantile: -0.5},
		"hedge: MaxAttempts = 1":  resilience.HedgeConfig[string]{MaxAttempts: 1},
		"hedge: MaxAttempts = 17": resilience.HedgeConfig[string]{MaxAttempts: 17},

		"breaker: Failures = -1":             resilience.BreakerConfig{Failures: -1},
		"breaker: Failures = 3":              resilience.BreakerConfig{Window: count, Failures: 3},
		"breaker: Window = consecutive":      resilience.BreakerConfig{FailureRate: 0.5},
		"breaker: FailureRate = 1.5":         resilience.BreakerConfig{Window: count, FailureRate: 1.5},
		"breaker: FailureRate = -1":          resilience.BreakerConfig{Window: count, FailureRate: -1},
		"breaker: MinCalls = -1":             resilience.BreakerConfig{Window: count, MinCalls: -1},
		"breaker: MinCalls = 11":             resilience.BreakerConfig{Window: count, MinCalls: 11},
		"breaker: SlowCall = -1s":            resilience.BreakerConfig{SlowCall: -s},
		"breaker: SlowRate = 0.5":            resilience.BreakerConfig{Window: count, SlowRate: 0.5},
		"breaker: SlowRate = 2":              resilience.BreakerConfig{Window: count, SlowCall: s, SlowRate: 2},
		"breaker: SuccessThreshold = -1":     resilience.BreakerConfig{SuccessThreshold: -1},
		"breaker: SuccessThreshold = 65536":  resilience.BreakerConfig{SuccessThreshold: 65536},
		"breaker: BreakFor = -1s":            resilience.BreakerConfig{BreakFor: -s},
		"breaker: Window = last 0 calls":     resilience.BreakerConfig{Window: resilience.CountWindow(0)},
		"breaker: Window = last 65537 calls": resilience.BreakerConfig{Window: resilience.CountWindow(65537)},
		"breaker: Window = last 1s in 7 b":   resilience.BreakerConfig{Window: resilience.TimeWindow(s, 7)},
		"breaker: Window = last 1s in -1 b":  resilience.BreakerConfig{Window: resilience.TimeWindow(s, -1)},
		"breaker: Window = last 0s in 10 b":  resilience.BreakerConfig{Window: resilience.TimeWindow(0, 0)},
		"breakers: Max = -1":                 resilience.BreakersConfig{Max: -1},
	} {
		err := refused(cfg)
		require.ErrorContains(t, err, field)
		require.ErrorContains(t, err, "want ", "says how to mend it")
	}
	for _, err := range []error{
		second(resilience.NewBulkheadPolicy[string](nil, nil)), second(resilience.NewIsolationPolicy[string](nil, nil, nil)),
		second(resilience.NewCircuitBreaker(nil, resilience.CircuitBreakerConfig[string]{})),
	} {
		require.ErrorContains(t, err, "core = nil: want")
	}
	_, err := resilience.NewIsolationPolicy[string](must(resilience.NewIsolation(resilience.BulkheadConfig{MaxConcurrency: 1})), nil, nil)
	require.ErrorContains(t, err, "key = nil: want")
}

func second[T any](_ T, err error) error { return err }

func refused(cfg any) error {
	switch cfg := cfg.(type) {
	case retryConfig:
		return second(resilience.NewRetry(cfg))
	case fallbackConfig:
		return second(resilience.NewFallback(cfg))
	case timeoutConfig:
		return second(resilience.NewTimeout(cfg))
	case resilience.BudgetConfig:
		return second(resilience.NewBudget(cfg))
	case resilience.BulkheadConfig:
		return errors.Join(second(resilience.NewBulkhead(cfg)), second(resilience.NewIsolation(cfg)))
	case resilience.HedgeConfig[string]:
		return second(resilience.NewHedge(cfg))
	case resilience.BreakerConfig:
		return second(resilience.NewBreaker(cfg))
	case resilience.BreakersConfig:
		return second(resilience.NewBreakers(cfg))
	}
	return nil
}

// A chain whose parts work together: the attempt's timeout is a failure to retry, the
// total one ends that, and the fallback has the last word.
func TestWrapWorksTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var replaced error
		c := newCallee(result{v: "late", after: time.Hour})
		p := resilience.Wrap[string](
			must(resilience.NewFallback(fallbackConfig{
				Action: func(_ context.Context, _ string, err error) (string, error) {
					replaced = err
					return "spare", nil
				},
			})),
			must(resilience.NewTimeout(timeoutConfig{Name: "total", After: 9 * sec})),
			must(resilience.NewRetry(retryConfig{Forever: true, Backoff: backoff.Constant(sec)})),
			must(resilience.NewTimeout(timeoutConfig{Name: "try", After: 3 * sec})),
		)
		wantResult(t, "spare")(p.Execute(t.Context(), c.call))
		// The third attempt is cut by the total time: it began at 8 s and has till 9 s.
		wantEqual(t, "calls at", c.at, []time.Duration{0, 4 * sec, 8 * sec})
		var total *resilience.TimeoutError
		if !errors.As(replaced, &total) || total.Name != "total" || time.Since(c.start) != 9*sec {
			t.Errorf("replaced %v after %v, want the total timeout after 9s", replaced, time.Since(c.start))
		}
	})
}

// law is a world in which every value has a number, and hooks and calls may panic.
type law struct {
	t    *rapid.T
	made int
	fell bool        // a hook has panicked
	gone map[int]int // how often each came out or was discarded
}

func (l *law) chance(what string) bool { return rapid.IntRange(0, 9).Draw(l.t, what) == 0 }

func (l *law) hook(what string) {
	if l.fell = l.chance("panic in " + what); l.fell {
		panic(l)
	}
}

func (l *law) call(context.Context) (int, error) {
	l.hook("call")
	if l.chance("error") || l.made > 50 {
		return 0, errDown
	}
	l.made++
	return l.made, nil
}

func (l *law) discard(v int) { l.gone[v]++ }

func (l *law) failed(_ int, err error) bool {
	l.hook("predicate")
	return err != nil || rapid.Bool().Draw(l.t, "failed")
}

// policy is one of those that throw values away.
func (l *law) policy() resilience.Policy[int] {
	if rapid.Bool().Draw(l.t, "retry") {
		return must(resilience.NewRetry(resilience.RetryConfig[int]{
			Backoff: backoff.Constant(0), Discard: l.discard,
			OnRetry: func(int, resilience.RetryEvent) { l.hook("OnRetry") },
			Classify: func(v int, err error) resilience.Classification {
				if l.failed(v, err) {
					return resilience.Failure
				}
				return resilience.Success
			},
		}))
	}
	return must(resilience.NewFallback(resilience.FallbackConfig[int]{
		When: l.failed, Discard: l.discard,
		Action: func(ctx context.Context, _ int, _ error) (int, error) { return l.call(ctx) },
	}))
}

// Whatever is nested in what and wherever it panics, each value comes out or is discarded, once.
func TestValuesAreNeitherLostNorGivenTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := &law{t: rt, gone: make(map[int]int)}
		var policies []resilience.Policy[int]
		for range rapid.IntRange(1, 3).Draw(rt, "policies") {
			policies = append(policies, l.policy())
		}
		func() {
			defer func() {
				if p := recover(); p != nil && p != any(l) {
					panic(p) // rapid's own
				}
			}()
			v, err := resilience.Wrap(policies...).Execute(t.Context(), l.call)
			if l.fell {
				rt.Errorf("a panic was lost: Execute = %d, %v", v, err)
			}
			if err == nil {
				l.gone[v]++
			}
		}()
		for v := 1; v <= l.made; v++ {
			if l.gone[v] != 1 {
				rt.Errorf("value %d of %d came out or was discarded %d times", v, l.made, l.gone[v])
			}
		}
	})
}

func TestExecuteAllocations(t *testing.T) {
	policies := each(func(v string, end func(error)) string {
		end(nil)
		return v
	})
	light, bound := must(resilience.NewTimeout(timeoutConfig{After: time.Minute})), policies["timeout"]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fn := func(context.Context) (string, error) { return "v", nil }
	for _, tc := range []struct {
		name string
		p    resilience.Policy[string]
		most float64
	}{
		{"retry", policies["retry"], 0},
		{"fallback", policies["fallback"], 0},
		{"timeout", light, 1},       // its context
		{"timeout bound", bound, 2}, // and the end of the value's life
		{"wrap of three", resilience.Wrap[string](light, policies["retry"], bound), 5},
	} {
		if n := testing.AllocsPerRun(100, func() { tc.p.Execute(ctx, fn) }); n > tc.most {
			t.Errorf("%s: %v allocations, want at most %v", tc.name, n, tc.most)
		}
	}
}

func TestDefaultClassifier(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want resilience.Classification
	}{
		{nil, resilience.Success},
		{errDown, resilience.Failure},
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, resilience.Failure},
		{context.DeadlineExceeded, resilience.Failure}, // the caller's own never comes here
		{&resilience.TimeoutError{Err: context.Canceled}, resilience.Failure},
		{&resilience.RetryError{Attempts: 2, Err: errDown}, resilience.Failure},
		{&resilience.HedgeError{Errs: []error{&resilience.OpenError{}, errDown}}, resilience.Failure},
		{&resilience.HedgeError{Errs: []error{context.Canceled}}, resilience.Failure},
		{&resilience.HedgeError{Errs: []error{&resilience.OpenError{}, resilience.ErrBulkheadFull}}, resilience.Ignored},
		{context.Canceled, resilience.Ignored},
		{fmt.Errorf("get: %w", context.Canceled), resilience.Ignored},
		{&resilience.OpenError{}, resilience.Ignored},
		{&resilience.BulkheadError{Err: context.DeadlineExceeded}, resilience.Ignored},
		{resilience.ErrClosed, resilience.Ignored},
		{&resilience.TimeoutError{Err: &limit.Error{}}, resilience.Ignored},
		{&limit.Error{Err: context.DeadlineExceeded}, resilience.Ignored},
		{limit.ErrExceedsCapacity, resilience.Ignored},
		{&ratelimit.CircuitOpenError{}, resilience.Ignored},
		{ratelimit.ErrTooManyWaiters, resilience.Ignored},
		{&ratelimit.WaitError{}, resilience.Ignored},
	} {
		assert.Equal(t, tc.want, resilience.DefaultClassifier("v", tc.err), "%T %v", tc.err, tc.err)
	}
}

// A classifier is not asked about errors of a caller who has given up. One whose time was
// up by a policy further out was not served in that time.
func TestClassificationOnTheCallersEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		cause error
		asked bool
	}{
		"the caller left": {errDown, false}, "a policy's time was up": {&resilience.TimeoutError{}, true},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		asked := false
		r := must(resilience.NewRetry(retryConfig{Classify: func(string, error) resilience.Classification {
			asked = true
			return resilience.Failure
		}}))
		_, err := r.Execute(ctx, func(context.Context) (string, error) {
			cancel(tc.cause)
			return "", errDown
		})
		if asked != tc.asked || err != errDown { //nolint:errorlint // as it is, not wrapped
			t.Errorf("%s: classifier asked = %v and error %v, want %v and what the call said", name, asked, err, tc.asked)
		}
	}
}

func TestClassificationNames(t *testing.T) {
	wantEqual(t, "names", []string{resilience.Success.String(), resilience.Failure.String(), resilience.Ignored.String(), resilience.Classification(9).String()},
		[]string{"success", "failure", "ignored", "classification(9)"})
}

func TestErrors(t *testing.T) {
	errQueue := errors.New("queue full")
	for _, tc := range []struct {
		err  error
		text string
		is   []error
		not  error
	}{
		{
			&resilience.OpenError{Name: "b", RetryAfter: sec}, "circuit open (b): next try in 1s",
			[]error{resilience.ErrOpen},
			resilience.ErrClosed,
		},
		{&resilience.OpenError{}, "circuit open: next try in 0s", []error{resilience.ErrOpen}, resilience.ErrTimeout},
		{
			&resilience.BulkheadError{Name: "h", Key: "a.test", Err: errQueue}, `bulkhead full (h) for "a.test": queue full`,
			[]error{resilience.ErrBulkheadFull, errQueue},
			resilience.ErrOpen,
		},
		{&resilience.BulkheadError{}, "bulkhead full", []error{resilience.ErrBulkheadFull}, errQueue},
		{
			&resilience.TimeoutError{Name: "t", After: sec, Err: errDown}, "timeout (t) after 1s: down",
			[]error{resilience.ErrTimeout, context.DeadlineExceeded, errDown},
			context.Canceled,
		},
		{
			&resilience.TimeoutError{After: sec, Err: context.DeadlineExceeded}, "timeout after 1s",
			[]error{resilience.ErrTimeout, context.DeadlineExceeded},
			os.ErrDeadlineExceeded,
		},
		{
			&resilience.RetryError{Name: "r", Attempts: 3, Err: errDown}, "retries exhausted (r) after 3 attempts: down",
			[]error{resilience.ErrRetriesExhausted, errDown},
			resilience.ErrTimeout,
		},
		{&resilience.RetryError{Attempts: 1, Err: errDown}, "retries exhausted after 1 attempt: down", []error{errDown}, errQueue},
		{
			&resilience.HedgeError{Name: "h", Errs: []error{errDown, errQueue}}, "every hedged call failed (h): down\nqueue full",
			[]error{resilience.ErrHedgeFailed, errDown, errQueue},
			resilience.ErrRetriesExhausted,
		},
	} {
		assert.EqualError(t, tc.err, tc.text)
		for _, is := range tc.is {
			assert.True(t, errors.Is(fmt.Errorf("wrapped: %w", tc.err), is), "%v is not %v", tc.err, is)
		}
		assert.False(t, errors.Is(tc.err, tc.not), "%v is %v", tc.err, tc.not)
	}
	var timeout net.Error = &resilience.TimeoutError{After: time.Second}
	if !timeout.Timeout() || !timeout.Temporary() { //nolint:staticcheck // it is what old callers ask
		t.Error("a TimeoutError is no timeout, or is there to stay")
	}
}
