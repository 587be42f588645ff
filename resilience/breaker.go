package resilience

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/limit"
)

// BreakerConfig says when a [Breaker] opens and closes. By default five failures in a row open it for 15 s, and one
// success closes it.
type BreakerConfig struct {
	Name string // name of the breaker in errors and events; may be empty

	Window      Window  // which past calls count while the breaker is closed; zero means failures in a row
	Failures    int     // number of failures in a row that opens it, with the consecutive window only; zero means 5
	FailureRate float64 // share of failed calls in the window that opens it, in (0, 1]; zero means 0.5
	MinCalls    int     // number of calls in the window from which shares count; zero means 10, or the whole of a smaller count window

	// SlowCall is the time until a result from which a call counts as slow; the time to use the value is not included.
	// A slow call extends a run of failures, and a slow probe counts as failed. Zero means that no call is slow.
	SlowCall time.Duration
	SlowRate float64 // share of slow calls in the window that opens it, in (0, 1]; zero means 1

	SuccessThreshold int           // number of successful probes that closes it, up to 65535; zero means 1
	BreakFor         time.Duration // time from open to half-open, and time after which a probe without a result counts as lost; zero means 15s
	Clock            limit.Clock   // nil means the system clock
	Hub              *Hub          // receives a [CircuitEvent] at each change of state; nil means no events
}

const (
	defaultBreak    = 15 * time.Second
	defaultMinCalls = 10 // so that one call is a tenth at most
	defaultFailures = 5  // if one call in five fails at random, five in a row happen once in 3,000 calls
)

func (c *BreakerConfig) settle() error {
	run, share := c.Window.kind == byRun, func(x float64) bool { return x >= 0 && x <= 1 }
	for _, f := range []struct {
		field string
		value any
		ok    bool
		want  string
	}{
		{"Window", c.Window, !run || c.FailureRate == 0 && c.SlowRate == 0 && c.MinCalls == 0, "CountWindow or TimeWindow beside FailureRate, SlowRate or MinCalls"},
		{"Window", c.Window, c.Window.wrong() == "", c.Window.wrong()},
		{"Failures", c.Failures, run || c.Failures == 0, "0 beside a window of calls, which opens by FailureRate"},
		{"SlowRate", c.SlowRate, c.SlowCall != 0 || c.SlowRate == 0, "a SlowCall beside it"},
		{"MinCalls", c.MinCalls, c.Window.kind != byCount || c.MinCalls <= c.Window.calls, "no more than the calls of the window"},
		{"Failures", c.Failures, c.Failures >= 0, "1 or more"},
		{"FailureRate", c.FailureRate, share(c.FailureRate), "a share in (0, 1]"},
		{"MinCalls", c.MinCalls, c.MinCalls >= 0, "1 or more"},
		{"SlowRate", c.SlowRate, share(c.SlowRate), "a share in (0, 1]"},
		{"SlowCall", c.SlowCall, c.SlowCall >= 0, "a positive duration"},
		{"SuccessThreshold", c.SuccessThreshold, c.SuccessThreshold >= 0 && c.SuccessThreshold <= math.MaxUint16, "1 to 65535"},
		{"BreakFor", c.BreakFor, c.BreakFor >= 0, "a positive duration"},
	} {
		if !f.ok {
			return fmt.Errorf("breaker: %s = %v: want %s", f.field, f.value, f.want)
		}
	}
	if run {
		c.Failures = cmp.Or(c.Failures, defaultFailures)
	} else {
		c.FailureRate = cmp.Or(c.FailureRate, 0.5)
		c.MinCalls = cmp.Or(c.MinCalls, defaultMinCalls)
		if c.Window.kind == byCount {
			c.MinCalls = min(c.MinCalls, c.Window.calls)
		}
		c.SlowRate = cmp.Or(c.SlowRate, 1)
	}
	c.SuccessThreshold = cmp.Or(c.SuccessThreshold, 1)
	c.BreakFor = cmp.Or(c.BreakFor, defaultBreak)
	c.Clock = cmp.Or(c.Clock, clock.System())
	return nil
}

// Breaker refuses calls to a failing callee until a probe has succeeded. Policies, transports and clients may share it:
// a caller calls Allow before a call and [Ticket.Done] after it. A half-open breaker lets one probe through at a time.
//
// A result counts only if the state has not changed since its call began. All methods are safe for concurrent use.
type Breaker struct {
	cfg   BreakerConfig  // never changes after NewBreaker
	rules breaker.Config // of core
	epoch time.Time      // the instants below count from here
	// closed is the ticket of every call while the breaker is closed, otherwise nil. It spares calls the lock.
	closed atomic.Pointer[breaker.Ticket]

	mu       sync.Mutex // guards what follows
	core     breaker.Breaker
	state    breaker.State // of core, without the passing of time
	changed  clock.Instant // when state began
	isolated bool
	last     clock.Instant // the latest reading: time never goes back
	window   sums
	totals   BreakerCounts
}

// BreakerCounts has the totals since the breaker was made.
type BreakerCounts struct {
	Succeeded uint64 `json:"succeeded"` // calls that succeeded
	Failed    uint64 `json:"failed"`    // calls that failed
	Slow      uint64 `json:"slow"`      // calls among both that were slow
	Ignored   uint64 `json:"ignored"`   // calls that ended as [Ignored]
	Late      uint64 `json:"late"`      // calls that ended after the state had changed
	Rejected  uint64 `json:"rejected"`  // calls refused
	Trips     uint64 `json:"trips"`     // how often the breaker opened
}

// NewBreaker returns a closed breaker. An error names the wrong field.
func NewBreaker(cfg BreakerConfig) (*Breaker, error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	b := &Breaker{cfg: cfg, epoch: cfg.Clock.Now(), window: cfg.Window.sums(), rules: breaker.Config{
		ErrorRate: 1, MinSamples: 1, Consecutive: math.MaxInt, OpenFor: cfg.BreakFor, Probes: cfg.SuccessThreshold,
	}}
	if cfg.Window.kind == byRun {
		b.rules.Consecutive = cfg.Failures
	}
	if err := b.rules.Validate(); err != nil {
		return nil, err
	}
	b.core = breaker.New(&b.rules)
	b.openLocked()
	return b, nil
}

// Name returns the configured name.
func (b *Breaker) Name() string { return b.cfg.Name }

// Ticket stands for one call that was let through. If Done is never called, a half-open breaker waits BreakFor until it
// lets the next probe through. Only one copy of a Ticket may be ended.
type Ticket struct {
	b     *Breaker // nil once it has ended
	call  breaker.Ticket
	begun clock.Instant // set if BreakerConfig.SlowCall is
}

// Allow lets a call through, or refuses it with an [*OpenError].
func (b *Breaker) Allow() (Ticket, error) {
	t := Ticket{b: b}
	if call := b.closed.Load(); call != nil {
		t.call = *call
	} else {
		b.mu.Lock()
		wait, ok := b.admitLocked(&t)
		b.mu.Unlock()
		if !ok {
			return Ticket{}, &OpenError{Name: b.cfg.Name, RetryAfter: wait}
		}
	}
	if b.cfg.SlowCall > 0 {
		t.begun = b.read()
	}
	return t, nil
}

// admitLocked lets a call or a probe through, or returns how long it is until the next probe may pass.
func (b *Breaker) admitLocked(t *Ticket) (wait time.Duration, ok bool) {
	now := b.nowLocked()
	if wait, ok = b.waitLocked(now); !ok {
		b.totals.Rejected++
		return wait, false
	}
	t.call, _, _ = b.core.Allow(now)
	if b.state == breaker.Open {
		b.becomeLocked(now, breaker.HalfOpen, false)
	}
	return 0, true
}

func (b *Breaker) waitLocked(now clock.Instant) (wait time.Duration, ok bool) {
	if b.isolated {
		return 0, false
	}
	at, ok := b.core.Ready(now)
	return max(at.Sub(now), 0), ok
}

// Done ends the ticket with a result. A second Done on the same variable does nothing, so that a deferred Done(Ignored)
// covers a panic.
func (t *Ticket) Done(v Classification) {
	if ended := *t; ended.b != nil {
		t.b = nil
		ended.b.end(ended, v, v != Ignored && ended.slow())
	}
}

func (t *Ticket) slow() bool {
	return t.b.cfg.SlowCall > 0 && t.b.read().Sub(t.begun) >= t.b.cfg.SlowCall
}

// end is Done for a call of which is known whether it was slow.
func (b *Breaker) end(t Ticket, v Classification, slow bool) {
	b.mu.Lock()
	b.recordLocked(t, v, slow)
	b.mu.Unlock()
}

func (b *Breaker) recordLocked(t Ticket, v Classification, slow bool) {
	switch {
	case v == Ignored:
		b.core.Drop(t.call)
		b.totals.Ignored++
		return
	case !b.core.Counts(t.call):
		b.totals.Late++
		return
	}
	one := tally{calls: 1}
	if v == Failure {
		one.failures = 1
		b.totals.Failed++
	} else {
		b.totals.Succeeded++
	}
	if slow {
		one.slow = 1
		b.totals.Slow++
	}
	bad, rate, now := v == Failure || slow, 0.0, b.last
	if b.state == breaker.Closed && b.cfg.Window.kind != byRun && b.weighLocked(one) {
		rate = 1
	}
	if bad || rate > 0 || b.state != breaker.Closed { // a closed breaker reads no clock for a success
		now = b.nowLocked()
	}
	if b.core.Record(now, t.call, bad, rate, int(rate)) {
		b.becomeLocked(now, b.core.State(now), false)
	}
}

// weighLocked adds a call to the window of a closed breaker, and reports whether a threshold is reached. A success can
// do that too: it may complete MinCalls, or displace another success from the window.
func (b *Breaker) weighLocked(one tally) bool {
	now := b.last
	if b.cfg.Window.kind == byTime {
		now = b.nowLocked()
	}
	b.window.add(now, one)
	in := &b.window.sum
	return int(in.calls) >= b.cfg.MinCalls && (in.share(in.failures) >= b.cfg.FailureRate ||
		b.cfg.SlowCall > 0 && in.share(in.slow) >= b.cfg.SlowRate)
}

// becomeLocked follows a change of core. It passes the event to the hub under the lock, to keep the order of changes.
func (b *Breaker) becomeLocked(now clock.Instant, to breaker.State, forced bool) {
	from := b.state
	b.state, b.changed = to, now
	b.closed.Store(nil)
	if to == breaker.Closed {
		b.openLocked()
		b.window.reset() // otherwise the calls that opened it would open it again
	}
	if to == from {
		return
	}
	if to == breaker.Open {
		b.totals.Trips++
	}
	if b.cfg.Hub.Wants() {
		b.cfg.Hub.Emit(CircuitEvent{At: b.epoch.Add(time.Duration(now)), Name: b.cfg.Name, From: from, To: to, Forced: forced})
	}
}

// openLocked lets calls of a closed breaker pass without the lock.
func (b *Breaker) openLocked() {
	t, _, _ := b.core.Allow(0)
	b.closed.Store(&t)
}

func (b *Breaker) read() clock.Instant { return clock.Instant(b.cfg.Clock.Since(b.epoch)) }

// nowLocked returns the time, which never goes back.
func (b *Breaker) nowLocked() clock.Instant {
	b.last = max(b.last, b.read())
	return b.last
}

// State returns the present state. A breaker whose BreakFor has passed is half-open, even before the next call; an
// isolated one is open.
func (b *Breaker) State() breaker.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stateLocked(b.nowLocked())
}

func (b *Breaker) stateLocked(now clock.Instant) breaker.State {
	if b.isolated {
		return breaker.Open
	}
	return b.core.State(now)
}

// Healthy reports whether the breaker is closed. Half-open is not healthy.
func (b *Breaker) Healthy() bool { return b.State() == breaker.Closed }

// Isolate opens the breaker and keeps it open until Reset. Meanwhile the RetryAfter of its refusals is zero.
func (b *Breaker) Isolate() { b.force(breaker.Open) }

// Reset closes the breaker, ends an isolation and clears the window, but not the totals of the snapshot.
func (b *Breaker) Reset() { b.force(breaker.Closed) }

func (b *Breaker) force(to breaker.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isolated = to == breaker.Open
	b.core.Force(b.nowLocked(), to)
	b.becomeLocked(b.last, to, true)
}

// BreakerSnapshot is the state of a breaker at one instant. In JSON, durations are in nanoseconds.
type BreakerSnapshot struct {
	Name       string        `json:"name"`        // of the breaker; may be empty
	State      State         `json:"state"`       // as [Breaker.State] returned it
	Isolated   bool          `json:"isolated"`    // [Breaker.Isolate] keeps it open until Reset
	Since      time.Time     `json:"since"`       // when a call, Isolate or Reset last changed the state, or when the breaker was made
	RetryAfter time.Duration `json:"retry_after"` // time until a call may pass, unless a probe returns before; zero if one may pass now, or if the time is not known

	// The window, by which a closed breaker decides. While it is not closed, a count window keeps the calls from
	// before, a time window forgets them as time passes, and the consecutive window has none.
	Window      string  `json:"window"`
	Calls       int     `json:"calls"`        // in the window; zero for the consecutive one
	Failures    int     `json:"failures"`     // failed calls in the window, or failures in a row
	FailureRate float64 `json:"failure_rate"` // share of failed calls in the window
	SlowRate    float64 `json:"slow_rate"`

	Totals BreakerCounts `json:"totals"` // since the breaker was made
}

// Healthy reports whether the breaker was closed.
func (s BreakerSnapshot) Healthy() bool { return s.State == breaker.Closed }

// Snapshot returns everything there is to see of the breaker at one instant.
func (b *Breaker) Snapshot() BreakerSnapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.nowLocked()
	b.window.see(now)
	in := b.window.sum
	s := BreakerSnapshot{
		Name: b.cfg.Name, State: b.stateLocked(now), Isolated: b.isolated,
		Since:  b.epoch.Add(time.Duration(b.changed)),
		Window: b.cfg.Window.String(), Calls: int(in.calls), Failures: int(in.failures),
		FailureRate: in.share(in.failures), SlowRate: in.share(in.slow), Totals: b.totals,
	}
	if b.cfg.Window.kind == byRun && b.state == breaker.Closed {
		s.Failures = b.core.Consecutive()
	}
	s.RetryAfter, _ = b.waitLocked(now)
	return s
}

// CircuitBreakerConfig configures a [CircuitBreaker].
type CircuitBreakerConfig[T any] struct {
	Classify Classifier[T] // classifies results; nil means DefaultClassifier
	Bind     Bind[T]       // ties the end of a call to the life of its value; nil means that the call ends with Execute
}

// CircuitBreaker is the [Policy] of a [Breaker], which other policies and programs may share.
type CircuitBreaker[T any] struct {
	gate
	core *Breaker
	cfg  CircuitBreakerConfig[T]
}

// NewCircuitBreaker returns the policy of core. Close closes the policy and leaves core as it is.
func NewCircuitBreaker[T any](core *Breaker, cfg CircuitBreakerConfig[T]) (*CircuitBreaker[T], error) {
	if core == nil {
		return nil, errors.New("circuit breaker: core = nil: want one of NewBreaker or Breakers.Get")
	}
	return &CircuitBreaker[T]{core: core, cfg: cfg}, nil
}

// Execute runs fn if the breaker lets the call through; otherwise it fails with an [*OpenError]. A call does not count
// if it fails because ctx has ended, panics, or leaves by runtime.Goexit. Against a callee that hangs, add a timeout.
//
// With a Bind, a failure counts at once, and a success when the life of the value has ended without an error. The time
// for SlowCall ends when fn returns.
func (c *CircuitBreaker[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if err := c.enter(ctx); err != nil { // before it takes the place of a probe in vain
		return refuse[T](err)
	}
	t, err := c.core.Allow()
	if err != nil {
		return refuse[T](err)
	}
	bound := false
	defer func() {
		if !bound {
			t.Done(Ignored)
		}
	}()
	v, err := fn(ctx)
	classification := c.cfg.Classify.judge(ctx, v, err)
	if c.cfg.Bind == nil || err != nil || classification != Success {
		t.Done(classification)
		return v, err
	}
	v = c.bind(ctx, &t, v)
	bound = true
	return v, nil
}

// bind ends the ticket at the end of the value's life. The closure is the only allocation of a call, so keep it small.
func (c *CircuitBreaker[T]) bind(ctx context.Context, t *Ticket, v T) T {
	ticket, slow := *t, t.slow()
	return c.cfg.Bind(v, func(err error) {
		classification := Success
		if err != nil {
			classification = c.cfg.Classify.judge(ctx, v, err)
		}
		c.core.end(ticket, classification, slow && classification != Ignored)
	})
}
