package resilience

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// hubQueue bounds the waiting events, at 64 KiB: a call each of a large crawl that loses its network.
const hubQueue = 1024

// Hub carries events from policies to listeners. Emitting never blocks: events go through a bounded queue to one
// goroutine, which runs only while there are events; [Hub.Dropped] counts those that do not fit. A listener that
// panics is counted and hears the next event. A slow one delays the others, never a policy.
//
// The zero Hub is ready; a nil Hub takes no listeners. All methods are safe for concurrent use.
type Hub struct {
	listeners       atomic.Pointer[[]*listener] // nil while nobody listens; the slice never changes
	dropped, panics atomic.Uint64
	onError         atomic.Pointer[func(error)]

	mu     sync.Mutex // guards what follows, and changes of listeners
	queue  []Event
	missed int           // events that did not fit, of which onError has not heard
	ended  chan struct{} // closed when the delivering goroutine has ended; nil while there is none
	closed bool
}

// listener is known by its address: functions cannot be compared.
type listener struct{ fn func(Event) }

// Subscribe has fn called with every event of type E, of [Event] with all, in order on the hub's goroutine. fn may
// subscribe and unsubscribe, not close the hub. After off, fn is not called again; a call may still run.
func Subscribe[E Event](h *Hub, fn func(E)) (off func()) {
	return h.Any(func(e Event) {
		if e, ok := e.(E); ok {
			fn(e)
		}
	})
}

// Any is [Subscribe] for every event.
func (h *Hub) Any(fn func(Event)) (off func()) {
	if h == nil {
		return func() {}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return func() {}
	}
	l := &listener{fn}
	list := append(slices.Clip(h.list()), l)
	h.listeners.Store(&list)
	return func() { h.remove(l) }
}

func (h *Hub) list() []*listener {
	if list := h.listeners.Load(); list != nil {
		return *list
	}
	return nil
}

func (h *Hub) remove(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(h.list()), func(other *listener) bool { return other == l })
	if h.listeners.Store(&rest); len(rest) == 0 {
		h.listeners.Store(nil)
		h.queue = nil
	}
}

// Wants reports whether anybody listens, to save building events.
func (h *Hub) Wants() bool { return h != nil && h.listeners.Load() != nil }

// Emit hands e to the listeners. It never waits.
func (h *Hub) Emit(e Event) {
	if !h.Wants() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case len(h.queue) >= hubQueue:
		h.dropped.Add(1)
		h.missed++
	case !h.closed && h.Wants():
		h.queue = append(h.queue, e)
		if h.ended == nil {
			h.ended = make(chan struct{})
			go h.deliver(h.ended)
		}
	}
}

// ErrEventDropped says that an event found the queue full and no listener will hear of it.
var ErrEventDropped = errors.New("resilience: event dropped: the hub's queue is full")

// ListenerError says that a listener panicked, or ended its goroutine.
type ListenerError struct {
	Event Event // that it was called with
	Value any   // of the panic; nil after [runtime.Goexit]
}

// Error has the panic's value.
func (e *ListenerError) Error() string {
	return fmt.Sprintf("resilience: a listener panicked at a %T: %v", e.Event, e.Value)
}

// OnError has fn called on the hub's goroutine with the hub's own errors, [ErrEventDropped] or [*ListenerError]. It
// replaces the function before; nil ends that. Panics of fn are discarded.
func (h *Hub) OnError(fn func(error)) {
	if h != nil {
		h.onError.Store(&fn)
	}
}

func (h *Hub) report(err error) {
	defer func() { _ = recover() }()
	if fn := h.onError.Load(); fn != nil && *fn != nil {
		(*fn)(err)
	}
}

// Dropped is how many events found the queue full.
func (h *Hub) Dropped() uint64 {
	if h == nil {
		return 0
	}
	return h.dropped.Load()
}

// Panics is how many calls of listeners ended in a panic or in [runtime.Goexit].
func (h *Hub) Panics() uint64 {
	if h == nil {
		return 0
	}
	return h.panics.Load()
}

// Close refuses further events and listeners, delivers the waiting events and waits for the listeners. Its error is
// nil.
func (h *Hub) Close() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	h.closed = true
	ended := h.ended
	h.mu.Unlock()
	if ended != nil {
		<-ended
	}
	h.listeners.Store(nil)
	return nil
}

func (h *Hub) deliver(ended chan struct{}) {
	whole := false
	defer func() {
		if !whole { // a listener called runtime.Goexit, as a failing test does: the queue lives on
			go h.deliver(ended)
		}
	}()
	for e, missed := h.next(ended); e != nil; e, missed = h.next(ended) {
		for range missed {
			h.report(ErrEventDropped)
		}
		for _, l := range h.list() {
			h.tell(l, e)
		}
	}
	whole = true
}

// next takes an event, and how many were dropped before; nil ends the goroutine.
func (h *Hub) next(ended chan struct{}) (e Event, missed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) == 0 {
		h.ended, h.queue = nil, nil
		close(ended)
		return nil, 0
	}
	e, h.queue = h.queue[0], h.queue[1:]
	missed, h.missed = h.missed, 0
	return e, missed
}

// tell calls one listener, unless another one has just removed it.
func (h *Hub) tell(l *listener, e Event) {
	if !slices.Contains(h.list(), l) {
		return
	}
	whole := false
	defer func() {
		if !whole {
			h.panics.Add(1)
			h.report(&ListenerError{e, recover()}) // nil after runtime.Goexit, which goes on
		}
	}()
	l.fn(e)
	whole = true
}

// Event is something a policy did, one of the types below: at At, by the policy Name, which may be empty.
type Event interface{ event() }

// RetryEvent says that a call failed and will be made again after a delay.
type RetryEvent struct {
	At      time.Time     // when it happened
	Name    string        // of the policy; may be empty
	Attempt int           // which one failed, from 1
	Elapsed time.Duration // since the first was begun
	Delay   time.Duration // until the next
	Err     error         // of the failed one; nil if it was its value that failed
	Last    bool          // the next one is the last
}

// CircuitEvent says that a breaker changed its state.
type CircuitEvent struct {
	At       time.Time // when it happened
	Name     string    // of the policy; may be empty
	From, To State     // before and after
	Forced   bool      // by hand, not by results or by time
}

// TimeoutEvent says that the time for a call was up, or that for the use of its value.
type TimeoutEvent struct {
	At    time.Time     // when it happened
	Name  string        // of the policy; may be empty
	After time.Duration // the time there was
}

// FallbackEvent says that a result was replaced.
type FallbackEvent struct {
	At   time.Time // when it happened
	Name string    // of the policy; may be empty
	Err  error     // of the replaced result; nil if it was its value that failed
}

// BulkheadEvent says that a bulkhead had no place for a call.
type BulkheadEvent struct {
	At               time.Time // when it happened
	Name             string    // of the policy; may be empty
	Key              string    // of the pool within an isolation
	InFlight, Queued int64     // in the pool, at that time
}

// HedgeEvent says that a further call was started beside those under way.
type HedgeEvent struct {
	At      time.Time     // when it happened
	Name    string        // of the policy; may be empty
	Attempt int           // which one was started, from 2
	Delay   time.Duration // since the first was
	Failed  bool          // because another failed, not because it took long
}

// HedgeOutcomeEvent says which call of a hedge gave the result.
type HedgeOutcomeEvent struct {
	At       time.Time // when it happened
	Name     string    // of the policy; may be empty
	Attempts int       // how many were started
	Winner   int       // which one, from 1; zero if all failed
}

// RateLimitedEvent says that a limiter refused a call, or had it wait.
type RateLimitedEvent struct {
	At   time.Time     // when it happened
	Name string        // of the policy; may be empty
	Key  string        // what was limited, a host for example
	Wait time.Duration // until it may go; zero means it is not known
	Err  error         // the refusal; nil if the call waited
}

func (RetryEvent) event()        {}
func (CircuitEvent) event()      {}
func (TimeoutEvent) event()      {}
func (FallbackEvent) event()     {}
func (BulkheadEvent) event()     {}
func (HedgeEvent) event()        {}
func (HedgeOutcomeEvent) event() {}
func (RateLimitedEvent) event()  {}
