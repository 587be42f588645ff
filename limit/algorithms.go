package limit

import (
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// counter is the algorithm of both windows: of a fixed one the window before never counts.
type counter struct {
	start             clock.Instant // of the current window
	previous, current int64         // each up to max
	set               *settings
}

// advance moves on by whole windows, so that a late caller does not shift the grid.
func (c *counter) advance(now clock.Instant) {
	passed, per := now.Sub(c.start), c.set.spec.Per
	if passed < per {
		return
	}
	c.previous = 0
	if passed-per < per && c.set.spec.Kind == KindSlidingWindow { // not 2·per, which may be past the range
		c.previous = c.current
	}
	c.current = 0
	c.start = c.start.Add(passed - passed%per)
}

func (c *counter) take(now clock.Instant, n int64) bool {
	if c.wait(now, n) > 0 {
		return false
	}
	c.current += n
	return true
}

// wait solves the admission rule for elapsed. In this window what is left of previous must be
// less than room = max−current−(n−1); if there is no room, the next window begins with current as
// previous, and what is asked of that one is the same question.
func (c *counter) wait(now clock.Instant, n int64) time.Duration {
	c.advance(now)
	elapsed := now.Sub(c.start)
	if room := c.set.max - c.current - (n - 1); room > 0 {
		return max(0, c.fades(c.previous, room)-elapsed)
	}
	next := c.set.spec.Per - elapsed
	if c.set.spec.Kind == KindFixedWindow {
		return next
	}
	return addWaits(next, c.fades(c.current, c.set.max-(n-1)))
}

// fades is how far into a window less than room, which is above 0, counts of the one before: the
// first nanosecond e with previous·(per−e−1) < room·per.
func (c *counter) fades(previous, room int64) time.Duration {
	if previous <= room {
		return 0
	}
	hi, lo := bits.Mul64(uint64(room), uint64(c.set.spec.Per))
	q, rest := bits.Div64(hi, lo, uint64(previous)) // below per, as room is below previous
	if rest > 0 {
		q++
	}
	return c.set.spec.Per - time.Duration(q)
}

// available rounds what is left of the previous count down, as the rule does: a permit is there
// while the estimate before it is below max.
func (c *counter) available(now clock.Instant) int64 {
	c.advance(now)
	left := c.set.spec.Per - now.Sub(c.start) - 1
	hi, lo := bits.Mul64(uint64(c.previous), uint64(left))
	fading, _ := bits.Div64(hi, lo, uint64(c.set.spec.Per)) // below previous, as left is below per
	return max(0, c.set.max-c.current-int64(fading))
}

// standing has what is left of a fixed window last until one more would come with the next.
func (c *counter) standing(now clock.Instant) Standing {
	left, per := c.available(now), c.set.spec.Per
	s := Standing{Limit: c.set.max, Window: per, Left: left, Lasts: part(per, left, c.set.max)}
	if c.set.spec.Kind == KindFixedWindow {
		s.Lasts = part(per-now.Sub(c.start), left, left+1)
	}
	return s
}

func (c *counter) clone() algorithm {
	d := *c
	return &d
}

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

func (j *journal) at(i int) *entry {
	if i >= j.n {
		return &j.ahead[i-j.n]
	}
	if i += j.first; i >= len(j.ring) {
		i -= len(j.ring)
	}
	return &j.ring[i]
}

func (j *journal) advance(now clock.Instant) {
	for j.len() > 0 && now.Sub(j.at(0).at) >= j.set.spec.Per {
		upTo := j.at(0).upTo
		j.used -= upTo - j.gone
		j.gone = upTo
		j.forget()
	}
}

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

// pacer grants next at the instant due−1+part/permits, or due if part is 0.
type pacer struct {
	due   clock.Instant // the first nanosecond in which the next grant may be
	early uint64        // by how much the exact instant is before it, in units of 1/permits ns
	set   *settings
}

// take moves due on by n intervals: from the slot's exact instant if it is taken in its
// first nanosecond, as a busy line does, and else from now.
func (p *pacer) take(now clock.Instant, n int64) bool {
	if now < p.due {
		return false
	}
	if now > p.due { // late: the gap counts from the grant, not from when it could have been
		p.due, p.early = now, 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(p.set.spec.Per))
	lo, borrow := bits.Sub64(lo, p.early, 0)
	if hi < borrow { // the fraction is longer than the gap: still in this nanosecond
		p.early -= uint64(n) * uint64(p.set.spec.Per)
		return true
	}
	gap, rest := bits.Div64(hi-borrow, lo, uint64(p.set.max)) // at most per, as n is at most permits
	p.early = 0
	if rest > 0 {
		p.early = uint64(p.set.max) - rest
		gap++
	}
	// An interval can be centuries: due stops at the end of time.
	p.due = clock.Instant(min(uint64(p.due)+gap, math.MaxInt64))
	return true
}

func (p *pacer) wait(now clock.Instant, _ int64) time.Duration {
	if p.due == math.MaxInt64 { // the slot is past the end of time
		return Never
	}
	return max(0, p.due.Sub(now))
}

// available is all or nothing: once a slot is due, it is due for any weight.
func (p *pacer) available(now clock.Instant) int64 {
	if now < p.due {
		return 0
	}
	return p.set.max
}

// standing has one left at most: a second at the same instant would be refused.
func (p *pacer) standing(now clock.Instant) Standing {
	s := Standing{Limit: p.set.max, Window: p.set.spec.Per, Even: true}
	if p.available(now) > 0 {
		s.Left, s.Lasts = 1, part(p.set.spec.Per, 1, p.set.max)
	}
	return s
}

func (p *pacer) clone() algorithm {
	c := *p
	return &c
}
