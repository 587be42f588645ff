package plan

import (
	"math"
	"slices"
	"time"
)

// LongestInterval is after how long a page is due whatever it is worth: one that was given up may have become another.
const LongestInterval = 30 * 24 * time.Hour

// Trust is what visits have found of a host's word on changes of its pages: whether there was word of a change since the visit
// before, and whether there was a change. The zero Trust takes the host for one that is mostly right and not complete.
type Trust struct {
	True   float64 `json:"true"`   // word, and a change
	False  float64 `json:"false"`  // word, and none
	Missed float64 `json:"missed"` // a change without word
	Silent float64 `json:"silent"` // neither
}

// Observe takes in a visit of a page on which the host gives word.
func (t *Trust) Observe(word, changed bool) {
	switch {
	case word && changed:
		t.True++
	case word:
		t.False++
	case changed:
		t.Missed++
	default:
		t.Silent++
	}
	if t.True+t.False+t.Missed+t.Silent > 1000 { // it may change its ways
		t.True, t.False, t.Missed, t.Silent = t.True/2, t.False/2, t.Missed/2, t.Silent/2
	}
}

// ratio is how much more likely word, or its absence, is if there was a change than if there was none.
func (t *Trust) ratio(word bool) float64 {
	ofChanges := (t.True + 2) / (t.True + t.Missed + 4)
	ofOthers := (t.False + 1) / (t.False + t.Silent + 8)
	if word {
		return ofChanges / ofOthers
	}
	return (1 - ofChanges) / (1 - ofOthers)
}

// Page is what is known of a page.
type Page struct {
	// Rate is in changes per day; see [Prior.Rate].
	Rate float64
	// Last is when it was visited last.
	Last time.Time
	// NotBefore is until when its host wants it to be taken for fresh. Zero: it does not say.
	NotBefore time.Time
	// Covered says that its host gives word of its changes, and Word that there was word of one.
	Covered, Word bool
}

// Host is what pages of a host are measured by.
type Host struct {
	// Price is what a visit has to gain; see [Price].
	Price float64
	Trust Trust
}

// Value is what a visit gains, as a multiple of the price. From one on the page is due.
func (h *Host) Value(p *Page, now time.Time) float64 {
	elapsed := now.Sub(p.Last)
	if elapsed <= 0 || now.Before(p.NotBefore) && !p.Word && elapsed < LongestInterval {
		return 0
	}
	rate := min(max(p.Rate, minRate), maxRate)
	changes := rate * Days(elapsed)
	if p.Covered { // what is likely by now, as a number of changes to be expected
		changes += math.Log1p(-math.Expm1(-changes) * (h.Trust.ratio(p.Word) - 1))
	}
	value := gained(changes) / rate / h.Price
	if elapsed >= LongestInterval {
		value = max(value, 1)
	}
	return value
}

// Correct is a factor of prices after some time in which it was factor, and a day had so many visits of a budget: less where word of
// changes has saved visits, so that these are made elsewhere.
func Correct(factor, visits, budget float64, elapsed time.Duration) float64 {
	if budget <= 0 {
		return factor
	}
	return min(max(factor*math.Exp(min(Days(elapsed), 1)*(visits/budget-1)), 0.02), 1)
}

// gained is the share of all there is to gain, when so many changes are to be expected since the last visit.
func gained(changes float64) float64 { return 1 - (1+changes)*math.Exp(-changes) }

// maxChanges is the end of inverse: beyond it nothing more is gained.
const maxChanges = 40.0

// inverse has, for steps of its square root, gained.
var inverse = func() (table [4096]float64) {
	for i := range table {
		x := float64(i) / float64(len(table)-1)
		table[i] = gained(maxChanges * x * x)
	}
	return table
}()

// changesFor is after how many expected changes so much is gained; false: never.
func changesFor(gain float64) (float64, bool) {
	if gain >= inverse[len(inverse)-1] {
		return 0, false
	}
	i, _ := slices.BinarySearch(inverse[:], gain)
	if i == 0 {
		return 0, true
	}
	part := (gain - inverse[i-1]) / (inverse[i] - inverse[i-1])
	x := (float64(i-1) + part) / float64(len(inverse)-1)
	return maxChanges * x * x, true
}

// Interval is the time between two visits of a page that no one gives word of. Never more than [LongestInterval].
func (h *Host) Interval(rate float64, shortest time.Duration) time.Duration {
	x, ok := changesFor(h.Price * rate)
	if !ok || x/rate >= Days(LongestInterval) {
		return LongestInterval
	}
	return max(shortest, time.Duration(x/rate*24*float64(time.Hour)))
}

// Price is the one at which pages with these rates have so many visits a day together, none of them more often than the shortest
// interval. Of many pages it looks at a thousand or two.
func Price(rates []float64, perDay float64, shortest time.Duration) float64 {
	if len(rates) == 0 || perDay <= 0 {
		return 1
	}
	stride := max(1, len(rates)/1000)
	scale := float64(len(rates)) / float64((len(rates)+stride-1)/stride)
	low, high := math.Log(1e-12), math.Log(1/minRate)
	for range 40 {
		h := Host{Price: math.Exp((low + high) / 2)}
		visits := 0.0
		for i := 0; i < len(rates); i += stride {
			visits += 1 / Days(h.Interval(rates[i], shortest))
		}
		if visits*scale > perDay {
			low = math.Log(h.Price)
		} else {
			high = math.Log(h.Price)
		}
	}
	return math.Exp(high)
}
