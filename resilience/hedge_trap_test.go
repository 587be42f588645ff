package resilience_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/resilience"
)

// These are mistakes that hedges in use have made, one test each, and what a call may do
// to a hedge by leaving it in another way than by its result.

// One that does not honour its context does not hold up the result, and its value is discarded.
func TestTrapHedgeLoserIsCancelledAndItsLateValueDiscarded(t *testing.T) {
	for loser, tries := range [][]try{{{after: time.Minute, v: "late", deaf: true}, {after: 2 * s, v: "a"}}, {{after: 3 * s, v: "a"}, {after: time.Minute, v: "late", deaf: true}}} {
		synctest.Test(t, func(t *testing.T) {
			f := serve(tries...)
			h := newHedge(t, f, resilience.HedgeConfig[string]{Delay: s})
			v := must(h.Execute(t.Context(), f.call))
			require.Equal(t, "a", v)
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
			v, err := f.hedge(t, t.Context(), resilience.HedgeConfig[string]{Delay: s, Bind: func(v string, f func(error)) string {
				end = f
				return v + ", bound"
			}})
			require.NoError(t, err)
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
		h, err := resilience.NewHedge(resilience.HedgeConfig[string]{
			MaxAttempts: 3, Classify: bad,
			Discard: func(string) { <-connection },
			Bind:    func(v string, _ func(error)) string { return v },
		})
		require.NoError(t, err)
		v, err := h.Execute(t.Context(), func(ctx context.Context) (string, error) {
			select {
			case connection <- struct{}{}:
			case <-ctx.Done():
				return "", ctx.Err()
			}
			if calls++; calls < 3 {
				return "bad", nil
			}
			return "good", nil
		})
		require.NoError(t, err)
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
		v := must(h.Execute(t.Context(), f.call))
		require.Equal(t, "a", v)
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
