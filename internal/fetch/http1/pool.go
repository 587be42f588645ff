package http1

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/treadlight/crawl/internal/clock"
)

// hostKey identifies a host as it is spelled: two spellings of a host have separate connections.
type hostKey struct {
	tls  bool
	host string
}

// pool has the kept connections, and counts all connections of each host.
type pool struct {
	cfg *Config

	mu     sync.Mutex // guards what follows
	hosts  map[hostKey]*hostConns
	idle   list.List   // of *conn: all kept connections, the one kept longest first
	reaper *time.Timer // fires when the first of idle is due; nil if there is none
	closed bool
}

// hostConns is the state of one host. Kept connections have no places: a request that gets a place takes one of them, and
// makes a new one only if there is none, so that there are never more connections than places.
type hostConns struct {
	places *semaphore.Weighted // one for each connection in use or being made; given in order of arrival
	users  int                 // requests that have a place or wait for one
	idle   []*list.Element     // kept connections, the one kept longest first
}

func (p *pool) init(cfg *Config) {
	p.cfg, p.hosts = cfg, make(map[hostKey]*hostConns)
	p.idle.Init()
}

// take returns a kept connection, or nil if the caller may make a new one. It waits for either, in order of arrival.
// The caller must call put or drop later.
func (p *pool) take(ctx context.Context, key hostKey) (*conn, error) {
	p.mu.Lock()
	h := p.hosts[key]
	if h == nil {
		h = &hostConns{places: semaphore.NewWeighted(int64(p.cfg.MaxPerHost))}
		p.hosts[key] = h
	}
	h.users++
	p.mu.Unlock()
	waited := h.places.Acquire(ctx, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if waited != nil {
		p.leave(key, h)
		return nil, context.Cause(ctx)
	}
	if n := len(h.idle); n > 0 {
		return p.unkeep(h, n-1), nil // the connection used last is the most likely to be alive
	}
	return nil, nil //nolint:nilnil // a permission to connect, and no connection yet
}

// put keeps a connection, unless the pool was closed while it was in use, and ends its use.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	h, over := p.hosts[c.key], c
	if !p.closed {
		c.idle, over = clock.System().Now(), nil
		h.idle = append(h.idle, p.idle.PushBack(c))
		if p.idle.Len() > p.cfg.MaxIdle {
			over = p.evict()
		}
		if p.reaper == nil {
			p.reaper = time.AfterFunc(p.cfg.IdleTimeout, p.reap) //nolint:forbidigo // nothing waits for it
		}
	}
	h.places.Release(1)
	p.leave(c.key, h)
	p.mu.Unlock()
	if over != nil {
		_ = over.Close()
	}
}

// drop gives up a connection that was closed, or that could not be made.
func (p *pool) drop(key hostKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[key]
	h.places.Release(1)
	p.leave(key, h)
}

// leave ends what a request has to do with a host.
func (p *pool) leave(key hostKey, h *hostConns) {
	h.users--
	p.forget(key, h)
}

func (p *pool) forget(key hostKey, h *hostConns) {
	if h.users == 0 && len(h.idle) == 0 {
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
		if left := p.cfg.IdleTimeout - clock.System().Since(e.Value.(*conn).idle); left > 0 {
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
