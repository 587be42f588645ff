package testsite

import (
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/admission"
	"github.com/treadlight/crawl/internal/ratelimit/classic"
)

// quota is what headers tell. Reset is until there is more than was told is left: until the
// next request is admitted if none would be, and otherwise until all of it is back, but of a
// window never longer than that. Many servers tell this; the middleware of package admission
// tells for how long what is left should last.
type quota struct {
	limit, remaining int64
	reset, window    time.Duration
}

// classicQuota is a limiter of package classic with what its headers need.
type classicQuota struct {
	classic.Weighted

	burst  int64
	window time.Duration
}

// tell is what a decision by plans says.
func (g *gate) tell(r *admission.Result) *quota {
	q := &quota{limit: r.Limit, remaining: r.Remaining, reset: r.Reset}
	for i := range g.plans {
		p := &g.plans[i]
		if p.Name != r.Plan {
			continue
		}
		_, q.window = p.PerWindow()
		switch {
		case p.Window != 0:
			q.reset = min(r.Reset, p.Window)
		case r.Remaining == 0:
			// All tokens but the first come after the next one.
			q.reset = max(0, r.Reset-time.Duration(float64(p.Capacity-1)/p.TokensPerSecond*float64(time.Second)))
		}
	}
	if !r.Allowed {
		q.reset = r.Wait
	}
	return q
}

// quotaLocked is the tighter of what the plans say and what the others do, in real time;
// nil if there is neither, because a plan was not asked after another limit had refused.
func (g *gate) quotaLocked(tight *quota) *quota {
	for _, c := range g.quota {
		s := c.Statistics()
		if tight != nil && s.Available >= tight.remaining {
			continue
		}
		tight = &quota{limit: s.Max, remaining: s.Available, reset: c.Wait(s.Max), window: c.window}
		if s.Available == 0 {
			tight.reset = c.Wait(1)
		}
	}
	if tight == nil {
		return nil
	}
	tight.reset = g.day.when(g.time.at.Add(tight.reset)).Sub(g.day.when(g.time.at))
	return tight
}
