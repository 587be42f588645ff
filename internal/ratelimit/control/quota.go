package control

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// quota paces by what the host says of its quota: what is left is spread over the
// time until it is whole again.
type quota struct {
	left  float64 // requests that may still be sent; meaningless after reset
	reset clock.Instant
	said  int64 // requests left, in the last answer
}

// active reports whether the host's own word sets the pace.
func (q *quota) active(now clock.Instant) bool { return now < q.reset }

func (q *quota) send() { q.left-- }

// observe takes in what an answer says. What is in flight may not be counted yet.
func (q *quota) observe(now clock.Instant, o *Observation) {
	if o.Quota.IsZero() || o.Quota.Reset <= 0 {
		return
	}
	reset := now.Add(o.Quota.Reset)
	if q.active(now) && o.Quota.Remaining < q.said {
		reset = min(reset, q.reset) // the same window: whole seconds are rounded up each time
	}
	q.reset, q.said = reset, o.Quota.Remaining
	q.left = float64(o.Quota.Remaining) - float64(max(o.InFlight-1, 0))
}

// apply lowers a plan to the quota.
func (q *quota) apply(now clock.Instant, p *Plan) {
	if !q.active(now) {
		return
	}
	if q.left < 1 {
		p.NotBefore = q.reset
		return
	}
	left := max(seconds(q.reset.Sub(now)), 0.001)
	p.Rate = min(p.Rate, (q.left+1)/left) // evenly: the last of n goes before the reset
	p.Review = min(p.Review, q.reset, now.Add(time.Second))
}
