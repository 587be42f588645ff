package frontier

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// A person may exclude a host: nothing further is asked of it until it is included, and its URLs
// stay queued. To the schedule it is a host that refuses to be asked for a hundred years, so
// that it gives its place in memory to others as such a host does.

const (
	// maxExcluded bounds the hosts that are excluded, some 100 bytes each. More are a matter of
	// the scope.
	maxExcluded = 1 << 12
	// excludedFor is longer than any crawl.
	excludedFor = 100 * 365 * 24 * time.Hour
	// byOperator is the reason of a host that is excluded.
	byOperator = "blocked by the operator"
)

// ErrTooManyExcluded is what [Frontier.Exclude] returns when as many hosts are excluded as may.
var ErrTooManyExcluded = fmt.Errorf("%d hosts are blocked already: unblock one of them, or exclude them by the scope", maxExcluded)

// Exclude has nothing further leased of a host, known or not, until Include. What is out ends as
// it would. The host's URLs stay queued, and do not keep a crawl alive: see [Blockage].
func (f *Frontier) Exclude(now time.Time, name string) error {
	name = ratelimit.Domain(name)
	if _, ok := f.excluded[name]; ok {
		return nil
	}
	if len(f.excluded) >= maxExcluded {
		return ErrTooManyExcluded
	}
	f.excluded[name] = struct{}{}
	h := f.hosts[name]
	if h == nil {
		return nil
	}
	h.excluded = true
	f.leaveLine(h)
	if f.nextUp == h {
		f.nextUp = nil
	}
	if h.index >= 0 {
		h.at, h.why, h.reason = now.Add(excludedFor), ratelimit.LimitNone, byOperator
		heap.Fix(&f.due, int(h.index))
	}
	f.offer(h, now, now)
	return nil
}

// Include has a host asked again that was excluded. It reports whether it was.
func (f *Frontier) Include(now time.Time, name string) bool {
	name = ratelimit.Domain(name)
	if _, ok := f.excluded[name]; !ok {
		return false
	}
	delete(f.excluded, name)
	if h := f.hosts[name]; h != nil {
		h.excluded, h.reason = false, ""
		f.offer(h, now, now)
	} else if f.stored != nil {
		f.stored.resting.remove(name)
	}
	return true
}

// endless reports whether an instant is that of a host that is excluded.
func endless(now, at time.Time) bool { return at.Sub(now) > excludedFor/2 }
