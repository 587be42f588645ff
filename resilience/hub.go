package resilience

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// hubQueue is how many events wait for the listeners. A burst of a thousand, one per
// call of a large crawl that loses its network, is 64 KiB of boxed events at most.
const hubQueue = 1024

// Hub carries events from policies to listeners. Emitting never waits: events go through
// a bounded queue to one goroutine, which runs from the first listener to the last, and
// what does not fit is counted by [Hub.Dropped]. A listener that panics is counted too
// and hears the next event. One that is slow delays the others, never a policy.
//
// The zero Hub is ready, a nil Hub has no listeners and takes none. All methods are safe
// for concurrent use. A Hub with listeners must be closed or left by all of them.
type Hub struct {
	line            atomic.Pointer[hubLine] // nil while nobody listens
	dropped, panics atomic.Uint64
	onError         atomic.Pointer[func(error)]

	mu     sync.Mutex // guards what follows, and changes of line and of its listeners
	last   *hubLine   // the line that was started last, which may have ended
	closed bool
}

// hubLine is one run of the delivering goroutine, from a first listener to a last.
type hubLine struct {
	queue     chan Event
	listeners atomic.Pointer[[]*listener] // the slice never changes
	stop      chan struct{}               // closed when no further event is to come
	ended     chan struct{}               // closed when the goroutine has ended
}

// listener is known by its address: functions cannot be compared.
type listener struct{ fn func(Event) }

// Subscribe has fn called with every event of type E; of [Event] itself that is every
// event there is. fn is called on the hub's goroutine, one event at a time in the order
// in which they were emitted. It may subscribe and unsubscribe, but not close the hub.
// After off has returned fn is not called again, though a call may still be running.
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
	line := h.line.Load()
	if line == nil {
		line = h.startLocked()
	}
	l := &listener{fn}
	line.set(append(slices.Clip(*line.listeners.Load()), l))
	return func() { h.remove(line, l) }
}

// startLocked starts a goroutine that delivers once the one before it has ended, so that
// there is one at a time also for a hub whose listeners come and go.
func (h *Hub) startLocked() *hubLine {
	line := &hubLine{
		queue: make(chan Event, hubQueue),
		stop:  make(chan struct{}),
		ended: make(chan struct{}),
	}
	line.set(nil)
	go h.deliver(line, h.last)
	h.last = line
	h.line.Store(line)
	return line
}

func (l *hubLine) set(listeners []*listener) { l.listeners.Store(&listeners) }

func (h *Hub) remove(line *hubLine, l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(*line.listeners.Load()), func(other *listener) bool { return other == l })
	line.set(rest)
	if len(rest) == 0 {
		h.stopLocked(line)
	}
}

// stopLocked may be called for a line that has been stopped already.
func (h *Hub) stopLocked(line *hubLine) {
	if line != nil && h.line.CompareAndSwap(line, nil) {
		close(line.stop)
	}
}

// Wants reports whether anybody listens. Whoever asks before building an event pays
// nothing where nobody does.
func (h *Hub) Wants() bool { return h != nil && h.line.Load() != nil }

// Emit hands e to the listeners. It never waits, and holding a lock it is best not called
// all the same: e costs an allocation.
func (h *Hub) Emit(e Event) {
	if h == nil {
		return
	}
	line := h.line.Load()
	if line == nil {
		return
	}
	select {
	case line.queue <- e:
	default:
		h.dropped.Add(1)
		h.report(ErrEventDropped)
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

// OnError has fn called with the hub's own errors, each [ErrEventDropped] or a
// [*ListenerError], in place of the function before; nil ends that. A dropped event is
// reported by the goroutine that emitted it, which may be several at a time and must not be
// held up, a listener's panic by the hub's. What fn panics with is discarded.
func (h *Hub) OnError(fn func(error)) {
	switch {
	case h == nil:
	case fn == nil:
		h.onError.Store(nil)
	default:
		h.onError.Store(&fn)
	}
}

func (h *Hub) report(err error) {
	defer func() { _ = recover() }()
	if fn := h.onError.Load(); fn != nil {
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

// Close refuses further events and listeners, delivers the events that wait, and returns
// when the last listener has returned. Its error is always nil.
func (h *Hub) Close() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	h.closed = true
	h.stopLocked(h.line.Load())
	last := h.last
	h.mu.Unlock()
	if last != nil {
		<-last.ended
	}
	return nil
}

// deliver serves line until it is stopped and empty, after the line before it, if any.
func (h *Hub) deliver(line, before *hubLine) {
	whole := false
	defer func() {
		if whole {
			close(line.ended)
			return
		}
		// A listener called runtime.Goexit, as a failing test does: the queue lives on.
		go h.deliver(line, before)
	}()
	if before != nil {
		<-before.ended
	}
	for e, ok := line.next(); ok; e, ok = line.next() {
		for _, l := range *line.listeners.Load() {
			h.tell(line, l, e)
		}
	}
	whole = true
}

func (l *hubLine) next() (e Event, ok bool) {
	select {
	case e = <-l.queue:
		return e, true
	case <-l.stop:
	}
	select {
	case e = <-l.queue:
		return e, true
	default:
		return nil, false
	}
}

// tell calls one listener, unless another one has just removed it.
func (h *Hub) tell(line *hubLine, l *listener, e Event) {
	if !slices.Contains(*line.listeners.Load(), l) {
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
