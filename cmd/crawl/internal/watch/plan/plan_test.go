package plan

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const day = 24 * time.Hour

// flat is a prior with almost no information.
var flat = Prior{Mean: 0, Variance: 1e6}

// With regular visits and no prior the estimate is that of Cho and Garcia-Molina, the negative logarithm of the share
// of visits without a change. With irregular visits it is the root of their equation.
func TestRate(t *testing.T) {
	for _, tc := range []struct{ visits, changed int }{{10, 1}, {10, 5}, {60, 40}, {40, 39}} {
		var h History
		for i := range tc.visits {
			h.Observe(2*day, i < tc.changed)
		}
		rate := flat.Rate(&h)
		require.InEpsilon(t, -math.Log(1-float64(tc.changed)/float64(tc.visits))/2, rate, 0.01, "%v", tc)
	}
	var h History
	h.Observe(day/2, true)
	h.Observe(3*day, true)
	h.Observe(day, false)
	rate := flat.Rate(&h)
	require.InDelta(t, 1, 0.5/math.Expm1(0.5*rate)+3/math.Expm1(3*rate), 1e-3)
}

// Extreme histories give rates within the bounds, and the prior decides where visits say nothing.
func TestRateOfLittle(t *testing.T) {
	rate := PagePrior.Rate(&History{})
	require.InEpsilon(t, 1.0/40, rate, 1e-4)
	var always, never History
	for range 30 {
		always.Observe(day, true)
		never.Observe(day, false)
	}
	fast := PagePrior.Rate(&always)
	slow := PagePrior.Rate(&never)
	require.Greater(t, fast, 2.0)
	require.Less(t, fast, 20.0)
	require.Less(t, slow, 1.0/40)
	require.Greater(t, slow, 1e-3)
}

// The estimate is consistent, also with intervals of all lengths and after a History has been halved, and it follows a
// page that changes its habits.
func TestRateOfMuch(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	visit := func(h *History, rate float64) {
		days := math.Exp(3*rnd.Float64() - 2)
		h.Observe(time.Duration(days*float64(day)), rnd.Float64() < -math.Expm1(-rate*days))
	}
	for _, truth := range []float64{0.05, 0.5, 3} {
		sum := 0.0
		for range 200 {
			var h History
			for range 150 {
				visit(&h, truth)
			}
			rate := PagePrior.Rate(&h)
			sum += math.Log(rate)
		}
		require.InEpsilon(t, truth, math.Exp(sum/200), 0.2)
	}
	var h History
	for range 200 {
		visit(&h, 2)
	}
	for range 200 {
		visit(&h, 0.05)
	}
	rate := PagePrior.Rate(&h)
	require.Less(t, rate, 0.3)
}

// The price uses up the budget, and no page would gain more by a visit than another page loses by it. If each time the
// pages are visited at which a visit gains most, they are visited as often as that price says.
func TestBestDivision(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	var rates []float64
	for range 900 {
		rates = append(rates, math.Exp(3*rnd.NormFloat64()))
	}
	const budget = 450.0
	at := price(rates, budget)
	visits, givenUp := 0.0, 0
	gains := func(rate, perDay float64) float64 { // freshness gained by one more visit
		f := func(n float64) float64 { return -math.Expm1(-rate/n) * n / rate }
		return (f(perDay*1.0001) - f(perDay)) / (perDay * 0.0001)
	}
	for _, rate := range rates {
		interval := interval(rate, at)
		visits += 1 / interval
		if interval >= Days(LongestInterval) {
			givenUp++
			require.True(t, rate > 1/at*0.99 || rate < 0.1, "rate %v", rate)
			continue
		}
		require.InEpsilon(t, at, gains(rate, 1/interval), 0.02, "rate %v", rate)
	}
	require.InEpsilon(t, budget, visits, 0.02)
	require.Positive(t, givenUp)
	require.Less(t, givenUp, 500)

	p := newPlanned(len(rates), rates)
	const days, round = 90, 48 // rounds a day
	made := make([]float64, len(rates))
	for n := range days * round {
		now := epoch.Add(time.Duration(n+1) * day / round)
		for _, i := range p.choose(now, (n+1)*budget/round-n*budget/round) {
			p.pages[i].Last = now
			if n >= days*round/3 {
				made[i]++
			}
		}
	}
	for i, rate := range rates {
		if interval := interval(rate, at); interval > 1.0/12 && interval < Days(LongestInterval)/4 && 1/rate > 2*at {
			require.InEpsilon(t, interval, days*2/3/made[i], 0.35, "rate %v", rate)
		}
	}
}

// An announced change counts as far as the host was right before, and so does its absence.
func TestTrust(t *testing.T) {
	page := Page{Rate: 0.1, Last: epoch, Covered: true}
	word := page
	word.Word = true
	at := epoch.Add(day)
	value := func(trust Trust, p *Page) float64 { return p.Value(&trust, at) }
	plain := value(Trust{}, &Page{Rate: 0.1, Last: epoch})
	var honest, liar Trust
	for i := range 300 {
		honest.Observe(i%10 == 0, i%10 == 0)
		liar.Observe(true, i%10 == 0)
	}
	require.Greater(t, value(Trust{}, &word), plain)
	require.Greater(t, value(honest, &word), 20*plain)
	require.Less(t, value(honest, &page), plain/5)
	require.InEpsilon(t, plain, value(liar, &word), 0.3)
	require.Less(t, honest.True+honest.False+honest.Missed+honest.Silent, 1001.0)
}

// A page is not due while its host says that it is fresh, unless a change is announced. In the end it goes before all
// others, however little a visit gains.
func TestValue(t *testing.T) {
	value := func(p Page, after time.Duration) float64 { return p.Value(&Trust{}, epoch.Add(after)) }
	fast, slow := Page{Rate: maxRate, Last: epoch}, Page{Rate: minRate, Last: epoch}
	require.Zero(t, value(fast, 0))
	require.Less(t, value(fast, LongestInterval-1), value(Page{Rate: 1, Last: epoch}, day))
	require.Greater(t, value(fast, LongestInterval), 1/minRate)
	require.Greater(t, value(slow, LongestInterval), 1/minRate)
	fresh := Page{Rate: 1, Last: epoch, NotBefore: epoch.Add(day)}
	require.Zero(t, value(fresh, day-1))
	require.Positive(t, value(fresh, day))
	fresh.Word, fresh.Covered = true, true
	require.Positive(t, value(fresh, day-1))
	fresh.Word, fresh.NotBefore = false, epoch.Add(10*LongestInterval)
	require.Positive(t, value(fresh, LongestInterval))
}

// For any history, rates and values are valid.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 255, 0, 77})
	f.Fuzz(func(t *testing.T, visits []byte) {
		var h History
		var trust Trust
		for _, b := range visits {
			h.Observe(time.Minute<<(b>>3), b&1 == 1)
			trust.Observe(b&4 == 4, b&1 == 1)
		}
		rate := PagePrior.Rate(&h)
		require.True(t, rate >= minRate*0.99 && rate <= maxRate*1.01, "%v", rate)
		require.Less(t, h.Events(), maxEvents+1.0)
		page := Page{Rate: rate, Last: epoch, Covered: true, Word: len(visits)%2 == 1}
		value := page.Value(&trust, epoch.Add(time.Duration(len(visits))*time.Hour))
		require.True(t, value >= 0 && !math.IsInf(value, 0), "%v", value)
	})
}
