package resilience

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

var errHedgeLost = errors.New("another call of the hedge was first")

// errFailedValue stands in a HedgeError for a value that was discarded.
var errFailedValue = errors.New("the value was a failure")

// hedgeCall is one call of Execute. Its attempts finish on their goroutines, and the one
// whose result decides the call says so under the lock; the others have lost.
type hedgeCall[T any] struct {
	h     *Hedge[T]
	ctx   context.Context
	fn    func(context.Context) (T, error)
	first scopeContext
	begun clock.Instant

	// The caller's own.
	took    time.Duration // by the first attempt; only with a quantile
	judging bool          // held is the first attempt's result
	held    hedgeResult[T]
	given   bool // the result is on its way to the caller
	bound   bool // the winner's context ends with its value

	mu      sync.Mutex                // guards what follows
	timer   *hedgeTimer[T]            // of the next attempt
	fired   bool                      // the timer has been, perhaps, and is not used again
	cancels []context.CancelCauseFunc // of the further attempts, by their number less one
	started int
	running int
	errs    []error // of the failures
	failed  bool    // the first attempt is one of them
	decided bool
	lost    bool           // all have failed
	result  hedgeResult[T] // that decided
	done    chan struct{}  // closed when it is decided; nil unless the caller waits
}

type hedgeResult[T any] struct {
	attempt        int // from 0
	value          T
	err            error
	classification Classification
	panicked       *hedgePanic
	exited         bool // neither returned nor panicked
}

func (r *hedgeResult[T]) owned() bool { return r.err == nil && !r.exited }

// hedgePanic carries a panic from the goroutine of an attempt to the caller, with the
// stack that would be lost on the way.
type hedgePanic struct {
	value any
	stack []byte
}

func (p *hedgePanic) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

func (p *hedgePanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// attempt runs fn for a further attempt on its goroutine and finishes, whatever comes.
func (c *hedgeCall[T]) attempt(ctx context.Context, attempt int) {
	r := hedgeResult[T]{attempt: attempt, exited: true}
	returned := false
	defer func() {
		if p := recover(); p != nil {
			r.panicked = &hedgePanic{p, debug.Stack()}
			r.classification = Ignored
		} else if !returned {
			r.classification = Ignored // by runtime.Goexit
		}
		c.finish(r)
	}()
	r.value, r.err = c.fn(ctx)
	r.exited = false
	r.classification = c.h.cfg.Classify.judge(c.ctx, r.value, r.err)
	returned = true
}

// finish takes a result. The first that is no failure decides the call, as does a failure
// after which nothing is left; any other starts the next attempt, if there may be one.
// Its value is discarded at once: kept for a case that may never be, a response would
// hold the one connection that the next attempt waits for.
func (c *hedgeCall[T]) finish(r hedgeResult[T]) {
	next := r.classification == Failure && c.may() // before the lock: the budget has its own
	c.mu.Lock()
	if c.decided { // it has lost
		c.mu.Unlock()
		if r.panicked != nil {
			c.h.work.count(&c.h.work.stats.Panics)
		}
		c.drop(r)
		return
	}
	c.running--
	next = next && c.started < c.h.cfg.MaxAttempts
	if loses := r.loses(); !loses || !next && c.running == 0 {
		c.lost = loses
		c.decideLocked(r)
		c.mu.Unlock()
		c.cancel(r.attempt)
		return
	}
	attempt := c.failLocked(&r, next)
	c.mu.Unlock()
	c.drop(r)
	if next {
		c.launch(attempt, true)
	}
}

// loses reports whether the attempt cannot be what the call comes to: it is a failure, or
// a further one that was not made at all, as where there was no place for it.
func (r *hedgeResult[T]) loses() bool {
	return r.classification == Failure || r.classification == Ignored && r.attempt > 0 && r.err != nil
}

func (c *hedgeCall[T]) failLocked(r *hedgeResult[T], next bool) (attempt int) {
	c.failed = c.failed || r.attempt == 0
	if r.err == nil {
		c.errs = append(c.errs, errFailedValue)
	} else {
		c.errs = append(c.errs, r.err)
	}
	if next {
		attempt = c.takeLocked()
	}
	return attempt
}

// takeLocked takes a number for an attempt and counts it as running, so that nobody
// takes the call for lost before it is launched.
func (c *hedgeCall[T]) takeLocked() (attempt int) {
	c.started++
	c.running++
	return c.started - 1
}

// decideLocked makes r the result. From then on nothing is started, and cancels stays as
// it is.
func (c *hedgeCall[T]) decideLocked(r hedgeResult[T]) {
	c.decided, c.result = true, r
	if c.done != nil {
		close(c.done)
	}
}

// cancel ends the contexts of all attempts but the one to keep, -1 for none, of a call
// that has been decided.
func (c *hedgeCall[T]) cancel(keep int) {
	if keep != 0 {
		c.first.cancel(errHedgeLost)
	}
	for i, cancel := range c.cancels {
		if i+1 != keep && cancel != nil {
			cancel(errHedgeLost)
		}
	}
}

// end ends the context of an attempt that has come back.
func (c *hedgeCall[T]) end(attempt int) {
	if attempt == 0 {
		c.first.end()
		return
	}
	c.mu.Lock()
	cancel := c.cancels[attempt-1]
	c.mu.Unlock()
	cancel(nil)
}

// drop discards a value beside the call and ends the context of its attempt. That of a
// failure lives until then, so that a body can be read to its end.
func (c *hedgeCall[T]) drop(r hedgeResult[T]) {
	if !r.owned() || c.h.cfg.Discard == nil {
		c.end(r.attempt)
		return
	}
	c.h.work.spawn(func() {
		defer c.end(r.attempt)
		c.h.cfg.Discard(r.value)
	})
}

func (c *hedgeCall[T]) may() bool {
	c.mu.Lock()
	may := !c.decided && c.started < c.h.cfg.MaxAttempts
	c.mu.Unlock()
	if !may || c.ctx.Err() != nil {
		return false
	}
	if !c.h.cfg.Budget.Spend() {
		c.h.work.count(&c.h.work.stats.Denied)
		return false
	}
	return true
}

// arm has late called after the delay, unless the call has been decided.
func (c *hedgeCall[T]) arm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch delay := c.h.pace.current(); {
	case c.decided:
	case c.timer == nil:
		c.timer = c.h.timer(c, delay)
	default:
		c.fired = !c.timer.t.Reset(delay) || c.fired
	}
}

// hedgeTimer tells one call after the other that it is late: to make a timer costs more.
type hedgeTimer[T any] struct {
	t    *time.Timer
	call atomic.Pointer[hedgeCall[T]]
}

func (h *Hedge[T]) timer(c *hedgeCall[T], delay time.Duration) *hedgeTimer[T] {
	if t, ok := h.timers.Get().(*hedgeTimer[T]); ok {
		t.call.Store(c)
		t.t.Reset(delay)
		return t
	}
	t := new(hedgeTimer[T])
	t.call.Store(c)
	t.t = time.AfterFunc(delay, func() { t.call.Load().late() }) //nolint:forbidigo // in the time of contexts; nothing waits on it
	return t
}

func (c *hedgeCall[T]) late() {
	if !c.h.work.begin() {
		return
	}
	defer c.h.work.leave()
	if !c.may() {
		return
	}
	c.mu.Lock()
	if c.decided || c.started == c.h.cfg.MaxAttempts { // in between; what was spent is spent
		c.mu.Unlock()
		return
	}
	attempt := c.takeLocked()
	c.mu.Unlock()
	c.launch(attempt, false)
}

func (c *hedgeCall[T]) launch(attempt int, failed bool) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	c.mu.Lock()
	if c.decided {
		c.mu.Unlock()
		cancel(errHedgeLost)
		return
	}
	for len(c.cancels) < attempt { // of two that are launched at once the later may be first here
		c.cancels = append(c.cancels, nil)
	}
	c.cancels[attempt-1] = cancel
	c.mu.Unlock()
	h := c.h
	h.work.count(&h.work.stats.Hedges) // and the event, before the attempt can end the call
	if h.cfg.Hub.Wants() {
		delay := h.now().Sub(c.begun)
		h.cfg.Hub.Emit(HedgeEvent{At: h.cfg.Clock.Now(), Name: h.cfg.Name, Attempt: attempt + 1, Delay: delay, Failed: failed})
	}
	if attempt+1 < h.cfg.MaxAttempts {
		c.arm()
	}
	h.work.spawn(func() { c.attempt(ctx, attempt) })
}

func (c *hedgeCall[T]) outcome() (T, error) {
	if !c.await() {
		return refuse[T](callerErr(c.ctx))
	}
	c.given = true
	r := &c.result // nobody changes it any more
	switch {
	case r.panicked != nil:
		c.drop(*r) // if it was the classifier that panicked
		panic(r.panicked)
	case r.exited:
		runtime.Goexit()
	}
	c.note(r)
	if c.lost && r.err != nil && len(c.errs) > 0 {
		return refuse[T](&HedgeError{Name: c.h.cfg.Name, Errs: append(c.errs, r.err)})
	}
	if r.err != nil || c.h.cfg.Bind == nil {
		return r.value, r.err
	}
	v := c.h.cfg.Bind(r.value, func(error) { c.end(r.attempt) })
	c.bound = true
	return v, nil
}

// await waits until the call is decided. It is not if ctx ends first.
func (c *hedgeCall[T]) await() bool {
	c.mu.Lock()
	if c.decided {
		c.mu.Unlock()
		return true
	}
	done := make(chan struct{})
	c.done = done
	c.mu.Unlock()
	select {
	case <-done:
	case <-c.ctx.Done():
		// The attempts may take their time to see it. If one decided just now, so be it.
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	return c.decided
}

func (c *hedgeCall[T]) note(r *hedgeResult[T]) {
	h := c.h
	// Where another has won, took is the time the first had, see hedgePace.add. A first
	// one that failed says nothing of how long good ones take.
	if h.cfg.Quantile > 0 && r.err == nil && !c.lost && !c.failed {
		h.pace.add(c.took, h.cfg.Quantile)
	}
	winner := r.attempt + 1
	switch {
	case c.lost:
		winner = 0
		h.work.count(&h.work.stats.Failed)
	case r.attempt > 0:
		h.work.count(&h.work.stats.Won)
	}
	if c.started > 1 && h.cfg.Hub.Wants() {
		h.cfg.Hub.Emit(HedgeOutcomeEvent{At: h.cfg.Clock.Now(), Name: h.cfg.Name, Attempts: c.started, Winner: winner})
	}
}

// leave ends Execute, also where a panic or an exit does. What is still to come has lost.
func (c *hedgeCall[T]) leave() {
	c.mu.Lock()
	decided := c.decided
	if !decided {
		c.decideLocked(hedgeResult[T]{attempt: -1, exited: true})
	}
	if c.timer.t.Stop() && !c.fired { // nobody arms it any more
		c.timer.call.Store(nil)
		c.h.timers.Put(c.timer)
	}
	c.mu.Unlock()
	switch {
	case !decided: // a panic, an exit, or a caller who has left
		c.cancel(-1)
	case !c.given: // the first attempt panicked when another had won
		c.drop(c.result)
	case !c.bound && c.result.panicked == nil:
		c.end(c.result.attempt)
	}
	if c.judging {
		c.drop(c.held)
	}
	c.h.work.leave()
}
