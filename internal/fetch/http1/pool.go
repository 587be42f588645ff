package http1

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// hostKey is a host as it is spelled: two spellings of one have connections of their own.
type hostKey struct {
	tls  bool
	host string
}

// pool is the kept connections, and the places for more, of hosts with connections or waiting requests.
type pool struct {
	cfg   *Config
	clk   clock.Clock // the system's, as the reaper's timer is
	epoch time.Time

	mu     sync.Mutex // guards what follows
	hosts  map[hostKey]*hostConns
	idle   list.List   // of *conn: all that are kept, the one kept longest in front
	reaper *time.Timer // nil, or set for when the first of them is due
	closed bool
}

// hostConns is one host. While requests wait, all places are taken, and a returned connection goes to the first.
type hostConns struct {
	idle    []*list.Element // the one kept longest first
	open    int             // connections, kept or lent or being made
	waiters []chan *conn    // requests that wait, first come first served
}

func (p *pool) init(cfg *Config) {
	p.cfg, p.hosts = cfg, make(map[hostKey]*hostConns)
	p.clk = clock.System()
	p.epoch = p.clk.Now()
	p.idle.Init()
}

// take is a kept connection, or nil for a place to make one; it waits for either in order of arrival. The caller calls
// put or drop.
func (p *pool) take(key hostKey, w Watch) (*conn, error) {
	p.mu.Lock()
	h := p.hosts[key]
	if h == nil {
		h = new(hostConns)
		p.hosts[key] = h
	}
	if n := len(h.idle); n > 0 {
		// The one used last is the likeliest to live.
		c := p.unkeep(h, n-1)
		p.mu.Unlock()
		return c, nil
	}
	if h.open < p.cfg.MaxPerHost {
		h.open++
		p.mu.Unlock()
		return nil, nil //nolint:nilnil // a place, and no connection yet
	}
	turn := make(chan *conn, 1)
	h.waiters = append(h.waiters, turn)
	p.mu.Unlock()
	ctx := w.Context()
	select {
	case c := <-turn:
		return c, nil
	case <-ctx.Done():
	}
	p.leave(key, h, turn)
	return nil, context.Cause(ctx)
}

// leave gives up waiting. If the turn has come at the same moment it is the next one's.
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
		h.waiters[0] <- c // never blocks: it has room for the one turn
		h.waiters = slices.Delete(h.waiters, 0, 1)
		p.mu.Unlock()
		return
	}
	if p.closed { // whoever closes has not waited for this one
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
		p.reaper = time.AfterFunc(p.cfg.IdleTimeout, p.reap) //nolint:forbidigo // it closes what nobody waits for
	}
	p.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
}

// drop gives the place of a connection up that is no more, or did not come about.
func (p *pool) drop(key hostKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[key]
	if len(h.waiters) > 0 {
		h.waiters[0] <- nil // never blocks: it has room for the one turn
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

// reap closes the connections that were kept long enough, and comes again for the next.
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
