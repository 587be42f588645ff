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

// redialAfter is how long nobody tries to connect after that has failed.
const redialAfter = time.Second / 2

// link is the way to the servers. The client is made when it is first needed, because making it fails
// while they are down.
type link struct {
	option rueidis.ClientOption
	client atomic.Pointer[client]
	closed atomic.Bool
	life   context.Context // of what runs in the background; ends with Close
	end    context.CancelFunc

	mu   sync.Mutex     // guards what follows
	dial *dial          // the last; nil before the first
	work sync.WaitGroup // what Close waits for
}

type client struct {
	rueidis.Client
	cluster bool
}

// dial is the making of a client, for which all who need it wait.
type dial struct {
	before error         // of the dial before, if that failed
	done   chan struct{} // closed after what follows is there
	c      *client
	err    error
	over   time.Time
}

// ended reports whether the dial is over.
func (d *dial) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
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

// connected is the client, made if there is none. While that fails, those who do not insist are told so
// at once, and it is tried again beside them.
func (l *link) connected(ctx context.Context, insist bool) (*client, error) {
	if l.closed.Load() {
		return nil, admission.ErrClosed
	}
	if c := l.client.Load(); c != nil {
		return c, nil
	}
	d := l.dialing(insist)
	switch {
	case d == nil:
		return nil, admission.ErrClosed
	case d.before != nil && !insist && !d.ended():
		return nil, notConnected(d.before)
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

// dialing is the dial under way, or the one that has failed just now, unless who asks insists; else it
// is begun. It is nil if the link is closed.
func (l *link) dialing(insist bool) *dial {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.dial
	switch {
	case l.closed.Load():
		return nil
	case last != nil && (!last.ended() || l.client.Load() == last.c && last.c != nil):
		return last
	case last != nil && last.err != nil && !insist && clock.System().Since(last.over) < redialAfter:
		return last
	}
	l.dial = &dial{done: make(chan struct{})}
	if last != nil {
		l.dial.before = last.err
	}
	d := l.dial
	l.work.Go(func() { l.make(d) })
	return d
}

// make makes the client, with the servers knowing the script, which would cost the first decision a
// second trip; one that does not learn it is told with that. If the link was closed meanwhile it closes
// the client.
func (l *link) make(d *dial) {
	defer close(d.done)
	c, err := rueidis.NewClient(l.option)
	if err == nil {
		ctx, cancel := context.WithTimeout(l.life, l.option.ConnWriteTimeout)
		defer cancel()
		for _, node := range c.Nodes() {
			_ = node.Do(ctx, node.B().ScriptLoad().Script(script).Build()).Error()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d.err, d.over = err, clock.System().Now()
	switch {
	case err != nil:
	case l.closed.Load():
		c.Close()
		d.err = admission.ErrClosed
	default:
		d.c = &client{c, c.Mode() == rueidis.ClientModeCluster}
		l.client.Store(d.c)
	}
}

// drop has the next question make a new client. The old one learns of each of its connections that it
// is broken only by a question that fails. A cluster's client is kept: most of its nodes are there.
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
