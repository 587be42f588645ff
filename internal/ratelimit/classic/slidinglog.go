package classic

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// SlidingWindowLog remembers every grant of the last window and so keeps the bound
// exactly: in no window, wherever it begins, are there more than Permits. A window holds
// its beginning and not its end. It needs 16 bytes for each instant of a grant in the
// last window, of which there are Permits at most.
type SlidingWindowLog struct {
	core
	state journal
}

var _ Weighted = (*SlidingWindowLog)(nil)

// NewSlidingWindowLog returns a limiter that has granted nothing.
func NewSlidingWindowLog(cfg WindowConfig, opts ...Option) (*SlidingWindowLog, error) {
	if err := checkRate(cfg.Permits, cfg.Per); err != nil {
		return nil, err
	}
	set, err := newSettings(KindSlidingWindowLog, cfg.Permits, opts)
	if err != nil {
		return nil, err
	}
	return newSlidingWindowLog(set, cfg), nil
}

func newSlidingWindowLog(set *settings, cfg WindowConfig) *SlidingWindowLog {
	l := &SlidingWindowLog{state: journal{max: cfg.Permits, per: cfg.Per}}
	l.init(set, &l.state)
	return l
}

// entry is the grants of one instant.
type entry struct {
	at clock.Instant
	n  int64
}

// journal is a ring of entries, oldest first. It grows by doubling, up to what has been
// needed at once; most logs never come near their maximum.
type journal struct {
	ring  []entry
	first int
	n     int   // entries
	used  int64 // the sum of their grants
	max   int64
	per   time.Duration
}

// at is the i-th oldest entry.
func (j *journal) at(i int) *entry {
	if i += j.first; i >= len(j.ring) {
		i -= len(j.ring)
	}
	return &j.ring[i]
}

// advance forgets the grants that no window ending now still sees.
func (j *journal) advance(now clock.Instant) {
	for j.n > 0 && now.Sub(j.ring[j.first].at) >= j.per {
		j.used -= j.ring[j.first].n
		if j.first++; j.first == len(j.ring) {
			j.first = 0
		}
		j.n--
	}
}

// take adds to the newest entry if that is of the same instant, so that a burst costs no
// more memory than a single grant.
func (j *journal) take(now clock.Instant, n int64) bool {
	j.advance(now)
	if n > j.max-j.used {
		return false
	}
	j.used += n
	if j.n > 0 && j.at(j.n-1).at == now {
		j.at(j.n - 1).n += n
		return true
	}
	if j.n == len(j.ring) {
		j.grow()
	}
	j.n++
	*j.at(j.n - 1) = entry{now, n}
	return true
}

// grow makes room for twice as many entries, so that a grant copies one on average.
func (j *journal) grow() {
	ring := make([]entry, max(4, 2*j.n))
	j.copyTo(ring)
	j.ring, j.first = ring, 0
}

// copyTo writes the entries out in their order, from the oldest.
func (j *journal) copyTo(ring []entry) {
	if j.n == 0 {
		return
	}
	tail := copy(ring, j.ring[j.first:min(len(j.ring), j.first+j.n)])
	copy(ring[tail:j.n], j.ring)
}

// wait ends when enough of the oldest grants have left the window.
func (j *journal) wait(now clock.Instant, n int64) time.Duration {
	j.advance(now)
	missing := n - (j.max - j.used)
	if missing <= 0 {
		return 0
	}
	i := 0
	for missing -= j.at(0).n; missing > 0; missing -= j.at(i).n {
		i++
	}
	return j.per - now.Sub(j.at(i).at)
}

func (j *journal) available(now clock.Instant) int64 {
	j.advance(now)
	return j.max - j.used
}

// clone copies the whole log: it is played through only where somebody waits and another
// one asks for how long.
func (j *journal) clone() algorithm {
	c := *j
	c.ring, c.first = make([]entry, j.n), 0
	j.copyTo(c.ring)
	return &c
}
