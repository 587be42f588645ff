package resilience

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/clock/lifetime"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
)

// HedgeConfig configures a [Hedge].
type HedgeConfig[T any] struct {
	Name string // name of the policy in errors and events; may be empty

	// Delay is how long a call may take before another is started. With a Quantile, it applies to the first 20
	// latencies. Zero means 2 s.
	Delay time.Duration
	// Quantile, in (0, 1), sets the delay to that quantile of the last 64 latencies of first calls: with 0.95 one call
	// in twenty is hedged. Zero means that the delay is fixed.
	Quantile    float64
	MaxAttempts int // greatest number of calls, including the first, from 2 to 16; zero means 2
	// Budget bounds further calls; share it with the retry around the hedge. Nil means no bound.
	Budget *Budget

	Classify Classifier[T] // a Failure starts the next call at once; nil means DefaultClassifier
	Bind     Bind[T]       // ties the context of a call to the life of its value; nil means that it ends with Execute
	Discard  func(T)       // frees a value that nobody gets, on any goroutine; nil means that nothing needs to be freed

	Hub *Hub // receives a [HedgeEvent] for each further call and a [HedgeOutcomeEvent]; nil means no events
}

const (
	defaultHedgeDelay = 2 * time.Second // longer than nearly every response of a web server that works
	maxHedges         = 16
)

// Hedge is a [Policy] against slow calls: if a call takes long, a second one is started beside it, and the first good
// result counts. Use it only for calls that may be made twice.
//
// Each call runs on a goroutine with its own context. The contexts of calls that lose end, with a cause that says so,
// and their results are discarded; Execute does not wait for them. The winner's context lives as long as its value.
type Hedge[T any] struct {
	cfg    HedgeConfig[T]
	pace   hedgePace
	panics atomic.Uint64
	life   *lifetime.Lifetime // of calls of Execute, and of the goroutines that they started
}

// NewHedge returns the policy. An error names the wrong field.
func NewHedge[T any](cfg HedgeConfig[T]) (*Hedge[T], error) {
	cfg.Delay = cmp.Or(cfg.Delay, defaultHedgeDelay)
	cfg.MaxAttempts = cmp.Or(cfg.MaxAttempts, 2)
	switch {
	case cfg.Delay < 0:
		return nil, fmt.Errorf("hedge: Delay = %v: want a positive duration", cfg.Delay)
	case !(cfg.Quantile >= 0 && cfg.Quantile < 1):
		return nil, fmt.Errorf("hedge: Quantile = %v: want a share in (0, 1), or 0 for a fixed delay", cfg.Quantile)
	case cfg.MaxAttempts < 2 || cfg.MaxAttempts > maxHedges:
		return nil, fmt.Errorf("hedge: MaxAttempts = %d: want 2 to %d", cfg.MaxAttempts, maxHedges)
	}
	h := &Hedge[T]{cfg: cfg, life: lifetime.New()}
	h.pace.delay.Store(int64(cfg.Delay))
	return h, nil
}

var (
	errHedgeLost = errors.New("another call of the hedge was first")
	// errFailedValue stands in a HedgeError for a failed call that returned a value, which was discarded.
	errFailedValue = errors.New("the value was a failure")
)

// Execute runs fn, and runs it again beside a call that is late or has failed. It returns the first result that is no
// [Failure]. If all calls fail, it returns the value of the last one with a nil error, if it has one; otherwise the
// error of the only call, or a [*HedgeError]. If a call panics or calls runtime.Goexit before another has won, Execute
// does the same.
func (h *Hedge[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if ctx.Err() != nil {
		return refuse[T](callerErr(ctx))
	}
	if !h.life.Begin() {
		return refuse[T](ErrClosed)
	}
	defer h.life.Done()
	h.cfg.Budget.Note()
	c := &hedgeCall[T]{h: h, ctx: ctx, fn: fn, begun: now(), ends: make(chan hedgeResult[T], h.cfg.MaxAttempts), won: -1}
	c.late = clock.System().NewTimer(h.pace.current())
	defer c.leave()
	c.launch()
	for {
		select {
		case r := <-c.ends:
			if c.take(r) {
				return c.give(r)
			}
		case <-c.late.C():
			c.next(false)
		case <-ctx.Done():
			return refuse[T](callerErr(ctx))
		}
	}
}

// Panics returns how many calls panicked after another had won. Such a panic is not passed on.
func (h *Hedge[T]) Panics() uint64 { return h.panics.Load() }

// Close makes later calls fail with [ErrClosed] and waits for running ones, including those that lost; it cancels none.
// fn must not call it.
func (h *Hedge[T]) Close() error {
	h.life.End()
	return nil
}

// hedgeCall is the state of one call of Execute. Only that goroutine reads and changes it.
type hedgeCall[T any] struct {
	h     *Hedge[T]
	ctx   context.Context
	fn    func(context.Context) (T, error)
	begun time.Time
	ends  chan hedgeResult[T] // has room for the results of all attempts
	late  clock.Timer         // when it fires, the next attempt starts

	cancels []context.CancelCauseFunc // one for each attempt
	running int
	errs    []error // of the failed attempts
	failed  bool    // the first attempt failed
	won     int     // the attempt whose result is returned; -1 means none
	bound   bool    // the context of the winner ends with its value
}

// hedgeResult is how an attempt ended. If it neither returned nor panicked, it called runtime.Goexit.
type hedgeResult[T any] struct {
	attempt        int // number of the attempt, from 0
	value          T
	err            error
	classification Classification
	panicked       *hedgePanic
	exited         bool
}

func (r *hedgeResult[T]) owned() bool { return r.err == nil && !r.exited }

// loses reports whether the attempt cannot win: it failed, or it is a further attempt that an inner policy refused.
func (r *hedgeResult[T]) loses() bool {
	return r.classification == Failure || r.classification == Ignored && r.attempt > 0 && r.err != nil
}

// hedgePanic carries a panic, with its stack, from the goroutine of an attempt to the caller.
type hedgePanic struct {
	value any
	stack []byte
}

func (p *hedgePanic) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

func (p *hedgePanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

func (c *hedgeCall[T]) launch() {
	attempt := len(c.cancels)
	ctx, cancel := context.WithCancelCause(c.ctx)
	c.cancels = append(c.cancels, cancel)
	c.running++
	if attempt > 0 && attempt+1 < c.h.cfg.MaxAttempts {
		c.late.Reset(c.h.pace.current())
	}
	c.h.life.Go(func() {
		r := hedgeResult[T]{attempt: attempt, classification: Ignored, exited: true}
		defer func() {
			if p := recover(); p != nil {
				r.panicked = &hedgePanic{p, debug.Stack()}
			}
			c.ends <- r
		}()
		r.value, r.err = c.fn(ctx)
		r.exited = false
		r.classification = c.h.cfg.Classify.judge(c.ctx, r.value, r.err)
	})
}

func (c *hedgeCall[T]) next(failed bool) bool {
	h := c.h
	if len(c.cancels) == h.cfg.MaxAttempts || c.ctx.Err() != nil || !h.cfg.Budget.Spend() {
		return false
	}
	if h.cfg.Hub.Wants() {
		h.cfg.Hub.Emit(HedgeEvent{At: now(), Name: h.cfg.Name, Attempt: len(c.cancels) + 1, Delay: since(c.begun), Failed: failed})
	}
	c.launch()
	return true
}

// take reports whether a result ends the call, because it is no failure or the last one. Every other failure starts the
// next attempt and is discarded at once, because a response that is kept may hold the connection that the next attempt
// needs.
func (c *hedgeCall[T]) take(r hedgeResult[T]) bool {
	c.running--
	if !r.loses() {
		return true
	}
	if next := r.classification == Failure && c.next(true); !next && c.running == 0 {
		return true
	}
	c.failed = c.failed || r.attempt == 0
	if r.err == nil {
		c.errs = append(c.errs, errFailedValue)
	} else {
		c.errs = append(c.errs, r.err)
	}
	c.drop(r)
	return false
}

func (c *hedgeCall[T]) give(r hedgeResult[T]) (T, error) {
	switch {
	case r.panicked != nil:
		c.drop(r) // needed if the classifier panicked, with a value
		panic(r.panicked)
	case r.exited:
		runtime.Goexit()
	}
	c.note(&r)
	c.won = r.attempt
	if r.loses() && r.err != nil && len(c.errs) > 0 {
		return refuse[T](&HedgeError{Name: c.h.cfg.Name, Errs: append(c.errs, r.err)})
	}
	if r.err != nil || c.h.cfg.Bind == nil {
		return r.value, r.err
	}
	cancel := c.cancels[r.attempt]
	v := c.h.cfg.Bind(r.value, func(error) { cancel(nil) })
	c.bound = true
	return v, nil
}

func (c *hedgeCall[T]) note(r *hedgeResult[T]) {
	h := c.h
	// If another attempt has won, the first one counts with the time that it has taken so far. To leave it out would
	// leave out just the slow ones, and the quantile would sink. A first attempt that failed tells nothing about how
	// long good ones take.
	if h.cfg.Quantile > 0 && r.err == nil && !r.loses() && !c.failed {
		h.pace.add(since(c.begun), h.cfg.Quantile)
	}
	if len(c.cancels) > 1 && h.cfg.Hub.Wants() {
		e := HedgeOutcomeEvent{At: now(), Name: h.cfg.Name, Attempts: len(c.cancels), Winner: r.attempt + 1}
		if r.loses() {
			e.Winner = 0
		}
		h.cfg.Hub.Emit(e)
	}
}

// drop frees the value of an attempt that nobody gets, and then cancels its context.
func (c *hedgeCall[T]) drop(r hedgeResult[T]) {
	cancel := c.cancels[r.attempt]
	if !r.owned() || c.h.cfg.Discard == nil {
		cancel(nil)
		return
	}
	c.h.life.Go(func() {
		defer cancel(nil)
		c.h.cfg.Discard(r.value)
	})
}

// leave ends Execute, also after a panic or an exit. Attempts that are still running have lost.
func (c *hedgeCall[T]) leave() {
	c.late.Stop()
	for i, cancel := range c.cancels {
		switch {
		case i != c.won:
			cancel(errHedgeLost)
		case !c.bound:
			cancel(nil)
		}
	}
	if c.running == 0 {
		return
	}
	c.h.life.Go(func() {
		for range c.running {
			r := <-c.ends
			if r.panicked != nil {
				c.h.panics.Add(1)
			}
			c.drop(r)
		}
	})
}

const (
	paceSamples = 20 // a quantile needs so many latencies: of fewer, the p95 is the slowest
	paceEvery   = 8  // latencies after which the delay is computed again, which takes a sort
)

type hedgePace struct {
	delay atomic.Int64 // in nanoseconds, more than 0

	mu    sync.Mutex // guards what follows
	tail  estimate.Quantile
	fresh int // latencies since the delay was computed
}

func (p *hedgePace) current() time.Duration { return time.Duration(p.delay.Load()) }

func (p *hedgePace) add(latency time.Duration, quantile float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail.Add(latency, estimate.Samples)
	p.fresh++
	if n := p.tail.Len(); n < paceSamples || p.fresh < paceEvery {
		return
	}
	p.fresh = 0
	p.delay.Store(int64(max(p.tail.At(quantile), 1)))
}
