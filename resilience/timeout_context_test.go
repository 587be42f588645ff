package resilience_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadlight/crawl/resilience"
)

type plainKey string

// view is all that can be seen of a context from outside.
func view(ctx context.Context) string {
	select {
	case <-ctx.Done():
		return fmt.Sprint("done ", ctx.Err(), ", cause ", context.Cause(ctx))
	default:
		return fmt.Sprint("open ", ctx.Err(), context.Cause(ctx))
	}
}

// history lets ten seconds pass over a context and some that hang below it, and writes
// down all they show. first is what is asked first, since a lazy context could give
// itself away by that; end ends the scope.
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
				t.Run(fmt.Sprint(name, " parent, asked ", ask, ", after ", after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						base, cancel := parent(context.WithValue(t.Context(), plainKey("k"), "v"))
						ctx, end := context.WithTimeoutCause(base, after, &resilience.TimeoutError{Name: "x", After: after})
						want := history(ctx, first, end)
						end()
						cancel()

						base, cancel = parent(context.WithValue(t.Context(), plainKey("k"), "v"))
						defer cancel()
						var scope kept
						p := newTimeout(t, timeoutConfig{Name: "x", After: after, Bind: func(_ string, fn func(error)) string {
							end = func() { fn(nil) }
							return ""
						}})
						p.Execute(base, func(ctx context.Context) (string, error) {
							scope.keep(ctx)
							return "", nil
						})
						got := history(scope.ctx, first, end)
						wantEqual(t, "history", got, want)
					})
				})
			}
		}
	}
}

// Many goroutines that are the first to wait share one timer.
func TestTimeoutContextIsWaitedForByMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTimeout(t, timeoutConfig{After: sec})
		_, err := p.Execute(t.Context(), func(ctx context.Context) (string, error) {
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					done := ctx.Done()
					<-done
					if other := ctx.Done(); other != done || ctx.Err() == nil {
						t.Errorf("Done is another one than before, or the error %v", ctx.Err())
					}
				})
			}
			wg.Wait()
			return "", ctx.Err()
		})
		if err == nil {
			t.Error("Execute = nil, want a TimeoutError")
		}
	})
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
			newTimeout(t, timeoutConfig{After: tc.after}).Execute(parent, func(ctx context.Context) (string, error) {
				if err := ctx.Err(); err != nil {
					t.Errorf("%s: error %v at once", name, err)
				}
				time.Sleep(2 * sec)
				if tc.after == time.Minute {
					cancel(errDown)
				}
				if got := fmt.Sprintf("%v, %v", ctx.Err(), context.Cause(ctx)); got != tc.want {
					t.Errorf("%s: %s, want %s", name, got, tc.want)
				}
				scope.keep(ctx)
				return "", nil
			})
			cancel(nil)
			if got := fmt.Sprintf("%v, %v", scope.ctx.Err(), context.Cause(scope.ctx)); got != tc.want {
				t.Errorf("%s: %s after the scope, want %s as before", name, got, tc.want)
			}
		})
	}
}

// The scope ends while others ask for everything at once; the race detector is the judge.
func TestTimeoutContextConcurrently(t *testing.T) {
	for range 200 {
		var wg sync.WaitGroup
		newTimeout(t, timeoutConfig{After: time.Microsecond}).Execute(t.Context(), func(ctx context.Context) (string, error) {
			for range 4 {
				wg.Go(func() {
					child, cancel := context.WithCancel(ctx)
					defer cancel()
					_, _ = ctx.Err(), ctx.Value(plainKey("k"))
					<-child.Done()
					if ctx.Err() == nil || context.Cause(ctx) == nil {
						t.Error("the child ended before the scope did")
					}
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
	newTimeout(t, timeoutConfig{After: time.Hour}).Execute(ctx, func(ctx context.Context) (string, error) {
		scope.keep(ctx)
		return "", nil
	})
	child, cancel := context.WithCancel(scope.ctx)
	defer cancel()
	for name, ctx := range map[string]context.Context{"scope": scope.ctx, "child": child} {
		if got, want := view(ctx), "done context canceled, cause context canceled"; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if v := ctx.Value(plainKey("k")); v != "v" {
			t.Errorf("%s: value %v, want v", name, v)
		}
	}
}
