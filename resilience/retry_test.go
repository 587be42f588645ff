package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/resilience"
)

const sec = time.Second

type retryConfig = resilience.RetryConfig[string]

type edge struct{}

func (edge) Int64N(n int64) int64 { return n - 1 }

type retryCase struct {
	name     string
	cfg      retryConfig
	results  []result
	v        string
	attempts int             // in the error; zero means that it is no RetryError
	err      error           // what the error is, nil for none
	at       []time.Duration // of the calls
	discards []string
	deadline time.Duration // of the caller; zero means none
}

func (tc retryCase) run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		if tc.deadline > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, tc.deadline)
			defer cancel()
		}
		c := newCallee(tc.results...)
		tc.cfg.Discard = c.discard
		v, err := must(resilience.NewRetry(tc.cfg)).Execute(ctx, c.call)
		assert.Equal(t, tc.v, v)
		assert.True(t, errors.Is(err, tc.err), "error %v, want %v", err, tc.err)
		var exhausted resilience.RetryError
		if last, ok := errors.AsType[*resilience.RetryError](err); ok {
			exhausted = *last
		}
		assert.Equal(t, tc.attempts, exhausted.Attempts, "attempts in the error %v", err)
		wantEqual(t, "calls at", c.at, tc.at)
		wantEqual(t, "discarded", c.discards, tc.discards)
		for i, n := range c.attempts {
			assert.EqualValues(t, i+1, n)
		}
	})
}

func seconds(at ...float64) (list []time.Duration) {
	for _, x := range at {
		list = append(list, time.Duration(x*float64(sec)))
	}
	return list
}

func TestRetry(t *testing.T) {
	fail, no, ok := result{err: errDown}, result{v: "bad"}, result{v: "good"}
	every := func(cfg retryConfig) retryConfig { // second
		cfg.Backoff = backoff.Constant(sec)
		return cfg
	}
	twice := func(wish time.Duration) retryConfig {
		return every(retryConfig{MaxAttempts: 2, MaxRetryAfter: 9 * sec, RetryAfter: func(string, error) time.Duration { return wish }})
	}
	growing := twice(2 * sec)
	growing.MaxAttempts, growing.Backoff = 3, func(_ int, prev time.Duration, _ backoff.Source) time.Duration { return 2*prev + sec }
	ignored := func(string, error) resilience.Classification { return resilience.Ignored }
	second, judged, forever := every(retryConfig{}), every(retryConfig{Classify: bad}), every(retryConfig{Forever: true, Classify: bad})
	for _, tc := range []retryCase{
		{"success", retryConfig{}, []result{ok}, "good", 0, nil, seconds(0), nil, 0},
		{"errors, then success", second, []result{fail, fail, ok}, "good", 0, nil, seconds(0, 1, 2), nil, 0},
		{"four attempts by default", second, []result{fail}, "", 4, errDown, seconds(0, 1, 2, 3), nil, 0},
		{"full jitter by default", retryConfig{Random: edge{}}, []result{fail}, "", 4, errDown, seconds(0, .2, .6, 1.4), nil, 0},
		{"one attempt", retryConfig{MaxAttempts: 1}, []result{fail}, "", 1, errDown, seconds(0), nil, 0},
		{"the last value comes whole", every(retryConfig{MaxAttempts: 3, Classify: bad}), []result{no}, "bad", 0, nil, seconds(0, 1, 2), []string{"bad", "bad"}, 0},
		{"values and errors", judged, []result{no, fail, ok}, "good", 0, nil, seconds(0, 1, 2), []string{"bad"}, 0},
		{"not a failure", every(retryConfig{Classify: ignored}), []result{fail}, "", 0, errDown, seconds(0), nil, 0},
		{"forever", forever, []result{fail, fail, fail, fail, fail, ok}, "good", 0, nil, seconds(0, 1, 2, 3, 4, 5), nil, 0},
		{"each attempt takes its time", second, []result{{err: errDown, after: 2 * sec}, ok}, "good", 0, nil, seconds(0, 3), nil, 0},
		{"the backoff is told its last delay", growing, []result{fail}, "", 3, errDown, seconds(0, 2, 5), nil, 0},
		{"a longer wish", twice(5 * sec), []result{fail}, "", 2, errDown, seconds(0, 5), nil, 0},
		{"a shorter wish", twice(sec / 5), []result{fail}, "", 2, errDown, seconds(0, 1), nil, 0},
		{"an absurd wish", twice(1<<63 - 1), []result{fail}, "", 2, errDown, seconds(0, 9), nil, 0},
		{"a negative wish", twice(-sec), []result{fail}, "", 2, errDown, seconds(0, 1), nil, 0},
		{"the time of an open circuit", judged, []result{{err: &resilience.OpenError{RetryAfter: 30 * sec}}, ok}, "good", 0, nil, seconds(0, 30), nil, 0},
		{"no retry past the deadline", second, []result{fail}, "", 3, errDown, seconds(0, 1, 2), nil, 5 * sec / 2},
		{"no retry at the deadline", second, []result{fail}, "", 2, errDown, seconds(0, 1), nil, 2 * sec},
		{"no retry past the deadline, of a value", judged, []result{no}, "bad", 0, nil, seconds(0, 1), []string{"bad"}, 3 * sec / 2},
		{"no retry past the deadline, of a wish", twice(5 * sec), []result{fail}, "", 1, errDown, seconds(0), nil, 3 * sec},
		{"a policy within is closed", forever, []result{{err: resilience.ErrClosed}}, "", 1, resilience.ErrClosed, seconds(0), nil, 0},
	} {
		t.Run(tc.name, tc.run)
	}
}

// A value that fails is freed before the delay: it may hold the only connection.
func TestRetryDiscardsBeforeTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, freed, heard := time.Now(), time.Duration(-1), false
		c := newCallee(result{v: "bad"}, result{v: "good"})
		r := must(resilience.NewRetry(retryConfig{
			Backoff: backoff.Constant(sec), Classify: bad,
			OnRetry: func(string, resilience.RetryEvent) { heard = freed < 0 },
			Discard: func(string) { freed = time.Since(start) },
		}))
		r.Execute(t.Context(), c.call)
		assert.True(t, freed == 0 && len(c.at) == 2 && heard, "discarded at %v, before calls at %v, and OnRetry saw the value alive = %v; want 0s and true", freed, c.at, heard)
	})
}

func TestRetryCallerGivesUp(t *testing.T) {
	cause := errors.New("the user left")
	for _, tc := range []struct {
		name  string
		after time.Duration // when the caller does
		calls int
		v     string // what comes out
		err   error  // what the error is
	}{
		{"before the first attempt", 0, 0, "", cause},
		{"during an attempt", sec / 2, 1, "", context.Canceled},
		{"during a delay", 3 * sec, 1, "", cause},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tc.after == 0 {
				cancel(cause)
			}
			go func() {
				time.Sleep(tc.after)
				cancel(cause)
			}()
			c := newCallee(result{err: errDown, after: sec})
			r := must(resilience.NewRetry(retryConfig{
				Backoff: backoff.Constant(time.Minute),
				When: func(_ string, err error, _ resilience.Attempt) bool {
					assert.NoError(t, ctx.Err(), "whoever has given up is not asked whether to go on")
					return err != nil
				},
			}))
			v, err := r.Execute(ctx, c.call)
			if v != tc.v || !errors.Is(err, tc.err) || !errors.Is(err, context.Canceled) || errors.Is(err, resilience.ErrRetriesExhausted) {
				t.Errorf("Execute = %q, %v, want %q, %v", v, err, tc.v, tc.err)
			}
			if took := time.Since(c.start); len(c.at) != tc.calls || took != tc.after {
				t.Errorf("%d calls and over after %v, want %d and %v", len(c.at), took, tc.calls, tc.after)
			}
		})
	}
}

func TestRetryTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub resilience.Hub
		var told, heard []string
		line := func(e resilience.RetryEvent) string {
			return fmt.Sprintf("%s %d %v %v %v", e.Name, e.Attempt, e.Delay, e.Err, e.Last)
		}
		resilience.Subscribe(&hub, func(e resilience.RetryEvent) { heard = append(heard, line(e)) })
		c := newCallee(result{err: errDown}, result{v: "bad"}, result{v: "good"})
		r := must(resilience.NewRetry(retryConfig{
			Name: "r", MaxAttempts: 3, Backoff: backoff.Linear(sec, 0), Classify: bad, Hub: &hub,
			OnRetry: func(v string, e resilience.RetryEvent) { told = append(told, v+" "+line(e)) },
		}))
		r.Execute(t.Context(), c.call)
		hub.Close()
		wantEqual(t, "OnRetry", told, []string{" r 1 1s down false", "bad r 2 2s <nil> true"})
		wantEqual(t, "events", heard, []string{"r 1 1s down false", "r 2 2s <nil> true"})
	})
}

func TestRetryBudget(t *testing.T) {
	budget := must(resilience.NewBudget(resilience.BudgetConfig{Ratio: 0.5, Minimum: 1}))
	r := must(resilience.NewRetry(retryConfig{
		MaxAttempts: 10, Backoff: backoff.Constant(0), Budget: budget,
	}))
	var calls []int
	for range 4 {
		c := newCallee(result{err: errDown})
		if _, err := r.Execute(t.Context(), c.call); !errors.Is(err, resilience.ErrRetriesExhausted) {
			t.Errorf("error of a call without a budget = %v, want a RetryError", err)
		}
		calls = append(calls, len(c.at))
	}
	// One retry is free, and each two calls bring another.
	wantEqual(t, "attempts", calls, []int{2, 2, 1, 2})
}

func TestRetryClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallee(result{err: errDown})
		r := must(resilience.NewRetry(retryConfig{Forever: true, Backoff: backoff.Constant(sec)}))
		go func() {
			time.Sleep(5 * sec / 2)
			r.Close()
		}()
		if _, err := r.Execute(t.Context(), c.call); !errors.Is(err, errDown) || len(c.at) != 4 {
			t.Errorf("%v after %d calls, want the last error after the call that was waited for, the 4th", err, len(c.at))
		}
	})
}

func TestAttemptsNest(t *testing.T) {
	var seen []int
	inner := must(resilience.NewRetry(retryConfig{MaxAttempts: 2, Backoff: backoff.Constant(0)}))
	outer := must(resilience.NewRetry(retryConfig{MaxAttempts: 2, Backoff: backoff.Constant(0)}))
	_, err := resilience.Wrap[string](outer, inner).Execute(t.Context(), func(ctx context.Context) (string, error) {
		seen = append(seen, resilience.AttemptFrom(ctx))
		return "", errDown
	})
	wantEqual(t, "attempts", seen, []int{1, 2, 1, 2})
	if want := "retries exhausted after 2 attempts: retries exhausted after 2 attempts: down"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	assert.EqualValues(t, 1, resilience.AttemptFrom(t.Context()))
}

// Who is refused by a circuit that opened between two attempts is told how the last one failed.
func TestRetryKeepsTheCauseWhenACircuitOpens(t *testing.T) {
	down := errors.New("connection refused")
	for name, tc := range map[string]struct {
		err  error
		res  *http.Response
		want string
	}{
		"error":    {err: down, want: "circuit open: next try in 5s; the attempt before failed: connection refused"},
		"response": {res: &http.Response{Status: "503 Service Unavailable"}, want: "circuit open: next try in 5s; the attempt before failed: HTTP 503 Service Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			r := must(resilience.NewRetry(resilience.RetryConfig[*http.Response]{
				Backoff:  backoff.Constant(0),
				Describe: func(res *http.Response) error { return errors.New("HTTP " + res.Status) },
				Classify: func(_ *http.Response, err error) resilience.Classification {
					if errors.Is(err, resilience.ErrOpen) {
						return resilience.Ignored
					}
					return resilience.Failure
				},
			}))
			_, err := r.Execute(t.Context(), func(context.Context) (*http.Response, error) {
				if calls++; calls == 3 {
					return nil, &resilience.OpenError{RetryAfter: 5 * time.Second}
				}
				return tc.res, tc.err
			})
			require.Equal(t, 3, calls)
			require.ErrorIs(t, err, resilience.ErrOpen)
			require.NotErrorIs(t, err, down)
			require.EqualError(t, err, tc.want)
		})
	}
}

// A predicate knows how often and for how long was tried, delays included.
func TestRetryWhenSeesAttemptAndElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		var told []time.Duration
		c := newCallee(result{v: "bad", after: sec}, result{err: errDown, after: sec}, result{v: "bad", after: sec}, result{v: "never"})
		r := must(resilience.NewRetry(retryConfig{
			Forever: true, Backoff: backoff.Constant(2 * sec),
			When: func(v string, err error, a resilience.Attempt) bool {
				seen = append(seen, fmt.Sprintf("%q %v %d %v", v, err, a.Number, a.Elapsed))
				return a.Elapsed < 7*sec
			},
			OnRetry: func(_ string, e resilience.RetryEvent) { told = append(told, e.Elapsed) },
		}))
		v, err := r.Execute(t.Context(), c.call)
		assert.True(t, v == "bad" && err == nil, "Execute = %q, %v, want the last value", v, err)
		wantEqual(t, "seen", seen, []string{`"bad" <nil> 1 1s`, `"" down 2 4s`, `"bad" <nil> 3 7s`})
		wantEqual(t, "told", told, []time.Duration{sec, 4 * sec})
	})
}

// The first calls of a hedge with a quantile go by Delay, though it is for ever, later ones by what was measured.
func TestForeverHedgeDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := must(resilience.NewHedge(resilience.HedgeConfig[int]{Delay: math.MaxInt64, Quantile: 0.5}))
		time.Sleep(s)
		var calls atomic.Int32
		lasts := func(d time.Duration) {
			must(h.Execute(t.Context(), func(ctx context.Context) (int, error) {
				calls.Add(1)
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				return 0, ctx.Err()
			}))
		}
		lasts(time.Hour)
		for range 64 {
			lasts(time.Millisecond)
		}
		require.EqualValues(t, 65, calls.Load(), "none is hedged")
		lasts(time.Hour)
		require.EqualValues(t, 67, calls.Load())
		require.NoError(t, h.Close())
	})
}
