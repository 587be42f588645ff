package seen

import "math/bits"

const (
	// fanIn runs are merged at a time. On the way to 10⁸ fingerprints in memtables of half
	// a million, each is written 3.6 times and there are at most 11 runs to be asked; with
	// two it would be 7.0 times and 7 runs, with ten 2.5 times and 18.
	fanIn = 4
	// manyRuns is where runs are merged whatever their sizes. Those of one crawl with
	// one size of memtables never come that far.
	manyRuns = 32
	// maxRuns bounds the open files and what a question costs while merging fails.
	maxRuns = 64
)

// pickMerge chooses the first of fanIn neighbours that should become one: the earliest of like
// size, so that none is left behind in front of a larger one, or when there are too many runs
// those that are together the smallest. Only neighbours are merged, so that what a run covers
// stays one span. It is -1 for none.
func pickMerge(counts []int64) int {
	for i := range len(counts) - fanIn + 1 {
		if alike(counts[i : i+fanIn]) {
			return i
		}
	}
	if len(counts) < manyRuns {
		return -1
	}
	best, least := -1, int64(0)
	for i := range len(counts) - fanIn + 1 {
		var sum int64
		for _, n := range counts[i : i+fanIn] {
			sum += n
		}
		if best < 0 || sum < least {
			best, least = i, sum
		}
	}
	return best
}

// alike reports whether runs are of one tier: a tier ends at four times its beginning, so that
// four full ones of one tier make one of the next.
func alike(counts []int64) bool {
	for _, n := range counts {
		if bits.Len64(uint64(n))/2 != bits.Len64(uint64(counts[0]))/2 {
			return false
		}
	}
	return true
}

// mergeRuns writes one run that covers what neighbours cover. It calls between every
// few thousand fingerprints, and ends with its error.
func mergeRuns(d folder, inputs []*run, between func() error) (*run, error) {
	h := header{check: inputs[0].check, span: span{inputs[0].after, inputs[len(inputs)-1].last}}
	for _, r := range inputs {
		h.count += r.count
	}
	return writeRun(d, h, func(w *writer) error {
		var live []*cursor
		for _, r := range inputs {
			c := &cursor{r: r}
			if _, err := c.next(); err != nil { // no run is empty
				return err
			}
			live = append(live, c)
		}
		return interleave(w, live, between)
	})
}

// interleave adds what is behind the cursors in order.
func interleave(w *writer, live []*cursor, between func() error) error {
	const often = 1 << 13 // fingerprints, well below a millisecond
	for n := 0; len(live) > 0; n++ {
		if n%often == 0 {
			if err := between(); err != nil {
				return err
			}
		}
		least := 0
		for i, c := range live {
			if c.value() < live[least].value() {
				least = i
			}
		}
		if err := w.add(live[least].value()); err != nil {
			return err
		}
		more, err := live[least].next()
		if err != nil {
			return err
		}
		if !more {
			live = append(live[:least], live[least+1:]...)
		}
	}
	return nil
}
