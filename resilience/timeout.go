package resilience

import (
	"context"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// TimeoutConfig says how long a call may take.
type TimeoutConfig[T any] struct {
	Name  string        // what errors and events call the policy; zero leaves it out
	After time.Duration // for the call and, with Bind, for the life of its value; zero is an error
	Bind  Bind[T]       // has the time go on until the end of the value's life; nil means that it ends with Execute
	// Discard frees a value that came when its context had been ended by the time. Nil
	// means nothing to free. Without Bind such a value is as good as any and is returned.
	Discard func(T)
	Hub     *Hub // hears of a [TimeoutEvent] for each call, or life of a value, that was cut; nil means nobody
}

// Timeout bounds the time of a call, and of the use of its value.
//
// It works through the call's context: a call that ignores its context is not cut, and
// Execute returns when it does. That is on purpose, since a goroutine left behind in such
// a call would hold on to all it uses and nobody would know. The error is a
// [TimeoutError] only if this policy's own time was up; where the caller's deadline came
// first, it is the call's error as it is.
//
// The time is that of contexts, the system's, and that of the bubble in a synctest test.
type Timeout[T any] struct {
	gate
	limit   timeLimit
	over    *realContext
	bind    Bind[T]
	discard func(T)
}

// NewTimeout returns a policy or an error that names the field that is out of range.
func NewTimeout[T any](cfg TimeoutConfig[T]) (*Timeout[T], error) {
	if cfg.After <= 0 {
		return nil, fmt.Errorf("timeout: After = %v: want a positive duration", cfg.After)
	}
	clk := clock.System()
	return &Timeout[T]{
		limit: timeLimit{name: cfg.Name, after: cfg.After, hub: cfg.Hub, clk: clk, epoch: clk.Now()},
		over:  endedContext(), bind: cfg.Bind, discard: cfg.Discard,
	}, nil
}

// Execute runs fn with a context that ends when the time is up, when ctx does, or with
// the scope.
func (t *Timeout[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if t.shut() {
		return refuse[T](ErrClosed)
	}
	d := &scopeContext{Context: ctx, limit: &t.limit, at: t.limit.now().AddClamped(t.limit.after), over: t.over}
	bound := false
	defer func() {
		if !bound { // also when fn panics or ends its goroutine
			d.end()
		}
	}()
	v, err := fn(d)
	if err != nil {
		return v, d.translate(err)
	}
	if t.bind == nil {
		return v, nil
	}
	if d.made.Load() != nil { // without one nothing was cut, and asking costs a look at the clock
		if late := d.expired(); late != nil {
			// The value is dead on arrival: whatever it would read is cut.
			if t.discard != nil {
				t.discard(v)
			}
			return refuse[T](d.translate(late))
		}
	}
	v = t.bind(v, d.endValue)
	bound = true
	return v, nil
}
