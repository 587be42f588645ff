package frontier

import (
	"container/heap"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// retries are the URLs of a host that may not be leased before an instant. They stand apart from
// the host, because most hosts never have any. A nil one is empty.
type retries struct {
	later  laterHeap // URLs that came back, or are to be asked for later
	failed laterHeap // URLs that failed: others go first
	// quietUntil is until when the host has its pause before an isolated retry; zero for none.
	quietUntil time.Time
}

const (
	// quiet is how long nothing is sent to the host before an isolated retry: limits are most
	// often counted by the second.
	quiet = time.Second
	// longestQuiet bounds that where the host's own pace asks for more.
	longestQuiet = 30 * time.Second
)

func (r *retries) len() int {
	if r == nil {
		return 0
	}
	return len(r.later) + len(r.failed)
}

// robots reports whether one of them is a robots.txt, which goes first.
func (r *retries) robots() bool { return r != nil && len(r.later) > 0 && r.later[0].Kind == Robots }

// due is the instant from which one of them may be leased; zero if there are none.
func (r *retries) due() (at time.Time) {
	if r == nil {
		return at
	}
	if len(r.later) > 0 {
		at = r.later[0].notBefore
	}
	if len(r.failed) > 0 && (at.IsZero() || r.failed[0].notBefore.Before(at)) {
		at = r.failed[0].notBefore
	}
	return at
}

// delay takes in an item that may not be leased before an instant.
func (h *host) delay(it Item, notBefore time.Time) {
	if h.retries == nil {
		h.retries = new(retries)
	}
	if it.Since > 0 {
		heap.Push(&h.retries.failed, delayed{it, notBefore})
	} else {
		heap.Push(&h.retries.later, delayed{it, notBefore})
	}
}

// all visits them.
func (r *retries) all(visit func(*Item)) {
	if r == nil {
		return
	}
	for i := range r.later {
		visit(&r.later[i].Item)
	}
	for i := range r.failed {
		visit(&r.failed[i].Item)
	}
}

// delayed is an item that may not be leased before an instant.
type delayed struct {
	Item
	notBefore time.Time
}

// laterHeap is a [heap.Interface] by notBefore.
type laterHeap []delayed

func (h laterHeap) Len() int { return len(h) }

// isDue reports whether there is an item whose time has come.
func (h laterHeap) isDue(now time.Time) bool { return len(h) > 0 && !h[0].notBefore.After(now) }

// Less puts robots.txt in front: all other URLs may be waiting for it.
func (h laterHeap) Less(i, j int) bool {
	if a, b := h[i].Kind == Robots, h[j].Kind == Robots; a != b {
		return a
	}
	return h[i].notBefore.Before(h[j].notBefore)
}

func (h laterHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *laterHeap) Push(x any)   { *h = append(*h, x.(delayed)) }
func (h *laterHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = delayed{}
	*h = old[:len(old)-1]
	return last
}

// isolate keeps a URL that is to be retried alone back until nothing else is under way and the
// host had its pause. It reports whether it did.
func (f *Frontier) isolate(h *host, it *Item, now time.Time) bool {
	if !h.history.Isolated(&it.Tries) {
		return false
	}
	h.why, h.reason = ratelimit.LimitNone, retrying
	if len(h.out) > 0 {
		return true // Release offers the host again
	}
	r := h.retries
	if r.quietUntil.IsZero() {
		at, _ := f.cfg.Pacer.ReadyAt(h.name, int(h.handed.Load())+1, int(f.handed.Load())+1)
		r.quietUntil = maxTime(now.Add(quiet), at)
		if longest := now.Add(longestQuiet); r.quietUntil.After(longest) {
			r.quietUntil = longest // it is no pace but a quota that is about to be used up
		}
	}
	if r.quietUntil.After(now) {
		f.offer(h, now, r.quietUntil)
		return true
	}
	return false
}

// controlOut reports whether a control request is under way. Nothing else is leased then: what is
// sent beside it and fails would say that the host fails still.
func (h *host) controlOut() bool {
	return h.history.Controlled() && len(h.out) > 0 && h.out[len(h.out)-1].Kind == Control
}

// control is a URL that the host has answered before, to be leased in the place of another
// that could not show whose failure the last ones were; nil for none.
func (f *Frontier) control(h *host, it *Item, now time.Time) *Item {
	if it.Kind == Robots || !h.history.WantsControl(&it.Tries, h.fresh() > 0, f.cfg.NoRetries, now) {
		return nil
	}
	u, err := canonical.Parse(it.Referrer)
	if err != nil || nameOf(u) != h.name || u.Path() == "/robots.txt" || u == it.URL {
		if u, err = it.URL.Resolve("/"); err != nil || u == it.URL {
			return nil
		}
	}
	c := &Item{URL: u, Kind: Control, Queued: now, Found: Found{Depth: it.Depth}}
	if f.check(c, now).Pass != Go {
		return nil
	}
	return c
}
