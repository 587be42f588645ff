package steer

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Sample is an answer as each estimator sees it.
type Sample struct {
	*control.Observation
	*Tuning
	At     clock.Instant // of the answer
	Rate   float64       // that was asked for when it came
	Mode   Mode          // then
	Settle time.Duration // until a change of the rate shows in answers
}

// admitted reports an answer that a limit lets pass.
func (x *Sample) admitted() bool {
	return !x.Class.Overload() && !x.Forbidden && x.RetryAfter == 0
}

// refused reports an answer that may be a limit's.
func (x *Sample) refused() bool { return x.ordered() || x.Class == outcome.Unavailable }

// ordered reports a refusal that leaves no doubt.
func (x *Sample) ordered() bool { return x.RetryAfter > 0 || x.Class == outcome.Throttled }

// Estimate is what an estimator makes of the answers. The zero Estimate says nothing.
type Estimate struct {
	Rate       float64       // requests per second that its limit admits; zero for no bound
	Most       float64       // that it does not admit, at least Rate; zero where Rate is exact
	NotBefore  clock.Instant // no request before; zero for no bound
	InFlight   int           // requests at once; zero for no bound
	Answers    float64       // that it rests on, where they are counted
	Confidence float64       // from 0 to 1
	Cause      control.Cause // zero for none
}
