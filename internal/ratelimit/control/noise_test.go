package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
)

var failure = reply{status: 503}

// Two lone failures among thousands, and pages that are not there, slow nothing down: in
// the search, at the ceiling of the owner, and just under one of the host.
func TestLoneFailuresDoNotSlow(t *testing.T) {
	for _, ceiling := range []float64{10, 100} {
		h := stranger
		h.Ceiling = ceiling
		r, n := newRig(t, h), 0
		for r.now < clock.Instant(10*time.Minute) {
			before := r.rate
			r.drive(r.now.Add(time.Second), func(clock.Instant) reply {
				n++
				switch {
				case n == 50, n == 3000, n == 3700:
					return failure
				case n%7 == 0:
					return reply{status: 404}
				}
				return reply{}
			})
			require.NotEqual(t, held, r.mode, "at %v", r.now)
			require.GreaterOrEqual(t, r.rate, before, "at %v", r.now)
		}
		require.InDelta(t, ceiling, r.rate, 1e-6)
		require.Greater(t, n, 5000)
	}
}

// As many failures in a hundred as count for overload are an event, and fewer are not;
// at a slow pace one less is enough.
func TestFailuresInAHundred(t *testing.T) {
	for _, tc := range []struct {
		ceil float64
		need int
	}{{2 * slowest, failN}, {slowest / 2, failN - 1}} {
		r := cruisingAt(t, tc.ceil)
		for i := range tc.need {
			require.NotEqual(t, held, r.mode)
			for range (ringSize - 2) / tc.need {
				r.ask(reply{})
			}
			r.ask(failure)
			require.Equal(t, i == tc.need-1, r.mode == held, "failure %d of %d", i+1, tc.need)
		}
		require.Equal(t, CauseFailures, r.event.Cause)

		r = cruisingAt(t, tc.ceil)
		for range 3 * tc.need {
			r.ask(failure)
			for range ringSize/(tc.need-1) + 1 {
				r.ask(reply{})
			}
			require.NotEqual(t, held, r.mode, "spread over more than a hundred")
		}
	}
}

// Three failures in a row are an event whatever went before, and as an event each failed
// answer costs the budget what a refusal does.
func TestFailuresInARow(t *testing.T) {
	r := cruisingAt(t, 20)
	r.credit = 8
	for i := range 3 {
		require.NotEqual(t, held, r.mode)
		r.ask(failure)
		require.Equal(t, i+1, r.Failures())
	}
	require.Equal(t, held, r.mode)
	require.True(t, r.dense)
	require.InDelta(t, 5, r.credit, 0.01)
	require.Zero(t, r.recent(), "the next event needs failures of its own")
}

// lately feeds answers of which the last few failed, spread out, until a hold; then lets
// its trial through.
func (r *rig) lately() {
	r.t.Helper()
	for range failN {
		for range 20 {
			r.ask(reply{})
		}
		r.ask(failure)
	}
	require.Equal(r.t, held, r.mode)
	r.now = r.till
	r.ask(reply{})
}

// tryLower feeds answers at the lower rate, every nth of which fails, to the end.
func (r *rig) tryLower(nth int) {
	r.t.Helper()
	require.True(r.t, r.testing)
	for i := 1; r.testing; i++ {
		require.LessOrEqual(r.t, i, testMost)
		a := reply{latency: 10 * time.Millisecond}
		if nth > 0 && i%nth == 0 {
			a.status = 503
		}
		r.ask(a)
	}
}

// Failures that go on at a lower rate have nothing to do with it: what was believed is
// believed again. If they stop it was overload, and the lower ceiling stays; so it does
// where so many fail that no page can be blamed.
func TestExperiment(t *testing.T) {
	for _, tc := range []struct {
		name     string
		nth      int // answer fails
		restored bool
	}{
		{"they go on", 25, true},
		{"they stop", 0, false},
		{"nearly all fails", 3, false},
	} {
		r := cruisingAt(t, 20)
		r.quietTill = forever
		for range 20 {
			r.ask(reply{}) // a cycle, so that the event lowers the ceiling
		}
		r.lately()
		require.Less(t, r.ceil, 20.0, tc.name)
		lower := r.ceil
		r.Plan(r.now)
		require.InDelta(t, min(0.9*r.cruise(), testGain*r.failRate), r.rate, 1e-9, "the test is slower")
		if tc.nth == 3 {
			for range testMost { // past the rule for failures in a row
				r.noise.testOne(r.steer, r.now, 1)
			}
		} else {
			r.tryLower(tc.nth)
		}
		want := lower
		if tc.restored {
			want = 20
			require.Equal(t, CauseNoise, r.event.Cause)
		}
		require.InDelta(t, want, r.ceil, 0.2, tc.name)
		require.False(t, r.testing, tc.name)
		require.InDelta(t, r.cruise(), r.Plan(r.now).Rate, 1e-9, tc.name)
	}
}

// Where answers are many a few failures do not end an experiment before its time, but too
// many for any page do.
func TestExperimentRunsToItsEnd(t *testing.T) {
	for _, tc := range []struct {
		name     string
		rate     float64
		failures int
		held     bool
	}{
		{"many answers, a few fail", 100, int(overloaded * testMost), false},
		{"many answers, too many fail", 100, int(overloaded*testMost) + 1, true},
		{"few answers", many / 2, failN, true},
	} {
		r := cruisingAt(t, tc.rate)
		r.failRate = tc.rate
		r.startTest(r.now, r.belief)
		r.Plan(r.now)
		for range tc.failures {
			for range 3 { // else they are a run
				r.ask(reply{latency: time.Millisecond})
			}
			r.ask(reply{status: 503, latency: time.Millisecond})
		}
		require.Equal(t, tc.held, r.mode == held, tc.name)
	}
}

// An event in the search that was noise lets the search go on, and not from below.
func TestSearchGoesOnAfterNoise(t *testing.T) {
	r := newRig(t, stranger)
	n := 0
	r.drive(clock.Instant(3*time.Minute), func(clock.Instant) reply {
		n++
		if n%33 == 0 {
			return reply{status: 500}
		}
		return reply{}
	})
	require.Greater(t, r.rate, 0.8*stranger.Ceiling, "3 %% of broken pages are no limit")
}

// A test takes testMost answers, or fewer if they are slow to come.
func TestExperimentTakesItsTime(t *testing.T) {
	for _, tc := range []struct {
		gap  time.Duration
		want int
	}{
		{10 * time.Millisecond, testMost},
		{testTime / testLeast, testLeast},
		{testTime, testLeast},
	} {
		r := cruisingAt(t, 20)
		r.failRate = 20
		r.startTest(r.now, belief{ceil: 20})
		n := 0
		for ; r.testing; n++ {
			r.pass(tc.gap)
			r.noise.testOne(r.steer, r.now, 0)
		}
		require.Equal(t, tc.want, n, tc.gap)
	}
}

// What a host usually fails is learned from the experiments, is bounded, and can change.
func TestUsualFailures(t *testing.T) {
	var n experiment
	require.Zero(t, n.usual())
	n.judged, n.failures = 980, 20
	require.InDelta(t, 0.02, n.usual(), 1e-9)
	n.failures = 900
	require.InDelta(t, worstNoise, n.usual(), 1e-9)

	r := cruisingAt(t, 20)
	for range 3 * remembered / testMost {
		r.failRate = 20
		r.startTest(r.now, belief{ceil: 20})
		for i := range testMost {
			r.noise.testOne(r.steer, r.now, int32((i+1)%50/49)) // one of fifty
		}
	}
	require.LessOrEqual(t, r.experiment.judged, float64(remembered))
	require.InDelta(t, 0.02, r.usual(), 0.001)
	// More than the usual is needed for an event now.
	for range ringSize / 25 {
		for range 24 {
			r.ask(reply{})
		}
		r.ask(failure)
		require.NotEqual(t, held, r.mode)
	}
}

// Of a host that has shown to have no failures at all, each is news.
func TestHushedHost(t *testing.T) {
	r := cruisingAt(t, 20)
	r.experiment.judged = hushed
	r.ask(failure)
	require.Equal(t, held, r.mode)
	r = probing1(t, 20)
	r.ask(failure)
	require.Equal(t, held, r.mode, "and so is one that a probe meets")
}

// The ring counts the last hundred, whatever came before: it begins with the first failure,
// and what went well before that counts too.
func TestRingLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &steer{trouble: &trouble{experiment: &noExperiment}}
		var all []int
		for range rapid.IntRange(0, 300).Draw(t, "answers") {
			bad := rapid.IntRange(0, 1).Draw(t, "bad")
			if bad == 1 {
				s.meetExperiment()
			}
			s.countOutcome(uint64(bad))
			all = append(all, bad)
		}
		last := all[max(0, len(all)-ringSize):]
		want := 0
		for _, bad := range last {
			want += bad
		}
		if s.recent() != want || int(s.filled) != len(last) {
			t.Fatalf("recent = %d of %d, want %d of %d", s.recent(), s.filled, want, len(last))
		}
	})
}

// Where experiments have shown that a host fails for the rate alone, a probe's failure is
// believed: the rate is not lowered once more to see.
func TestTellingFailureOfAProbe(t *testing.T) {
	for _, tc := range []struct {
		answers, failures float64 // of experiments so far
		from              mode
		tests             bool
	}{
		{hushed, 0, probing, false},
		{hushed - 1, 0, probing, true},
		{hushed, 1, probing, true}, // some of its pages are broken
		{hushed, 0, cruising, true},
	} {
		r := cruisingAt(t, 20)
		r.experiment.judged, r.experiment.failures = tc.answers, tc.failures
		r.enter(r.now, tc.from)
		for range 6 { // as many as it takes
			if r.mode != held {
				r.ask(reply{status: 503})
			}
			if r.mode != held {
				r.ask(reply{}) // or it would be an outage
			}
		}
		require.Equal(t, held, r.mode)
		r.now = r.till
		r.ask(reply{})
		require.NotEqual(t, held, r.mode)
		require.Equal(t, tc.tests, r.testing, "%+v", tc)
	}
}

// What the budget paid for failures that turn out to be noise it gets back, and no more.
func TestNoiseCostsNoBudget(t *testing.T) {
	for _, tc := range []struct {
		name    string
		failing int32
		want    float64
	}{{"noise", 1, 4}, {"overload", 0, 1}, {"worse", testMost, 1}} {
		r := cruisingAt(t, 10)
		r.meetTrouble()
		r.startTest(r.now, r.believed(cruising))
		r.paid, r.credit = 3, 1
		r.tested, r.failing = testMost-1, tc.failing
		r.noise.testOne(r.steer, r.now, 0)
		require.False(t, r.testing, tc.name)
		require.InDelta(t, tc.want, r.credit, 1e-6, tc.name)
	}
}
