package resilience_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/resilience"
)

func newBudget(tb testing.TB, cfg resilience.BudgetConfig) *resilience.Budget {
	tb.Helper()
	return must[*resilience.Budget](tb)(resilience.NewBudget(cfg))
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
	b := newBudget(t, resilience.BudgetConfig{Clock: clk})
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
		if got := spend(b); got != step.extra {
			t.Errorf("%+v: %d extra calls", step, got)
		}
	}
	if calls, extra := b.Spent(); calls != 50 || extra != 15 {
		t.Errorf("Spent = %d, %d, want 50, 15", calls, extra)
	}
}

func TestBudgetShared(t *testing.T) {
	b := newBudget(t, resilience.BudgetConfig{Ratio: 1, Minimum: 1})
	inner := b.Inner()
	b.Note()
	inner.Note() // the same call
	if got := spend(inner) + spend(b); got != 2 {
		t.Errorf("%d extra calls for one call, want 2: one is free", got)
	}
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
		b := must[*resilience.Budget](&testing.T{})(resilience.NewBudget(cfg))
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
			if got := b.Spend(); got != want {
				t.Fatalf("Spend with %d calls and %d extra in view = %v, want %v", c, e, got, want)
			}
			if want {
				extra = append(extra, now)
			}
		}
	})
}

func TestBudgetConcurrently(t *testing.T) {
	b := newBudget(t, resilience.BudgetConfig{Ratio: 0.5, Minimum: 100, Span: time.Hour})
	var granted [4]int
	var wg sync.WaitGroup
	for i := range granted {
		wg.Go(func() {
			for range 100 {
				b.Note()
			}
			granted[i] = spend(b)
		})
	}
	wg.Wait()
	if got := granted[0] + granted[1] + granted[2] + granted[3]; got != 300 {
		t.Errorf("%d extra calls for 400, want 300", got)
	}
}

func TestBudgetConfigIsChecked(t *testing.T) {
	for field, cfg := range map[string]resilience.BudgetConfig{
		"Ratio": {Ratio: -1}, "Ratio = 11": {Ratio: 11}, "Minimum": {Minimum: -1}, "Span": {Span: 1},
	} {
		if _, err := resilience.NewBudget(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("NewBudget error %v, want one that names %s", err, field)
		}
	}
}
