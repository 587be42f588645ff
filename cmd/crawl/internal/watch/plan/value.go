package plan

import (
	"math"
	"time"
)

// LongestInterval is the time after which a page is due in any case: a page that was given up may have changed its
// habits.
const LongestInterval = 30 * 24 * time.Hour

// Trust counts visits by whether the host had announced a change since the visit before, and whether there was one. The
// zero Trust assumes that announcements are mostly right, and not complete.
type Trust struct {
	True   float64 `json:"true"`   // announced, and changed
	False  float64 `json:"false"`  // announced, and not changed
	Missed float64 `json:"missed"` // changed, and not announced
	Silent float64 `json:"silent"` // neither
}

// Observe adds a visit of a page for which the host announces changes.
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
	if t.True+t.False+t.Missed+t.Silent > 1000 { // the host may change its habits
		t.True, t.False, t.Missed, t.Silent = t.True/2, t.False/2, t.Missed/2, t.Silent/2
	}
}

// ratio returns how much more likely an announcement, or with false its absence, is with a change than without one.
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
	// Last is the time of the last visit.
	Last time.Time
	// NotBefore is until when the page is fresh, as its host says. Zero means that the host does not say so.
	NotBefore time.Time
	// Covered says that the host announces changes of the page, and Word that it has announced one since the last
	// visit.
	Covered, Word bool
}

// Host is what decides which pages of a host are due.
type Host struct {
	// Price is the gain at which a visit is due; see [Price].
	Price float64
	Trust Trust
}

// Value returns what a visit at the time now gains, as a multiple of the price. The page is due from one on.
func (h *Host) Value(p *Page, now time.Time) float64 {
	elapsed := now.Sub(p.Last)
	if elapsed <= 0 || now.Before(p.NotBefore) && !p.Word && elapsed < LongestInterval {
		return 0
	}
	rate := min(max(p.Rate, minRate), maxRate)
	changes := rate * Days(elapsed)
	if p.Covered { // the changes expected now, by Bayes' rule
		changes += math.Log1p(-math.Expm1(-changes) * (h.Trust.ratio(p.Word) - 1))
	}
	value := gained(changes) / rate / h.Price
	if elapsed >= LongestInterval {
		value = max(value, 1)
	}
	return value
}

// Correct returns the factor of prices to use next. factor was used for elapsed, in which visits of a budget were made
// per day. The result is lower if announcements have saved visits, so that these are made elsewhere; it is between 0.02
// and 1.
func Correct(factor, visits, budget float64, elapsed time.Duration) float64 {
	if budget <= 0 {
		return factor
	}
	return min(max(factor*math.Exp(min(Days(elapsed), 1)*(visits/budget-1)), 0.02), 1)
}

// gained returns the share of the largest gain that a visit has when that many changes are expected since the last
// visit.
func gained(changes float64) float64 { return 1 - (1+changes)*math.Exp(-changes) }

// changesFor returns after how many expected changes a visit gains that much. It returns false if it never does. It
// solves the logarithm of gained by Newton's method, which comes down from a bound above.
func changesFor(gain float64) (float64, bool) {
	if gain >= 1 {
		return 0, false
	}
	log := -math.Log1p(-gain)
	x := log + math.Sqrt(2*log)
	for range 4 {
		x -= (x - math.Log1p(x) - log) * (1 + x) / x
	}
	return x, true
}

// Interval returns the time between two visits of a page whose changes are not announced: at least shortest, and at
// most [LongestInterval].
func (h *Host) Interval(rate float64, shortest time.Duration) time.Duration {
	x, ok := changesFor(h.Price * rate)
	if !ok || x/rate >= Days(LongestInterval) {
		return LongestInterval
	}
	return max(shortest, time.Duration(x/rate*24*float64(time.Hour)))
}

// Price returns the price at which pages with these rates need perDay visits a day together, none of them more often
// than every shortest. Of many pages it uses a sample of one or two thousand.
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
