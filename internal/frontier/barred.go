package frontier

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// A person may bar a host: nothing further is asked of it until it is unbarred, and its URLs
// stay queued. To the schedule it is a host that refuses to be asked for a hundred years, so
// that it gives its place in memory to others as such a host does.

const (
	// maxBarred bounds the hosts that are barred, some 100 bytes each. More are a matter of
	// the scope.
	maxBarred = 1 << 12
	// barredFor is longer than any crawl.
	barredFor = 100 * 365 * 24 * time.Hour
	// byOperator is the reason of a host that is barred.
	byOperator = "blocked by the operator"
)

// ErrTooManyBarred is what [Frontier.Bar] returns when as many hosts are barred as may.
var ErrTooManyBarred = fmt.Errorf("%d hosts are blocked already: unblock one of them, or exclude them by the scope", maxBarred)

// Bar has nothing further leased of a host, known or not, until Unbar. What is out ends as
// it would. The host's URLs stay queued, and do not keep a crawl alive: see [Blockage].
func (f *Frontier) Bar(now time.Time, name string) error {
	name = ratelimit.Domain(name)
	if _, ok := f.barred[name]; ok {
		return nil
	}
	if len(f.barred) >= maxBarred {
		return ErrTooManyBarred
	}
	f.barred[name] = struct{}{}
	h := f.hosts[name]
	if h == nil {
		return nil
	}
	h.barred = true
	f.leavePark(h)
	if f.called == h {
		f.called = nil
	}
	if h.index >= 0 {
		h.at, h.why, h.reason = now.Add(barredFor), ratelimit.LimitNone, byOperator
		heap.Fix(&f.due, int(h.index))
	}
	f.offer(h, now, now)
	return nil
}

// Unbar has a host asked again that was barred. It reports whether it was.
func (f *Frontier) Unbar(now time.Time, name string) bool {
	name = ratelimit.Domain(name)
	if _, ok := f.barred[name]; !ok {
		return false
	}
	delete(f.barred, name)
	if h := f.hosts[name]; h != nil {
		h.barred, h.reason = false, ""
		f.offer(h, now, now)
	} else if f.vault != nil {
		f.vault.resting.remove(name)
	}
	return true
}

// endless reports whether an instant is that of a host that is barred.
func endless(now, at time.Time) bool { return at.Sub(now) > barredFor/2 }
