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
	Name string // in errors and events; zero means none

	Window      Window  // of calls that a closed breaker looks back on; zero means failures in a row
	Failures    int     // in a row that open it, for the consecutive window alone; zero means 5
	FailureRate float64 // share of failed calls in the window that opens it, in (0, 1]; zero means 0.5
	MinCalls    int     // in the window below which no share is looked at; zero means 10, or all of a smaller count window

	// SlowCall is the time to a result from which a call is slow; using the value is not counted. A slow call extends
	// a run of failures, and a slow probe has failed. Zero: none is.
	SlowCall time.Duration
	SlowRate float64 // share of slow calls in the window that opens it, in (0, 1]; zero means 1

	SuccessThreshold int           // successes of probes that close it, up to 65535; zero means 1
	BreakFor         time.Duration // from open to half-open, and until a probe that has not come back is lost; zero means 15s
	Clock            limit.Clock   // zero means the system clock
	Hub              *Hub          // hears of changes of state; zero means nobody does
}

const (
	defaultBreak    = 15 * time.Second
	defaultMinCalls = 10 // so that one call is no more than a tenth
	defaultFailures = 5  // an accident once in 3,000 times for a callee that fails one call in five
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

// Breaker refuses calls to a failing callee until a probe has succeeded. Policies, transports and clients share it: a
// caller asks Allow and reports with [Ticket.Done]. A half-open breaker lets out one probe at a time.
//
// A result counts only in the state in which its call began. All methods are safe for concurrent use.
type Breaker struct {
	cfg   BreakerConfig // never changes after NewBreaker
	epoch time.Time     // of the instants below

	// closedIn is the generation while the breaker is closed, else 0; it spares calls the lock.
	closedIn atomic.Uint32

	mu         sync.Mutex // guards what follows
	state      breaker.State
	generation uint32 // of the state, from 1
	isolated   bool
	last       clock.Instant // the latest reading: time does not go back
	changed    clock.Instant // when state became what it is
	window     sums
	count      int           // failures in a row while closed, successes while half-open
	probe      uint32        // the one that is out; zero: none
	probes     uint32        // so far
	sent       clock.Instant // when probe went out
	totals     BreakerCounts
}

// BreakerCounts are totals since the breaker was made.
type BreakerCounts struct {
	Succeeded uint64 `json:"succeeded"` // calls
	Failed    uint64 `json:"failed"`    // calls
	Slow      uint64 `json:"slow"`      // among both
	Ignored   uint64 `json:"ignored"`   // ended without a classification
	Late      uint64 `json:"late"`      // ended after the state they began in
	Rejected  uint64 `json:"rejected"`  // not let through
	Trips     uint64 `json:"trips"`     // times the breaker opened
}

// NewBreaker returns a closed breaker, or an error that names the field to mend.
func NewBreaker(cfg BreakerConfig) (*Breaker, error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	b := &Breaker{cfg: cfg, epoch: cfg.Clock.Now(), window: cfg.Window.sums(), generation: 1}
	b.closedIn.Store(1)
	return b, nil
}

// Name is the configured name.
func (b *Breaker) Name() string { return b.cfg.Name }

// Ticket is one call that was let through. One without Done costs a half-open breaker its probe for BreakFor. Only one
// copy may be ended.
type Ticket struct {
	b                 *Breaker // nil once it has ended
	generation, probe uint32
	begun             clock.Instant // set if calls may be slow
}

// Allow lets a call through, or refuses it with an [OpenError].
func (b *Breaker) Allow() (Ticket, error) {
	t := Ticket{b: b, generation: b.closedIn.Load()}
	if t.generation == 0 {
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

// admitLocked sends a probe out, or says for how long there is none.
func (b *Breaker) admitLocked(t *Ticket) (wait time.Duration, ok bool) {
	now := b.nowLocked()
	if wait, ok = b.waitLocked(now); !ok {
		b.totals.Rejected++
		return wait, false
	}
	if b.state == breaker.Open {
		b.changeLocked(now, breaker.HalfOpen, false)
	}
	if b.state == breaker.HalfOpen {
		b.probes++
		b.probe, b.sent, t.probe = b.probes, now, b.probes
	}
	t.generation = b.generation
	return 0, true
}

func (b *Breaker) waitLocked(now clock.Instant) (wait time.Duration, ok bool) {
	switch {
	case b.isolated:
		return 0, false
	case b.state == breaker.Open:
		wait = b.changed.AddClamped(b.cfg.BreakFor).Sub(now)
	case b.state == breaker.HalfOpen && b.probe != 0:
		wait = b.sent.AddClamped(b.cfg.BreakFor).Sub(now)
	}
	return max(wait, 0), wait <= 0
}

// Done ends the ticket with a result. A second Done on the variable does nothing, so that a deferred Done(Ignored)
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

// end is Done for a call that is known to be slow or not.
func (b *Breaker) end(t Ticket, v Classification, slow bool) {
	b.mu.Lock()
	b.recordLocked(t, v, slow)
	b.mu.Unlock()
}

func (b *Breaker) recordLocked(t Ticket, v Classification, slow bool) {
	current := t.generation == b.generation
	if current && t.probe != 0 && t.probe == b.probe {
		b.probe = 0
	}
	switch {
	case v == Ignored:
		b.totals.Ignored++
		return
	case !current:
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
	bad := v == Failure || slow
	switch {
	case b.state == breaker.HalfOpen:
		b.count++
		if bad {
			b.changeLocked(b.nowLocked(), breaker.Open, false)
		} else if b.count >= b.cfg.SuccessThreshold {
			b.changeLocked(b.nowLocked(), breaker.Closed, false)
		}
	case b.cfg.Window.kind != byRun:
		b.weighLocked(one)
	case !bad:
		b.count = 0
	default:
		if b.count++; b.count >= b.cfg.Failures {
			b.changeLocked(b.nowLocked(), breaker.Open, false)
		}
	}
}

// weighLocked adds to the window of a closed breaker, and opens it at a threshold: a success too can complete the
// number of calls, or replace one. A count window reads no clock until then.
func (b *Breaker) weighLocked(one tally) {
	now := b.last
	if b.cfg.Window.kind == byTime {
		now = b.nowLocked()
	}
	b.window.add(now, one)
	in := &b.window.sum
	if int(in.calls) >= b.cfg.MinCalls && (in.share(in.failures) >= b.cfg.FailureRate ||
		b.cfg.SlowCall > 0 && in.share(in.slow) >= b.cfg.SlowRate) {
		b.changeLocked(b.nowLocked(), breaker.Open, false)
	}
}

// changeLocked begins a generation. The hub queues the event, under the lock to keep the order of changes.
func (b *Breaker) changeLocked(now clock.Instant, to breaker.State, forced bool) {
	from := b.state
	b.state, b.changed, b.count, b.probe = to, now, 0, 0
	b.generation++
	b.closedIn.Store(0)
	if to == breaker.Closed {
		b.closedIn.Store(b.generation)
		b.window.reset() // or what opened it would open it again
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

func (b *Breaker) read() clock.Instant { return clock.Instant(b.cfg.Clock.Since(b.epoch)) }

// nowLocked is the time, never before what it was.
func (b *Breaker) nowLocked() clock.Instant {
	b.last = max(b.last, b.read())
	return b.last
}

// State is the state now: a breaker whose open time is over is half-open, also before a call; an isolated one is open.
func (b *Breaker) State() breaker.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stateLocked(b.nowLocked())
}

func (b *Breaker) stateLocked(now clock.Instant) breaker.State {
	if _, ok := b.waitLocked(now); ok && b.state == breaker.Open {
		return breaker.HalfOpen
	}
	return b.state
}

// Healthy reports whether the breaker is closed. Half-open is not healthy.
func (b *Breaker) Healthy() bool { return b.State() == breaker.Closed }

// Isolate holds the breaker open until Reset. Refusals then have no time to try again.
func (b *Breaker) Isolate() { b.force(breaker.Open) }

// Reset closes the breaker, ends an isolation and clears the counts, but not the totals of the snapshot.
func (b *Breaker) Reset() { b.force(breaker.Closed) }

func (b *Breaker) force(to breaker.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isolated = to == breaker.Open
	b.changeLocked(b.nowLocked(), to, true)
}

// BreakerSnapshot is a breaker at one instant. Durations are in nanoseconds in JSON.
type BreakerSnapshot struct {
	Name       string        `json:"name"`        // of the breaker; may be empty
	State      State         `json:"state"`       // at that time
	Isolated   bool          `json:"isolated"`    // it is open by hand, until Reset
	Since      time.Time     `json:"since"`       // of the last change that a call or a hand made; the making if there was none
	RetryAfter time.Duration `json:"retry_after"` // until a call may pass if none comes back before; zero when one may now, or when it is not known

	// What a closed breaker weighs; of one that is not, what it weighed last.
	Window      string  `json:"window"`
	Calls       int     `json:"calls"`        // in the window; zero for the consecutive one
	Failures    int     `json:"failures"`     // among them, or in a row
	FailureRate float64 `json:"failure_rate"` // of them
	SlowRate    float64 `json:"slow_rate"`

	Totals BreakerCounts `json:"totals"` // since it was made
}

// Healthy is that of the breaker at that instant.
func (s BreakerSnapshot) Healthy() bool { return s.State == breaker.Closed }

// Snapshot is a copy of everything there is to see, of one instant.
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
		s.Failures = b.count
	}
	s.RetryAfter, _ = b.waitLocked(now)
	return s
}

// CircuitBreakerConfig configures a [CircuitBreaker].
type CircuitBreakerConfig[T any] struct {
	Classify Classifier[T] // nil means DefaultClassifier
	Bind     Bind[T]       // of the value to the ticket; nil means that the call ends with Execute
}

// CircuitBreaker is the [Policy] in front of a [Breaker], which others may share.
type CircuitBreaker[T any] struct {
	gate
	core *Breaker
	cfg  CircuitBreakerConfig[T]
}

// NewCircuitBreaker returns the policy. Close ends it and leaves the core, which is the caller's.
func NewCircuitBreaker[T any](core *Breaker, cfg CircuitBreakerConfig[T]) (*CircuitBreaker[T], error) {
	if core == nil {
		return nil, errors.New("circuit breaker: core = nil: want one of NewBreaker or Breakers.Get")
	}
	return &CircuitBreaker[T]{core: core, cfg: cfg}, nil
}

// Execute runs fn if the breaker lets it, else it fails with an [OpenError]. A call that fails because ctx has ended,
// that panics or that leaves by runtime.Goexit does not count; a callee that hangs needs a timeout.
//
// With a Bind a success counts when the life of the value has ended well, a failure at once. The duration ends when fn
// returns.
func (c *CircuitBreaker[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if err := c.enter(ctx); err != nil { // before it takes the slot of a probe for nothing
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

// bind ends the ticket with the life of the value. The closure is the one allocation of a call: keep it small.
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
