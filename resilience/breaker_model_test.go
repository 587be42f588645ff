package resilience_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/resilience"
)

// modelBreaker is a breaker that is slow and obvious: it keeps every result and every
// probe, and counts from the start each time it is asked.
type modelBreaker struct {
	run, count, span, buckets int // the window: one of run, count and span is not zero
	rate, slowRate            float64
	minCalls, closeAfter      int
	openFor, slowAt           int

	isolated bool
	state    breaker.State
	since    int
	age      int // how many changes of state there were
	results  []modelResult
	probes   []modelProbe
}

type modelResult struct {
	at           int
	failed, slow bool
}

// modelProbe is a probe that is out or was lost; ended ones are gone.
type modelProbe struct{ id, at int }

type modelTicket struct {
	ticket  resilience.Ticket
	id, age int
	at      int
}

func (m *modelBreaker) become(now int, s breaker.State) {
	m.state, m.since, m.results, m.probes = s, now, nil, nil
	m.age++
}

func (m *modelBreaker) seen(now int) breaker.State {
	switch {
	case m.isolated:
		return breaker.Open
	case m.state == breaker.Open && now >= m.since+m.openFor:
		return breaker.HalfOpen
	}
	return m.state
}

// allow returns how long a refused caller has to wait, and -1 for one that may call.
func (m *modelBreaker) allow(now, id int) (wait int) {
	if m.isolated {
		return 0
	}
	if m.state == breaker.Open {
		if left := m.since + m.openFor - now; left > 0 {
			return left
		}
		m.become(now, breaker.HalfOpen)
	}
	if m.state == breaker.Closed {
		return -1
	}
	if len(m.probes) > 0 {
		if left := m.probes[0].at + m.openFor - now; left > 0 {
			return left
		}
	}
	m.probes = []modelProbe{{id, now}}
	return -1
}

func (m *modelBreaker) done(now int, t *modelTicket, v resilience.Classification) {
	if t.age != m.age {
		return
	}
	for i, p := range m.probes {
		if p.id == t.id {
			m.probes = append(m.probes[:i:i], m.probes[i+1:]...)
			break
		}
	}
	if v == resilience.Ignored {
		return
	}
	m.results = append(m.results, modelResult{now, v == resilience.Failure, m.slowAt > 0 && now-t.at >= m.slowAt})
	if m.state == breaker.HalfOpen {
		last := m.results[len(m.results)-1]
		if last.failed || last.slow {
			m.become(now, breaker.Open)
		} else if len(m.results) == m.closeAfter {
			m.become(now, breaker.Closed)
		}
		return
	}
	if m.opens(now) {
		m.become(now, breaker.Open)
	}
}

func (m *modelBreaker) opens(now int) bool {
	if m.run > 0 {
		n := 0
		for _, r := range m.results {
			if n++; !r.failed && !r.slow {
				n = 0
			}
		}
		return n >= m.run
	}
	calls, failed, slow := 0, 0, 0
	for i, r := range m.results {
		if m.count > 0 && i < len(m.results)-m.count {
			continue
		}
		if width := m.span / max(m.buckets, 1); m.count == 0 && r.at/width <= now/width-m.buckets {
			continue
		}
		calls++
		if r.failed {
			failed++
		}
		if r.slow {
			slow++
		}
	}
	return calls >= m.minCalls && (float64(failed) >= m.rate*float64(calls) || m.slowAt > 0 && float64(slow) >= m.slowRate*float64(calls))
}

// drawBreaker draws settings, for the model and for the real one. Shares are halves and
// quarters, which floating-point numbers are exact about.
func drawBreaker(t *rapid.T) (*modelBreaker, resilience.BreakerConfig) {
	m := &modelBreaker{
		closeAfter: rapid.IntRange(1, 3).Draw(t, "SuccessThreshold"),
		openFor:    rapid.IntRange(1, 20).Draw(t, "BreakFor"),
		slowAt:     rapid.SampledFrom([]int{0, 5}).Draw(t, "SlowCall"),
	}
	cfg := resilience.BreakerConfig{
		SlowCall: time.Duration(m.slowAt), SuccessThreshold: m.closeAfter,
		BreakFor: time.Duration(m.openFor),
	}
	kind := rapid.IntRange(0, 2).Draw(t, "kind")
	if kind == 0 {
		m.run = rapid.IntRange(1, 3).Draw(t, "Failures")
		cfg.Failures = m.run
		return m, cfg
	}
	m.minCalls = rapid.IntRange(1, 4).Draw(t, "MinCalls")
	m.rate = float64(rapid.IntRange(1, 4).Draw(t, "FailureRate")) / 4
	cfg.MinCalls, cfg.FailureRate = m.minCalls, m.rate
	if m.slowAt > 0 {
		m.slowRate = float64(rapid.IntRange(1, 4).Draw(t, "SlowRate")) / 4
		cfg.SlowRate = m.slowRate
	}
	if kind == 1 {
		m.count = rapid.IntRange(m.minCalls, 8).Draw(t, "calls")
		cfg.Window = resilience.CountWindow(m.count)
		return m, cfg
	}
	m.buckets = rapid.IntRange(1, 4).Draw(t, "buckets")
	m.span = m.buckets * rapid.IntRange(1, 5).Draw(t, "width")
	cfg.Window = resilience.TimeWindow(time.Duration(m.span), m.buckets)
	return m, cfg
}

// Step by step the breaker does what the model does: same states, same refusals with the same time to wait.
func TestBreakerAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, cfg := drawBreaker(t)
		clk := clocktest.NewFake(epoch)
		cfg.Clock = clk
		b := must(resilience.NewBreaker(cfg))
		now := 0
		var out []*modelTicket
		for id := range rapid.IntRange(1, 150).Draw(t, "steps") {
			if pass := rapid.SampledFrom([]int{0, 0, 0, 1, 2, 7, 30}).Draw(t, "pass"); pass > 0 {
				now += pass
				clk.Advance(time.Duration(pass))
			}
			switch do := rapid.IntRange(0, 39).Draw(t, "do"); {
			case do == 0:
				b.Reset()
				m.isolated = false
				m.become(now, breaker.Closed)
			case do == 1:
				b.Isolate()
				m.isolated = true
				m.become(now, breaker.Open)
			case do < 20:
				out = allowBoth(t, b, m, now, id, out)
			case len(out) > 0:
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				v := rapid.SampledFrom([]resilience.Classification{resilience.Success, resilience.Success, resilience.Failure, resilience.Failure, resilience.Ignored}).Draw(t, "classification")
				out[i].ticket.Done(v)
				m.done(now, out[i], v)
				out = append(out[:i], out[i+1:]...)
			}
			if got, want := b.State(), m.seen(now); got != want {
				t.Fatalf("step %d at %d: %v, want %v", id, now, got, want)
			}
		}
	})
}

func allowBoth(t *rapid.T, b *resilience.Breaker, m *modelBreaker, now, id int, out []*modelTicket) []*modelTicket {
	ticket, err := b.Allow()
	wait := m.allow(now, id)
	if err == nil {
		if wait >= 0 {
			t.Fatalf("allowed at %d, want a refusal for %d", now, wait)
		}
		return append(out, &modelTicket{ticket: ticket, id: id, age: m.age, at: now})
	}
	var refusal *resilience.OpenError
	if !errors.As(err, &refusal) || int(min(refusal.RetryAfter, math.MaxInt32)) != wait {
		t.Fatalf("refused at %d with %v, want to wait for %d", now, err, wait)
	}
	return out
}
