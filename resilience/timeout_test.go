package resilience_test

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadlight/crawl/resilience"
)

type timeoutConfig = resilience.TimeoutConfig[string]

func newTimeout(tb testing.TB, cfg timeoutConfig) *resilience.Timeout[string] {
	tb.Helper()
	return must[*resilience.Timeout[string]](tb)(resilience.NewTimeout(cfg))
}

func TestTimeout(t *testing.T) {
	for _, tc := range []struct {
		name   string
		after  time.Duration // of the policy
		caller time.Duration // the caller's deadline; zero means none
		r      result
		v      string
		ours   bool  // it is a TimeoutError
		err    error // what the error is, nil for none
		took   time.Duration
	}{
		{"in time", 2 * sec, 0, result{v: "good", after: sec}, "good", false, nil, sec},
		{"an error in time", 2 * sec, 0, result{err: errDown, after: sec}, "", false, errDown, sec},
		{"too long", 2 * sec, 0, result{v: "good", after: 3 * sec}, "", true, context.DeadlineExceeded, 2 * sec},
		{"the caller's deadline first", 2 * sec, sec, result{v: "good", after: 3 * sec}, "", false, context.DeadlineExceeded, sec},
		{"the caller's deadline later", sec, 2 * sec, result{v: "good", after: 3 * sec}, "", true, context.DeadlineExceeded, sec},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tc.caller > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.caller)
					defer cancel()
				}
				var hub resilience.Hub
				var heard []resilience.TimeoutEvent
				resilience.Subscribe(&hub, func(e resilience.TimeoutEvent) { heard = append(heard, e) })
				c := newCallee(tc.r)
				v, err := newTimeout(t, timeoutConfig{Name: "try", After: tc.after, Hub: &hub}).Execute(ctx, c.call)
				hub.Close()
				if v != tc.v || !errors.Is(err, tc.err) || errors.Is(err, resilience.ErrTimeout) != tc.ours {
					t.Errorf("Execute = %q, %v, want %q, %v, ours %v", v, err, tc.v, tc.err, tc.ours)
				}
				if took := time.Since(c.start); took != tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
				if (len(heard) == 1) != tc.ours || tc.ours && (heard[0].Name != "try" || heard[0].After != tc.after) {
					t.Errorf("events %v, want one if it was ours: %v", heard, tc.ours)
				}
			})
		})
	}
}

func TestTimeoutError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTimeout(t, timeoutConfig{Name: "try", After: sec})
		_, err := p.Execute(t.Context(), newCallee(result{after: time.Hour}).call)
		if want := "timeout (try) after 1s"; err == nil || err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v is no net.Error with a timeout", err)
		}
		// What the call itself said stays.
		_, err = p.Execute(t.Context(), func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", errDown
		})
		if want := "timeout (try) after 1s: down"; !errors.Is(err, errDown) || err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
		// A call that returns the cause, as an HTTP transport does, is not told it twice.
		_, err = p.Execute(t.Context(), func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		if want := "timeout (try) after 1s"; err == nil || err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
	})
}

// A call that does not heed its context is not cut. Its value is good, unless it is to
// live on in a context that has ended.
func TestTimeoutOfCallThatDoesNotHeedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context) (string, error) {
			time.Sleep(3 * sec)
			return "late", nil
		}
		tied := func(ctx context.Context) (string, error) {
			ctx.Done()
			return slow(ctx)
		}
		var notes []string
		p := newTimeout(t, timeoutConfig{
			After:   sec,
			Discard: func(v string) { notes = append(notes, "discarded "+v) },
			Bind: func(v string, end func(error)) string {
				notes = append(notes, "bound "+v)
				end(nil)
				return v
			},
		})
		for name, tc := range map[string]struct {
			p  *resilience.Timeout[string]
			fn func(context.Context) (string, error)
		}{"unbound": {newTimeout(t, timeoutConfig{After: sec}), tied}, "untied": {p, slow}} {
			if v, err := tc.p.Execute(t.Context(), tc.fn); v != "late" || err != nil {
				t.Errorf("%s: Execute = %q, %v, want the late value", name, v, err)
			}
		}
		if v, err := p.Execute(t.Context(), tied); v != "" || !errors.Is(err, resilience.ErrTimeout) {
			t.Errorf("Execute = %q, %v, want a TimeoutError", v, err)
		}
		wantEqual(t, "notes", notes, []string{"bound late", "discarded late"})
		// One that fails late, and asks nobody, is told from one that fails in time.
		if _, err := p.Execute(t.Context(), func(ctx context.Context) (string, error) {
			_, err := slow(ctx)
			return "", errors.Join(err, errDown)
		}); !errors.Is(err, resilience.ErrTimeout) || !errors.Is(err, errDown) {
			t.Errorf("late error = %v, want a TimeoutError around it", err)
		}
	})
}

// The time goes on while the value lives, and ends with it.
func TestTimeoutCoversTheLifeOfTheValue(t *testing.T) {
	for _, tc := range []struct {
		name   string
		life   time.Duration // after the call, which takes a second of three
		failed error         // what the life ends with
		ended  error         // of the context just before the end of the life
		events int
	}{
		{"ends in time", sec, nil, nil, 0},
		{"fails in time", sec, errDown, nil, 0},
		{"is cut", 2*sec + 1, context.DeadlineExceeded, context.DeadlineExceeded, 1},
		{"is over although the time was up", 2*sec + 1, nil, context.DeadlineExceeded, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hub resilience.Hub
				events := 0
				resilience.Subscribe(&hub, func(resilience.TimeoutEvent) { events++ })
				var end func(error)
				var scope kept
				p := newTimeout(t, timeoutConfig{After: 3 * sec, Hub: &hub, Bind: func(v string, fn func(error)) string {
					end = fn
					return "bound " + v
				}})
				v, err := p.Execute(t.Context(), func(ctx context.Context) (string, error) {
					scope.keep(ctx)
					return newCallee(result{v: "body", after: sec}).call(ctx)
				})
				if v != "bound body" || err != nil || scope.ctx.Err() != nil {
					t.Fatalf("Execute = %q, %v with a scope that is %v, want a bound value in a living scope", v, err, scope.ctx.Err())
				}
				time.Sleep(tc.life)
				if err := scope.ctx.Err(); !errors.Is(err, tc.ended) {
					t.Errorf("the scope is %v before the end, want %v", err, tc.ended)
				}
				end(tc.failed)
				hub.Close()
				if scope.ctx.Err() == nil || events != tc.events {
					t.Errorf("the scope is %v after the end and %d events, want an ended one and %d", scope.ctx.Err(), events, tc.events)
				}
			})
		})
	}
}

// whoseTimeout nests two policies and says whose time was up.
func TestTimeoutsNest(t *testing.T) {
	for _, tc := range []struct {
		total, try time.Duration
		text       string
	}{
		{sec, 2 * sec, "timeout (total) after 1s"},
		{2 * sec, sec, "timeout (try) after 1s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := resilience.Wrap[string](
				newTimeout(t, timeoutConfig{Name: "total", After: tc.total}),
				newTimeout(t, timeoutConfig{Name: "try", After: tc.try}))
			_, err := p.Execute(t.Context(), func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "", context.Cause(ctx)
			})
			if err == nil || !strings.HasPrefix(err.Error(), tc.text) {
				t.Errorf("total %v, try %v: error %v, want %s", tc.total, tc.try, err, tc.text)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // one policy within itself: the outer one began first
		p := newTimeout(t, timeoutConfig{Name: "same", After: sec})
		var inner error
		_, outer := p.Execute(t.Context(), func(ctx context.Context) (string, error) {
			time.Sleep(sec / 2)
			_, inner = p.Execute(ctx, newCallee(result{after: time.Hour}).call)
			return "", inner
		})
		if errors.Is(inner, resilience.ErrTimeout) || !errors.Is(outer, resilience.ErrTimeout) {
			t.Errorf("inner error %v, outer %v, want the outer to be the timeout", inner, outer)
		}
	})
}

func TestTimeoutOfAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTimeout(t, timeoutConfig{After: math.MaxInt64})
		time.Sleep(time.Hour)
		if v, err := p.Execute(t.Context(), newCallee(result{v: "good", after: 24 * 365 * time.Hour}).call); v != "good" || err != nil {
			t.Errorf("Execute = %q, %v, want the value after a year", v, err)
		}
	})
}

func TestTimeoutConfigIsChecked(t *testing.T) {
	for _, after := range []time.Duration{0, -sec} {
		if _, err := resilience.NewTimeout(timeoutConfig{After: after}); err == nil || !strings.Contains(err.Error(), "After") {
			t.Errorf("NewTimeout error for After %v = %v, want one that names it", after, err)
		}
	}
}
