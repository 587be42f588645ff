package control

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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

// Every cause has a sentence of its own, and a name that is read back.
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

// Whatever the figures are, a sentence has neither an exponent nor a number that is not finite.
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
