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
	sc := Scenario{Name: fmt.Sprintf("R%d", seed), Link: link, Capacity: flat(rps)}
	status := tooMany
	if g.IntN(2) == 0 {
		status = unavailable
	}
	what, w := g.limiter(&sc, rps, status)
	if w >= time.Minute {
		sc = long(sc)
	}
	sc.Doc = fmt.Sprintf("%s, %d, RTT %v", what, status, link.RTT.Round(100*time.Microsecond))
	return sc
}

type draw struct{ *rand.Rand }

func (g draw) logUniform(low, high float64) float64 {
	return low * math.Pow(high/low, g.Float64())
}

// hint draws a Retry-After, mostly none.
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

// limiter draws the limiter of sc, and sets the capacity of a window by its whole number of
// requests. w is its window, zero if it has none.
func (g draw) limiter(sc *Scenario, rps float64, status int) (what string, w time.Duration) {
	// A window holds at least one request, and no log more than a million.
	w = time.Duration(math.Round(g.logUniform(max(1, 1/rps), 300))) * time.Second
	n := max(1, int(rps*w.Seconds()))
	o, burst := g.hint(), math.Floor(g.logUniform(1, 101)-1)
	windowed := func(kind string) string {
		sc.Capacity = flat(float64(n) / w.Seconds())
		return fmt.Sprintf("%s %d in %v%v", kind, n, w, o)
	}
	switch g.IntN(8) {
	case 0:
		o = hint{constant, time.Duration(1+g.IntN(60)) * time.Second}
		fallthrough
	case 2:
		sc.New = bucket(rps, burst, status, o)
		return fmt.Sprintf("bucket %.4g/s, burst %.0f%v", rps, burst, o), 0
	case 1:
		sc.New = delaying(rps, burst, status)
		return fmt.Sprintf("delaying bucket %.4g/s, burst %.0f", rps, burst), 0
	case 3:
		sc.New = window(fixed{max: n, window: w, opening: opening(g.IntN(3)), status: status, hint: o})
		return windowed("fixed"), w
	case 4:
		sc.New = window(fixed{max: n, window: w, status: status, hint: o, quota: true})
		return windowed("fixed, quota headers,"), w
	case 5:
		sc.New = func(*rand.Rand) Server { return newSliding(n, w, status, o) }
		return windowed("sliding log"), w
	case 6:
		sc.New = func(*rand.Rand) Server {
			return &approximate{max: float64(n), window: w, status: status, hint: o}
		}
		return windowed("sliding counter"), w
	default:
		return g.queue(sc), 0
	}
}

func (g draw) queue(sc *Scenario) string {
	workers := 1 + g.IntN(32)
	service := time.Duration(g.logUniform(5, 500) * 1e6)
	*sc = Scenario{
		Name: sc.Name, Link: sc.Link, Capacity: flat(float64(workers) / service.Seconds()),
		New: func(rnd *rand.Rand) Server { return newQueue(workers, service, always(1), rnd) },
	}
	return fmt.Sprintf("queue of %d workers, %v", workers, service.Round(time.Millisecond))
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
