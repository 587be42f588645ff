package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/resilience"
)

type try struct {
	after time.Duration
	v     string
	err   error
	deaf  bool // to its context
	do    func()
}

type server struct {
	tries []try
	begun time.Time

	mu        sync.Mutex
	at        []time.Duration
	contexts  []context.Context
	made      []string // values
	discarded []string
}

func serve(tries ...try) *server { return &server{tries: tries, begun: time.Now()} }

func (f *server) call(ctx context.Context) (string, error) {
	f.mu.Lock()
	a := f.tries[min(len(f.at), len(f.tries)-1)]
	f.at = append(f.at, time.Since(f.begun))
	f.contexts = append(f.contexts, ctx)
	f.mu.Unlock()
	if a.deaf {
		time.Sleep(a.after)
	} else {
		select {
		case <-time.After(a.after):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if a.do != nil {
		a.do()
	}
	if a.err == nil {
		f.mu.Lock()
		f.made = append(f.made, a.v)
		f.mu.Unlock()
	}
	return a.v, a.err
}

func (f *server) discard(v string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.discarded = append(f.discarded, v)
}

func (f *server) hedge(t *testing.T, ctx context.Context, cfg resilience.HedgeConfig[string]) (string, error) { //nolint:revive // the test comes first
	t.Helper()
	h := newHedge(t, f, cfg)
	v, err := h.Execute(ctx, f.call)
	return v, err
}

func newHedge(t *testing.T, f *server, cfg resilience.HedgeConfig[string]) *resilience.Hedge[string] {
	t.Helper()
	cfg.Discard = f.discard
	if cfg.Classify == nil {
		cfg.Classify = bad
	}
	h := must(resilience.NewHedge(cfg))
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

// hedged is one call, with a second of delay, and what comes of it.
type hedged struct {
	name      string
	attempts  int
	tries     []try
	want      string
	err       []error
	took      time.Duration
	at        []time.Duration // of the attempts
	discarded []string
}

func (tc hedged) run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(tc.tries...)
		v, err := f.hedge(t, t.Context(), resilience.HedgeConfig[string]{Delay: s, MaxAttempts: tc.attempts})
		took := time.Since(f.begun)
		if tc.err == nil {
			require.NoError(t, err)
		}
		for _, want := range tc.err {
			require.ErrorIs(t, err, want)
		}
		require.Equal(t, tc.want, v)
		require.Equal(t, tc.took, took)
		synctest.Wait()
		require.Equal(t, tc.at, f.at)
		require.Equal(t, tc.discarded, f.discarded)
		for i, ctx := range f.contexts {
			require.Error(t, ctx.Err(), "the context of attempt %d", i)
		}
	})
}

func TestHedgeAtExactInstants(t *testing.T) {
	const d = s // the delay
	for _, tc := range []hedged{
		{name: "in time", tries: []try{{after: s - 1, v: "a"}}, want: "a", took: s - 1, at: []time.Duration{0}},
		{
			name: "the second is first", tries: []try{{after: 10 * s, v: "a"}, {after: s / 2, v: "b"}},
			want: "b", took: 3 * s / 2, at: []time.Duration{0, d},
		},
		{
			name: "the first is first", tries: []try{{after: 3 * s / 2, v: "a"}, {after: s, v: "b"}},
			want: "a", took: 3 * s / 2, at: []time.Duration{0, d},
		},
		{
			name: "one after another, no more than there may be", attempts: 3,
			tries: []try{{after: 10 * s, v: "a"}, {after: 10 * s, v: "b"}, {after: 10 * s, v: "c"}},
			want:  "a", took: 10 * s, at: []time.Duration{0, d, 2 * d},
		},
		{
			name: "a failure starts the next at once", attempts: 4,
			tries: []try{{after: s / 2, err: errDown}, {after: s / 4, err: errDown}, {after: 10 * s, v: "c"}, {after: s, v: "d"}},
			want:  "d", took: 11 * s / 4, at: []time.Duration{0, s / 2, 3 * s / 4, 7 * s / 4},
		},
		{
			name: "while another runs too", attempts: 3,
			tries: []try{{after: 5 * s / 4, err: errDown}, {after: 10 * s, v: "b"}, {after: s / 2, v: "c"}},
			want:  "c", took: 7 * s / 4, at: []time.Duration{0, d, 5 * s / 4},
		},
	} {
		t.Run(tc.name, tc.run)
	}
}

func TestHedgeFailures(t *testing.T) {
	const d = s // the delay
	other := errors.New("other")
	for _, tc := range []hedged{
		{
			name: "the failed value is discarded, the good one returned", tries: []try{{v: "bad"}, {after: s, v: "b"}},
			want: "b", took: s, at: []time.Duration{0, 0}, discarded: []string{"bad"},
		},
		{
			name: "a failure is waited out while another runs", tries: []try{{after: 3 * s, v: "a"}, {v: "bad"}},
			want: "a", took: 3 * s, at: []time.Duration{0, d}, discarded: []string{"bad"},
		},
		{ // for which there was no place: neither does it end the first nor stand for it
			name: "a spare that was never made", attempts: 3, tries: []try{{after: 5 * s, v: "a"}, {err: &resilience.BulkheadError{Name: "full"}}},
			want: "a", took: 5 * s, at: []time.Duration{0, d, d},
		},
		{
			name: "all fail with errors", attempts: 3, tries: []try{{err: errDown}, {err: other}, {after: s, err: errDown}},
			err: []error{resilience.ErrHedgeFailed, errDown, other}, took: s, at: []time.Duration{0, 0, 0},
		},
		{
			name: "all fail, the last with a value", tries: []try{{err: errDown}, {v: "bad"}},
			want: "bad", at: []time.Duration{0, 0},
		},
		{
			name: "all fail, the last with an error", tries: []try{{v: "bad"}, {err: errDown}},
			err: []error{resilience.ErrHedgeFailed, errDown}, at: []time.Duration{0, 0}, discarded: []string{"bad"},
		},
	} {
		t.Run(tc.name, tc.run)
	}
}

// Hedges come out of the budget that retries have too.
func TestHedgeBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := must(resilience.NewBudget(resilience.BudgetConfig{Ratio: 0.001, Minimum: 1}))
		f := serve(try{err: errDown})
		h := newHedge(t, f, resilience.HedgeConfig[string]{MaxAttempts: 3, Budget: budget})
		_, err := h.Execute(t.Context(), f.call)
		var all *resilience.HedgeError
		require.ErrorAs(t, err, &all)
		require.Len(t, all.Errs, 2)
		_, err = h.Execute(t.Context(), f.call)
		require.Equal(t, errDown, err, "of the only call, as it is") //nolint:testifylint // identity is the point
		calls, extra := budget.Spent()
		require.Equal(t, []int64{2, 1}, []int64{calls, extra})

		g := serve(try{after: 10 * s, v: "a"})
		v := must(newHedge(t, g, resilience.HedgeConfig[string]{Delay: s, Budget: budget}).Execute(t.Context(), g.call))
		require.Equal(t, "a", v, "the one there is goes on")
		require.Len(t, g.at, 1)
	})
}

func TestHedgeEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub resilience.Hub
		var got []resilience.Event
		hub.Any(func(e resilience.Event) { got = append(got, e) })
		begun := time.Now()
		f := serve(try{after: 3 * s / 2, err: errDown}, try{after: time.Hour}, try{after: s, v: "c"})
		must(f.hedge(t, t.Context(), resilience.HedgeConfig[string]{Name: "api", Delay: s, MaxAttempts: 3, Hub: &hub}))
		g := serve(try{v: "a"})
		must(g.hedge(t, t.Context(), resilience.HedgeConfig[string]{Name: "api", Hub: &hub}))
		synctest.Wait()
		require.NoError(t, hub.Close())
		require.Equal(t, []resilience.Event{
			resilience.HedgeEvent{At: begun.Add(s), Name: "api", Attempt: 2, Delay: s},
			resilience.HedgeEvent{At: begun.Add(3 * s / 2), Name: "api", Attempt: 3, Delay: 3 * s / 2, Failed: true},
			resilience.HedgeOutcomeEvent{At: begun.Add(5 * s / 2), Name: "api", Attempts: 3, Winner: 3},
		}, got)
	})
}

func TestHedgeClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(try{after: s, v: "a"})
		h := newHedge(t, f, resilience.HedgeConfig[string]{})
		var wg sync.WaitGroup
		wg.Go(func() {
			require.Equal(t, "a", must(h.Execute(t.Context(), f.call)))
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() {
				require.NoError(t, h.Close())
				require.Equal(t, s, time.Since(f.begun), "it waits for them")
			})
		}
		synctest.Wait()
		_, err := h.Execute(t.Context(), f.call)
		require.ErrorIs(t, err, resilience.ErrClosed)
		wg.Wait()
		require.NoError(t, h.Close())
	})
}

// Whatever the attempts do and whoever is first: each value is returned or discarded,
// and none both or twice, and nothing runs after Close.
func TestHedgeLosesNoValue(t *testing.T) {
	for seed := range uint64(400) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			var tries []try
			for i := range 6 {
				a := try{after: time.Duration(rnd.IntN(8)) * s, deaf: rnd.IntN(2) == 0}
				switch rnd.IntN(4) {
				case 0:
					a.err = errDown
				case 1:
					a.v = "bad"
				default:
					a.v = fmt.Sprint("good ", i)
				}
				tries = append(tries, a)
			}
			f := serve(tries...)
			h := must(resilience.NewHedge(resilience.HedgeConfig[string]{
				Delay: time.Duration(1+rnd.IntN(3)) * s, MaxAttempts: 2 + rnd.IntN(4), Classify: bad, Discard: f.discard,
			}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rnd.IntN(20))*s)
			defer cancel()
			v, err := h.Execute(ctx, f.call)
			require.NoError(t, h.Close())
			got := f.discarded
			if err == nil {
				got = append(got, v)
			}
			require.ElementsMatch(t, f.made, got, "seed %d", seed)
		})
	}
}

// These are mistakes that hedges in use have made, one test each, and what a call may do
// to a hedge by leaving it in another way than by its result.

// One that does not honour its context does not hold up the result, and its value is discarded.
func TestTrapHedgeLoserIsCancelledAndItsLateValueDiscarded(t *testing.T) {
	for loser, tries := range [][]try{{{after: time.Minute, v: "late", deaf: true}, {after: 2 * s, v: "a"}}, {{after: 3 * s, v: "a"}, {after: time.Minute, v: "late", deaf: true}}} {
		synctest.Test(t, func(t *testing.T) {
			f := serve(tries...)
			h := newHedge(t, f, resilience.HedgeConfig[string]{Delay: s})
			require.Equal(t, "a", must(h.Execute(t.Context(), f.call)))
			require.Equal(t, 3*s, time.Since(f.begun), "it does not wait for the deaf one")
			require.ErrorContains(t, context.Cause(f.contexts[loser]), "was first")
			require.NoError(t, h.Close())
			require.Equal(t, f.at[loser]+time.Minute, time.Since(f.begun), "but Close does")
			require.Equal(t, []string{"late"}, f.discarded)
		})
	}
}

func TestTrapHedgeWinnersContextLivesAsLongAsItsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tries := range [][]try{{{v: "a"}}, {{after: time.Hour}, {v: "b"}}, {{err: errDown}, {v: "bad"}}} {
			f := serve(tries...)
			var end func(error)
			v := must(f.hedge(t, t.Context(), resilience.HedgeConfig[string]{Delay: s, Bind: func(v string, f func(error)) string {
				end = f
				return v + ", bound"
			}}))
			require.Equal(t, tries[len(tries)-1].v+", bound", v)
			synctest.Wait()
			winner := f.contexts[len(tries)-1]
			require.NoError(t, winner.Err())
			end(nil)
			require.ErrorIs(t, winner.Err(), context.Canceled)
		}
	})
}

// What two attempts share must not be held by a value that nobody will use: with one
// connection the second would wait for the first for ever.
func TestTrapHedgeFailedValueHoldsTheOnlyConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connection := make(chan struct{}, 1)
		calls := 0
		h := must(resilience.NewHedge(resilience.HedgeConfig[string]{
			MaxAttempts: 3, Classify: bad,
			Discard: func(string) { <-connection },
			Bind:    func(v string, _ func(error)) string { return v },
		}))
		v := must(h.Execute(t.Context(), func(ctx context.Context) (string, error) {
			select {
			case connection <- struct{}{}:
			case <-ctx.Done():
				return "", ctx.Err()
			}
			if calls++; calls < 3 {
				return "bad", nil
			}
			return "good", nil
		}))
		require.Equal(t, "good", v)
		require.Len(t, connection, 1, "the winner's")
		require.NoError(t, h.Close())
	})
}

func TestTrapHedgeCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(try{after: s / 2, err: errDown}, try{after: time.Minute, v: "late", deaf: true})
		h := newHedge(t, f, resilience.HedgeConfig[string]{Delay: 2 * s, MaxAttempts: 3})
		ctx, cancel := context.WithTimeoutCause(t.Context(), s, errDown)
		defer cancel()
		_, err := h.Execute(ctx, f.call)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, s, time.Since(f.begun))
		require.NoError(t, h.Close())
		require.Equal(t, []string{"late"}, f.discarded)
		require.Len(t, f.at, 2, "and none is started for one who has left")

		g := serve(try{v: "a"})
		_, err = g.hedge(t, ctx, resilience.HedgeConfig[string]{})
		require.ErrorIs(t, err, errDown)
		require.Empty(t, g.at)
	})
}

// Panics and exits of attempts go on in the caller, and leave nothing behind, whichever attempt it was.
func TestTrapHedgePanicsAndExits(t *testing.T) {
	late := try{after: 5 * s, v: "late", deaf: true}
	for panics, end := range map[bool]func(){true: func() { panic(errDown) }, false: runtime.Goexit} {
		for _, tries := range [][]try{{late, {do: end}}, {{after: 2 * s, deaf: true, do: end}, late}} {
			synctest.Test(t, func(t *testing.T) {
				f := serve(tries...)
				h := newHedge(t, f, resilience.HedgeConfig[string]{Delay: s})
				var panicked any
				went := true
				goexits(func() {
					defer func() { panicked = recover() }()
					_, _ = h.Execute(t.Context(), f.call)
					went = false
				})
				require.True(t, went)
				require.Equal(t, panics, panicked != nil)
				if err, ok := panicked.(error); ok {
					require.ErrorIs(t, err, errDown)
					require.ErrorContains(t, err, "hedge_test.go", "with the stack of the attempt")
				}
				require.NoError(t, h.Close())
				require.Equal(t, []string{"late"}, f.discarded)
				require.Error(t, f.contexts[0].Err())
				require.Error(t, f.contexts[1].Err())
			})
		}
	}
}

// A panic of a loser cannot go on anywhere; it is counted.
func TestHedgeLosersPanicIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(try{after: 2 * s, v: "a"}, try{after: 5 * s, deaf: true, do: func() { panic("late") }})
		h := newHedge(t, f, resilience.HedgeConfig[string]{Delay: s})
		require.Equal(t, "a", must(h.Execute(t.Context(), f.call)))
		require.NoError(t, h.Close())
		require.Equal(t, uint64(1), h.Panics())
		require.Empty(t, f.discarded)
	})
}

func TestHedgeClassifierAndBindThatPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(try{v: "a"})
		h := newHedge(t, f, resilience.HedgeConfig[string]{Classify: func(string, error) resilience.Classification { panic("classify") }})
		require.Panics(t, func() { _, _ = h.Execute(t.Context(), f.call) })
		require.NoError(t, h.Close())
		require.Equal(t, []string{"a"}, f.discarded)

		g := serve(try{v: "a"})
		h = newHedge(t, g, resilience.HedgeConfig[string]{Bind: func(string, func(error)) string { panic("bind") }})
		require.Panics(t, func() { _, _ = h.Execute(t.Context(), g.call) })
		require.NoError(t, h.Close())
		require.ErrorIs(t, g.contexts[0].Err(), context.Canceled)
	})
}
