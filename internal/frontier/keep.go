package frontier

import (
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// The pause of a host for whose request there was no place, which doubles from one to the
// next until one is made. The first is about what a page takes; at the last, a thousand
// hosts that wait cost three hundred looks a second.
const (
	keepFirst  = 100 * time.Millisecond
	keepDouble = 5
)

// keep has a host pause for whose request there was no place, and returns until when.
func (f *Frontier) keep(h *host, now time.Time) time.Time {
	if f.fleet != nil {
		f.fleet.jammed = now.Add(jammedFor)
	}
	if !h.keptTil.After(now) { // several that were refused together are one
		h.keptTil = now.Add(keepFirst << min(h.kept, keepDouble))
		h.kept = min(h.kept, keepDouble) + 1
		f.keeping = true
	}
	return h.keptTil
}

// kept reports whether a host rests, and has it looked at again when it does not.
func (f *Frontier) kept(h *host, now time.Time) bool {
	if !h.keptTil.After(now) {
		return false
	}
	h.why, h.reason = ratelimit.LimitNone, retrying
	f.offer(h, now, h.keptTil)
	return true
}
