package steer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// reply is how a model of a server answers a request.
type reply struct {
	class   outcome.Class
	order   time.Duration
	quota   header.Quota
	latency time.Duration // beyond that of the way

	forbidden bool // 403
}

// model is a server. It is called in the order of time.
type model func(at clock.Instant, inFlight int) reply

func refusal(order time.Duration) reply { return reply{class: outcome.Throttled, order: order} }

// bucket returns a token bucket that refills at a rate per second. Its Retry-After is always the same.
func bucket(rate, burst float64, order time.Duration) model {
	left, last := burst, clock.Instant(0)
	return func(at clock.Instant, _ int) reply {
		left, last = min(burst, left+rate*at.Sub(last).Seconds()), at
		if left < 1 {
			return refusal(order)
		}
		left--
		return reply{}
	}
}

// wholeRest returns a Retry-After of the rest of a window, in whole seconds.
func wholeRest(rest time.Duration) time.Duration {
	return (rest + time.Second - 1).Truncate(time.Second)
}

func silent(time.Duration) time.Duration { return 0 }

// fixed returns a counter of n requests in each span of the clock; with told its responses tell the quota.
func fixed(n int, span time.Duration, order func(time.Duration) time.Duration, told bool) model {
	const phase = 3 * time.Second
	count, in := 0, int64(-1)
	return func(at clock.Instant, _ int) (r reply) {
		now := int64(time.Duration(at)+phase) / int64(span)
		if now != in {
			in, count = now, 0
		}
		rest := time.Duration((now+1)*int64(span)) - phase - time.Duration(at)
		if count++; count > n {
			r = refusal(order(rest))
		}
		if told {
			r.quota = header.Quota{Limit: int64(n), Remaining: int64(max(n-count, 0)), Reset: wholeRest(rest)}
		}
		return r
	}
}

// logged returns a counter of n requests in any span. If it counts refused requests too, its Retry-After is the whole
// span.
func logged(n int, span time.Duration, order func(time.Duration) time.Duration, refused bool) model {
	var log []clock.Instant
	return func(at clock.Instant, _ int) reply {
		for len(log) > 0 && log[0] <= at.Add(-span) {
			log = log[1:]
		}
		if full := len(log) >= n; full && refused {
			log = append(log, at)
			return refusal(span)
		} else if full {
			return refusal(order(log[0].Add(span).Sub(at)))
		}
		log = append(log, at)
		return reply{}
	}
}

// gcra returns a bucket whose responses tell what is left, and in whole seconds when it is full again.
func gcra(rate float64, burst int) model {
	m, tat := bucket(rate, float64(burst), time.Second), clock.Instant(0)
	return func(at clock.Instant, n int) reply {
		r := m(at, n)
		if tat = max(tat, at); r.order == 0 {
			tat = tat.Add(seconds(1 / rate))
		}
		left := float64(burst) - tat.Sub(at).Seconds()*rate
		r.quota = header.Quota{Limit: int64(burst), Remaining: int64(max(left, 0)), Reset: wholeRest(tat.Sub(at))}
		return r
	}
}

// workers returns n workers that make pages in turn, each of which takes that time, and refuse nothing.
func workers(n int, page time.Duration) model {
	free := make([]clock.Instant, n)
	return func(at clock.Instant, _ int) reply {
		slices.Sort(free)
		free[0] = max(free[0], at).Add(page)
		return reply{latency: free[0].Sub(at)}
	}
}

// connectionLimit returns a server that admits n requests at once, each of which takes that time.
func connectionLimit(n int, page time.Duration) model {
	var ends []clock.Instant
	return func(at clock.Instant, _ int) reply {
		ends = slices.DeleteFunc(ends, func(end clock.Instant) bool { return end <= at })
		if len(ends) >= n {
			return refusal(0)
		}
		ends = append(ends, at.Add(page))
		return reply{latency: page}
	}
}

// downtime returns a server that refuses everything in every second span of the clock.
func downtime(span, order time.Duration) model {
	return func(at clock.Instant, _ int) reply {
		if time.Duration(at)/span%2 == 1 {
			return refusal(order)
		}
		return reply{}
	}
}

// flaky returns a server that fails one request in ten, whatever the rate.
func flaky() model {
	n := 0
	return func(clock.Instant, int) reply {
		if n++; n%10 == 7 {
			return reply{class: outcome.ServerError}
		}
		return reply{}
	}
}

// evasive returns a server that answers 403 to a client of more than n requests in a second of its clock, until the
// client is silent for span.
func evasive(n int, span time.Duration) model {
	count, in, last := 0, int64(-1), never
	blocked := false
	return func(at clock.Instant, _ int) reply {
		blocked = blocked && at.Sub(last) < span
		if sec := int64(at) / int64(time.Second); sec != in {
			in, count = sec, 0
		}
		count++
		last = at
		if blocked = blocked || count > n; blocked {
			return reply{class: outcome.ClientError, forbidden: true}
		}
		return reply{}
	}
}

// panel holds every estimator. Each sees the same samples, and none sees the others.
type panel struct {
	history     history
	refill      refill
	block       block
	tally       tally
	health      health
	window      window
	queueing    queueing
	connections connections
	hint        hint
	blockedAt   float64       // the rate that was blocked last
	cycle       Estimate      // of refill, at the last refusal
	busy        clock.Instant // end of the last pause
}

// see shows a sample to all, and reports whether the host blocks.
func (p *panel) see(x *Sample) (blocked bool) {
	bad := x.Class.Overload() && !x.ordered()
	switch {
	case x.admitted():
		p.history.add(x.SentAt)
		p.connections.passed(x)
		p.queueing.observe(x)
	case x.refused():
		p.connections.refused(x)
	}
	if blocked = p.block.observe(x); blocked {
		p.blockedAt = x.Rate
	}
	if !x.Forbidden {
		p.tally.add(x.Second)
	}
	if x.admitted() || bad {
		if f := p.health.observe(x, bad); f == failing && p.health.resumed(0, false, 0) == failing {
			p.health.begin(x.Tuning, x.Rate, x.Rate, 0)
		}
	}
	p.hint.observe(x)
	return blocked
}

// estimates returns what each concludes at an instant.
func (p *panel) estimates(now clock.Instant) map[string]Estimate {
	return map[string]Estimate{
		"refill": p.cycle, "block": p.block.estimate(p.blockedAt, &p.tally), "health": healthSays(&p.health),
		"window": p.window.estimate(), "queueing": p.queueing.estimate(&DefaultTuning),
		"connections": p.connections.estimate(now), "hint": p.hint.estimate(now),
	}
}

// sender sends requests to a model as a simple client does: ever faster until one is refused, and when a trial has
// succeeded, at 20 to 40 % more than was admitted since the last refusal.
type sender struct {
	*panel
	rate    float64
	now     clock.Instant
	flying  []Sample // in the order of their answers
	refused clock.Instant
	cycle   clock.Instant // when the last refusal began
	n       int           // admitted since
	cycles  int
	wait    time.Duration
	spell   spell // the present pause
	trial   bool  // one is out
	begun   bool  // something was refused
	blocked bool
}

// claimed is the confidence of an explanation that stands after one event; two events that agree give more than .9.
const claimed = .6

const way = 20 * time.Millisecond

func (s *sender) answer(x Sample) {
	s.now = max(s.now, x.At)
	x.InFlight, x.Rate, x.Mode = len(s.flying)+1, s.rate, Cruise
	if !s.begun {
		x.Mode = Search
	}
	blocked := s.see(&x)
	switch {
	case blocked && s.wait == 0 || x.Forbidden && s.trial:
		if s.wait == 0 {
			s.refused = x.SentAt
		}
		s.begun, s.trial, s.blocked, s.wait = true, false, true, max(blockWait, s.wait*3/2)
	case x.refused() && (s.wait == 0 || s.trial):
		if s.wait == 0 {
			s.refused = x.SentAt
			s.spell = spell{from: x.SentAt, rate: x.Rate}
		}
		s.spell.last, s.spell.order = x.SentAt.Add(max(x.RetryAfter-time.Second, 0)), x.RetryAfter
		s.begun, s.trial = true, false
		s.wait = max(100*time.Millisecond, s.now.Sub(s.refused)/4, x.RetryAfter)
	case x.admitted() && s.wait > 0 && s.trial:
		s.cycles++
		if s.spell.to = x.SentAt; lasting(s.spell.took(), s.spell.rate) && !s.blocked {
			s.window.weigh(&DefaultTuning, &s.history, s.busy, s.spell, true)
		}
		if s.blocked {
			s.block.gap = s.wait
			s.blocked = false
		}
		s.panel.cycle = s.refill.estimate(&DefaultTuning, &s.history, s.busy, s.refused)
		s.refill.begin(&DefaultTuning, &s.history, s.refused)
		s.busy = s.now
		s.rate = max(.5, (1.2+.1*float64(s.cycles%3))*float64(s.n)/s.now.Sub(s.cycle).Seconds())
		s.cycle, s.n, s.wait, s.trial = s.now, 0, 0, false
	case x.admitted():
		s.n++
	}
}

// run sends requests to a model from begin to end, at most so many per second.
func (s *sender) run(m model, begin, end time.Duration, most float64) {
	s.panel = &panel{hint: hint{askedAt: never}}
	s.rate = 1
	for next := clock.Instant(begin); s.now < clock.Instant(end); {
		for len(s.flying) > 0 && s.flying[0].At <= next {
			x := s.flying[0]
			s.flying = s.flying[1:]
			waits := s.wait
			if s.answer(x); s.wait > 0 && s.wait != waits {
				next = s.now.Add(s.wait)
			}
		}
		if s.trial {
			next = s.flying[len(s.flying)-1].At
			continue
		}
		s.now = max(s.now, next)
		growth := .5 // per second
		if s.trial = s.wait > 0; s.begun {
			growth = .02
		}
		s.rate = min(most, s.rate*math.Exp(growth/max(s.rate, 1)))
		r := m(s.now.Add(way/2), len(s.flying)+1)
		s.hint.send()
		x := Sample{Observation: &control.Observation{
			SentAt: s.now, Class: r.class, RetryAfter: r.order, Quota: r.quota, Latency: way + r.latency,
			Forbidden: r.forbidden, Second: uint8(s.now.Add(way/2)/clock.Instant(time.Second)%60) + 1,
		}, Tuning: &DefaultTuning, At: s.now.Add(way + r.latency), Settle: time.Second}
		i, _ := slices.BinarySearchFunc(s.flying, x.At, func(y Sample, at clock.Instant) int { return int(y.At - at) })
		s.flying = slices.Insert(s.flying, i, x)
		rate, h := s.rate, s.hint.estimate(s.now) // as everybody would
		for _, e := range []Estimate{h, s.queueing.estimate(&DefaultTuning), healthSays(&s.health)} {
			rate = lower(rate, e.Rate)
		}
		next = max(s.now.Add(seconds(1/rate)), h.NotBefore)
	}
}

// Each estimator claims the limits whose cause it knows, to 16 %, and no other: models x estimators, most of five phases
// of the sender.
func TestEstimatorsTellCausesApart(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	names := []string{"refill", "window", "hint", "block", "connections", "queueing", "health"}
	fmt.Fprintf(&table, "%-34s", "")
	for _, name := range names {
		fmt.Fprintf(&table, "%-16s", name)
	}
	for _, tc := range []struct {
		name   string
		model  func() model
		most   float64 // asked for per second
		claims string
		want   float64 // requests per second, or at once
		also   string  // may be claimed: what a log gives back, a bucket does too
	}{
		{"no limit", func() model { return func(clock.Instant, int) reply { return reply{} } }, 50, "", 0, ""},
		{"a tenth fails", func() model { return flaky() }, 50, "health", 0, ""},
		{"bucket 10/s of 20", func() model { return bucket(10, 20, 0) }, 400, "refill", 10, ""},
		{"bucket 10/s of 20, orders 1 s", func() model { return bucket(10, 20, time.Second) }, 400, "refill", 10, ""},
		{"20 in a second, or 403 for 10 s", func() model { return evasive(20, 10*time.Second) }, 400, "block", 20, ""},
		{"fixed 100 in 10 s, bare", func() model { return fixed(100, 10*time.Second, silent, false) }, 400, "window", 10, ""},
		{"fixed 600 in 60 s, orders the rest", func() model { return fixed(600, time.Minute, wholeRest, false) }, 400, "window", 10, ""},
		{"log 100 in 10 s, bare", func() model { return logged(100, 10*time.Second, silent, false) }, 400, "window", 10, "refill"},
		{"log 300 in 60 s, orders the rest", func() model { return logged(300, time.Minute, wholeRest, false) }, 400, "window", 5, "refill"},
		{"log 200 in 10 s, orders all of it", func() model { return logged(200, 10*time.Second, silent, true) }, 400, "window", 20, ""},
		{"fixed 80 in 4 s, told", func() model { return fixed(80, 4*time.Second, wholeRest, true) }, 400, "hint", 20, ""},
		{"bucket 15/s of 5, told", func() model { return gcra(15, 5) }, 400, "hint", 15, ""},
		{"down a minute of two, orders 3 s", func() model { return downtime(time.Minute, 3*time.Second) }, .2, "", 0, "refill"},
		{"4 workers, 100 ms each", func() model { return workers(4, 100*time.Millisecond) }, 400, "queueing", 40, ""},
		{"4 connections, a second each", func() model { return connectionLimit(4, time.Second) }, 40, "connections", 4, "refill"},
	} {
		var s sender
		claims := map[string]int{}
		const phases = 5
		for phase := range phases {
			s = sender{}
			s.run(tc.model(), time.Duration(phase)*700*time.Millisecond, 5*time.Minute, tc.most)
			for name, e := range s.estimates(s.now) {
				at := max(e.Rate, float64(e.InFlight))
				if e.Confidence >= claimed && (name != tc.claims || at <= 1.16*tc.want && max(at, e.Most) >= tc.want/1.16) {
					claims[name]++
				}
			}
		}
		for _, name := range names { // this sender heeds no estimate, so now and then the latest spells mislead one
			switch name {
			case tc.claims:
				assert.Greater(t, claims[name], phases/2, "%s of %s", name, tc.name)
			case tc.also:
			default:
				assert.LessOrEqual(t, claims[name], phases/2, "%s of %s", name, tc.name)
			}
		}
		fmt.Fprintf(&table, "\n%-34s", tc.name)
		for _, name := range names {
			cell := "-"
			if e := s.estimates(s.now)[name]; e.Confidence > 0 {
				cell = fmt.Sprintf("%.3g (%.2f)", max(e.Rate, float64(e.InFlight)), e.Confidence)
			}
			fmt.Fprintf(&table, "%-16s", cell)
		}
	}
	t.Log("requests per second or at once (confidence):\n" + table.String())
}

// healthSays returns the rate that an experiment tries, or that failures do not depend on the rate: the more failures
// led to no event, the surer it is.
func healthSays(h *health) Estimate {
	if h.test != nil {
		return Estimate{Rate: h.test.rate, Most: h.test.failed, Cause: control.CauseFailures}
	}
	if h.likely() > 1-noisyShare {
		return Estimate{}
	}
	bad := float64(h.usual.bad + h.run.bad)
	return Estimate{Confidence: bad / (bad + 10), Cause: control.CauseNoise}
}
