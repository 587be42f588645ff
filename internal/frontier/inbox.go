package frontier

import "sync"

// Inbox holds the calls that a store has received and its writer has not taken yet; a [Progress] counts them as
// pending. Make it with NewInbox. It is safe for concurrent use.
type Inbox[T any] struct {
	Wake  chan struct{} // receives when there is a call; the writer may wait for more calls before it takes them
	Hurry chan struct{} // receives when the writer must take the calls at once
	// Enough is the number of calls from which on the writer does not wait for more.
	Enough int

	progress *Progress
	mu       sync.Mutex // guards what follows
	calls    []T
	closed   bool
}

// NewInbox returns an empty inbox. Its writer does not wait for more calls once there are enough of them.
func NewInbox[T any](p *Progress, enough int) *Inbox[T] {
	return &Inbox[T]{Wake: make(chan struct{}, 1), Hurry: make(chan struct{}, 1), Enough: enough, progress: p}
}

// Add appends calls, all of them or none, and reports whether it did. It appends none if the inbox is closed or the
// store has failed. With hurry set, the writer takes them at once.
func (in *Inbox[T]) Add(hurry bool, calls ...T) (taken bool) {
	if in.progress.Err() != nil {
		return false
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return false
	}
	in.progress.pending.Add(int64(len(calls)))
	if len(in.calls) == 0 {
		Signal(in.Wake)
	}
	if in.calls = append(in.calls, calls...); hurry || len(in.calls) >= in.Enough {
		Signal(in.Hurry)
	}
	return true
}

// mostSpare bounds the capacity that is kept for later calls, as a multiple of Enough.
const mostSpare = 4

// Take returns all calls and whether the inbox is closed. The memory of before, calls taken earlier and not used any
// more, is used again; before may be nil.
func (in *Inbox[T]) Take(before []T) (calls []T, closed bool) {
	before = in.Spare(before)
	in.mu.Lock()
	defer in.mu.Unlock()
	calls, in.calls = in.calls, before
	return calls, in.closed
}

// Spare returns the memory of calls as an empty slice for other calls, or nil if it is too large to keep.
func (in *Inbox[T]) Spare(calls []T) []T {
	clear(calls)
	if cap(calls) > mostSpare*in.Enough {
		return nil
	}
	return calls[:0]
}

// Close makes later calls of Add append nothing, and wakes the writer.
func (in *Inbox[T]) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	Signal(in.Hurry)
}

// Signal sends on a channel of capacity one without blocking, so that its receiver knows that there is something to do.
// Several signals may arrive as one.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
