package memory

import (
	"math/bits"
	"slices"

	"github.com/treadlight/crawl/internal/admission"
)

const (
	// sketchRows is how many counters a key has in a sketch. The least of them is what it has
	// used, or more, if others have each of them in common with it.
	sketchRows = 4

	// cellsPerKey is how many counters a row has for each key that the table holds: four times
	// as many keys as those find most of theirs alone, at 64 to 128 bytes for each.
	cellsPerKey = 4

	// wholePlan is what a counter has of a key that has used all of its plan. Shares of plans
	// rather than tokens let all plans that remember for as long be in one sketch.
	wholePlan = 1<<16 - 1

	// maxSketches bounds what a shard takes for plans that remember for different times.
	maxSketches = 4
)

// sketch has, in a bounded place, what any number of keys have used at least: a count-min
// sketch with conservative update. It is wrong only to the disadvantage of a key, and rarely.
// The hash it is asked by has a seed of this process, so that nobody can choose whom to meet.
//
// What is in it is forgotten after one to two periods: there is a sketch of this period and one of that before.
type sketch struct {
	period admission.Micros // at least that of each plan in it
	turn   admission.Micros // the end of the present one
	now    []uint16         // rows, one behind the other
	before []uint16
}

// classOf is the power of four seconds within which a plan forgets.
func classOf(p *admission.Plan) uint8 {
	seconds := uint64(p.TTL().Seconds())
	return uint8((bits.Len64(seconds) + 1) / 2)
}

func periodOf(class uint8) admission.Micros { return 1e6 << (2 * class) }

// sketchOf is the sketch for a class, made if need be; if there are too many, one that remembers for
// longer, or else for longest.
func (s *shard) sketchOf(class uint8, now admission.Micros) *sketch {
	period := periodOf(class)
	i := slices.IndexFunc(s.sketches, func(k *sketch) bool { return k.period >= period }) // they are in this order
	if i < 0 {
		i = len(s.sketches)
	}
	if len(s.sketches) < maxSketches && (i == len(s.sketches) || s.sketches[i].period != period) {
		n := sketchRows << bits.Len(uint(max(64, cellsPerKey*s.max)-1))
		k := &sketch{period: period, turn: now + period, now: make([]uint16, n), before: make([]uint16, n)}
		s.sketches = slices.Insert(s.sketches, i, k)
	}
	k := s.sketches[min(i, len(s.sketches)-1)]
	k.advance(now)
	return k
}

func (k *sketch) advance(now admission.Micros) {
	if now < k.turn {
		return
	}
	k.now, k.before = k.before, k.now
	clear(k.now)
	if now >= k.turn+k.period {
		clear(k.before)
	}
	k.turn = now + k.period
}

func (k *sketch) cell(row int, hash uint64) int {
	width := len(k.now) / sketchRows
	h := (hash + uint64(row)*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	h ^= h >> 31
	h *= 0x94d049bb133111eb
	return row*width + int((h^h>>29)&uint64(width-1))
}

// share is how much of its plan a key has used, or more.
func (k *sketch) share(hash uint64) uint16 {
	least := uint32(wholePlan)
	for row := range sketchRows {
		i := k.cell(row, hash)
		least = min(least, uint32(k.now[i])+uint32(k.before[i]))
	}
	return uint16(least)
}

func (k *sketch) raise(hash uint64, share uint16) {
	for row := range sketchRows {
		i := k.cell(row, hash)
		if before := k.before[i]; share > before {
			k.now[i] = max(k.now[i], share-before)
		}
	}
}

// shareOf is how much of a plan is used after a decision, rounded up.
func shareOf(res *admission.Result) uint16 {
	used := res.Limit - res.Remaining
	return uint16((used*wholePlan + res.Limit - 1) / res.Limit)
}
