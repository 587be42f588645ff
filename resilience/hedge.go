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
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
)

// HedgeConfig configures a [Hedge].
type HedgeConfig[T any] struct {
	Name string // in errors and events; zero means none

	// Delay is how long a call may take before another is started. With a Quantile it holds for the first 20
	// latencies. Zero: 2 s.
	Delay time.Duration
	// Quantile, in (0, 1), makes the delay that quantile of the last 64 first calls: at 0.95 one call in twenty is
	// hedged. Zero: the delay is fixed.
	Quantile    float64
	MaxAttempts int // bounds the calls, the first included, from 2 to 16. Zero means 2
	// Budget is what further calls are taken from; share it with the retry around. Zero: no bound.
	Budget *Budget

	Classify Classifier[T] // a Failure starts the next call at once; nil means DefaultClassifier
	Bind     Bind[T]       // of the value to the context of its call; nil means that it ends with Execute
	Discard  func(T)       // frees a value that nobody gets, on any goroutine; nil means nothing to free

	Hub *Hub // hears of further calls; zero means nobody does
}

const (
	defaultHedgeDelay = 2 * time.Second // longer than nearly every answer of a web server that works
	maxHedges         = 16
)

// Hedge is a [Policy] against the slow tail: a call that takes long gets a second one beside it, and the first good
// result counts. Only for calls that may be made twice.
//
// Each call runs on a goroutine with its own context. The contexts of losers end, with a cause that says so, and their
// results are discarded; Execute waits for none. The winner's context lives as long as its value.
type Hedge[T any] struct {
	cfg    HedgeConfig[T]
	pace   hedgePace
	panics atomic.Uint64

	mu     sync.Mutex // orders closed and work
	closed bool
	work   sync.WaitGroup // calls of Execute, and goroutines
}

// NewHedge returns the policy, or an error that names the field to mend.
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
	h := &Hedge[T]{cfg: cfg}
	h.pace.delay.Store(int64(cfg.Delay))
	return h, nil
}

var (
	errHedgeLost = errors.New("another call of the hedge was first")
	// errFailedValue stands in a HedgeError for a value that was discarded.
	errFailedValue = errors.New("the value was a failure")
)

// Execute runs fn, and again beside a call that is late or has failed. It returns the first result that is no Failure.
// If all are, it returns the last value if it has one, and the error of the only call or a [HedgeError]. A panic or
// runtime.Goexit of a call that has not lost goes on in the caller.
func (h *Hedge[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if ctx.Err() != nil {
		return refuse[T](callerErr(ctx))
	}
	if !h.enter() {
		return refuse[T](ErrClosed)
	}
	defer h.work.Done()
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

func (h *Hedge[T]) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.work.Add(1)
	}
	return !h.closed
}

// Panics is how many calls that had lost ended in a panic, which can go on nowhere.
func (h *Hedge[T]) Panics() uint64 { return h.panics.Load() }

// Close makes later calls fail with [ErrClosed] and waits for those that run, losers included; it cancels none. fn
// must not call it.
func (h *Hedge[T]) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.work.Wait()
	return nil
}

// hedgeCall is one call of Execute, whose goroutine alone reads and changes it.
type hedgeCall[T any] struct {
	h     *Hedge[T]
	ctx   context.Context
	fn    func(context.Context) (T, error)
	begun time.Time
	ends  chan hedgeResult[T] // has room for all
	late  clock.Timer         // of the next attempt

	cancels []context.CancelCauseFunc // of the attempts
	running int
	errs    []error // of the failures
	failed  bool    // the first attempt is one of them
	won     int     // the attempt whose result is the call's; -1: none
	bound   bool    // its context ends with its value
}

// hedgeResult is how an attempt ended; one that neither returned nor panicked has exited.
type hedgeResult[T any] struct {
	attempt        int // from 0
	value          T
	err            error
	classification Classification
	panicked       *hedgePanic
	exited         bool
}

func (r *hedgeResult[T]) owned() bool { return r.err == nil && !r.exited }

// loses reports whether the attempt cannot be the result: a failure, or a further call that was not made.
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
	c.h.work.Go(func() {
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

// take reports whether a result decides the call: it is no failure, or the last. Any other starts the next attempt,
// and is discarded at once, as a kept response may hold the connection that the next needs.
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
		c.drop(r) // if it was the classifier that panicked
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
	// Where another has won, the first counts with the time it had: leaving it out would leave out just the slow
	// ones, so that the quantile would sink. A first one that failed says nothing of how long good ones take.
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

// drop frees the value of an attempt that nobody gets, and then its context.
func (c *hedgeCall[T]) drop(r hedgeResult[T]) {
	cancel := c.cancels[r.attempt]
	if !r.owned() || c.h.cfg.Discard == nil {
		cancel(nil)
		return
	}
	c.h.work.Go(func() {
		defer cancel(nil)
		c.h.cfg.Discard(r.value)
	})
}

// leave ends Execute, also where a panic or an exit does. What is still to come has lost.
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
	c.h.work.Go(func() {
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
	paceSamples = 20 // latencies that a quantile needs: of fewer the p95 is the slowest
	paceEvery   = 8  // latencies after which it is found again, which needs a sort
)

type hedgePace struct {
	delay atomic.Int64 // in nanoseconds, more than 0

	mu    sync.Mutex // guards what follows
	tail  estimate.Quantile
	fresh int // latencies since the delay was found
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
