package steer

import (
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Sample is an answer as each estimator sees it.
type Sample struct {
	*control.Observation
	At   clock.Instant // of the answer
	Rate float64       // that was asked for when it came
}

// admitted reports an answer that a limit lets pass.
func (x *Sample) admitted() bool {
	return !x.Class.Overload() && !x.Forbidden && x.RetryAfter == 0
}

// refused reports an answer that may be a limit's.
func (x *Sample) refused() bool {
	return x.RetryAfter > 0 || x.Class == outcome.Throttled || x.Class == outcome.Unavailable
}

// Estimate is what an estimator makes of the answers. The zero Estimate says nothing.
type Estimate struct {
	Rate       float64       // requests per second that its limit admits; zero for no bound
	Most       float64       // that it does not admit, at least Rate; zero where Rate is exact
	NotBefore  clock.Instant // no request before; zero for no bound
	InFlight   int           // requests at once; zero for no bound
	Confidence float64       // from 0 to 1
	Cause      control.Cause // zero for none
}
