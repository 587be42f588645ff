package resilience

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// hubQueue is how many events may wait, 64 KiB of memory: enough for one event of each call of a large crawl that loses
// its network.
const hubQueue = 1024

// Hub carries events from policies to listeners. Emitting never blocks: events go through a bounded queue to one
// goroutine, which runs only while there are events. [Hub.Dropped] counts the events for which the queue had no room.
// If a listener panics, the panic is counted, and the listener still gets the next event. A slow listener delays the
// others, but never a policy.
//
// The zero Hub is ready for use. A nil Hub ignores listeners and events. All methods are safe for concurrent use.
type Hub struct {
	listeners       atomic.Pointer[[]*listener] // nil while there are none; the slice never changes
	dropped, panics atomic.Uint64
	onError         atomic.Pointer[func(error)]

	mu     sync.Mutex // guards what follows, and changes of listeners
	queue  []Event
	missed int           // events dropped that were not reported to onError yet
	ended  chan struct{} // closed when the delivering goroutine has ended; nil while there is none
	closed bool
}

// listener is identified by its address, because functions cannot be compared.
type listener struct{ fn func(Event) }

// Subscribe has fn called with every event of type E, or with all events if E is [Event]. The calls come in order, on
// the hub's goroutine. fn may subscribe and unsubscribe, but must not close the hub. After off has returned, no new
// call of fn begins; one may still be running.
func Subscribe[E Event](h *Hub, fn func(E)) (off func()) {
	return h.Any(func(e Event) {
		if e, ok := e.(E); ok {
			fn(e)
		}
	})
}

// Any is [Subscribe] for every type of event.
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

// Wants reports whether there is a listener. Callers check it to avoid building events in vain.
func (h *Hub) Wants() bool { return h != nil && h.listeners.Load() != nil }

// Emit queues e for the listeners. It never waits.
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

// ErrEventDropped says that the queue was full, and an event was dropped.
var ErrEventDropped = errors.New("resilience: event dropped: the hub's queue is full")

// ListenerError says that a listener panicked or ended its goroutine.
type ListenerError struct {
	Event Event // the event that it was called with
	Value any   // the value of the panic; nil after [runtime.Goexit]
}

// Error returns a text with the panic's value.
func (e *ListenerError) Error() string {
	return fmt.Sprintf("resilience: a listener panicked at a %T: %v", e.Event, e.Value)
}

// OnError has fn called, on the hub's goroutine, with the hub's own errors: [ErrEventDropped] or a [*ListenerError]. It
// replaces the function set before; nil removes it. Panics of fn are discarded.
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

// Dropped returns how many events were dropped because the queue was full.
func (h *Hub) Dropped() uint64 {
	if h == nil {
		return 0
	}
	return h.dropped.Load()
}

// Panics returns how many calls of listeners ended in a panic or in [runtime.Goexit].
func (h *Hub) Panics() uint64 {
	if h == nil {
		return 0
	}
	return h.panics.Load()
}

// Close refuses further events and listeners, delivers the events in the queue and waits for the listeners. Its error
// is nil.
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
		if !whole { // a listener called runtime.Goexit, as a failing test does: deliver the rest of the queue
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

// next returns the next event, and how many events were dropped before it. A nil event ends the goroutine.
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

// tell calls one listener, unless another listener has just removed it.
func (h *Hub) tell(l *listener, e Event) {
	if !slices.Contains(h.list(), l) {
		return
	}
	whole := false
	defer func() {
		if !whole {
			h.panics.Add(1)
			h.report(&ListenerError{e, recover()}) // recover returns nil after runtime.Goexit, which continues
		}
	}()
	l.fn(e)
	whole = true
}

// Event is something that a policy did: one of the types below. At is when, and Name is that of the policy, which may
// be empty.
type Event interface{ event() }

// RetryEvent says that a call failed and will be made again after a delay.
type RetryEvent struct {
	At      time.Time     // when it happened
	Name    string        // of the policy; may be empty
	Attempt int           // number of the failed attempt, from 1
	Elapsed time.Duration // time since the first attempt began
	Delay   time.Duration // time until the next attempt
	Err     error         // error of the failed attempt; nil if its value was the failure
	Last    bool          // the next attempt is the last
}

// CircuitEvent says that a breaker changed its state.
type CircuitEvent struct {
	At       time.Time // when it happened
	Name     string    // of the policy; may be empty
	From, To State     // before and after
	Forced   bool      // changed by Isolate or Reset, and not by results or time
}

// TimeoutEvent says that the time for a call, or for the use of its value, was up.
type TimeoutEvent struct {
	At    time.Time     // when it happened
	Name  string        // of the policy; may be empty
	After time.Duration // the time that the policy allows
}

// FallbackEvent says that a result was replaced.
type FallbackEvent struct {
	At   time.Time // when it happened
	Name string    // of the policy; may be empty
	Err  error     // error that was replaced; nil if it was a value
}

// BulkheadEvent says that a bulkhead refused a call, because it had no place.
type BulkheadEvent struct {
	At               time.Time // when it happened
	Name             string    // of the policy; may be empty
	Key              string    // key within an isolation; empty for a plain bulkhead
	InFlight, Queued int64     // calls of the bulkhead, or of the key, at that time
}

// HedgeEvent says that a hedge started a further call.
type HedgeEvent struct {
	At      time.Time     // when it happened
	Name    string        // of the policy; may be empty
	Attempt int           // number of the call that was started, from 2
	Delay   time.Duration // time since the first call was started
	Failed  bool          // started because another call failed, and not because it took long
}

// HedgeOutcomeEvent says which of several calls of a hedge gave the result.
type HedgeOutcomeEvent struct {
	At       time.Time // when it happened
	Name     string    // of the policy; may be empty
	Attempts int       // number of calls started
	Winner   int       // number of the call that won, from 1; zero if all failed
}

// RateLimitedEvent says that a limiter refused a call or made it wait.
type RateLimitedEvent struct {
	At   time.Time     // when it happened
	Name string        // of the policy; may be empty
	Key  string        // what was limited, such as a host
	Wait time.Duration // time until the call may go; zero means that it is not known
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
