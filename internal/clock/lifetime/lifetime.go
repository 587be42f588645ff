// Package lifetime lets an owner end its work in progress and wait for it.
package lifetime

import (
	"context"
	"sync"
)

// Lifetime counts work in progress, which [Lifetime.End] cancels and waits for. It is made by [New] and safe for
// concurrent use.
type Lifetime struct {
	ctx  context.Context
	stop context.CancelFunc

	mu   sync.Mutex // orders Begin before or after End
	work sync.WaitGroup
}

// New begins a lifetime.
func New() *Lifetime {
	l := new(Lifetime)
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Context returns a context that ends with the lifetime.
func (l *Lifetime) Context() context.Context { return l.ctx }

// Over reports whether the lifetime has ended.
func (l *Lifetime) Over() bool { return l.ctx.Err() != nil }

// Begin counts the begin of work, which must end with Done. It returns false if the lifetime is over.
func (l *Lifetime) Begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Over() {
		return false
	}
	l.work.Add(1)
	return true
}

// Done ends work for which Begin returned true.
func (l *Lifetime) Done() { l.work.Done() }

// Go runs f as part of work in progress, which may end before f.
func (l *Lifetime) Go(f func()) { l.work.Go(f) }

// Stop ends the lifetime. Both it and End may be called several times.
func (l *Lifetime) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
}

// End ends the lifetime and waits until no work is left.
func (l *Lifetime) End() {
	l.Stop()
	l.work.Wait()
}
