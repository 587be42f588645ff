package plan

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var simulated = flag.Int("plan.pages", 5000, "how many pages are simulated")

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world are pages with known processes of change.
type world struct {
	rnd    *rand.Rand
	rates  []float64 // changes per day
	next   []float64 // day of the next change
	period []bool    // it changes every 1/rate days, at a phase of its own
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

// step draws the change after day.
func (w *world) step(i int, day float64) {
	if w.period[i] {
		w.next[i] += 1 / w.rates[i]
		return
	}
	w.next[i] = day + w.rnd.ExpFloat64()/w.rates[i]
}

// logNormal and gamma are how rates are distributed, a median or mean of one change in a few days.
func logNormal(r *rand.Rand) float64 { return math.Exp(math.Log(0.2) + 1.8*r.NormFloat64()) }

func gammaRate(r *rand.Rand) float64 { // shape 1/2, mean 1/2
	z := r.NormFloat64()
	return max(1e-6, z*z/2)
}

// visitor decides which pages are visited in a round, and hears what came of it.
type visitor interface {
	choose(now time.Time, n int) []int
	visited(i int, now time.Time, changed bool, ago time.Duration)
}

// freshness is the mean share of fresh pages over days from to to, with rounds of an hour and as many visits a day as there are
// pages. A fresh page is one that has not changed since its last visit.
func (w *world) freshness(v visitor, from, to float64, dated bool) float64 {
	const round = 1.0 / 24
	n := len(w.rates)
	last := make([]float64, n)  // visit
	stale := make([]float64, n) // first change since then; +Inf: none
	latest := make([]float64, n)
	for i := range n {
		stale[i] = math.Inf(1)
	}
	fresh, credit := 0.0, 0.0
	count := func(i int, until float64) { // the time of page i from its last visit until then
		begin, end := max(last[i], from), min(min(stale[i], until), to)
		fresh += max(0, end-begin)
	}
	for day := round; day <= to; day += round {
		for i := range n {
			for w.next[i] <= day {
				stale[i], latest[i] = min(stale[i], w.next[i]), w.next[i]
				w.step(i, w.next[i])
			}
		}
		credit = min(credit+float64(n)*round, float64(n))
		now := epoch.Add(time.Duration(day * 24 * float64(time.Hour)))
		for _, i := range v.choose(now, int(credit)) {
			credit--
			count(i, day)
			changed, ago := !math.IsInf(stale[i], 1), time.Duration(0)
			if changed && dated {
				ago = time.Duration((day - latest[i]) * 24 * float64(time.Hour))
			}
			last[i], stale[i] = day, math.Inf(1)
			v.visited(i, now, changed, ago)
		}
	}
	for i := range n {
		count(i, to)
	}
	return fresh / (to - from) / float64(n)
}

// planned visits as the plan says.
type planned struct {
	pages   []Page
	history []*History
	prior   Prior
	host    Host
	known   bool // rates are the true ones
	fitted  time.Time
}

func newPlanned(n int, rates []float64) *planned {
	p := &planned{pages: make([]Page, n), prior: DefaultPrior, known: rates != nil}
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
	if now.Sub(p.fitted) >= 24*time.Hour {
		p.fitted = now
		if !p.known {
			p.prior = p.prior.Fit(p.history)
		}
		rates := make([]float64, len(p.pages))
		for i := range p.pages {
			if !p.known {
				p.pages[i].Rate, _ = p.prior.Rate(p.history[i])
			}
			rates[i] = p.pages[i].Rate
		}
		p.host.Price = Price(rates, float64(len(rates)), time.Hour)
	}
	return Choose(len(p.pages), n, func(i int) float64 { return p.host.Value(&p.pages[i], now) })
}

func (p *planned) visited(i int, now time.Time, changed bool, ago time.Duration) {
	p.history[i].Observe(now.Sub(p.pages[i].Last), changed, ago)
	p.pages[i].Last = now
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

func (u *uniform) visited(int, time.Time, bool, time.Duration) {}

// optimum is the freshness of the best division of one visit per page and day, by the formula.
func optimum(rates []float64) float64 {
	h := Host{Price: Price(rates, float64(len(rates)), 0)}
	sum := 0.0
	for _, r := range rates {
		if x, ok := changesFor(h.Price * r); ok && x > 0 {
			sum += -math.Expm1(-x) / x
		}
	}
	return sum / float64(len(rates))
}

func TestFreshness(t *testing.T) {
	for _, tc := range []struct {
		name     string
		rate     func(*rand.Rand) float64
		periodic float64
		dated    bool
	}{
		{"log-normal", logNormal, 0, false},
		{"gamma", gammaRate, 0, false},
		{"gamma, dated", gammaRate, 0, true},
		{"log-normal, a third periodic", logNormal, 1.0 / 3, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const from, to = 60, 120
			run := func(v func(w *world) visitor) float64 {
				w := newWorld(11, *simulated, tc.rate, tc.periodic)
				return w.freshness(v(w), from, to, tc.dated)
			}
			u := run(func(*world) visitor { return &uniform{n: *simulated} })
			known := run(func(w *world) visitor { return newPlanned(*simulated, w.rates) })
			got := run(func(*world) visitor { return newPlanned(*simulated, nil) })
			w := newWorld(11, *simulated, tc.rate, tc.periodic)
			best := optimum(w.rates)
			t.Logf("uniform %.4f, planned %.4f, with known rates %.4f, optimum %.4f: %.1f %% of the optimum", u, got, known, best, 100*got/best)
			require.Greater(t, got, u)
			require.Greater(t, got, 0.95*best)
		})
	}
}
