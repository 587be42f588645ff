package ratelimit

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

type world struct {
	*rig
	rt      *rapid.T
	blocked time.Time // end of the latest Retry-After
	out     []*errand
	past    []*errand   // that have been answered, but for trials
	mood    []int       // the statuses that the host answers with of late
	trial   *errand     // the trial that is out; nil for none
	grants  []time.Time // of the last 100 ms
	rates   []sample    // planned: those of the last 100 ms, and the one before
}

type errand struct {
	permit  Permit
	granted time.Time
	trial   bool
}

type sample struct {
	at  time.Time
	rps float64
}

const (
	leastRPS, mostRPS = 0.2, 60
	// leastLost is the soonest at which any strategy takes a trial for lost.
	leastLost = 15 * time.Second
	paceSpan  = 100 * time.Millisecond
)

func newWorld(t *rapid.T, strategy string) *world {
	return &world{rt: t, mood: moods()[0], rig: newRig(t, func(c *Config) {
		c.Strategy, c.MinRPS, c.MaxRPS, c.OpenStateDuration = strategy, leastRPS, mostRPS, leastLost
		c.InitialRPS = rapid.Float64Range(leastRPS, mostRPS).Draw(t, "initial rate")
	})}
}

// step does one thing that a crawler or its host may do.
func (w *world) step() {
	switch rapid.IntRange(0, 9).Draw(w.rt, "what") {
	case 0, 1:
		w.acquire()
	case 2, 3:
		if at, _ := w.ReadyAt(host, 0, 0); at.After(w.clk.Now()) {
			w.clk.Advance(at.Sub(w.clk.Now()))
		}
		w.acquire()
	case 4, 5, 6:
		w.answer()
	case 7:
		w.lose()
	case 8:
		w.hearsay()
	default:
		longest := rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, 20 * time.Second, 2 * time.Minute}).Draw(w.rt, "longest")
		w.clk.Advance(time.Duration(rapid.Int64Range(0, int64(longest)).Draw(w.rt, "silence")))
		w.mood = rapid.SampledFrom(moods()).Draw(w.rt, "mood")
	}
	w.look()
	w.clk.Advance(time.Duration(rapid.Int64Range(0, int64(80*time.Millisecond)).Draw(w.rt, "pass")))
}

// moods are hosts that answer, that are down, that refuse, that block, and any.
func moods() [][]int {
	return [][]int{{200}, {500, 503, 503}, {429, 200}, {403}, {0, 200, 301, 403, 404, 429, 500, 503}}
}

// acquire takes a permit if there is one, and checks that it was due.
func (w *world) acquire() {
	permit, ok := w.grant(host)
	if !ok {
		return
	}
	now := w.clk.Now()
	w.look()
	if now.Before(w.blocked) {
		w.rt.Fatalf("a grant %v before the end of a Retry-After", w.blocked.Sub(now))
	}
	if w.trial != nil && now.Sub(w.trial.granted) < leastLost {
		w.rt.Fatalf("a grant while the trial of %v ago is out", now.Sub(w.trial.granted))
	}
	p, ok := permit.(*probe)
	e := &errand{permit, now, ok && p.trial != 0}
	if w.trial = nil; e.trial {
		w.trial = e
	}
	w.out = append(w.out, e)
	w.grants = append(w.grants, now)
	w.checkPace(now)
}

// checkPace holds the grants of the last tenth of a second against the fastest plan then.
func (w *world) checkPace(now time.Time) {
	since := now.Add(-paceSpan)
	w.grants = slices.DeleteFunc(w.grants, func(at time.Time) bool { return !at.After(since) })
	for len(w.rates) > 1 && !w.rates[1].at.After(since) {
		w.rates = w.rates[1:]
	}
	fastest := slices.MaxFunc(w.rates, func(a, b sample) int { return int(math.Copysign(1, a.rps-b.rps)) })
	if most := fastest.rps/10 + 2; float64(len(w.grants)) > most {
		w.rt.Fatalf("%d grants in %v at %v/s", len(w.grants), paceSpan, fastest.rps)
	}
}

func (w *world) pick() *errand {
	if len(w.out) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(w.out)-1).Draw(w.rt, "which")
	e := w.out[i]
	w.out = slices.Delete(w.out, i, i+1)
	return e
}

// answer gives a request its answer and ends it; or only one of the two, or both in the wrong order.
func (w *world) answer() {
	e := w.pick()
	if e == nil {
		return
	}
	fb := w.feedback(e.granted)
	how := rapid.IntRange(0, 7).Draw(w.rt, "how")
	if how == 0 {
		w.release(e)
	}
	w.tell(fb)
	if e.trial {
		w.trial = nil // be it the one before that had counted as lost: it may end the hold
	} else {
		w.past = append(w.past, e)
	}
	if how > 1 { // else a permit has been given back, or never is
		w.release(e)
	}
}

// lose ends a request of which nobody tells.
func (w *world) lose() {
	if e := w.pick(); e != nil {
		w.release(e)
	}
}

func (w *world) release(e *errand) {
	e.permit.Release()
	if w.trial == e {
		w.trial = nil
	}
}

func (w *world) hearsay() {
	if len(w.past) > 0 {
		e := rapid.SampledFrom(w.past).Draw(w.rt, "past")
		w.tell(w.feedback(e.granted))
	}
}

func (w *world) feedback(sentAt time.Time) Feedback {
	t, now := w.rt, w.clk.Now()
	fb := Feedback{
		StatusCode: rapid.SampledFrom(w.mood).Draw(t, "status"),
		Err:        rapid.SampledFrom([]error{nil, nil, nil, nil, nil, nil, nil, nil, errReset, context.Canceled, context.DeadlineExceeded}).Draw(t, "error"),
		Latency:    max(now.Sub(sentAt), 0), SentAt: sentAt,
	}
	if rapid.IntRange(0, 7).Draw(t, "ordered") == 0 {
		fb.RetryAfter = time.Duration(rapid.Int64Range(-int64(time.Second), int64(3*time.Minute)).Draw(t, "order"))
	}
	if rapid.IntRange(0, 4).Draw(t, "quoted") == 0 {
		fb.Quota = header.Quota{
			Limit: rapid.Int64Range(0, 1000).Draw(t, "limit"), Remaining: rapid.Int64Range(0, 1000).Draw(t, "remaining"),
			Reset: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "reset")),
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "unstamped") == 0 {
		fb.SentAt = time.Time{}
	}
	return fb
}

// tell gives feedback and keeps in mind what it obliges to.
func (w *world) tell(fb Feedback) {
	now := w.clk.Now()
	w.Feedback(host, fb)
	w.look()
	if fb.RetryAfter > 0 {
		w.blocked = later(w.blocked, now.Add(fb.RetryAfter))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *world) look() {
	d := w.see(host)
	if !(d.FillRate >= leastRPS-1e-6 && d.FillRate <= mostRPS) {
		w.rt.Fatalf("rate %v, want %v to %v", d.FillRate, leastRPS, mostRPS)
	}
	if !(d.ErrorRate >= 0 && d.ErrorRate <= 1) || !(d.Tokens >= 0 && d.Tokens <= 2) || d.InFlight < 0 {
		w.rt.Fatalf("out of bounds: %+v", d)
	}
	figures := []float64{d.AvgLatencyMS, d.P95LatencyMS, d.LatencyTargetMS, d.NextPermitInMS}
	if slices.ContainsFunc(figures, func(f float64) bool { return !(f >= 0) || math.IsInf(f, 1) }) || strings.Contains(d.Reason, "NaN") {
		w.rt.Fatalf("no figure: %+v", d)
	}
	w.rates = append(w.rates, sample{w.clk.Now(), d.FillRate})
}

// Whatever the order, the delay and the loss of feedback and releases: the rate is a
// number within its bounds, nothing is granted inside a Retry-After or faster than the
// plan was at its fastest, and a host on trial gets one request at a time.
func invariants(strategy string) func(*rapid.T) {
	return func(t *rapid.T) {
		w := newWorld(t, strategy)
		w.look()
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			w.step()
		}
	}
}

func TestInvariantsOfSteer(t *testing.T) { rapid.Check(t, invariants(control.NameSteer)) }

func TestInvariantsOfAIMD(t *testing.T) { rapid.Check(t, invariants(control.NameAIMD)) }

func FuzzInvariantsOfSteer(f *testing.F) { f.Fuzz(rapid.MakeFuzz(invariants(control.NameSteer))) }

func FuzzInvariantsOfAIMD(f *testing.F) { f.Fuzz(rapid.MakeFuzz(invariants(control.NameAIMD))) }
