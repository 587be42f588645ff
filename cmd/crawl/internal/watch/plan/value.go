package plan

import (
	"math"
	"time"
)

// LongestInterval is the time after which a page goes before all others: one that was given up may have changed its
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

// overdue is more than a visit of any other page gains.
const overdue = 2 / minRate

// Value returns what a visit at the time now gains; zero means that it is not due. trust is that of the page's host.
func (p *Page) Value(trust *Trust, now time.Time) float64 {
	elapsed := now.Sub(p.Last)
	late := elapsed >= LongestInterval
	if elapsed <= 0 || now.Before(p.NotBefore) && !p.Word && !late {
		return 0
	}
	rate := min(max(p.Rate, minRate), maxRate)
	changes := rate * Days(elapsed)
	if p.Covered { // the changes expected now, by Bayes' rule
		changes += math.Log1p(-math.Expm1(-changes) * (trust.ratio(p.Word) - 1))
	}
	value := (1 - (1+changes)*math.Exp(-changes)) / rate
	if late {
		value += overdue
	}
	return value
}
