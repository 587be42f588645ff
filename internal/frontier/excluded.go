package frontier

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// An excluded host counts as one that refuses to be asked for a hundred years, so it gives up its place in memory.

const (
	// maxExcluded bounds the number of excluded hosts, some 100 bytes each. To exclude more is a task of the scope.
	maxExcluded = 1 << 12
	excludedFor = 100 * 365 * 24 * time.Hour
	byOperator  = "blocked by the operator"
)

// ErrTooManyExcluded is the error of [Frontier.Exclude] when as many hosts are excluded as may be.
var ErrTooManyExcluded = fmt.Errorf("%d hosts are blocked already: unblock one of them, or exclude them by the scope", maxExcluded)

var errExcluded = errors.New("the host is " + byOperator)

// Exclude stops leases of a host, known or unknown, until Include. Leases that exist go on. The URLs of the host stay
// queued, but do not keep a crawl alive: see [Blockage].
func (t *timetable) Exclude(now time.Time, name string) error {
	name = ratelimit.Domain(name)
	switch {
	case t.excludes(name):
		return nil
	case len(t.excluded()) >= maxExcluded:
		return ErrTooManyExcluded
	}
	t.mark(name, true)
	if h := t.hosts[name]; h != nil {
		h.excluded = true
		t.forgetPlace(h)
		if h.index >= 0 {
			h.why, h.reason = ratelimit.LimitNone, byOperator
			t.move(h, now.Add(excludedFor))
		}
		t.offer(h, now, now)
	}
	return nil
}

// Include allows leases of a host again after Exclude. It reports whether the host was excluded.
func (b *backlog) Include(now time.Time, name string) bool {
	name = ratelimit.Domain(name)
	if !b.excludes(name) {
		return false
	}
	b.mark(name, false)
	if h := b.hosts[name]; h != nil {
		h.excluded, h.reason = false, ""
		b.offer(h, now, now)
	}
	b.resting.remove(name)
	return true
}

// exclusions holds the names of hosts to which no request is sent: at most maxExcluded. Others than the owner of the
// frontier read the map without a lock, so it is replaced by a changed copy.
type exclusions struct {
	names atomic.Pointer[map[string]struct{}]
}

func (e *exclusions) excluded() map[string]struct{} {
	if all := e.names.Load(); all != nil {
		return *all
	}
	return nil
}

func (e *exclusions) excludes(name string) bool {
	_, has := e.excluded()[name]
	return has
}

func (e *exclusions) mark(name string, excluded bool) {
	all := maps.Clone(e.excluded())
	if all == nil {
		all = make(map[string]struct{})
	}
	if all[name] = struct{}{}; !excluded {
		delete(all, name)
	}
	e.names.Store(&all)
}

// Excluded returns the names of the excluded hosts, sorted; not nil. It may be called at any time.
func (e *exclusions) Excluded() []string {
	return append([]string{}, slices.Sorted(maps.Keys(e.excluded()))...)
}

// Refuse returns an error for an excluded host, given by the name that the limiter has for it: a URL may have been leased
// before. It may be called at any time.
func (e *exclusions) Refuse(name string) error {
	if e.excludes(name) {
		return errExcluded
	}
	return nil
}
