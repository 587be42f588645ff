package resilience_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/resilience"
)

type fallbackConfig = resilience.FallbackConfig[string]

func TestFallback(t *testing.T) {
	errWorse := errors.New("worse")
	isBad := func(v string, err error) bool { return v == "bad" || err != nil }
	for _, tc := range []struct {
		name     string
		when     func(string, error) bool
		r        result
		action   result
		v, text  string // what comes out; no text means no error
		errs     []error
		discards []string
		events   int
	}{
		{name: "success", r: result{v: "good"}, v: "good"},
		{name: "an error", r: result{err: errDown}, action: result{v: "spare"}, v: "spare", events: 1},
		{name: "a value, which counts as good by default", r: result{v: "bad"}, v: "bad"},
		{
			name: "a value", when: isBad, r: result{v: "bad"}, action: result{v: "spare"},
			v: "spare", discards: []string{"bad"}, events: 1,
		},
		{
			name: "another error is left", when: func(_ string, err error) bool { return errors.Is(err, resilience.ErrOpen) },
			r: result{err: errDown}, text: "down", errs: []error{errDown},
		},
		{
			name: "no replacement", r: result{err: errDown}, action: result{v: "none", err: errWorse},
			text: "fallback (f): worse; it was to replace: down", errs: []error{errDown, errWorse}, events: 1,
		},
		{
			name: "no replacement for a value", when: isBad, r: result{v: "bad"}, action: result{err: errWorse},
			text: "fallback (f): worse", errs: []error{errWorse}, discards: []string{"bad"}, events: 1,
		},
		{
			name: "the error comes back", r: result{err: errDown}, action: result{err: errDown},
			text: "fallback (f): down", errs: []error{errDown}, events: 1,
		},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			var hub resilience.Hub
			var heard []resilience.FallbackEvent
			resilience.Subscribe(&hub, func(e resilience.FallbackEvent) { heard = append(heard, e) })
			c := newCallee(tc.r)
			f := must(resilience.NewFallback(fallbackConfig{
				Name: "f", When: tc.when, Discard: c.discard, Hub: &hub,
				Action: func(_ context.Context, v string, err error) (string, error) {
					assert.True(t, v == tc.r.v && errors.Is(err, tc.r.err), "Action(%q, %v), want %q, %v", v, err, tc.r.v, tc.r.err)
					assert.Empty(t, c.discards, "the value was discarded before Action had read it")
					return tc.action.v, tc.action.err
				},
			}))
			v, err := f.Execute(t.Context(), c.call)
			hub.Close()
			assert.True(t, v == tc.v && (err == nil) == (tc.text == "") && (err == nil || err.Error() == tc.text), "Execute = %q, %v, want %q, %s", v, err, tc.v, tc.text)
			for _, want := range tc.errs {
				assert.ErrorIs(t, err, want)
			}
			wantEqual(t, "discarded", c.discards, tc.discards)
			assert.EqualValues(t, tc.events, len(heard))
		})
	}
}

// Nobody waits for the replacement when the caller has given up.
func TestFallbackCallerGaveUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := must(resilience.NewFallback(fallbackConfig{
		Action: func(context.Context, string, error) (string, error) {
			t.Error("Action was called")
			return "", nil
		},
	}))
	if _, err := f.Execute(ctx, func(ctx context.Context) (string, error) {
		cancel()
		return "", ctx.Err()
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("Execute = %v, want the caller's cancellation", err)
	}
}

// spend takes extra calls until there are no more, at most 1000.
func spend(b *resilience.Budget) (n int) {
	for n < 1000 && b.Spend() {
		n++
	}
	return n
}

func TestBudget(t *testing.T) {
	clk := clocktest.NewFake(time.Unix(0, 0))
	b := must(resilience.NewBudget(resilience.BudgetConfig{Clock: clk}))
	for _, step := range []struct {
		advance time.Duration
		calls   int
		extra   int // that can be had after them
	}{
		{0, 0, 10},                // the minimum
		{0, 9, 0},                 // not yet a whole one more
		{0, 1, 1},                 // a tenth of ten
		{5 * sec, 100, 10},        // of another bucket
		{4 * sec, 0, 0},           // all in view
		{sec, 0, 10},              // the first bucket is out of view: 100 calls and 10 extra are left
		{5 * sec, 0, 0},           // the second is too, and the ten of the step before are left
		{time.Hour, 0, 10},        // all are
		{300 * time.Hour, 50, 15}, // however long ago
	} {
		clk.Advance(step.advance)
		for range step.calls {
			b.Note()
		}
		assert.EqualValues(t, step.extra, spend(b), "%+v", step)
	}
	if calls, extra := b.Spent(); calls != 50 || extra != 15 {
		t.Errorf("Spent = %d, %d, want 50, 15", calls, extra)
	}
}

func TestBudgetShared(t *testing.T) {
	b := must(resilience.NewBudget(resilience.BudgetConfig{Ratio: 1, Minimum: 1}))
	inner := b.Inner()
	b.Note()
	inner.Note() // the same call
	assert.EqualValues(t, 2, spend(inner)+spend(b))
}

func TestNilBudgetHasNoBound(t *testing.T) {
	var b *resilience.Budget
	b.Note()
	if calls, extra := b.Spent(); spend(b.Inner()) != 1000 || calls != 0 || extra != 0 {
		t.Errorf("a nil budget refused, or counted %d and %d", calls, extra)
	}
}

// At every grant the calls in view satisfy the bound, seen by a model that keeps them all.
func TestBudgetLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := resilience.BudgetConfig{
			Ratio:   rapid.Float64Range(0.01, 10).Draw(t, "ratio"),
			Minimum: rapid.IntRange(1, 5).Draw(t, "minimum"),
			Span:    10 * sec,
		}
		clk := clocktest.NewFake(time.Unix(0, 0))
		cfg.Clock = clk
		b := must(resilience.NewBudget(cfg))
		var calls, extra []int64 // the bucket of each
		inView := func(all []int64, now int64) (n int64) {
			for _, bucket := range all {
				if bucket > now-10 {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			clk.Advance(time.Duration(rapid.Int64Range(0, int64(3*sec)).Draw(t, "advance")))
			now := int64(clk.Since(time.Unix(0, 0)) / sec)
			if rapid.Bool().Draw(t, "note") {
				b.Note()
				calls = append(calls, now)
				continue
			}
			c, e := inView(calls, now), inView(extra, now)
			want := float64(e+1) <= float64(cfg.Minimum)+cfg.Ratio*float64(c)
			require.Equal(t, want, b.Spend(), "Spend with %d calls and %d extra in view", c, e)
			if want {
				extra = append(extra, now)
			}
		}
	})
}
