package testsite

import (
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/ratelimit/classic"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// standingOf is what a decision by plans says.
func (g *gate) standingOf(r *admission.Result) *header.Standing {
	for i := range g.plans {
		if p := &g.plans[i]; p.Name == r.Plan {
			s := r.Standing(p)
			return &s
		}
	}
	return nil
}

// standingLocked is the tighter of what the plans say and what the others do, in real time;
// nil if there is neither, because a plan was not asked after another limit had refused.
func (g *gate) standingLocked(tight *header.Standing, ok bool) *header.Standing {
	for _, m := range g.timed {
		s := m.Standing()
		if s.Refused = !ok && s.Left == 0; tight == nil || s.Left < tight.Left {
			tight = &s
		}
	}
	if tight == nil {
		return nil
	}
	real := func(d time.Duration) time.Duration {
		if d == classic.Never {
			return d
		}
		return g.day.when(g.time.at.Add(d)).Sub(g.day.when(g.time.at))
	}
	tight.Next, tight.Lasts = real(tight.Next), real(tight.Lasts)
	return tight
}
