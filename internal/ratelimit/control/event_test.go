package control

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
)

// The sentences are what people read in an events file: each has its figures and units.
func TestEventTexts(t *testing.T) {
	for _, tc := range []struct {
		event Event
		want  string
	}{
		{Event{Cause: CauseRefused, From: 19.4, Hold: 1200 * time.Millisecond}, "the host refused at 19.4/s: nothing for 1.2s, then one trial"},
		{Event{Cause: CauseRefused, From: 1, To: 0.5}, "the host refused at 1.00/s: down from 1.00/s to 0.500/s"},
		{Event{Cause: CauseFailures, From: 250.4, Hold: 15 * time.Second}, "requests failed at 250/s: nothing for 15s, then one trial"},
		{Event{Cause: CauseFailures, From: 12345, To: 6172.5}, "requests failed at 12345/s: down from 12345/s to 6172/s"},
		{Event{Cause: CauseForbidden, From: 2, Hold: 20*time.Minute + time.Millisecond}, "a run of 403 at 2.00/s looks like a block: nothing for 20m0s, then one trial"},
		{Event{Cause: CauseLatency, From: 19.44, To: 13.61}, "answers wait in a queue at the host: down from 19.4/s to 13.6/s"},
		{Event{Cause: CauseTrial, From: 2, Hold: 2400 * time.Millisecond}, "the trial failed: nothing for 2.4s, then one trial"},
		{Event{Cause: CauseRecovered, To: 5.2}, "the host answers again: on at 5.20/s"},
		{Event{Cause: CauseRecovered, From: 1, To: 1}, "the host answers again: on at 1.00/s"},
		{Event{Cause: CauseMeasured, To: 19.4}, "the ceiling was measured between two refusals: on at 19.4/s"},
		{Event{Cause: CauseQuota, To: 0.97}, "the ceiling is what one window of the host's quota admitted: on at 0.970/s"},
		{Event{Cause: CauseSearched, To: 4.4}, "the search upward met a limit, and the ceiling is estimated: on at 4.40/s"},
		{Event{Cause: CauseProbed, From: 20, To: 26}, "a faster rate was not refused: up from 20.0/s to 26.0/s"},
		{Event{Cause: CauseNoise, From: 13.6, To: 19.4}, "failures go on at a lower rate, so they do not depend on it: up from 13.6/s to 19.4/s"},
		{Event{Cause: CauseRebased, From: 6.8, To: 19.4}, "answers stay slow at a lower rate, so they do not depend on it: up from 6.80/s to 19.4/s"},
		{Event{Cause: CauseRetryAfter, From: 2, Hold: 7 * time.Second, Status: 429}, "the host answered 429 and asked to wait 7s: nothing goes out before"},
		{Event{Cause: CauseRetryAfter, From: 2, Hold: 7 * time.Second}, "the host asked to wait 7s: nothing goes out before"},
		{Event{Cause: CauseCrawlDelay, From: 1, To: 0.2, Hold: 5 * time.Second}, "robots.txt asks for 5s between requests: down from 1.00/s to 0.200/s"},
		{Event{Cause: CauseCrawlDelay, From: 0.2, To: 1}, "robots.txt asks for no delay any more: up from 0.200/s to 1.00/s"},
		{Event{Cause: CauseHalfOpen}, "the pause is over: one trial may go out"},
		{Event{Cause: CauseRevived, To: 4.85}, "known from before: on at 4.85/s"},
		{Event{Cause: CauseRevived, To: 4.85, Hold: 42 * time.Second}, "known from before: on at 4.85/s, after the 42s it still has to wait"},
		{Event{}, "none"},
		{Event{Cause: 200}, "cause(200)"},
	} {
		require.Equal(t, tc.want, tc.event.Text())
	}
}

// Every cause has a sentence of its own and a name that is read back.
func TestCausesAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for c := CauseNone + 1; c < numCauses; c++ {
		text := Event{Cause: c, From: 2, To: 1}.Text()
		require.NotEqual(t, c.String(), text)
		require.False(t, seen[text], text)
		seen[text] = true
		name, err := c.MarshalText()
		require.NoError(t, err)
		var back Cause
		require.NoError(t, back.UnmarshalText(name))
		require.Equal(t, c, back)
	}
	var c Cause
	require.EqualError(t, c.UnmarshalText([]byte("whim")), `unknown cause "whim"`)
}

// Of whatever figures, a sentence has neither an exponent nor something that is none.
func TestEventTextOfAnyFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Event{
			Cause: Cause(rapid.IntRange(0, int(numCauses)).Draw(t, "cause")),
			From:  rapid.Float32Range(0, 1e6).Draw(t, "from"), To: rapid.Float32Range(0, 1e6).Draw(t, "to"),
			Hold: time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "hold")),
		}
		require.NotRegexp(t, `\de[+-]|NaN|Inf|%!`, e.Text())
	})
}

func TestEventSize(t *testing.T) {
	require.Equal(t, 32, int(unsafe.Sizeof(Event{})), "an owner keeps several of each host")
}

// The explanation of each mode, on what the ceiling rests and since when.
func TestExplainSteer(t *testing.T) {
	const now = clock.Instant(10 * time.Minute)
	since := func(d time.Duration) clock.Instant { return now.Add(-d) }
	for _, tc := range []struct {
		want string
		set  func(s *steer)
	}{
		{"1.00/s: searching upward, nothing refused so far", func(*steer) {}},
		{"19.4/s: just under the ceiling of 20.0/s, measured between two refusals 41s ago", func(s *steer) {
			s.mode, s.rate, s.ceil, s.event = cruising, 19.4, 20, Event{Cause: CauseMeasured, At: since(41 * time.Second)}
		}},
		{"20.0/s: trying whether more is tolerated than the ceiling of 20.0/s, raised when a faster rate was not refused, just now", func(s *steer) {
			s.mode, s.rate, s.ceil, s.event = probing, 19.98, 20, Event{Cause: CauseProbed, At: since(time.Millisecond)}
		}},
		{"4.85/s: on the way back up to the ceiling of 20.0/s, remembered from before", func(s *steer) {
			s.mode, s.rate, s.ceil = ramping, 4.85, 20
		}},
		{"4.85/s: on the way back up to the ceiling of 20.0/s, as before an outage that ended 2s ago", func(s *steer) {
			s.mode, s.rate, s.ceil, s.event = ramping, 4.85, 20, Event{Cause: CauseRecovered, At: since(2 * time.Second)}
		}},
		{"14.0/s: slower, so that a queue at the host empties; the ceiling of 20.0/s, lowered when answers began to queue 3s ago", func(s *steer) {
			s.mode, s.rate, s.ceil, s.event = draining, 14, 20, Event{Cause: CauseLatency, At: since(3 * time.Second)}
		}},
		{"13.6/s: slower for a while, to see whether failures depend on the rate; the ceiling of 20.0/s, estimated where the search upward met a limit 1m30s ago", func(s *steer) {
			s.mode, s.rate, s.ceil, s.testing, s.event = cruising, 13.6, 20, true, Event{Cause: CauseSearched, At: since(90 * time.Second)}
		}},
		{"0.970/s: just under the ceiling of 1.00/s, what one window of a quota admitted whose refusals last 1m0s; measured 5s ago", func(s *steer) {
			s.mode, s.rate, s.ceil, s.lag, s.event = cruising, 0.97, 1, time.Minute, Event{Cause: CauseQuota, At: since(5 * time.Second)}
		}},
		{"4.85/s: just under the ceiling of 5.00/s, estimated 2s ago", func(s *steer) {
			s.mode, s.rate, s.ceil, s.event = cruising, 4.85, 5, Event{Cause: CauseEstimated, At: since(2 * time.Second)}
		}},
		{"4.85/s: just under the ceiling of 5.00/s, after a block that ended 2s ago", func(s *steer) {
			s.mode, s.rate, s.ceil, s.event = cruising, 4.85, 5, Event{Cause: CauseBlocked, At: since(2 * time.Second)}
		}},
		{"500/s: as fast as is allowed, and nothing was refused at it", func(s *steer) { s.mode, s.rate, s.ceil = cruising, 500, 600 }},
		{"the host says that 40 more requests may come within 12s", func(s *steer) {
			s.rate, s.quota = 20, &quota{left: 40, reset: now.Add(12 * time.Second)}
		}},
		{"paused after a refusal at 20.1/s: one trial in 1.2s", func(s *steer) {
			s.mode, s.explicit, s.failRate, s.till = held, true, 20.1, now.Add(1200*time.Millisecond)
		}},
		{"paused after a refusal at 20.1/s: one trial is out", func(s *steer) {
			s.mode, s.explicit, s.failRate, s.trialAt = held, true, 20.1, now
		}},
		{"circuit open after failures at 9.80/s", func(s *steer) { s.mode, s.failRate, s.till = held, 9.8, now.Add(time.Second) }},
		{"circuit half_open after failures at 9.80/s, failed trials since: 3: one trial is out", func(s *steer) {
			s.mode, s.failRate, s.tries, s.trialAt, s.event = held, 9.8, 3, now, Event{Cause: CauseTrial}
		}},
		{"circuit open after a run of 403 at 2.00/s", func(s *steer) {
			s.mode, s.explicit, s.blocked, s.failRate, s.till = held, true, true, 2, now.Add(time.Hour)
		}},
	} {
		s := begin(t, NameSteer, stranger).(*steer)
		s.meetTrouble()
		s.meetWindow()
		tc.set(s)
		require.Equal(t, tc.want, s.Explain(now))
	}
}

// What the end of a pause is told to rest on: a measurement is between two refusals.
func TestEvidence(t *testing.T) {
	for _, tc := range []struct {
		name  string
		found finding
		quota bool
		set   func(s *steer)
		want  Cause
	}{
		{"two refusals", measured, false, func(*steer) {}, CauseMeasured},
		{"the first refusal", measured, false, func(s *steer) { s.cycled = false }, CauseEstimated},
		{"a fall that is believed step by step", measured, false, func(s *steer) { s.provisional = true }, CauseEstimated},
		{"a cycle too short", nothing, false, func(*steer) {}, CauseEstimated},
		{"a limit that rose", guessed, false, func(*steer) {}, CauseEstimated},
		{"a bound in flight", measured, false, func(s *steer) { s.opened = true }, CauseEstimated},
		{"a block", measured, false, func(s *steer) { s.blocked = true }, CauseBlocked},
		{"a window", measured, true, func(s *steer) { s.provisional = true }, CauseQuota},
		{"the search", guessed, true, func(s *steer) { s.from = searching }, CauseSearched},
	} {
		r := cruisingAt(t, 20)
		r.from = cruising
		tc.set(r.steer)
		require.Equal(t, tc.want, r.evidence(tc.found, tc.quota), tc.name)
	}
}

// After a long pause the rate goes back up by steps, and the event tells both ends.
func TestEndOfPauseTellsTheWay(t *testing.T) {
	r := cruisingAt(t, 20)
	r.noteEnd(r.now, CauseBlocked)
	require.Equal(t, "the block is over: on at 19.4/s", r.event.Text())
	r.enter(r.now, ramping)
	r.rate = r.cruise() / 4
	r.noteEnd(r.now, CauseBlocked)
	require.Equal(t, "the block is over: up from 4.85/s to 19.4/s", r.event.Text())
}
