package redis

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/ratelimit/admission"
)

// link is the way to the servers. The client is made when it is first needed, because
// making it fails while they are down.
type link struct {
	option rueidis.ClientOption
	client atomic.Pointer[client]
	closed atomic.Bool
	life   context.Context // of what runs in the background; ends with Close
	end    context.CancelFunc

	mu   sync.Mutex     // guards what follows
	dial *dial          // under way, or nil
	work sync.WaitGroup // what Close waits for
}

type client struct {
	rueidis.Client
	cluster bool
}

// dial is the making of a client, for which all who need it wait.
type dial struct {
	done chan struct{} // closed after client and err are there
	c    *client
	err  error
}

func (l *link) init(option rueidis.ClientOption) {
	l.option = option
	l.life, l.end = context.WithCancel(context.Background())
}

// begin runs f in the background, unless the link is closed.
func (l *link) begin(f func(ctx context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return false
	}
	l.work.Go(func() { f(l.life) })
	return true
}

// connected is the client, made if there is none.
func (l *link) connected(ctx context.Context) (*client, error) {
	if c := l.client.Load(); c != nil {
		return c, nil
	}
	d := l.dialing()
	if d == nil {
		return nil, admission.ErrClosed
	}
	select {
	case <-d.done:
		return d.c, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dialing is the dial under way, begun if there is none; nil if the link is closed.
func (l *link) dialing() *dial {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return nil
	}
	if l.dial == nil {
		d := &dial{done: make(chan struct{})}
		l.dial = d
		l.work.Go(func() { l.make(d) })
	}
	return l.dial
}

// make makes the client. If the link was closed meanwhile it closes it.
func (l *link) make(d *dial) {
	defer close(d.done)
	c, err := rueidis.NewClient(l.option)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dial = nil
	switch {
	case err != nil:
		d.err = err
	case l.closed.Load():
		c.Close()
		d.err = admission.ErrClosed
	default:
		d.c = &client{c, c.Mode() == rueidis.ClientModeCluster}
		l.client.Store(d.c)
	}
}

// drop has the next question make a new client. The old one learns of each of its
// connections that it is broken only by a question that fails. A cluster's client is kept:
// most of its nodes are there.
func (l *link) drop() {
	c := l.client.Load()
	if c == nil || c.cluster || !l.client.CompareAndSwap(c, nil) {
		return
	}
	if !l.begin(func(context.Context) { c.Close() }) {
		c.Close()
	}
}

func (l *link) close() {
	l.mu.Lock()
	l.closed.Store(true)
	l.mu.Unlock()
	l.end()
	if c := l.client.Swap(nil); c != nil {
		c.Close()
	}
	l.work.Wait()
}
