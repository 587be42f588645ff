package render

import (
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"
)

const (
	maxCached  = 64 << 20 // bytes
	maxEntries = 4096
)

// cache keeps scripts, styles and the like for as long as the crawl goes on, so that a host is asked for each of them once.
type cache struct {
	asking singleflight.Group

	mu    sync.Mutex // guards what follows
	kept  *simplelru.LRU[string, *reply]
	bytes int
}

func newCache() *cache {
	c := new(cache)
	c.kept, _ = simplelru.NewLRU(maxEntries, func(_ string, r *reply) { c.bytes -= r.size() }) // its one error is of a size below one
	return c
}

func (r *reply) size() int { return len(r.body) + 1<<10 }

// get is what is kept, or what ask comes to.
func (c *cache) get(key string, ask func() (*reply, error)) (*reply, error) {
	c.mu.Lock()
	r, ok := c.kept.Get(key)
	c.mu.Unlock()
	if ok {
		return r, nil
	}
	out, err, _ := c.asking.Do(key, func() (any, error) {
		r, err := ask()
		if err == nil && r.status < 500 && r.status != 429 && !strings.Contains(r.header.Get("Cache-Control"), "no-store") {
			c.put(key, r)
		}
		return r, err
	})
	r, _ = out.(*reply)
	return r, err
}

func (c *cache) put(key string, r *reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.size() > maxCached/4 {
		return
	}
	c.kept.Remove(key)
	c.bytes += r.size()
	c.kept.Add(key, r)
	for c.bytes > maxCached {
		c.kept.RemoveOldest()
	}
}
