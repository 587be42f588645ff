// Package plan decides when to visit which page again, so that, within a budget of requests, as many pages as possible
// are still as they were last seen. It reads no clock and does nothing by itself.
//
// # How often a page changes
//
// Changes are modeled as a Poisson process whose rate is estimated from visits. A visit shows whether the page has
// changed since the visit before, but not how often. So the estimate is that of Cho and Garcia-Molina for incomplete
// observation ("Estimating frequency of change", 2003), in its maximum-likelihood form, because the intervals are
// irregular. A [History] has what the estimate needs, in a fixed number of bytes. For pages with little history there is
// a log-normal [Prior] of rates. Fitting it to the pages of a host made no page fresher in simulations.
//
// # When to visit
//
// With a visit every t days, a page that changes at the rate r is fresh for the share (1−exp(−rt))/(rt) of the time. In
// the best division of a budget ("Effective page refresh policies", 2003) one more visit gains the same at every page:
// (1−(1+rt)exp(−rt))/r. So the pages to visit next are those at which a visit gains most now, which is their
// [Page.Value]; it grows with the time since the last visit. It is at most 1/r, so pages that change too fast are given
// up while the budget does not suffice for them.
//
// # Evidence
//
// A sitemap or feed may announce that a page has changed. [Trust] counts for each host how often it did so with a
// change and without one. By Bayes' rule an announcement makes a change more likely, and its absence makes it less
// likely, as far as the host was right before.
package plan

import (
	"math"
	"math/bits"
	"time"
)

// bins is the number of classes of intervals before visits that found a change. Each class reaches four times as far as
// the one before.
const bins = 8

// shortest is the end of the first class.
const shortest = 15 * time.Minute

// maxEvents is how many changes a History counts in full. Beyond that everything in it is halved, so that a page may
// change its habits.
const maxEvents = 48

// History is what visits of a page have shown of its changes. The zero History is that of a page that was not visited a
// second time.
type History struct {
	// Clean is the number of days over which the page is known not to have changed.
	Clean float64

	_ float64 // keeps the encoding, which had a field here

	// Changed counts the visits that found a change, by class of the interval before them. Days is the sum of these
	// intervals in days.
	Changed, Days [bins]float32
}

// Observe adds a visit, made interval after the one before.
func (h *History) Observe(interval time.Duration, changed bool) {
	days := Days(max(interval, time.Minute))
	if changed {
		i := min((bits.Len64(uint64(interval/shortest))+1)/2, bins-1)
		h.Changed[i]++
		h.Days[i] += float32(days)
	} else {
		h.Clean += days
	}
	if h.Events() > maxEvents {
		h.Clean /= 2
		for i := range bins {
			h.Changed[i], h.Days[i] = h.Changed[i]/2, h.Days[i]/2
		}
	}
}

// Valid reports whether a history has values that visits can produce.
func (h *History) Valid() bool {
	const most = 1e6
	ok := h.Clean >= 0 && h.Clean <= most
	for i := range bins {
		ok = ok && h.Changed[i] >= 0 && h.Changed[i] <= most && h.Days[i] >= 0 && h.Days[i] <= most
	}
	return ok
}

// Events returns how many changes the history counts.
func (h *History) Events() (n float64) {
	for _, c := range h.Changed {
		n += float64(c)
	}
	return n
}

// Days converts a duration to days.
func Days(d time.Duration) float64 { return d.Hours() / 24 }

// Prior is a distribution of rates whose logarithms are normal. Rates are in changes per day.
type Prior struct{ Mean, Variance float64 }

// PagePrior is the prior of pages. With it half of them change within a month.
var PagePrior = Prior{Mean: math.Log(1.0 / 40), Variance: 4}

// The bounds of rates, in changes per day.
const (
	minRate = 1e-5
	maxRate = 1e4
)

// Rate returns the most likely rate of a page.
func (p Prior) Rate(h *History) float64 {
	low, high := math.Log(minRate), math.Log(maxRate)
	for high-low > 1e-4 {
		x := (low + high) / 2
		if p.score(h, x) > 0 {
			low = x
		} else {
			high = x
		}
	}
	return math.Exp((low + high) / 2)
}

// score returns the derivative of the logarithm of the likelihood by x, the logarithm of the rate.
func (p Prior) score(h *History, x float64) float64 {
	rate := math.Exp(x)
	score := -rate*h.Clean - (x-p.Mean)/p.Variance
	for i, n := range h.Changed {
		if n > 0 {
			u := rate * float64(h.Days[i]/n)
			score += float64(n) * u / math.Expm1(min(u, 500)) // beyond that its share is zero
		}
	}
	return score
}
