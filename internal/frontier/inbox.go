package frontier

import "sync"

// Inbox is the calls that a store was told of and its writer has not taken yet, counted by a [Progress]. Make it with
// NewInbox. It is safe for concurrent use.
type Inbox[T any] struct {
	Wake  chan struct{} // receives when there is a call, which may wait for more
	Hurry chan struct{} // receives when what there is must not wait
	// Enough is how many calls do not wait for more.
	Enough int

	progress *Progress
	mu       sync.Mutex // guards what follows
	calls    []T
	closed   bool
}

// NewInbox returns an empty inbox.
func NewInbox[T any](p *Progress, enough int) *Inbox[T] {
	return &Inbox[T]{Wake: make(chan struct{}, 1), Hurry: make(chan struct{}, 1), Enough: enough, progress: p}
}

// Add takes calls in, all or none: none once it is closed or the store has failed.
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

// mostSpare bounds the memory that stays for calls, in batches of usual size.
const mostSpare = 4

// Take hands over all calls. Those taken before give their memory back, and may be nil.
func (in *Inbox[T]) Take(before []T) (calls []T, closed bool) {
	before = in.Spare(before)
	in.mu.Lock()
	defer in.mu.Unlock()
	calls, in.calls = in.calls, before
	return calls, in.closed
}

// Spare is the memory of calls for others, if it is not too much.
func (in *Inbox[T]) Spare(calls []T) []T {
	clear(calls)
	if cap(calls) > mostSpare*in.Enough {
		return nil
	}
	return calls[:0]
}

// Close has no further calls taken in.
func (in *Inbox[T]) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	Signal(in.Hurry)
}

// Signal lets who waits for a channel that holds one know that there is something; often is as good as once.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
