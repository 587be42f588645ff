package steer

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Sample is a response, or a failure, as each estimator sees it.
type Sample struct {
	*control.Observation
	*Tuning
	At     clock.Instant // when the response came
	Rate   float64       // the controller's rate then, in requests per second
	Mode   Mode          // the controller's mode then
	Settle time.Duration // how long after a change of the rate its effect shows in responses
}

// admitted reports whether the limiter of a host admitted the request: it is no failure, no 403 and has no Retry-After.
func (x *Sample) admitted() bool {
	return !x.Class.Overload() && !x.Forbidden && x.RetryAfter == 0
}

// refused reports a response that may be a limiter's: 429, 503 or any with a Retry-After.
func (x *Sample) refused() bool { return x.ordered() || x.Class == outcome.Unavailable }

// ordered reports a refusal that leaves no doubt: 429, or a response with a Retry-After.
func (x *Sample) ordered() bool { return x.RetryAfter > 0 || x.Class == outcome.Throttled }

// Estimate is what an estimator concludes from the responses. The zero Estimate says nothing.
type Estimate struct {
	Rate       float64       // requests per second that the limit admits; zero means no bound
	Most       float64       // requests per second that it surely refuses, at least Rate; zero if Rate is exact
	NotBefore  clock.Instant // the earliest next request; zero means no bound
	InFlight   int           // most requests at once; zero means no bound
	Answers    float64       // number of responses that it rests on; zero if it does not count them
	Confidence float64       // how likely it is to be true, from 0 (says nothing) to 1
	Cause      control.Cause // the kind of limit; zero means none
}

// lower returns the lower of two rates, where zero means no bound.
func lower(a, b float64) float64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
