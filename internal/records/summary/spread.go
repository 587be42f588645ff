package summary

import "math"

// perOctave is how many steps of a histogram a doubling has: the middle of one is at most
// 4.4 percent from what lies in it.
const perOctave = 8

// histogram counts values from 1 up in steps that grow with them. The zero histogram is
// ready to use; it is as long as its largest value needs, 8 counters for each doubling.
type histogram struct {
	steps []uint32
	n     int64
	max   float64
}

// add counts a value; what is below 1, or no number, counts as 1.
func (h *histogram) add(v float64) {
	const longest = 64 * perOctave
	step := 0
	if v > 1 {
		step = int(min(math.Log2(v)*perOctave, longest))
	}
	for len(h.steps) <= step {
		h.steps = append(h.steps, 0)
	}
	h.steps[step]++
	h.n++
	if v > h.max { // NaN is not
		h.max = v
	}
}

// quantile is the value that the share q of all is at or below; zero if there is none.
func (h *histogram) quantile(q float64) float64 {
	rank := max(int64(math.Ceil(q*float64(h.n))), 1)
	for step, n := range h.steps {
		if rank -= int64(n); rank <= 0 {
			middle := math.Exp2((float64(step) + 0.5) / perOctave)
			return min(middle, h.max)
		}
	}
	return 0
}

// spread is what is told of the values, each divided by unit.
func (h *histogram) spread(unit float64) Spread {
	return Spread{P50: h.quantile(0.5) / unit, P95: h.quantile(0.95) / unit, P99: h.quantile(0.99) / unit, Max: h.max / unit}
}

// micros is how many steps of a histogram of times there are in a millisecond.
const micros = 1000
