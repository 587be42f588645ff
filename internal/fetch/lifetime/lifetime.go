// Package lifetime has the work in progress end with its owner.
package lifetime

import (
	"context"
	"sync"
)

// Lifetime is that of work in progress, which [Lifetime.End] ends and waits for. Made by [New], safe for concurrent
// use.
type Lifetime struct {
	ctx  context.Context
	stop context.CancelFunc

	mu   sync.Mutex // orders Add and the end
	work sync.WaitGroup
}

// New begins a lifetime.
func New() *Lifetime {
	l := new(Lifetime)
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Context ends with the lifetime.
func (l *Lifetime) Context() context.Context { return l.ctx }

// Over reports whether the lifetime has ended.
func (l *Lifetime) Over() bool { return l.ctx.Err() != nil }

// Begin admits work, which ends with Done, unless the lifetime is over.
func (l *Lifetime) Begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Over() {
		return false
	}
	l.work.Add(1)
	return true
}

// Done ends work that Begin has admitted.
func (l *Lifetime) Done() { l.work.Done() }

// End ends the lifetime and returns when no work is left. It may be called again.
func (l *Lifetime) End() {
	l.mu.Lock()
	l.stop()
	l.mu.Unlock()
	l.work.Wait()
}
