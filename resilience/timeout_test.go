package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/treadlight/crawl/resilience"
)

type timeoutConfig = resilience.TimeoutConfig[string]

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
		{"of ages", math.MaxInt64, 0, result{v: "good", after: 24 * 365 * time.Hour}, "good", false, nil, 24 * 365 * time.Hour},
		{"the caller's deadline later", sec, 2 * sec, result{v: "good", after: 3 * sec}, "", true, context.DeadlineExceeded, sec},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			ctx := t.Context()
			time.Sleep(time.Hour) // so that now and all time there is would be an instant in the past
			if tc.caller > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tc.caller)
				defer cancel()
			}
			var hub resilience.Hub
			var heard []resilience.TimeoutEvent
			resilience.Subscribe(&hub, func(e resilience.TimeoutEvent) { heard = append(heard, e) })
			c := newCallee(tc.r)
			v, err := must(resilience.NewTimeout(timeoutConfig{Name: "try", After: tc.after, Hub: &hub})).Execute(ctx, c.call)
			hub.Close()
			if v != tc.v || !errors.Is(err, tc.err) || errors.Is(err, resilience.ErrTimeout) != tc.ours {
				t.Errorf("Execute = %q, %v, want %q, %v, ours %v", v, err, tc.v, tc.err, tc.ours)
			}
			assert.Equal(t, tc.took, time.Since(c.start))
			assert.True(t, (len(heard) == 1) == tc.ours && (!tc.ours || heard[0].Name == "try" && heard[0].After == tc.after), "events %v, want one if it was ours: %v", heard, tc.ours)
		})
	}
}

func TestTimeoutError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := must(resilience.NewTimeout(timeoutConfig{Name: "try", After: sec}))
		_, err := p.Execute(t.Context(), newCallee(result{after: time.Hour}).call)
		assert.EqualError(t, err, "timeout (try) after 1s")
		var timeout net.Error
		assert.True(t, errors.As(err, &timeout) && timeout.Timeout(), "%v is no net.Error with a timeout", err)
		// What the call itself said stays.
		_, err = p.Execute(t.Context(), func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", errDown
		})
		assert.EqualError(t, err, "timeout (try) after 1s: down")
		assert.ErrorIs(t, err, errDown)
		// A call that returns the cause, as an HTTP transport does, is not told it twice.
		_, err = p.Execute(t.Context(), func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		assert.EqualError(t, err, "timeout (try) after 1s")
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
		p := must(resilience.NewTimeout(timeoutConfig{
			After:   sec,
			Discard: func(v string) { notes = append(notes, "discarded "+v) },
			Bind: func(v string, end func(error)) string {
				notes = append(notes, "bound "+v)
				end(nil)
				return v
			},
		}))
		for _, tc := range map[string]struct {
			p  *resilience.Timeout[string]
			fn func(context.Context) (string, error)
		}{"unbound": {must(resilience.NewTimeout(timeoutConfig{After: sec})), tied}, "untied": {p, slow}} {
			wantResult(t, "late")(tc.p.Execute(t.Context(), tc.fn))
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
		inBubble(t, tc.name, func(t *testing.T) {
			var hub resilience.Hub
			events := 0
			resilience.Subscribe(&hub, func(resilience.TimeoutEvent) { events++ })
			var end func(error)
			var scope kept
			p := must(resilience.NewTimeout(timeoutConfig{After: 3 * sec, Hub: &hub, Bind: func(v string, fn func(error)) string {
				end = fn
				return "bound " + v
			}}))
			v, err := p.Execute(t.Context(), func(ctx context.Context) (string, error) {
				scope.keep(ctx)
				return newCallee(result{v: "body", after: sec}).call(ctx)
			})
			if v != "bound body" || err != nil || scope.ctx.Err() != nil {
				t.Fatalf("Execute = %q, %v with a scope that is %v, want a bound value in a living scope", v, err, scope.ctx.Err())
			}
			time.Sleep(tc.life)
			assert.ErrorIs(t, scope.ctx.Err(), tc.ended)
			end(tc.failed)
			hub.Close()
			assert.True(t, scope.ctx.Err() != nil && events == tc.events, "the scope is %v after the end and %d events, want an ended one and %d", scope.ctx.Err(), events, tc.events)
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
				must(resilience.NewTimeout(timeoutConfig{Name: "total", After: tc.total})),
				must(resilience.NewTimeout(timeoutConfig{Name: "try", After: tc.try})))
			_, err := p.Execute(t.Context(), func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "", context.Cause(ctx)
			})
			assert.ErrorContains(t, err, tc.text, "total %v, try %v", tc.total, tc.try)
		})
	}
	synctest.Test(t, func(t *testing.T) { // one policy within itself: the outer one began first
		p := must(resilience.NewTimeout(timeoutConfig{Name: "same", After: sec}))
		var inner error
		_, outer := p.Execute(t.Context(), func(ctx context.Context) (string, error) {
			time.Sleep(sec / 2)
			_, inner = p.Execute(ctx, newCallee(result{after: time.Hour}).call)
			return "", inner
		})
		assert.True(t, !errors.Is(inner, resilience.ErrTimeout) && errors.Is(outer, resilience.ErrTimeout), "inner error %v, outer %v, want the outer to be the timeout", inner, outer)
	})
}

type plainKey string

func view(ctx context.Context) string {
	select {
	case <-ctx.Done():
		return fmt.Sprint("done ", ctx.Err(), ", cause ", context.Cause(ctx))
	default:
		return fmt.Sprint("open ", ctx.Err(), context.Cause(ctx))
	}
}

// history lets ten seconds pass over a context and some that hang below it, and writes down all they show. first is
// what is asked first, since a lazy context could give itself away by that; end ends the scope.
func history(ctx context.Context, first func(context.Context), end func()) (lines []string) {
	note := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	start := time.Now()
	first(ctx)
	at, ok := ctx.Deadline()
	note("deadline %v %v, value %v", at.Sub(start), ok, ctx.Value(plainKey("k")))

	child, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	value := context.WithValue(ctx, plainKey("below"), 1)
	apart := context.WithoutCancel(ctx)
	var mu sync.Mutex
	fired := time.Duration(-1)
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		fired = time.Since(start)
	})
	ran := false // where the context has ended, it is too late to stop it
	unused := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		ran = true
	})
	note("stopped %v", unused())
	for i := range 10 {
		if i == 7 {
			end()
			synctest.Wait()
		}
		for _, c := range []context.Context{ctx, child, value, apart} {
			note("%ds %s", i, view(c))
		}
		time.Sleep(sec)
		synctest.Wait()
	}
	mu.Lock()
	defer mu.Unlock()
	note("fired at %v, stopped %v, the stopped one ran %v", fired, stop(), ran)
	late, cancelLate := context.WithCancel(ctx)
	defer cancelLate()
	note("late %s", view(late))
	return lines
}

// The context of a Timeout shows the same as one of context.WithTimeout, whatever ends
// it first, the parent, the time or the scope, and whatever it is asked first.
func TestTimeoutContextIsAsTheStandardOne(t *testing.T) {
	parents := map[string]func(context.Context) (context.Context, func()){
		"endless": func(ctx context.Context) (context.Context, func()) { return ctx, func() {} },
		"cancelled at 3s": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			t := time.AfterFunc(3*sec, func() { cancel(errDown) })
			return ctx, func() { t.Stop(); cancel(nil) }
		},
		"until 4s": func(ctx context.Context) (context.Context, func()) {
			return context.WithTimeout(ctx, 4*sec)
		},
		"ended": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(errDown)
			return ctx, func() {}
		},
	}
	asked := map[string]func(context.Context){
		"nothing": func(context.Context) {}, "Done": func(ctx context.Context) { ctx.Done() },
		"Err": func(ctx context.Context) { ctx.Err() }, "Value": func(ctx context.Context) { ctx.Value(1) },
	}
	for name, parent := range parents {
		for ask, first := range asked {
			for _, after := range []time.Duration{1, 2*sec + 1, 5*sec + 1, time.Minute} {
				inBubble(t, fmt.Sprint(name, " parent, asked ", ask, ", after ", after), func(t *testing.T) {
					base, cancel := parent(context.WithValue(t.Context(), plainKey("k"), "v"))
					ctx, end := context.WithTimeoutCause(base, after, &resilience.TimeoutError{Name: "x", After: after})
					want := history(ctx, first, end)
					end()
					cancel()

					base, cancel = parent(context.WithValue(t.Context(), plainKey("k"), "v"))
					defer cancel()
					var scope kept
					p := must(resilience.NewTimeout(timeoutConfig{Name: "x", After: after, Bind: func(_ string, fn func(error)) string {
						end = func() { fn(nil) }
						return ""
					}}))
					p.Execute(base, func(ctx context.Context) (string, error) {
						scope.keep(ctx)
						return "", nil
					})
					got := history(scope.ctx, first, end)
					wantEqual(t, "history", got, want)
				})
			}
		}
	}
}

// Err alone, without anybody who waits, sees every end.
func TestTimeoutContextErrAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		want  string // error and cause
	}{
		"its own time": {sec, "context deadline exceeded, timeout after 1s"},
		"the parent":   {time.Minute, "context canceled, down"},
		"its deadline": {time.Hour, "context deadline exceeded, context deadline exceeded"},
	} {
		synctest.Test(t, func(t *testing.T) {
			parent, cancel := context.WithCancelCause(t.Context())
			var scope kept
			if tc.after == time.Hour {
				var stop context.CancelFunc
				parent, stop = context.WithTimeout(parent, sec)
				defer stop()
			}
			must(resilience.NewTimeout(timeoutConfig{After: tc.after})).Execute(parent, func(ctx context.Context) (string, error) {
				assert.NoError(t, ctx.Err(), name)
				time.Sleep(2 * sec)
				if tc.after == time.Minute {
					cancel(errDown)
				}
				assert.EqualValues(t, tc.want, fmt.Sprintf("%v, %v", ctx.Err(), context.Cause(ctx)), name)
				scope.keep(ctx)
				return "", nil
			})
			cancel(nil)
			assert.EqualValues(t, tc.want, fmt.Sprintf("%v, %v", scope.ctx.Err(), context.Cause(scope.ctx)), "%s, after the scope", name)
		})
	}
}

// The scope ends while others ask for everything at once; the race detector is the judge.
func TestTimeoutContextConcurrently(t *testing.T) {
	for range 200 {
		var wg sync.WaitGroup
		must(resilience.NewTimeout(timeoutConfig{After: time.Microsecond})).Execute(t.Context(), func(ctx context.Context) (string, error) {
			for range 4 {
				wg.Go(func() {
					child, cancel := context.WithCancel(ctx)
					defer cancel()
					_, _ = ctx.Err(), ctx.Value(plainKey("k"))
					done := ctx.Done()
					<-child.Done()
					assert.True(t, ctx.Err() != nil && context.Cause(ctx) != nil, "the child ended before the scope did")
					assert.Equal(t, done, ctx.Done(), "Done is another one than before")
				})
			}
			return "", nil
		})
		wg.Wait()
	}
}

// A scope that ended before anybody waited for it is still an ended context that knows
// its values, and has started no timer.
func TestTimeoutContextAfterItsScope(t *testing.T) {
	var scope kept
	ctx := context.WithValue(t.Context(), plainKey("k"), "v")
	must(resilience.NewTimeout(timeoutConfig{After: time.Hour})).Execute(ctx, func(ctx context.Context) (string, error) {
		scope.keep(ctx)
		return "", nil
	})
	child, cancel := context.WithCancel(scope.ctx)
	defer cancel()
	for name, ctx := range map[string]context.Context{"scope": scope.ctx, "child": child} {
		assert.Equal(t, "done context canceled, cause context canceled", view(ctx), name)
		assert.Equal(t, "v", ctx.Value(plainKey("k")), name)
	}
}
