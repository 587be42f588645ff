package http1

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// hostKey identifies a host as it is spelled: two spellings of a host have separate connections.
type hostKey struct {
	tls  bool
	host string
}

// pool has the kept connections, and counts all connections of each host.
type pool struct {
	cfg   *Config
	clk   clock.Clock // the system clock, like the timer of the reaper
	epoch time.Time

	mu     sync.Mutex // guards what follows
	hosts  map[hostKey]*hostConns
	idle   list.List   // of *conn: all kept connections, the one kept longest first
	reaper *time.Timer // fires when the first of idle is due; nil if there is none
	closed bool
}

// hostConns is the state of one host. While requests wait, all connections are in use, and a returned one goes to the
// first of them.
type hostConns struct {
	idle    []*list.Element // kept connections, the one kept longest first
	open    int             // connections that are kept, in use or being made
	waiters []chan *conn    // requests that wait for a connection, in order of arrival
}

func (p *pool) init(cfg *Config) {
	p.cfg, p.hosts = cfg, make(map[hostKey]*hostConns)
	p.clk = clock.System()
	p.epoch = p.clk.Now()
	p.idle.Init()
}

// take returns a kept connection, or nil if the caller may make a new one. It waits for either, in order of arrival.
// The caller must call put or drop later.
func (p *pool) take(ctx context.Context, key hostKey) (*conn, error) {
	p.mu.Lock()
	h := p.hosts[key]
	if h == nil {
		h = new(hostConns)
		p.hosts[key] = h
	}
	if n := len(h.idle); n > 0 {
		// The connection used last is the most likely to be alive.
		c := p.unkeep(h, n-1)
		p.mu.Unlock()
		return c, nil
	}
	if h.open < p.cfg.MaxPerHost {
		h.open++
		p.mu.Unlock()
		return nil, nil //nolint:nilnil // a permission to connect, and no connection yet
	}
	turn := make(chan *conn, 1)
	h.waiters = append(h.waiters, turn)
	p.mu.Unlock()
	select {
	case c := <-turn:
		return c, nil
	case <-ctx.Done():
	}
	p.leave(key, h, turn)
	return nil, context.Cause(ctx)
}

// leave ends the wait of a request. If its turn came at the same moment, it passes it on.
func (p *pool) leave(key hostKey, h *hostConns, turn chan *conn) {
	p.mu.Lock()
	i := slices.Index(h.waiters, turn)
	if i >= 0 {
		h.waiters = slices.Delete(h.waiters, i, i+1)
	}
	p.mu.Unlock()
	if i >= 0 {
		return
	}
	if c := <-turn; c != nil {
		p.put(c)
	} else {
		p.drop(key)
	}
}

func (p *pool) now() clock.Instant { return clock.Instant(p.clk.Since(p.epoch)) }

func (p *pool) put(c *conn) {
	p.mu.Lock()
	h := p.hosts[c.key]
	if len(h.waiters) > 0 {
		h.waiters[0] <- c // never blocks: the channel has room for one turn
		h.waiters = slices.Delete(h.waiters, 0, 1)
		p.mu.Unlock()
		return
	}
	if p.closed { // it was in use when the pool was closed
		p.forget(c.key, h)
		p.mu.Unlock()
		_ = c.Close()
		return
	}
	c.idle = p.now()
	h.idle = append(h.idle, p.idle.PushBack(c))
	var oldest *conn
	if p.idle.Len() > p.cfg.MaxIdle {
		oldest = p.evict()
	}
	if p.reaper == nil {
		p.reaper = time.AfterFunc(p.cfg.IdleTimeout, p.reap) //nolint:forbidigo // nothing waits for it
	}
	p.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
}

// drop gives up a connection that was closed, or that could not be made.
func (p *pool) drop(key hostKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[key]
	if len(h.waiters) > 0 {
		h.waiters[0] <- nil // never blocks: the channel has room for one turn
		h.waiters = slices.Delete(h.waiters, 0, 1)
		return
	}
	p.forget(key, h)
}

func (p *pool) forget(key hostKey, h *hostConns) {
	if h.open--; h.open == 0 && len(h.waiters) == 0 {
		delete(p.hosts, key)
	}
}

func (p *pool) unkeep(h *hostConns, i int) *conn {
	e := h.idle[i]
	h.idle = slices.Delete(h.idle, i, i+1)
	return p.idle.Remove(e).(*conn)
}

func (p *pool) evict() *conn {
	e := p.idle.Front()
	c := e.Value.(*conn)
	h := p.hosts[c.key]
	p.unkeep(h, slices.Index(h.idle, e))
	p.forget(c.key, h)
	return c
}

// reap closes the connections that were kept for IdleTimeout, and sets the timer for the next.
func (p *pool) reap() {
	p.mu.Lock()
	var done []*conn
	p.reaper = nil
	for e := p.idle.Front(); e != nil; e = p.idle.Front() {
		if left := p.cfg.IdleTimeout - p.now().Sub(e.Value.(*conn).idle); left > 0 {
			p.reaper = time.AfterFunc(left, p.reap) //nolint:forbidigo // see put
			break
		}
		done = append(done, p.evict())
	}
	p.mu.Unlock()
	for _, c := range done {
		_ = c.Close()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	var done []*conn
	for p.idle.Len() > 0 {
		done = append(done, p.evict())
	}
	if p.reaper != nil {
		p.reaper.Stop()
		p.reaper = nil
	}
	p.mu.Unlock()
	for _, c := range done {
		_ = c.Close()
	}
}
