package control

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// rig is a steer whose host the test makes up, on a clock that the test moves.
type rig struct {
	*steer
	t    *testing.T
	w    *estimate.Window
	host Host
	now  clock.Instant
	last clock.Instant // of the latest grant
	out  []pending
	sent int
}

// reply is what a host answers.
type reply struct {
	status  int           // zero means 200
	order   time.Duration // Retry-After
	latency time.Duration // zero means 100 ms
	quota   header.Quota
	second  uint8 // of its clock; zero for an answer without a date
	err     error
}

// pending is a request that has not been answered yet.
type pending struct {
	reply
	sent, due clock.Instant
	trial     uint32
}

const usualLatency = 100 * time.Millisecond

func newRig(t *testing.T, h Host) *rig {
	t.Helper()
	troubled, counted, tested, seen := calm, noWindow, noExperiment, noSeldom
	t.Cleanup(func() {
		if calm != troubled || noWindow != counted || noExperiment != tested || noSeldom != seen {
			t.Error("what is of all hosts was written: meetTrouble, meetWindow, meetExperiment and meetSeldom go before")
			calm, noWindow, noExperiment, noSeldom = troubled, counted, tested, seen
		}
	})
	return &rig{steer: begin(t, NameSteer, h).(*steer), t: t, w: newWindow(t), host: h, last: never}
}

// cruisingAt is a rig that has long been under a ceiling which it measured.
func cruisingAt(t *testing.T, ceil float64) *rig {
	t.Helper()
	r := newRig(t, stranger)
	r.now = clock.Instant(time.Hour)
	r.meetAll()
	r.belief, r.proven = belief{ceil: ceil}, ceil
	r.prevAt, r.resumeAt, r.resumeCeil, r.creditAt = r.now, r.now, float32(ceil), r.now
	r.lastSent, r.probeDue, r.cycled = r.now, forever, true
	r.notePeak(r.now)
	r.enter(r.now, cruising)
	r.rate, r.settled = r.cruise(), true
	return r
}

// meetAll lets a test write what a host has of its own from some event on.
func (r *rig) meetAll() {
	r.meetTrouble()
	r.meetWindow()
	r.meetExperiment()
	r.meetSeldom()
}

func (r *rig) pass(d time.Duration) { r.now = r.now.Add(d) }

// send grants a request, whether or not the plan allows it.
func (r *rig) send() pending {
	r.last = r.now
	return pending{sent: r.now, trial: r.Sent(r.now, len(r.out)+1)}
}

// hear tells the answer of a request, now.
func (r *rig) hear(q pending, a reply) {
	status := a.status
	if status == 0 && a.err == nil {
		status = 200
	}
	r.Observe(r.now, Observation{
		SentAt: q.sent, Class: outcome.Of(status, a.err), Forbidden: outcome.Forbidden(status), Latency: r.now.Sub(q.sent),
		RetryAfter: a.order, Quota: a.quota, Second: a.second, InFlight: len(r.out) + 1,
		Floor: r.host.Floor, Ceiling: r.host.Ceiling, Window: r.w,
	})
	r.Lost(r.now, q.trial) // the permit comes back after the answer, as with every owner
}

// ask sends a request now and tells its answer a usual latency later.
func (r *rig) ask(a reply) {
	q := r.send()
	if a.latency == 0 {
		a.latency = usualLatency
	}
	r.pass(a.latency)
	r.hear(q, a)
}

// ready is when the plan lets the next request out; forever if it wants an answer first.
func (r *rig) ready(p *Plan) clock.Instant {
	if p.InFlight > 0 && len(r.out) >= p.InFlight {
		return forever
	}
	return max(r.now, p.NotBefore, r.last.Add(duration(1/p.Rate)))
}

// someLatency is the usual one and up to a third more or less. A host whose answers all
// take equally long would look as if it bounded connections.
func (r *rig) someLatency() time.Duration {
	r.sent++
	_, spread := math.Modf(float64(r.sent) * math.Phi) // as even as it gets, and no period
	return usualLatency + time.Duration((spread-0.5)*float64(usualLatency)*2/3)
}

// drive does what an owner with many URLs does: it sends whenever the plan allows,
// until the instant. It returns when that was.
func (r *rig) drive(until clock.Instant, host func(at clock.Instant) reply) (grants []clock.Instant) {
	for {
		p := r.Plan(r.now)
		at, answer := r.ready(&p), -1
		goes := true
		for i, q := range r.out {
			if q.due <= at {
				at, answer, goes = q.due, i, false
			}
		}
		if p.Review > r.now && p.Review < at {
			at, answer, goes = p.Review, -1, false
		}
		if at >= until {
			r.now = until
			return grants
		}
		r.now = at
		switch {
		case answer >= 0:
			q := r.out[answer]
			r.out = append(r.out[:answer], r.out[answer+1:]...)
			r.hear(q, q.reply)
		case goes:
			q := r.send()
			q.reply = host(r.now)
			if q.latency == 0 {
				q.latency = r.someLatency()
			}
			q.due = r.now.Add(q.latency)
			r.out = append(r.out, q)
			grants = append(grants, r.now)
		}
	}
}

// course is how a host fared over some time.
type course struct {
	sent, refused int
	ceil          float64 // median of the seconds'
}

func (c course) admittedPer(span time.Duration) float64 {
	return float64(c.sent-c.refused) / seconds(span)
}

func (c course) refusedShare() float64 { return float64(c.refused) / float64(c.sent) }

// watch drives for so long.
func (r *rig) watch(span time.Duration, host func(at clock.Instant) reply) (c course) {
	var ceils []float64
	count := func(at clock.Instant) reply {
		a := host(at)
		c.sent++
		if a.status != 0 {
			c.refused++
		}
		return a
	}
	for end := r.now.Add(span); r.now < end; {
		r.drive(r.now.Add(time.Second), count)
		ceils = append(ceils, r.ceil)
	}
	slices.Sort(ceils)
	c.ceil = ceils[len(ceils)/2]
	return c
}

func willing(clock.Instant) reply { return reply{} }

// tokens is a host with a token bucket. It refuses as refusal says.
func tokens(rps, burst float64, refusal reply) func(at clock.Instant) reply {
	level, last := burst, clock.Instant(0)
	return func(at clock.Instant) reply {
		level, last = min(burst, level+rps*seconds(at.Sub(last))), at
		if level < 1 {
			return refusal
		}
		level--
		return reply{}
	}
}

// windows is a host that admits n requests in each span. order says what Retry-After a
// refusal carries, given the time until the next span.
func windows(n int, span time.Duration, order func(rest time.Duration) time.Duration) func(at clock.Instant) reply {
	current, used := clock.Instant(-1), 0
	return func(at clock.Instant) reply {
		if k := at / clock.Instant(span); k != current {
			current, used = k, 0
		}
		if used++; used <= n {
			return reply{}
		}
		return reply{status: 429, order: order(span - time.Duration(at)%span)}
	}
}
