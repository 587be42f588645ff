package redis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
)

// link is the way to the servers. The client is made when it is first needed, because
// making it fails while they are down.
type link struct {
	option rueidis.ClientOption
	client atomic.Pointer[client]
	closed atomic.Bool
	life   context.Context // of what runs in the background; ends with Close
	end    context.CancelFunc

	failed atomic.Pointer[dial]

	mu   sync.Mutex     // guards what follows
	dial *dial          // under way, or nil
	work sync.WaitGroup // what Close waits for
}

// redialAfter is how long nobody tries to connect after that has failed.
const redialAfter = time.Second / 2

type client struct {
	rueidis.Client
	cluster bool
}

// dial is the making of a client, for which all who need it wait.
type dial struct {
	done chan struct{} // closed after client and err are there
	c    *client
	err  error
	over time.Time
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

// connected is the client, made if there is none. While that fails, those who do not insist
// are told so at once, and it is tried again beside them.
func (l *link) connected(ctx context.Context, insist bool) (*client, error) {
	if c := l.client.Load(); c != nil {
		return c, nil
	}
	failed := l.failed.Load()
	if failed != nil && !insist && clock.System().Since(failed.over) < redialAfter {
		return nil, notConnected(failed.err)
	}
	d := l.dialing()
	switch {
	case d == nil:
		return nil, admission.ErrClosed
	case failed != nil && !insist:
		return nil, notConnected(failed.err)
	}
	select {
	case <-d.done:
		if d.err != nil {
			return nil, notConnected(d.err)
		}
		return d.c, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", admission.ErrNotCharged, ctx.Err())
	}
}

func notConnected(err error) error {
	return fmt.Errorf("cannot connect: %w: %w", err, admission.ErrNotCharged)
}

// patience is how long connecting may take, if that is what a question waits for.
func (l *link) patience() time.Duration {
	if l.client.Load() != nil || l.failed.Load() != nil {
		return 0
	}
	return l.option.Dialer.Timeout + 3*l.option.ConnWriteTimeout
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
	if err == nil {
		l.teach(c)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dial = nil
	d.err, d.over = err, clock.System().Now()
	l.failed.Store(nil)
	switch {
	case err != nil:
		l.failed.Store(d)
	case l.closed.Load():
		c.Close()
		d.err = admission.ErrClosed
	default:
		d.c = &client{c, c.Mode() == rueidis.ClientModeCluster}
		l.client.Store(d.c)
	}
}

// teach has the servers know the script, which would cost the first decision a second trip.
// One that does not learn it is told with that.
func (l *link) teach(c rueidis.Client) {
	ctx, cancel := context.WithTimeout(l.life, l.option.ConnWriteTimeout)
	defer cancel()
	for _, node := range c.Nodes() {
		_ = node.Do(ctx, node.B().ScriptLoad().Script(script).Build()).Error()
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
