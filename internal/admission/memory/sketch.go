package memory

import (
	"math/bits"
	"slices"

	"github.com/treadlight/crawl/internal/admission"
)

const (
	// sketchRows is how many counters a key has in a sketch. The smallest of them is what the key has used, or more if
	// it shares every one of them with other keys.
	sketchRows = 4

	// cellsPerKey is how many counters a row has for each key that the table holds. With four times as many keys as the
	// table holds, most keys still have most of their counters for themselves. It takes 64 to 128 bytes for each key of
	// the table.
	cellsPerKey = 4

	// wholePlan is the counter of a key that has used all of its plan. Counters hold shares of plans and not tokens, so
	// that all plans that remember for equally long can use the same sketch.
	wholePlan = 1<<16 - 1

	// maxSketches bounds the sketches of a shard, of which it has one for each class of times that plans remember.
	maxSketches = 4
)

// sketch counts, in bounded memory, what any number of keys have used: a count-min sketch with conservative update. Its
// counts are never too low, and rarely too high. The hash has a seed of this process, so that no client can choose the
// keys that share its counters.
//
// Counts are forgotten after one to two periods: there are counters for the present period and for the one before.
type sketch struct {
	period admission.Micros // at least the TTL of each plan in it
	turn   admission.Micros // the end of the present period
	now    []uint16         // the rows, one after another
	before []uint16
}

// classOf returns the class of a plan: the smallest power of four, in seconds, that is longer than its TTL.
func classOf(p *admission.Plan) uint8 {
	seconds := uint64(p.TTL().Seconds())
	return uint8((bits.Len64(seconds) + 1) / 2)
}

func periodOf(class uint8) admission.Micros { return 1e6 << (2 * class) }

// sketchOf returns the sketch for a class, and makes it if needed. If there are too many sketches, it returns one that
// remembers for longer or, if there is none, the one that remembers for longest.
func (s *shard) sketchOf(class uint8, now admission.Micros) *sketch {
	period := periodOf(class)
	i := slices.IndexFunc(s.sketches, func(k *sketch) bool { return k.period >= period }) // they are sorted by period
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

// share returns an upper bound of the share of its plan that a key has used.
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

// shareOf returns the share of a plan that is used after a decision, rounded up.
func shareOf(res *admission.Result) uint16 {
	used := res.Limit - res.Remaining
	return uint16((used*wholePlan + res.Limit - 1) / res.Limit)
}
