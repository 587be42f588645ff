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

// Cause is why a plan changed, or what its owner did beside it.
type Cause uint8

// The causes. CauseNone is no event.
const (
	CauseNone        Cause = iota
	CauseRefused           // 429, or an order to wait
	CauseFailures          // 5xx, timeouts or network errors beyond this host's usual
	CauseForbidden         // a run of 403
	CauseLatency           // answers wait in a queue at the host
	CauseTrial             // a trial failed
	CauseRecovered         // a trial succeeded after failures
	CauseMeasured          // the ceiling was measured between two refusals
	CauseQuota             // the ceiling is what one window admitted
	CauseSearched          // the first estimate after the search upward
	CauseProbed            // an upward move was not refused
	CauseNoise             // the failures had nothing to do with the rate
	CauseConnections       // as many in flight were refused again and again, at whatever rate
	CauseRebased           // slower answers had nothing to do with the rate
	CauseEstimated         // the ceiling is a guess, of too little to measure it
	CauseBlocked           // a block ended, of which nobody knows the limit

	// No strategy gives these: its owner does, so that one list tells all that happened
	// to a host, and in order.
	CauseRetryAfter // the host ordered to wait
	CauseCrawlDelay // robots.txt asks for another delay than before
	CauseHalfOpen   // a pause is over, and one trial may go out
	CauseRevived    // a host that was forgotten is back, and what it owes with it
	CauseMerged     // hosts at one address were found to be limited as one
	CauseParted     // they are paced one by one again
	numCauses
)

var causeNames = [numCauses]string{
	"none", "refused", "failures", "forbidden", "latency", "trial_failed", "recovered", "measured",
	"quota", "searched", "probed", "noise", "connections", "rebased", "estimated", "blocked", "retry_after", "crawl_delay", "half_open", "revived", "merged", "parted",
}

func (c Cause) String() string { return enum.Name(causeNames[:], "cause", c) }

// MarshalText writes the name, so that JSON shows it.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a name back.
func (c *Cause) UnmarshalText(text []byte) error { return enum.Parse(causeNames[:], "cause", text, c) }

// Event is something that changed a plan. The zero Event is none; Number tells one
// event from the next. It takes 32 bytes, since its owner keeps some of each host.
type Event struct {
	At       clock.Instant
	From, To float32       // requests per second before and after, of a way back up at its begin and its end; To is zero while held
	Hold     time.Duration // nothing but a trial goes out for this long; of CauseCrawlDelay, the delay; zero if none
	Number   uint32
	Cause    Cause
	State    breaker.State // after it; filled by the owner
	Status   uint16        // of CauseRetryAfter; filled by the owner, zero if there was none
}

// Next is the event after e.
func (e Event) Next(now clock.Instant, c Cause, from, to float64, hold time.Duration) Event {
	return Event{At: now, From: float32(from), To: float32(to), Hold: hold, Number: e.Number + 1, Cause: c}
}

// Text is the event as a sentence for people, with its figures.
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

// leads are the beginnings that have no figures. Those of a ceiling do not name it: the
// rate that follows is a margin below, and the explanation of the strategy has both.
var leads = [numCauses]string{
	CauseLatency:   "answers wait in a queue at the host",
	CauseTrial:     "the trial failed",
	CauseRecovered: "the host answers again",
	CauseMeasured:  "the ceiling was measured between two refusals",
	CauseQuota:     "the ceiling is what one window of the host's quota admitted",
	CauseSearched:  "the search upward met a limit, and the ceiling is estimated",
	CauseProbed:    "a faster rate was not refused",
	CauseNoise:     "failures go on at a lower rate, so they do not depend on it",
	CauseRebased:   "answers stay slow at a lower rate, so they do not depend on it",
	CauseEstimated: "the ceiling is estimated, and the next refusal tells more",
	CauseBlocked:   "the block is over",
	CauseRevived:   "known from before",
	CauseMerged:    "hosts at one address are limited as one, and paced together",
	CauseParted:    "hosts at one address are paced one by one again",
}

// outcome is what the event led to: a pause, or another rate. Strategies differ in that,
// so the same cause may end in either.
func (e Event) outcome() string {
	if e.Hold > 0 {
		return fmt.Sprintf("nothing for %v, then one trial", Rounded(e.Hold))
	}
	return e.move()
}

// move is what became of the rate. Before a pause's end there was none to compare with.
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

// PerSecond is a rate for people: three figures, more before the point, and no exponent.
func PerSecond(rate float64) string {
	if !(rate > 0) || math.IsInf(rate, 1) {
		return "0/s" // of a rate that is none; nothing is asked at such a one
	}
	digits := max(2-int(math.Floor(math.Log10(rate))), 0)
	return strconv.FormatFloat(rate, 'f', digits, 64) + "/s"
}

// Rounded is a pause rounded to what a reader can use: of half a minute, milliseconds are no news.
func Rounded(d time.Duration) time.Duration {
	if d >= 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}

func causeOf(o *Observation) Cause {
	switch {
	case o.RetryAfter > 0 || o.Class == outcome.Throttled:
		return CauseRefused
	case o.Class.Overload():
		return CauseFailures
	}
	return CauseLatency
}
