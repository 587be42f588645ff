// Package plan decides when to visit which page again, so that as many pages as possible are as they were seen last, with
// a budget of requests. It reads no clock and does nothing by itself.
//
// # How often a page changes
//
// Changes are taken for a Poisson process whose rate is estimated from visits. A visit tells whether the page has changed
// since the one before, and not how often: so the estimate is that of Cho and Garcia-Molina for incomplete observation
// ("Estimating frequency of change", 2003), in the form of maximum likelihood, as intervals are irregular. A [History] has what it
// needs, in a fixed number of bytes. A page of which little is known is taken to be like the others of its host: their rates
// are a log-normal [Prior], which is fitted to them.
//
// # When to visit
//
// With visits every t days, a page with changes at the rate r is fresh for (1−exp(−rt))/(rt) of the time. The best division of a budget
// ("Effective page refresh policies", 2003) makes one more visit gain the same everywhere: (1−(1+rt)exp(−rt))/r is equal to
// some price for all pages that are visited. It is at most 1/r, so pages that change too fast for the price are given
// up. That gain is the [Host.Value] of a page, which grows from visit to visit; a page is due when it has reached the price.
//
// # Evidence
//
// A sitemap or feed may say that a page has changed. How often it does with a change and without one is counted for each host
// ([Trust]); by Bayes' rule a word makes a change more likely, and its absence less, as far as the host was right before.
package plan

import (
	"math"
	"time"
)

// bins are the classes of intervals after which a change was seen: each is four times as long as the one before.
const bins = 8

// shortest is the end of the first class.
const shortest = 15 * time.Minute

// maxEvents is how many changes a History remembers in full. Beyond it all it knows counts half, so that a page may become
// another one.
const maxEvents = 48

// History is what visits of a page have told of its changes. The zero History is that of a page that was not visited again.
type History struct {
	// Clean is for how many days the page is known not to have changed.
	Clean float64
	// Dated are changes of which the page says when the last was.
	Dated float64
	// Changed are visits that found a change, by the length of the interval before, and Days these intervals together.
	Changed, Days [bins]float32
}

// Observe takes in a visit, so long after the one before. If the page has changed and says how long ago, that is ago; else
// ago is zero.
func (h *History) Observe(interval time.Duration, changed bool, ago time.Duration) {
	days := Days(max(interval, time.Minute))
	switch {
	case !changed:
		h.Clean += days
	case ago > 0 && ago <= interval:
		h.Clean += Days(ago)
		h.Dated++
	default:
		i := 0
		for end := shortest; i < bins-1 && interval >= end; end *= 4 {
			i++
		}
		h.Changed[i]++
		h.Days[i] += float32(days)
	}
	if h.Events() > maxEvents {
		h.Clean, h.Dated = h.Clean/2, h.Dated/2
		for i := range bins {
			h.Changed[i], h.Days[i] = h.Changed[i]/2, h.Days[i]/2
		}
	}
}

// Valid reports whether visits can have told so.
func (h *History) Valid() bool {
	const most = 1e6
	ok := h.Clean >= 0 && h.Clean <= most && h.Dated >= 0 && h.Dated <= most
	for i := range bins {
		ok = ok && h.Changed[i] >= 0 && h.Changed[i] <= most && h.Days[i] >= 0 && h.Days[i] <= most
	}
	return ok
}

// Events is how many changes it remembers.
func (h *History) Events() float64 {
	n := h.Dated
	for _, c := range h.Changed {
		n += float64(c)
	}
	return n
}

// Days is a duration in days.
func Days(d time.Duration) float64 { return d.Hours() / 24 }

// Prior is how the rates of the pages of a host are distributed: their logarithms are normal. Rates are changes per day.
type Prior struct{ Mean, Variance float64 }

// DefaultPrior is that of a host of which nothing is known: half of its pages change within a month.
var DefaultPrior = Prior{Mean: math.Log(1.0 / 40), Variance: 4}

// Rates are at least and at most these, in changes per day.
const (
	minRate = 1e-5
	maxRate = 1e4
)

// Rate is the most likely rate of a page. The second value is the variance of its logarithm.
func (p Prior) Rate(h *History) (rate, variance float64) {
	low, high := math.Log(minRate), math.Log(maxRate)
	x := min(max(p.Mean, low), high)
	info := 0.0
	for range 60 {
		var score float64
		score, info = p.score(h, x)
		if score > 0 {
			low = x
		} else {
			high = x
		}
		next := x + score/info
		if next <= low || next >= high {
			next = (low + high) / 2
		}
		if math.Abs(next-x) < 1e-6 {
			break
		}
		x = next
	}
	return math.Exp(x), 1 / info
}

// score is how the logarithm of the likelihood grows with x, the logarithm of the rate, and how that declines.
func (p Prior) score(h *History, x float64) (score, info float64) {
	rate := math.Exp(x)
	score = h.Dated - rate*h.Clean - (x-p.Mean)/p.Variance
	info = rate*h.Clean + 1/p.Variance
	for i, n := range h.Changed {
		if n == 0 {
			continue
		}
		u := rate * float64(h.Days[i]/n)
		if u > 500 { // nothing is left of it
			continue
		}
		e := math.Expm1(u)
		part := float64(n) * u / e
		score += part
		info += part * (u*(e+1)/e - 1)
	}
	return score, info
}

// minVariance keeps a host of equal pages from taking the next one for equal too.
const minVariance = 0.25

// Fit is a prior fitted to pages, beginning at this one, by two steps of expectation and maximisation. Of many pages it looks
// at a thousand or two.
func (p Prior) Fit(pages []*History) Prior {
	stride := max(1, len(pages)/1000)
	for range 2 {
		// What the default is worth: a few pages do not say much.
		n, sum, squares := 5.0, 5*DefaultPrior.Mean, 5*(DefaultPrior.Variance+DefaultPrior.Mean*DefaultPrior.Mean)
		for i := 0; i < len(pages); i += stride {
			h := pages[i]
			if h.Clean == 0 && h.Events() == 0 {
				continue
			}
			rate, variance := p.Rate(h)
			x := math.Log(rate)
			n, sum, squares = n+1, sum+x, squares+x*x+variance
		}
		mean := sum / n
		p = Prior{Mean: mean, Variance: max(minVariance, squares/n-mean*mean)}
	}
	return p
}
