package resilience

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// Breaker refuses calls to a callee that fails, until a probe has shown that it works
// again. It is the core that policies, transports and clients share: who may call asks
// Allow and reports with [Ticket.Done]. The states are those of package breaker, whose
// machine it drives; here are the lock, the clock, the windows and the events.
//
// A result counts in the state in which its call began, and in no later one. All methods
// are safe for concurrent use. Nothing is called with the lock held.
type Breaker struct {
	cfg   BreakerConfig // never changes after NewBreaker
	epoch time.Time     // of the instants below

	// closedIn is the machine's generation while it is closed, else 0: what a call of a
	// closed breaker has to know, so that it need not wait for the lock.
	closedIn atomic.Uint32

	mu       sync.Mutex // guards what follows
	machine  breaker.Breaker
	lookback lookback
	told     breaker.State // the machine's, without the time that may have passed since
	isolated bool
	last     clock.Instant // the latest reading: time does not go back
	changed  clock.Instant // when told became what it is
	trips    int           // since it was last closed
	counts   BreakerCounts
	events   []CircuitEvent // not emitted yet
	emitting bool           // somebody is at it
}

// BreakerCounts are totals since the breaker was made.
type BreakerCounts struct {
	Succeeded uint64 `json:"succeeded"`
	Failed    uint64 `json:"failed"`
	Slow      uint64 `json:"slow"`     // among both
	Ignored   uint64 `json:"ignored"`  // ended without a classification
	Late      uint64 `json:"late"`     // ended after the state they began in
	Rejected  uint64 `json:"rejected"` // not let through
	Trips     uint64 `json:"trips"`    // times the breaker opened
}

// NewBreaker returns a closed breaker, or an error that names the field to mend.
func NewBreaker(cfg BreakerConfig) (*Breaker, error) {
	t, err := newLookback(cfg.Window)
	if err != nil {
		return nil, err
	}
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	b := &Breaker{cfg: cfg, epoch: cfg.Clock.Now(), lookback: t}
	b.machine = breaker.NewWide(cfg.machine(), cfg.HalfOpenMax)
	b.closedIn.Store(b.machine.Generation())
	return b, nil
}

// Name is the configured name.
func (b *Breaker) Name() string { return b.cfg.Name }

// Ticket is one call that was let through. It ends with Done; one that never does costs
// a half-open breaker its slot until the probe timeout. Only one copy may be ended.
type Ticket struct {
	b     *Breaker // nil once it has ended
	t     breaker.Ticket
	begun clock.Instant // set if calls may be slow
}

// Allow lets a call through, or refuses it with an [OpenError].
func (b *Breaker) Allow() (Ticket, error) {
	t := Ticket{b: b}
	if g := b.closedIn.Load(); g != 0 {
		t.t = breaker.TicketOf(g)
	} else if err := b.probe(&t); err != nil {
		return Ticket{}, err
	}
	if b.cfg.SlowCall > 0 {
		t.begun = b.read()
	}
	return t, nil
}

func (b *Breaker) probe(t *Ticket) error {
	b.mu.Lock()
	now := b.nowLocked()
	var retryAt clock.Instant
	ok := !b.isolated // or the time would say that it is half-open
	if retryAt = now; ok {
		t.t, retryAt, ok = b.machine.Allow(now)
	}
	if !ok {
		b.counts.Rejected++
		b.mu.Unlock()
		return &OpenError{Name: b.cfg.Name, RetryAfter: retryAt.Sub(now)}
	}
	b.noteLocked(now, false)
	b.mu.Unlock()
	b.emit()
	return nil
}

// Done ends the ticket with what the call has shown. A second Done on the same variable
// does nothing, so that a deferred Done(Ignored) covers a panic.
func (t *Ticket) Done(v Classification) { t.end(v, v != Ignored && t.slow()) }

func (t *Ticket) slow() bool {
	return t.b != nil && t.b.cfg.SlowCall > 0 && t.b.read().Sub(t.begun) >= t.b.cfg.SlowCall
}

// end is Done for a call that is known to be slow or not.
func (t *Ticket) end(v Classification, slow bool) {
	if b := t.b; b != nil {
		t.b = nil
		b.end(t.t, v, slow)
	}
}

func (b *Breaker) end(t breaker.Ticket, v Classification, slow bool) {
	b.mu.Lock()
	tripped := b.recordLocked(t, v, slow)
	news := len(b.events) > 0
	b.mu.Unlock()
	if tripped {
		b.lengthen()
	}
	if news {
		b.emit()
	}
}

func (b *Breaker) recordLocked(t breaker.Ticket, v Classification, slow bool) (tripped bool) {
	if v == Ignored {
		b.counts.Ignored++
		b.machine.Drop(t)
		return false
	}
	if !b.machine.Counts(t) {
		b.counts.Late++
		return false
	}
	r := b.countLocked(v, slow)
	if b.told != breaker.Closed {
		now := b.nowLocked()
		return b.machine.Record(now, t, r != 0, 0, 0) && b.noteLocked(now, false)
	}
	if b.cfg.Window.kind != byRun {
		return b.weighLocked(t, r)
	}
	now := b.last
	if r != 0 {
		now = b.nowLocked() // only a failure can change the state
	}
	return b.machine.Record(now, t, r != 0, 0, 0) && b.noteLocked(now, false)
}

func (b *Breaker) countLocked(v Classification, slow bool) (r callResult) {
	if v == Failure {
		r = callFailed
		b.counts.Failed++
	} else {
		b.counts.Succeeded++
	}
	if slow {
		r |= callSlow
		b.counts.Slow++
	}
	return r
}

// weighLocked adds to the window of a closed breaker, and opens it if a share of the
// calls in view has reached its threshold: also a success can be the call that makes
// them enough, or take the place of one. A count window reads no clock until then.
func (b *Breaker) weighLocked(t breaker.Ticket, r callResult) bool {
	now := b.last
	if b.cfg.Window.kind == byTime {
		now = b.nowLocked()
	}
	b.lookback.add(now, r)
	if b.lookback.clean(now) {
		return false
	}
	s := b.lookback.sum(now)
	if s.calls < b.cfg.MinCalls || s.share(s.failures) < b.cfg.FailureRate &&
		(b.cfg.SlowCall == 0 || s.share(s.slow) < b.cfg.SlowRate) {
		return false
	}
	now = b.nowLocked()
	return b.machine.Record(now, t, r&callFailed != 0, 1, s.calls) && b.noteLocked(now, false)
}

// noteLocked takes note of what the machine has become and reports whether it tripped.
// The event is left for emit.
func (b *Breaker) noteLocked(now clock.Instant, forced bool) (tripped bool) {
	from := b.told
	b.told = b.machine.State(now)
	if _, open := b.machine.Until(); open {
		b.told = breaker.Open // State would see the time that has passed
	}
	b.closedIn.Store(0)
	if b.told == breaker.Closed {
		b.closedIn.Store(b.machine.Generation())
	}
	if b.told == from {
		return false
	}
	b.changed = now
	tripped = b.told == breaker.Open
	switch {
	case tripped:
		b.trips++
		b.counts.Trips++
	case b.told == breaker.Closed:
		b.trips = 0
		b.lookback.reset() // or what opened it would open it again
	}
	if b.cfg.Hub.Wants() {
		at := b.epoch.Add(time.Duration(now))
		b.events = append(b.events, CircuitEvent{At: at, Name: b.cfg.Name, From: from, To: b.told, Forced: forced})
	}
	return tripped
}

// lengthen asks how long the trip that has just been lasts. Until the answer is there,
// and if there is none because Break panics, it lasts for BreakFor.
func (b *Breaker) lengthen() {
	if b.cfg.Break == nil {
		return
	}
	b.mu.Lock()
	trips, generation := b.trips, b.machine.Generation()
	b.mu.Unlock()
	if trips == 0 {
		return
	}
	d := b.cfg.Break(trips)
	b.mu.Lock()
	if b.machine.Generation() == generation {
		b.machine.SetOpenFor(d)
	}
	b.mu.Unlock()
}

// emit passes the events on in their order. Who finds another at it leaves them to it.
func (b *Breaker) emit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.emitting {
		return
	}
	b.emitting = true
	for len(b.events) > 0 {
		e := b.events[0]
		b.events = b.events[1:]
		b.mu.Unlock()
		b.cfg.Hub.Emit(e)
		b.mu.Lock()
	}
	b.emitting, b.events = false, nil
}

func (b *Breaker) read() clock.Instant { return clock.Instant(b.cfg.Clock.Since(b.epoch)) }

// nowLocked is the time, never before what it was.
func (b *Breaker) nowLocked() clock.Instant {
	b.last = max(b.last, b.read())
	return b.last
}

// State is where the breaker stands now: one whose open time is over is half-open,
// whether or not a call has come since; an isolated one is open.
func (b *Breaker) State() breaker.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stateLocked()
}

func (b *Breaker) stateLocked() breaker.State {
	if b.isolated {
		return breaker.Open
	}
	return b.machine.State(b.nowLocked())
}

// Healthy reports whether the breaker is closed. Half-open is not healthy: nothing but a
// probe passes, and nobody knows yet how it ends.
func (b *Breaker) Healthy() bool { return b.State() == breaker.Closed }

// Trip opens the breaker as enough failures would. One that is open already is open for
// its whole time again.
func (b *Breaker) Trip() {
	b.force(func() { b.machine.Trip(b.nowLocked()) })
	b.lengthen()
}

// Isolate holds the breaker open until Reset, whatever the time: for a callee that is
// known to be away. Refusals then say no time to try again.
func (b *Breaker) Isolate() {
	b.force(func() {
		b.isolated = true
		b.machine.Trip(b.nowLocked())
	})
}

// Reset closes the breaker, ends an isolation and forgets what led to either. The totals
// of the snapshot stay.
func (b *Breaker) Reset() {
	b.force(func() {
		b.isolated = false
		b.machine.Reset(b.nowLocked())
		b.lookback.reset()
	})
}

func (b *Breaker) force(change func()) {
	b.mu.Lock()
	change()
	b.noteLocked(b.last, true)
	b.mu.Unlock()
	b.emit()
}

// BreakerSnapshot is a breaker at one instant. Durations are in nanoseconds in JSON.
type BreakerSnapshot struct {
	Name       string        `json:"name"`
	State      breaker.State `json:"state"`
	Isolated   bool          `json:"isolated"`
	Since      time.Time     `json:"since"`       // of the last change that a call or a hand made; the making if there was none
	RetryAfter time.Duration `json:"retry_after"` // until a call may pass if none comes back before; zero when one may now, or when it is not known

	// What a closed breaker weighs; of one that is not, what it weighed last.
	Window      string  `json:"window"`
	Calls       int     `json:"calls"`        // in the window; zero for the consecutive one
	Failures    int     `json:"failures"`     // among them, or in a row
	FailureRate float64 `json:"failure_rate"` // of them
	SlowRate    float64 `json:"slow_rate"`

	Trips  int           `json:"trips"`  // since it was last closed
	Totals BreakerCounts `json:"totals"` // since it was made
}

// Healthy is that of the breaker at that instant.
func (s BreakerSnapshot) Healthy() bool { return s.State == breaker.Closed }

// Snapshot is a copy of everything there is to see, of one instant.
func (b *Breaker) Snapshot() BreakerSnapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.nowLocked()
	in := b.lookback.sum(now)
	s := BreakerSnapshot{
		Name: b.cfg.Name, State: b.stateLocked(), Isolated: b.isolated,
		Since:  b.epoch.Add(time.Duration(b.changed)),
		Window: b.cfg.Window.String(), Calls: in.calls, Failures: in.failures,
		FailureRate: in.share(in.failures), SlowRate: in.share(in.slow),
		Trips: b.trips, Totals: b.counts,
	}
	if b.cfg.Window.kind == byRun {
		s.Failures = b.machine.Consecutive()
	}
	if at, ok := b.machine.Ready(now); !ok && !b.isolated {
		s.RetryAfter = at.Sub(now)
	}
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

// NewCircuitBreaker returns the policy. The core stays the caller's: Close ends the
// policy and leaves the core as it is.
func NewCircuitBreaker[T any](core *Breaker, cfg CircuitBreakerConfig[T]) (*CircuitBreaker[T], error) {
	if core == nil {
		return nil, errors.New("circuit breaker: core = nil: want one of NewBreaker or Breakers.Get")
	}
	return &CircuitBreaker[T]{core: core, cfg: cfg}, nil
}

// Breaker is the core.
func (c *CircuitBreaker[T]) Breaker() *Breaker { return c.core }

// Execute runs fn if the breaker lets it, else it fails with an [OpenError]. A call that
// fails because ctx has ended, one that panics and one that leaves by runtime.Goexit say
// nothing of the callee: they end the ticket without a classification. What says nothing is a
// caller that was impatient; for a callee that hangs put a timeout inside or outside.
//
// With a Bind a success stands only when the life of the value has ended well, while a
// failure is one at once. How slow a call was is known when fn returns.
func (c *CircuitBreaker[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if c.shut() {
		return refuse[T](ErrClosed)
	}
	if ctx.Err() != nil { // would take the slot of a probe for nothing
		return refuse[T](callerErr(ctx))
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

// bind ends the ticket with the life of the value. The function holds no more than it
// must: it is the one allocation of a call.
func (c *CircuitBreaker[T]) bind(ctx context.Context, t *Ticket, v T) T {
	ticket, slow := t.t, t.slow()
	return c.cfg.Bind(v, func(err error) {
		classification := Success
		if err != nil {
			classification = c.cfg.Classify.judge(ctx, v, err)
		}
		c.core.end(ticket, classification, slow && classification != Ignored)
	})
}
