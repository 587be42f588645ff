package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Random draws a host: a limiter or a queue, at 0.2 to 2000 requests per second, with windows of
// 1 to 300 s, any form of refusal, and latencies of 0.3 to 500 ms. The same seed draws the same.
func Random(seed uint64) Scenario {
	g := draw{rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))} // any second word will do
	rps := g.logUniform(0.2, 2000)
	link := Link{RTT: time.Duration(g.logUniform(0.3, 500) * 1e6), Jitter: g.Float64() * 0.3}
	link.Contention = link.RTT < 2*time.Millisecond // only there does it show
	status := tooMany
	if g.IntN(2) == 0 {
		status = unavailable
	}
	l, what := g.limit(rps)
	l.Status = status
	sc := Scenario{Name: fmt.Sprintf("R%d", seed), Link: link, Capacity: l.rps, New: l.server}
	if l.Kind != "queue" && l.Per >= time.Minute {
		sc.Duration = 30 * time.Minute
	}
	sc.Doc = fmt.Sprintf("%s, %d, RTT %v", what, status, link.RTT.Round(100*time.Microsecond))
	return sc
}

type draw struct{ *rand.Rand }

func (g draw) logUniform(low, high float64) float64 {
	return low * math.Pow(high/low, g.Float64())
}

func (g draw) hint() hint {
	switch g.IntN(5) {
	case 0:
		return hint{form: exact}
	case 1:
		return hint{form: wholeDate}
	case 2:
		return hint{constant, time.Duration(1+g.IntN(60)) * time.Second}
	}
	return hint{}
}

// limit draws a limiter or a queue, and says what it is. A window holds at least one request, and no log more
// than a million.
func (g draw) limit(rps float64) (l *limit, what string) {
	w := time.Duration(math.Round(g.logUniform(max(1, 1/rps), 300))) * time.Second
	n := max(1, int(rps*w.Seconds()))
	o, burst := g.hint(), math.Floor(g.logUniform(1, 101)-1)
	windowed := func(kind string, l limit, name string) (*limit, string) {
		l.Kind, l.N, l.Per, l.Hint = kind, n, w, o
		return &l, fmt.Sprintf("%s %d in %v%v", name, n, w, o)
	}
	switch g.IntN(8) {
	case 0:
		o = hint{constant, time.Duration(1+g.IntN(60)) * time.Second}
		fallthrough
	case 2:
		return &limit{Kind: "leaky", Rate: always(rps), Burst: burst, Hint: o}, fmt.Sprintf("bucket %.4g/s, burst %.0f%v", rps, burst, o)
	case 1:
		return &limit{Kind: "leaky", Rate: always(rps), Burst: burst, Delay: true}, fmt.Sprintf("delaying bucket %.4g/s, burst %.0f", rps, burst)
	case 3:
		return windowed("fixed", limit{Opening: opening(g.IntN(3))}, "fixed")
	case 4:
		return windowed("fixed", limit{Quota: true}, "fixed, quota headers,")
	case 5:
		return windowed("log", limit{}, "sliding log")
	case 6:
		return windowed("approximate", limit{}, "sliding counter")
	}
	l = &limit{Kind: "queue", N: 1 + g.IntN(32), Per: time.Duration(g.logUniform(5, 500) * 1e6)}
	return l, fmt.Sprintf("queue of %d workers, %v", l.N, l.Per.Round(time.Millisecond))
}

func (o hint) String() string {
	switch o.form {
	case exact:
		return ", Retry-After"
	case constant:
		return fmt.Sprintf(", Retry-After %v", o.d)
	case wholeDate:
		return ", Retry-After date"
	case silent:
	}
	return ""
}
