package render

import (
	"context"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	maxCached  = 64 << 20 // bytes
	maxEntries = 4096
)

// cache keeps scripts, styles and the like for as long as the crawl runs, so that each is requested from its host once.
type cache struct {
	mu     sync.Mutex // guards what follows
	asking map[string]*asking
	kept   *simplelru.LRU[string, *reply]
	bytes  int
}

// asking is a request of one page that others wait for. The other fields are set when done is closed.
type asking struct {
	done chan struct{}
	r    *reply
	err  error
	left bool // the page was over before the request was finished
}

func newCache() *cache {
	c := &cache{asking: map[string]*asking{}}
	c.kept, _ = simplelru.NewLRU(maxEntries, func(_ string, r *reply) { c.bytes -= r.size() }) // fails only for a size below one
	return c
}

func (r *reply) size() int { return len(r.body) + 1<<10 }

// get returns the cached reply, or the result of ask, which runs under ctx of its page. If that page ends first, one of
// the pages that wait makes the request again.
func (c *cache) get(ctx context.Context, key string, ask func() (*reply, error)) (*reply, error) {
	for {
		c.mu.Lock()
		if r, ok := c.kept.Get(key); ok {
			c.mu.Unlock()
			return r, nil
		}
		a, others := c.asking[key]
		if !others {
			a = &asking{done: make(chan struct{})}
			c.asking[key] = a
		}
		c.mu.Unlock()
		if !others {
			a.r, a.err = ask()
			a.left = ctx.Err() != nil
			c.put(key, a)
			return a.r, a.err
		}
		select {
		case <-a.done:
			if a.err == nil || !a.left {
				return a.r, a.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// put ends a request, and caches its reply if that is allowed.
func (c *cache) put(key string, a *asking) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(a.done)
	delete(c.asking, key)
	r := a.r
	if a.err != nil {
		return
	}
	if len(r.header["Set-Cookie"]) > 0 { // the client has stored it; other pages must not get it
		r.header = r.header.Clone()
		r.header.Del("Set-Cookie")
	}
	if r.status >= 500 || r.status == 429 || strings.Contains(r.header.Get("Cache-Control"), "no-store") || r.size() > maxCached/4 {
		return
	}
	c.bytes += r.size()
	c.kept.Add(key, r)
	for c.bytes > maxCached {
		c.kept.RemoveOldest()
	}
}
