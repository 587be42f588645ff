package plan

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/racetest"
)

var (
	simulated = flag.Int("plan.pages", 5000, "how many pages are simulated")
	heldOut   = flag.Bool("plan.heldout", false, "simulate other pages, whose processes nothing was tuned by, with rounds of an hour")
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is pages with known processes of change.
type world struct {
	rnd    *rand.Rand
	rates  []float64 // changes per day
	next   []float64 // day of the next change
	period []bool    // the page changes every 1/rate days, from a random phase on
}

func newWorld(seed uint64, n int, rate func(*rand.Rand) float64, periodic float64) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 1))}
	for i := range n {
		w.rates = append(w.rates, rate(w.rnd))
		w.period = append(w.period, w.rnd.Float64() < periodic)
		w.next = append(w.next, 0)
		w.step(i, 0)
		if w.period[i] {
			w.next[i] = w.rnd.Float64() / w.rates[i]
		}
	}
	return w
}

// step draws the next change of a page after day.
func (w *world) step(i int, day float64) {
	if w.period[i] {
		w.next[i] += 1 / w.rates[i]
		return
	}
	w.next[i] = day + w.rnd.ExpFloat64()/w.rates[i]
}

// logNormal returns rates with that median, whose logarithms have that standard deviation.
func logNormal(median, deviation float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return min(max(1e-6, median*math.Exp(deviation*r.NormFloat64())), 200) }
}

// halfGamma returns rates of a gamma distribution with shape 1/2 and that mean.
func halfGamma(mean float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		z := r.NormFloat64()
		return max(1e-6, mean*z*z)
	}
}

// exponential returns rates of an exponential distribution with that mean.
func exponential(mean float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return max(1e-6, mean*r.ExpFloat64()) }
}

// visitor decides which pages are visited in a round, and learns the results.
type visitor interface {
	choose(now time.Time, n int) []int
	word(i int) // page i has announced a change
	visited(i int, now time.Time, changed bool)
}

// freshness returns the mean share of fresh pages over the days from to to, with as many visits a day as there are
// pages. A page is fresh if it has not changed since its last visit.
func (w *world) freshness(v visitor, tc *simulation) float64 {
	const from, to = 60, 120
	round := 1.0 / 6
	if *heldOut {
		round = 1.0 / 24
	}
	n := len(w.rates)
	last := make([]float64, n)  // last visits
	stale := make([]float64, n) // first change since the last visit; +Inf means none
	for i := range n {
		stale[i] = math.Inf(1)
	}
	fresh, credit := 0.0, 0.0
	count := func(i int, until float64) { // adds the time of page i from its last visit until then
		begin, end := max(last[i], from), min(min(stale[i], until), to)
		fresh += max(0, end-begin)
	}
	for day := round; day <= to; day += round {
		for i := range n {
			for w.next[i] <= day {
				stale[i] = min(stale[i], w.next[i])
				if w.rnd.Float64() < tc.words {
					v.word(i)
				}
				w.step(i, w.next[i])
			}
		}
		for i := 0; i < n && tc.lies; i++ {
			v.word(i)
		}
		credit = min(credit+float64(n)*round, float64(n))
		now := epoch.Add(time.Duration(day * 24 * float64(time.Hour)))
		for _, i := range v.choose(now, int(credit)) {
			credit--
			count(i, day)
			changed := !math.IsInf(stale[i], 1)
			last[i], stale[i] = day, math.Inf(1)
			v.visited(i, now, changed)
		}
	}
	for i := range n {
		count(i, to)
	}
	return fresh / (to - from) / float64(n)
}

// planned visits the pages that the plan chooses.
type planned struct {
	pages   []Page
	history []*History
	trust   Trust
	known   bool // it knows the true rates
	planned time.Time
}

func newPlanned(n int, rates []float64) *planned {
	p := &planned{pages: make([]Page, n), known: rates != nil}
	for i := range n {
		p.pages[i].Last = epoch
		p.history = append(p.history, &History{})
		if p.known {
			p.pages[i].Rate = rates[i]
		}
	}
	return p
}

func (p *planned) choose(now time.Time, n int) []int {
	if now.Sub(p.planned) >= 24*time.Hour && !p.known {
		p.planned = now
		for i := range p.pages {
			p.pages[i].Rate = PagePrior.Rate(p.history[i])
		}
	}
	return choose(len(p.pages), n, func(i int) float64 { return p.pages[i].Value(&p.trust, now) })
}

func (p *planned) word(i int) { p.pages[i].Word = true }

func (p *planned) visited(i int, now time.Time, changed bool) {
	if page := &p.pages[i]; page.Covered {
		p.trust.Observe(page.Word, changed)
		page.Word = false
	}
	p.history[i].Observe(now.Sub(p.pages[i].Last), changed)
	p.pages[i].Last = now
}

// choose returns which of the pages to visit, at most n of them: those of the greatest value.
func choose(pages, n int, value func(i int) float64) (chosen []int) {
	values := make([]float64, pages)
	for i := range pages {
		values[i] = value(i)
	}
	sorted := slices.Sorted(slices.Values(values))
	least := sorted[min(max(0, pages-n), pages-1)]
	for i, v := range values {
		if v > 0 && v >= least && len(chosen) < n {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// uniform visits all pages in turn.
type uniform struct{ n, at int }

func (u *uniform) choose(_ time.Time, n int) (chosen []int) {
	for range min(n, u.n) {
		chosen = append(chosen, u.at)
		u.at = (u.at + 1) % u.n
	}
	return chosen
}

func (u *uniform) word(int) {}

func (u *uniform) visited(int, time.Time, bool) {}

// optimum returns the freshness of the best division of one visit per page and day, by the formula.
func optimum(rates []float64) float64 {
	at, sum := price(rates, float64(len(rates))), 0.0
	for _, r := range rates {
		if x, ok := changesFor(at * r); ok && x > 0 {
			sum += -math.Expm1(-x) / x
		}
	}
	return sum / float64(len(rates))
}

// price returns the gain of one more visit at which pages with these rates need perDay visits a day together.
func price(rates []float64, perDay float64) float64 {
	low, high := math.Log(1e-12), math.Log(1/minRate)
	for range 40 {
		at, visits := (low+high)/2, 0.0
		for _, rate := range rates {
			visits += 1 / interval(rate, math.Exp(at))
		}
		if visits > perDay {
			low = at
		} else {
			high = at
		}
	}
	return math.Exp(high)
}

// interval returns the time between two visits of a page with that rate at that price, in days.
func interval(rate, price float64) float64 {
	x, ok := changesFor(price * rate)
	if !ok {
		return math.Inf(1)
	}
	return x / rate
}

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

// simulation is how pages change, and what their host announces.
type simulation struct {
	name     string
	rate     func(*rand.Rand) float64
	periodic float64 // share of pages that change at regular times
	words    float64 // share of changes that a sitemap announces at once
	lies     bool    // the sitemap always announces changes of all pages
	seed     uint64
}

// simulations are those with which the plan was tuned (true), and others (false).
var simulations = map[bool][]simulation{
	false: {
		{name: "log-normal", rate: logNormal(0.2, 1.8), seed: 11},
		{name: "gamma", rate: halfGamma(0.5), seed: 12},
		{name: "log-normal, a third periodic", rate: logNormal(0.2, 1.8), periodic: 1.0 / 3, seed: 14},
		{name: "log-normal, a sitemap tells half", rate: logNormal(0.2, 1.8), words: 0.5, seed: 15},
		{name: "log-normal, a sitemap lies", rate: logNormal(0.2, 1.8), lies: true, seed: 16},
	},
	true: {
		{name: "log-normal, median 0.2 a day, deviation 1.8", rate: logNormal(0.2, 1.8), seed: 101},
		{name: "log-normal, median 1/30 a day, deviation 2.2", rate: logNormal(1.0/30, 2.2), seed: 102},
		{name: "gamma, shape 1/2, mean 0.5 a day", rate: halfGamma(0.5), seed: 103},
		{name: "gamma, shape 1, mean 3 a day", rate: exponential(3), seed: 104},
		{name: "log-normal, half of the pages at regular times", rate: logNormal(0.2, 1.8), periodic: 0.5, seed: 105},
		{name: "log-normal, a sitemap tells 80 % of changes", rate: logNormal(0.2, 1.8), words: 0.8, seed: 106},
		{name: "log-normal, a sitemap says changed of all pages", rate: logNormal(0.2, 1.8), lies: true, seed: 107},
	},
}

// By learning from visits, the plan nearly reaches the freshness of the best division with known rates.
func TestFreshness(t *testing.T) {
	cases, pages := simulations[*heldOut], *simulated
	if racetest.Sample(t) {
		cases, pages = cases[:1], pages/10
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			run := func(v func(w *world) visitor) float64 {
				w := newWorld(tc.seed, pages, tc.rate, tc.periodic)
				return w.freshness(v(w), &tc)
			}
			got := run(func(*world) visitor {
				p := newPlanned(pages, nil)
				for i := range p.pages {
					p.pages[i].Covered = tc.words > 0 || tc.lies
				}
				return p
			})
			best := optimum(newWorld(tc.seed, pages, tc.rate, tc.periodic).rates)
			inTurn := run(func(*world) visitor { return &uniform{n: pages} })
			known := 0.0
			if *heldOut {
				known = run(func(w *world) visitor { return newPlanned(pages, w.rates) })
			}
			t.Logf("in turn %.4f, planned %.4f, with known rates %.4f, optimum %.4f: %.1f %% of the optimum", inTurn, got, known, best, 100*got/best)
			require.Greater(t, got, inTurn)
			require.Greater(t, got, 0.95*best)
		})
	}
}
