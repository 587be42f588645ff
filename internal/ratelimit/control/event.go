package control

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/enum"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Cause says why a plan changed, or what the owner of the strategy did to the host. The zero Cause is [CauseNone].
type Cause uint8

// The causes. CauseNone means no event.
const (
	CauseNone        Cause = iota
	CauseRefused           // a 429, or a Retry-After
	CauseFailures          // more 5xx, timeouts or network errors than are usual for this host
	CauseForbidden         // several 403 in a row: the host blocks the client
	CauseLatency           // responses wait in a queue at the host
	CauseTrial             // a trial failed
	CauseRecovered         // a trial succeeded, and the pause taught nothing about the rate
	CauseMeasured          // the ceiling was measured between two refusals
	CauseQuota             // the ceiling is what the host admits in one window
	CauseSearched          // the search upward met its first refusal, which gave the first estimate of the ceiling
	CauseProbed            // a faster rate was tried and not refused
	CauseNoise             // failures do not depend on the rate
	CauseConnections       // the host refuses by the number of requests in flight, at whatever rate
	CauseEstimated         // the ceiling is estimated from too little evidence to measure it
	CauseBlocked           // a block ended; the rate stays below the one that was blocked

	// The owner notes these and no strategy does, so that one list holds all that happened to a host, in order.
	CauseRetryAfter // the host sent a Retry-After
	CauseCrawlDelay // the Crawl-delay in robots.txt changed
	CauseHalfOpen   // a pause is over, and one trial may be sent
	CauseRevived    // a host whose state had been dropped is back, with its remembered rate and pause
	CauseMerged     // hosts at one address were found to share a limit, and are paced as one
	CauseParted     // such hosts are paced one by one again
	numCauses
)

var causeNames = [numCauses]string{
	"none", "refused", "failures", "forbidden", "latency", "trial_failed", "recovered", "measured",
	"quota", "searched", "probed", "noise", "connections", "estimated", "blocked", "retry_after", "crawl_delay", "half_open", "revived", "merged", "parted",
}

func (c Cause) String() string { return enum.Name(causeNames[:], "cause", c) }

// MarshalText writes the name, as it stands in JSON.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a name that MarshalText wrote. It fails for any other text.
func (c *Cause) UnmarshalText(text []byte) error { return enum.Parse(causeNames[:], "cause", text, c) }

// Event is one change of a plan. The zero Event means that nothing has happened yet. Number tells two events apart. An
// Event takes 32 bytes, since the owner keeps several for each host.
type Event struct {
	At clock.Instant
	// From and To are the rate before and after, in requests per second. To is zero while the host is paused. From is
	// zero at the end of a pause, which has no rate to compare with.
	From, To float32
	// Hold is how long nothing but a trial is sent; with CauseCrawlDelay it is the delay between two requests. Zero
	// means no pause.
	Hold time.Duration
	// Number is 1 for the first event of a strategy and grows by one with each.
	Number uint32
	Cause  Cause
	State  breaker.State // of the circuit after the event; set by the owner
	Status uint16        // of the response, with CauseRetryAfter; set by the owner, zero if there was no response
}

// Next returns the event that follows e, with the next number.
func (e Event) Next(now clock.Instant, c Cause, from, to float64, hold time.Duration) Event {
	return Event{At: now, From: float32(from), To: float32(to), Hold: hold, Number: e.Number + 1, Cause: c}
}

// Text returns the event as a sentence for people, with its figures.
func (e Event) Text() string {
	from, hold := PerSecond(float64(e.From)), Rounded(e.Hold)
	switch e.Cause {
	case CauseRefused:
		return fmt.Sprintf("the host refused at %s: %s", from, e.outcome())
	case CauseFailures:
		return fmt.Sprintf("requests failed at %s: %s", from, e.outcome())
	case CauseConnections:
		return fmt.Sprintf("the host refuses by the number of requests in flight, not by their rate (%s): %s", from, e.outcome())
	case CauseForbidden:
		return fmt.Sprintf("a run of 403 at %s looks like a block: %s", from, e.outcome())
	case CauseRetryAfter:
		if e.Status == 0 {
			return fmt.Sprintf("the host asked to wait %v: nothing goes out before", hold)
		}
		return fmt.Sprintf("the host answered %d and asked to wait %v: nothing goes out before", e.Status, hold)
	case CauseCrawlDelay:
		if e.Hold == 0 {
			return "robots.txt asks for no delay any more: " + e.move()
		}
		return fmt.Sprintf("robots.txt asks for %v between requests: %s", hold, e.move())
	case CauseHalfOpen:
		return "the pause is over: one trial may go out"
	case CauseRevived:
		if e.Hold > 0 {
			return fmt.Sprintf("known from before: %s, after the %v it still has to wait", e.move(), hold)
		}
	}
	if e.Cause < numCauses && leads[e.Cause] != "" {
		return leads[e.Cause] + ": " + e.outcome()
	}
	return e.Cause.String()
}

// leads are the beginnings of the sentences that have no figures. Those about a ceiling do not name it: the rate after
// the colon is a margin below it, and the strategy's Explain gives both.
var leads = [numCauses]string{
	CauseLatency:   "answers wait in a queue at the host",
	CauseTrial:     "the trial failed",
	CauseRecovered: "the host answers again",
	CauseMeasured:  "the ceiling was measured between two refusals",
	CauseQuota:     "the ceiling is what one window of the host's quota admitted",
	CauseSearched:  "the search upward met a limit, and the ceiling is estimated",
	CauseProbed:    "a faster rate was not refused",
	CauseNoise:     "failures go on at a lower rate, so they do not depend on it",
	CauseEstimated: "the ceiling is estimated, and the next refusal tells more",
	CauseBlocked:   "the block is over",
	CauseRevived:   "known from before",
	CauseMerged:    "hosts at one address are limited as one, and paced together",
	CauseParted:    "hosts at one address are paced one by one again",
}

// outcome says what the event led to: a pause, or another rate. Strategies differ in this, so that one cause may end in
// either.
func (e Event) outcome() string {
	if e.Hold > 0 {
		return fmt.Sprintf("nothing for %v, then one trial", Rounded(e.Hold))
	}
	return e.move()
}

// move says how the rate changed. If From is zero there is nothing to compare with, and only the new rate is given.
func (e Event) move() string {
	from, to := PerSecond(float64(e.From)), PerSecond(float64(e.To))
	switch {
	case e.From == 0 || from == to:
		return "on at " + to
	case e.To < e.From:
		return fmt.Sprintf("down from %s to %s", from, to)
	}
	return fmt.Sprintf("up from %s to %s", from, to)
}

// PerSecond writes a rate for people: three significant figures, more before the decimal point if needed, and no
// exponent. It writes 0/s if rate is not a positive finite number.
func PerSecond(rate float64) string {
	if !(rate > 0) || math.IsInf(rate, 1) {
		return "0/s" // no usable rate: nothing is sent at it
	}
	digits := max(2-int(math.Floor(math.Log10(rate))), 0)
	return strconv.FormatFloat(rate, 'f', digits, 64) + "/s"
}

// Rounded returns a pause rounded for people: to seconds from ten seconds on, else to milliseconds.
func Rounded(d time.Duration) time.Duration {
	if d >= 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}

// causeOf returns the cause of a cut that congested found: a refusal, a failure, or else a slow response.
func causeOf(o *Observation) Cause {
	switch {
	case o.RetryAfter > 0 || o.Class == outcome.Throttled:
		return CauseRefused
	case o.Class.Overload():
		return CauseFailures
	}
	return CauseLatency
}
