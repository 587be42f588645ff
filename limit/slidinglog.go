package limit

import (
	"slices"
	"sort"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// SlidingWindowLog remembers every grant of the last window and so keeps the bound exactly: in no window, wherever it
// begins, are there more than Permits. A window holds its beginning and not its end. It needs 16 bytes for each
// instant of a grant in the last window, of which there are Permits at most.
type SlidingWindowLog struct {
	core
	state journal
}

var _ Weighted = (*SlidingWindowLog)(nil)

// NewSlidingWindowLog returns a limiter that has granted nothing.
func NewSlidingWindowLog(cfg WindowConfig, opts ...Option) (*SlidingWindowLog, error) {
	return of(Spec{Kind: KindSlidingWindowLog, Permits: cfg.Permits, Per: cfg.Per}, opts, newSlidingWindowLog)
}

func newSlidingWindowLog(set *settings) *SlidingWindowLog {
	l := &SlidingWindowLog{state: journal{set: set}}
	l.init(set, &l.state)
	return l
}

// entry is the grants of one instant.
type entry struct {
	at   clock.Instant
	upTo int64 // all grants up to these, from the first on; it wraps around
}

// journal is a ring of entries, oldest first. It grows by doubling, up to what has been
// needed at once; most logs never come near their maximum.
type journal struct {
	ring  []entry
	first int
	n     int     // entries in the ring
	ahead []entry // of a clone, what it took after those
	gone  int64   // grants that are forgotten, as upTo counts
	used  int64   // grants of the entries that are not
	set   *settings
	copy  bool // the ring is another's
}

func (j *journal) len() int { return j.n + len(j.ahead) }

// at is the i-th oldest entry.
func (j *journal) at(i int) *entry {
	if i >= j.n {
		return &j.ahead[i-j.n]
	}
	if i += j.first; i >= len(j.ring) {
		i -= len(j.ring)
	}
	return &j.ring[i]
}

// advance forgets the grants that no window ending now still sees.
func (j *journal) advance(now clock.Instant) {
	for j.len() > 0 && now.Sub(j.at(0).at) >= j.set.spec.Per {
		upTo := j.at(0).upTo
		j.used -= upTo - j.gone
		j.gone = upTo
		j.forget()
	}
}

// forget drops the oldest entry.
func (j *journal) forget() {
	if j.n == 0 {
		j.ahead = j.ahead[1:]
		return
	}
	if j.first++; j.first == len(j.ring) {
		j.first = 0
	}
	j.n--
}

// take adds to the newest entry if that is of the same instant, so that a burst costs no
// more memory than a single grant.
func (j *journal) take(now clock.Instant, n int64) bool {
	j.advance(now)
	if n > j.set.max-j.used {
		return false
	}
	j.used += n
	next := entry{now, j.gone + j.used}
	switch {
	case j.copy:
		j.ahead = append(j.ahead, next)
	case j.n > 0 && j.at(j.n-1).at == now:
		*j.at(j.n - 1) = next
	default:
		if j.n == len(j.ring) {
			j.grow()
		}
		j.n++
		*j.at(j.n - 1) = next
	}
	return true
}

// grow makes room for twice as many entries, so that a grant copies one on average.
func (j *journal) grow() {
	ring := make([]entry, max(4, 2*j.n))
	tail := copy(ring, j.ring[j.first:])
	copy(ring[tail:], j.ring[:j.first])
	j.ring, j.first = ring, 0
}

// wait ends when enough of the oldest grants have left the window.
func (j *journal) wait(now clock.Instant, n int64) time.Duration {
	j.advance(now)
	missing := n - (j.set.max - j.used)
	if missing <= 0 {
		return 0
	}
	last := j.at(0) // which most calls wait for
	if last.upTo-j.gone < missing {
		last = j.at(sort.Search(j.len(), func(i int) bool { return j.at(i).upTo-j.gone >= missing }))
	}
	return j.set.spec.Per - now.Sub(last.at)
}

func (j *journal) available(now clock.Instant) int64 {
	j.advance(now)
	return j.set.max - j.used
}

func (j *journal) standing(now clock.Instant) Standing {
	left := j.available(now)
	return Standing{Limit: j.set.max, Window: j.set.spec.Per, Left: left, Lasts: part(j.set.spec.Per, left, j.set.max)}
}

// clone shares the ring, which may hold a million entries: it forgets by its own counts,
// and what it takes it keeps apart.
func (j *journal) clone() algorithm {
	c := *j
	c.copy, c.ahead = true, slices.Clip(j.ahead)
	return &c
}
