package control

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// While an order to wait runs nothing is sent; then one request, and the next only when
// that is answered.
func TestNothingGoesOutInsideRetryAfter(t *testing.T) {
	for _, status := range []int{429, 503, 403} {
		r := cruisingAt(t, 50)
		refused := false
		order := func(clock.Instant) reply {
			if refused {
				return reply{latency: 3 * time.Second}
			}
			refused = true
			return reply{status: status, order: 7 * time.Second}
		}
		r.drive(r.now.Add(20*time.Millisecond), order)
		require.True(t, refused)
		r.drive(r.now.Add(time.Second), willing) // what was on its way comes back
		require.Equal(t, held, r.mode)
		require.GreaterOrEqual(t, r.till.Sub(r.at), 7*time.Second)
		require.Empty(t, r.drive(r.till-1, willing), status)
		trial := r.drive(r.till.Add(3*time.Second-1), order)
		require.Equal(t, []clock.Instant{r.till}, trial, "exactly one, and at once")
		require.Equal(t, breaker.Closed, r.Plan(r.now).State, "a pause is no outage")
		require.NotEmpty(t, r.drive(r.till.Add(4*time.Second), willing))
	}
}

// A later order that comes while another runs makes the pause longer, never shorter.
func TestOrdersInAHold(t *testing.T) {
	r := cruisingAt(t, 50)
	before := r.send()
	r.ask(reply{status: 429, order: 10 * time.Second})
	till := r.till
	r.hear(before, reply{status: 429, order: 2 * time.Second})
	require.Equal(t, till, r.till)
	r.hear(before, reply{status: 429, order: 20 * time.Second})
	require.Equal(t, r.now.Add(20*time.Second), r.till)
}

// Who was on his way when a refusal came was part of the same event, whenever he comes.
func TestOneEventOfWhatWasOnItsWay(t *testing.T) {
	r := cruisingAt(t, 50)
	var out []pending
	for range 5 {
		out = append(out, r.send())
		r.pass(time.Millisecond)
	}
	r.ask(refusal)
	number, credit := r.event.Number, r.credit
	for _, q := range out {
		r.hear(q, refusal)
	}
	r.now = r.till
	r.ask(reply{})
	require.NotEqual(t, held, r.mode)
	after := r.event.Number
	r.hear(out[0], refusal)
	require.NotEqual(t, held, r.mode)
	require.Equal(t, after, r.event.Number)
	require.Equal(t, number+1, after, "the resume")
	require.InDelta(t, credit, r.credit, 0.1)
}

// An outage: trials go out one at a time, at waits that double up to the bound.
func TestTrialsDouble(t *testing.T) {
	r := cruisingAt(t, 50)
	down := func(clock.Instant) reply { return reply{err: errDown} }
	r.drive(r.now.Add(time.Second), down)
	require.Equal(t, held, r.mode)
	trials := r.drive(r.now.Add(10*time.Minute), down)
	for i := 2; i < len(trials); i++ {
		gap, last := trials[i].Sub(trials[i-1]), trials[i-1].Sub(trials[i-2])
		require.GreaterOrEqual(t, gap, last-usualLatency)
		require.LessOrEqual(t, gap, r.cfg.Breaker.OpenFor+2*usualLatency)
	}
	require.InDelta(t, 10*time.Minute/r.cfg.Breaker.OpenFor, len(trials), 12, "ten at most before the bound is met")
	require.NotEqual(t, breaker.Closed, r.Plan(r.now).State)
	back := r.now
	r.drive(back.Add(r.cfg.Breaker.OpenFor+time.Second), willing)
	require.NotEqual(t, held, r.mode, "in use again as soon as a trial finds it up")
}

// errDown is how a host that is down answers.
var errDown error = syscall.ECONNREFUSED

// What an outage was, at a rate that had long gone well, says nothing of the ceiling.
func TestOutageTeachesNothing(t *testing.T) {
	r := cruisingAt(t, 50)
	down := func(clock.Instant) reply { return reply{status: 500} }
	r.drive(r.now.Add(time.Minute), down)
	for range 100 {
		if r.mode != held {
			break
		}
		r.drive(r.now.Add(time.Second), willing)
	}
	require.Equal(t, CauseRecovered, r.event.Cause)
	require.InDelta(t, 50, r.ceil, 1e-9)
}

// What no limit answers is an outage too where the rate has not gone well for long.
func TestOutageOfAnUnsettledHost(t *testing.T) {
	for _, tc := range []struct {
		name string
		as   reply
		want bool
	}{
		{"as no limit answers", reply{status: 500}, true},
		{"as a limit may", reply{status: 503}, false},
	} {
		r := cruisingAt(t, 50)
		r.settled = false
		r.hit(r.now, &Observation{SentAt: r.now, Class: outcome.Of(tc.as.status, nil)}, CauseFailures)
		r.pass(time.Minute)
		require.Equal(t, tc.want, r.wasOutage(r.now, time.Minute), tc.name)
	}
}

// Where a refusal has meant a pause, one that cost nothing buys some peace too.
func TestBreather(t *testing.T) {
	r := cruisingAt(t, 20)
	r.refuse(reply{status: 429})
	require.LessOrEqual(t, r.quietTill, r.now, "of a bucket there is nothing to wait for")
	r.lag = time.Minute
	for range 2 * minCycle {
		r.ask(reply{})
	}
	r.refuse(reply{status: 429})
	require.Equal(t, r.now.Add(2*time.Minute), r.quietTill)
}

// What follows a trial comes no closer to it than to any other request at the new rate: the
// tokens of its way there and back are not those of the rate that was refused.
func TestTrialIsNotFollowedAtTheRefusedRate(t *testing.T) {
	r := cruisingAt(t, 50)
	r.hit(r.now, &Observation{SentAt: r.now, Class: outcome.Throttled}, CauseRefused)
	refused := r.rate
	r.now = r.till
	require.InDelta(t, refused, r.Plan(r.now).Rate, 1e-9, "until the trial goes out")
	r.Sent(r.now, 1)
	require.InDelta(t, refused/2, r.Plan(r.now).Rate, 1e-9, "while it is out")
}

// After a long pause the rate comes back by doubling, and from the lower the more trials
// failed.
func TestRamp(t *testing.T) {
	for _, tc := range []struct {
		tries uint8
		share float64
	}{{0, 2}, {1, 2}, {2, 4}, {4, 16}, {100, 16}} {
		r := cruisingAt(t, 50)
		r.tries = tc.tries
		r.backTo(r.now, mere)
		require.Equal(t, ramping, r.mode)
		rate := r.cruise() / tc.share
		require.InDelta(t, rate, r.rate, 1e-9)
		for r.mode == ramping {
			r.pass(r.step() - 1)
			r.Plan(r.now)
			require.InDelta(t, rate, r.rate, 1e-9, "not before the step is over")
			r.pass(1)
			r.Plan(r.now)
			rate = min(2*rate, r.cruise())
			require.InDelta(t, rate, r.rate, 1e-9)
		}
		r.backTo(r.now, mere-1)
		require.Equal(t, cruising, r.mode, "a mere pause needs none")
	}
}

// After an order that was long and kept to, cruise begins at once; after any other long
// pause it does not.
func TestNoRampAfterARest(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ceil  float64
		order time.Duration
		fails bool // the first trial
		want  mode
	}{
		{"a long order", 20, restful, false, cruising},
		{"a short one", 20, restful - time.Second, false, ramping},
		{"refused after it", 20, restful, true, ramping},
		{"a slow host", slowest, restful, false, ramping},
	} {
		r := cruisingAt(t, tc.ceil)
		r.ask(reply{status: 429, order: tc.order})
		if tc.fails {
			r.now = r.till
			r.ask(reply{status: 429, order: tc.order})
		}
		r.now = r.till
		r.ask(reply{})
		require.Equal(t, tc.want, r.mode, tc.name)
	}
}

// A limit that counts over minutes and blocks whoever goes beyond it is met from below in
// the end, though a rate that is too high goes well for long between two blocks.
func TestBlockOfALongWindow(t *testing.T) {
	const rps, span, block = 2, 2 * time.Minute, time.Minute
	r := newRig(t, stranger)
	var begun, till clock.Instant
	count, blocks := 0, 0
	host := func(at clock.Instant) reply {
		if at >= begun.Add(span) {
			begun, count = at, 0
		}
		if at >= till {
			if count++; count <= rps*int(span.Seconds()) {
				return reply{}
			}
			begun, count = at, 0
			blocks++
		}
		till = at.Add(block)
		return reply{status: 403}
	}
	r.watch(2*time.Hour, host)
	met := blocks
	c := r.watch(2*time.Hour, host)
	require.LessOrEqual(t, blocks, met+2, "blocks in the third and the fourth hour")
	require.Greater(t, c.admittedPer(2*time.Hour), 0.9*rps)
}

// A block renews itself with each request: it gets few trials, and none sooner than the
// last one that failed.
func TestRenewedBlockSeesFewTrials(t *testing.T) {
	r := cruisingAt(t, 20)
	last, blocking := clock.Instant(0), true
	block := func(at clock.Instant) reply {
		if blocking && at < last.Add(40*time.Second) || r.mode == cruising && blocking {
			last = at
			return reply{status: 403}
		}
		return reply{}
	}
	r.drive(r.now.Add(5*time.Second), block)
	require.True(t, r.blocked)
	begin := r.now
	trials := r.drive(begin.Add(5*time.Minute), func(at clock.Instant) reply {
		a := block(at)
		blocking = a.status == 403
		return a
	})
	var waits []time.Duration
	previous := begin
	for i, at := range trials {
		if r.mode != held && i > 4 {
			break
		}
		waits = append(waits, at.Sub(previous))
		previous = at
	}
	require.GreaterOrEqual(t, waits[0], blockWaitMin-5*time.Second)
	require.GreaterOrEqual(t, waits[1], blockWaitMin)
	require.Greater(t, waits[2], waits[1])
	require.GreaterOrEqual(t, r.blockGap, 40*time.Second)

	// The next block is not asked before the last one had ended.
	r.blocked, r.forbidden = false, 0
	for range forbidRun {
		r.ask(reply{status: 403})
	}
	require.Equal(t, held, r.mode)
	require.Equal(t, r.blockGap, r.till.Sub(r.at))
}

// What was on its way when the block was noticed has renewed it: the wait is from there on.
func TestLateBlockedAnswersProlongTheWait(t *testing.T) {
	r := cruisingAt(t, 20)
	late, page := r.send(), r.send()
	for range forbidRun {
		r.ask(reply{status: 403})
	}
	till := r.till
	r.pass(time.Second)
	r.hear(late, reply{status: 403})
	require.Equal(t, till.Add(time.Second), r.till)
	r.pass(time.Second)
	r.hear(page, reply{})
	require.Equal(t, till.Add(time.Second), r.till, "it was answered, so it came before the block")
}

// A block's waits are bounded too.
func TestBlocksWaitIsBounded(t *testing.T) {
	r := cruisingAt(t, 20)
	for range forbidRun {
		r.ask(reply{status: 403})
	}
	wait := blockWaitMin
	require.Equal(t, wait, r.till.Sub(r.at))
	for range 30 {
		r.now = r.till
		r.ask(reply{status: 403})
		wait = min(wait*3/2, blockWaitMax)
		require.Equal(t, wait, r.till.Sub(r.now))
	}
	require.Equal(t, blockWaitMax, wait)
}

// Where a 403 was lifted later, a few of them are a limit and no private pages; and where one
// was a block, two in a row are.
func TestForbiddenForNow(t *testing.T) {
	lift := func(r *rig) {
		r.Observe(r.now, Observation{SentAt: r.now, Class: outcome.OK, Lifted: true, Latency: usualLatency, Floor: r.host.Floor, Ceiling: r.host.Ceiling, Window: r.w})
	}
	some := func(r *rig) (forbidden int) {
		for r.mode != held && forbidden < 10 {
			r.ask(reply{})
			r.ask(reply{status: 403})
			forbidden++
		}
		return forbidden
	}
	r := cruisingAt(t, 8)
	require.Equal(t, 10, some(r), "private pages")
	lift(r)
	require.Equal(t, failN, some(r))
	require.Equal(t, CauseFailures, r.event.Cause)

	r = cruisingAt(t, 8)
	lift(r)
	r.blockGap = blockWaitMin
	r.ask(reply{status: 403})
	require.NotEqual(t, held, r.mode)
	r.ask(reply{status: 403})
	require.Equal(t, CauseForbidden, r.event.Cause)
}

// A private page is no block, however many there are among others.
func TestForbiddenPages(t *testing.T) {
	r := cruisingAt(t, 20)
	for range 200 {
		for range forbidRun - 1 {
			r.ask(reply{status: 403})
		}
		r.ask(reply{})
	}
	require.Zero(t, r.event.Number)
	for range forbidRun - 1 {
		r.ask(reply{status: 403})
		require.NotEqual(t, held, r.mode)
	}
	r.ask(reply{status: 403})
	require.Equal(t, held, r.mode)
	require.Equal(t, CauseForbidden, r.event.Cause)
	require.Equal(t, breaker.Open, r.Plan(r.now).State, "nobody may go on waiting for it")
}

// A trial whose permit came back without an answer frees its slot after the same wait, one
// that never comes back in a while; and neither frees the slot of another.
func TestLostTrials(t *testing.T) {
	r := cruisingAt(t, 20)
	r.ask(refusal)
	r.now = r.till
	trial := r.send()
	require.NotZero(t, trial.trial)
	require.Equal(t, r.now.Add(trialLost), r.Plan(r.now).NotBefore)
	r.pass(time.Second)
	r.Lost(r.now, trial.trial+1)
	require.NotZero(t, r.trialAt, "another's")
	r.Lost(r.now, trial.trial)
	require.Equal(t, r.now.Add(r.wait), r.Plan(r.now).NotBefore, "it may have been refused")
	r.pass(r.wait)

	second := r.send()
	require.NotEqual(t, trial.trial, second.trial)
	r.Lost(r.now, trial.trial)
	require.NotZero(t, r.trialAt, "told twice")
	r.now = r.Plan(r.now).NotBefore
	require.Equal(t, breaker.Closed, r.Plan(r.now).State)
	third := r.send()
	require.NotZero(t, third.trial)

	r.hear(third, reply{err: context.Canceled})
	require.Equal(t, held, r.mode, "a caller who gave up gives no verdict")
	require.Equal(t, r.now.Add(r.wait), r.Plan(r.now).NotBefore)
	r.pass(r.wait)
	r.hear(r.send(), reply{err: context.Canceled, order: time.Minute})
	require.Equal(t, held, r.mode, "not even if he has seen an order")
	r.now = r.Plan(r.now).NotBefore
	r.ask(reply{})
	require.NotEqual(t, held, r.mode)
}

// What was sent before the refusal is no trial: its answer, good or bad, neither ends
// the hold nor makes it longer.
func TestLateAnswersAreNoTrials(t *testing.T) {
	r := cruisingAt(t, 20)
	before := r.send()
	r.pass(time.Millisecond)
	r.ask(refusal)
	till := r.till
	r.hear(before, reply{})
	r.hear(before, reply{status: 503})
	require.Equal(t, held, r.mode)
	require.Equal(t, till, r.till)
	require.Zero(t, r.tries)
}

// A second pause without a refusal within minutes is a limit that does not say so.
func TestSecondOutageIsALimit(t *testing.T) {
	r := cruisingAt(t, 20)
	require.True(t, r.outage())
	require.False(t, r.outage(), "again")
	r.pass(outageRest + time.Minute)
	require.True(t, r.outage(), "after a while")
	r.pass(outageRest + time.Minute)
	r.settled = false
	require.False(t, r.outage(), "at a rate that is new")
}

// outage asks whether a pause that begins and ends now would be taken for one.
func (r *rig) outage() bool {
	r.pass(time.Minute)
	r.from, r.explicit, r.at = cruising, false, r.now.Add(-mere)
	return r.wasOutage(r.now, mere)
}

// Of what an earlier crawl knew the rate is believed, and approached from a quarter.
func TestRecall(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Minute} {
		h := stranger
		h.Memory = Memory{Rate: 97, Pause: pause}
		r := newRig(t, h)
		require.InDelta(t, 97/4.0, r.Plan(0).Rate, 1e-3)
		for r.mode == ramping {
			r.drive(r.now.Add(100*time.Millisecond), willing)
		}
		require.Equal(t, cruising, r.mode)
		require.InEpsilon(t, 97, r.rate, 0.01)
		require.InEpsilon(t, 1.25*seconds(r.step()), float64(r.idle), 0.01, "of its ramp")
		require.Zero(t, calm.idle, "and of no other host's")
		m := r.Memory(r.now)
		require.InEpsilon(t, 97, m.Rate, 0.01)
		require.Equal(t, pause, m.Pause)
		require.Zero(t, m.Held)
	}
	require.Zero(t, newRig(t, stranger).Memory(0), "nothing is known of a stranger")
}

// A host that was held stays so, and if it is still down the waits grow as ever.
func TestRecallOfAHeldHost(t *testing.T) {
	for _, rate := range []float32{0, 100} {
		h := stranger
		h.Memory = Memory{Rate: rate, Held: clock.Instant(10 * time.Second)}
		r := newRig(t, h)
		down := func(clock.Instant) reply { return reply{err: errDown} }
		require.Empty(t, r.drive(clock.Instant(10*time.Second), down))
		require.Equal(t, clock.Instant(10*time.Second), r.Memory(0).Held)
		trials := r.drive(clock.Instant(10*time.Minute), down)
		require.InDelta(t, 10*time.Minute/r.cfg.Breaker.OpenFor, len(trials), 12)
		r.drive(r.now.Add(2*r.cfg.Breaker.OpenFor), willing)
		require.NotEqual(t, held, r.mode)
		require.Zero(t, r.Memory(r.now).Held)
	}
}

// A hold that was another's teaches nothing of our rates: its end leads to where the memory
// would have led without it, and to half of that for each trial that failed.
func TestEndOfAHoldOfAnother(t *testing.T) {
	for _, tc := range []struct {
		rate   float32
		failed int
		want   float64
	}{
		{0, 0, stranger.Start}, {0, 2, stranger.Start / 4}, {97, 0, 97.0 / 4}, {97, 1, 97.0 / 8},
	} {
		h := stranger
		h.Memory = Memory{Rate: tc.rate, Held: clock.Instant(10 * time.Second)}
		r := newRig(t, h)
		for range tc.failed {
			r.now = r.till
			r.ask(reply{status: 503, order: time.Second})
		}
		r.now = r.till
		r.ask(reply{})
		require.InEpsilon(t, tc.want, r.rate, 0.01, "%+v", tc)
		require.InDelta(t, tc.rate, r.Memory(r.now).Rate, 0.01, "%+v", tc)
		require.Equal(t, tc.rate == 0, r.mode == searching, "%+v", tc)
	}
}

// What a search has found out is known while its pause lasts, not only when it is over.
func TestMemoryWithinTheFirstPause(t *testing.T) {
	r := newRig(t, stranger)
	for range 50 {
		r.drive(r.now.Add(100*time.Millisecond), willing)
	}
	require.Equal(t, searching, r.mode)
	require.Zero(t, r.Memory(r.now), "it may be anything yet")
	r.ask(reply{status: 429})
	within := r.Memory(r.now)
	require.Equal(t, r.till, within.Held)
	r.now = r.till
	r.ask(reply{})
	require.InEpsilon(t, r.Memory(r.now).Rate, within.Rate, 0.01)

	early := newRig(t, stranger)
	early.ask(reply{status: 429, order: 5 * time.Second})
	require.Zero(t, early.Memory(early.now).Rate, "refused at once: nothing is known of the rate")
}

// A pause that takes many trials to end leaves less to risk than one that takes none.
func TestRefusedTrialsArePaid(t *testing.T) {
	r := cruisingAt(t, 10)
	r.credit = creditMax
	r.ask(reply{status: 429})
	left := r.credit
	for range 4 {
		r.now = r.till
		r.ask(reply{status: 429})
	}
	require.InDelta(t, left-4*trialCost, r.credit, 0.1)
	r.now = r.till
	r.ask(reply{err: errDown})
	require.InDelta(t, left-4*trialCost, r.credit, 0.1, "a failure says nothing of the rate")
}

// However often refusals and failures come, the waits of a hold are bounded by its order,
// by the configuration and by a quarter of how long it has lasted.
func TestHoldsAreBounded(t *testing.T) {
	rapid.Check(t, func(tt *rapid.T) {
		r := cruisingAt(t, rapid.Float64Range(0.2, 200).Draw(tt, "ceiling"))
		for range rapid.IntRange(1, 40).Draw(tt, "answers") {
			a := rapid.SampledFrom([]reply{{}, {status: 429}, {status: 503}, {status: 500}, {status: 429, order: 30 * time.Second}}).Draw(tt, "answer")
			r.ask(a)
			p := r.Plan(r.now)
			if most := max(a.order, r.refusedTill.Sub(r.now), r.cfg.Breaker.OpenFor, r.now.Sub(r.at)/longerBy); r.mode == held && r.till.Sub(r.now) > most {
				tt.Fatalf("held for %v, want at most %v", r.till.Sub(r.now), most)
			}
			r.now = max(r.now, p.NotBefore)
		}
	})
}
