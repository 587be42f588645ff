package control

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// fixed keeps to the rate of the user, for hosts whose limit is known. Refusals are obeyed and failures open the
// breaker, but the rate never changes.
type fixed struct{ rate float64 }

func (f *fixed) perSecond() float64                       { return f.rate }
func (f *fixed) target() time.Duration                    { return 0 }
func (f *fixed) observe(clock.Instant, Observation) Cause { return CauseNone }
func (f *fixed) explain() string                          { return fmt.Sprintf("fixed at %.4g/s", f.rate) }
