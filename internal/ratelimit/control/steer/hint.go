package steer

import (
	"cmp"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// hint paces by the quota that the host's headers tell. It takes the quota for a tank of which the host tells the level:
// each request takes one out, and what the level is above the expected one has come back meanwhile. A quota that comes
// back at its reset is spread over the time until then. One that comes back all the time, as that of a window that
// slides or of a bucket, is used as fast as it comes back, and somewhat faster the more is left.
type hint struct {
	left    float64       // requests that may still be sent, by the latest response and what was sent since
	refill  float64       // requests per second that come back between resets
	renewal renewal       // when the quota comes back
	reset   clock.Instant // when the quota is whole again, by the latest response
	askedAt clock.Instant // when the request was sent whose response was the latest to tell a quota
	limit   int64         // requests per window, in that response; zero if it told none
	window  time.Duration // length of the window; if it is not told, the longest time to a reset of this limit
	// even is the average rate less toldMargin in requests per second, if the window's length is told and what is left
	// lasts until the reset at that rate: then it need not be known when the quota comes back. Otherwise it is zero.
	even float64
}

// renewal says when a quota comes back. The zero renewal means that it is not known.
type renewal uint8

const (
	atReset renewal = iota + 1 // the quota was whole, but not after a silence, though much of it had been taken
	always                     // much came back between resets
)

// rounding is more than rounding to whole seconds and the time of a response can change a reset by.
const rounding = 2 * time.Second

// toldMargin is the share of a told quota's rate that is left unused, for clocks that differ and the way of a response.
const toldMargin = .02

// active reports whether a quota that the host told sets the pace at now: until a window after its reset. A nil hint
// never does.
func (q *hint) active(now clock.Instant) bool {
	return q != nil && now < q.reset.Add(rounding+q.window)
}

// send counts a request that is sent.
func (q *hint) send() {
	if q != nil {
		q.left--
	}
}

// observe takes in the quota of a response. Requests in flight may be missing from what the host counted, so they are
// taken off what is left, except for what comes back meanwhile.
func (q *hint) observe(x *Sample) {
	told := &x.Quota
	if q == nil || told.IsZero() || x.SentAt < q.askedAt {
		return // it tells no quota, or it was overtaken by a response to a later request
	}
	if told.Reset <= 0 && (told.Limit != q.limit || !q.active(x.At)) {
		return // the quota is over
	}
	left := float64(told.Remaining) - max(float64(x.InFlight-1)-q.refill*x.At.Sub(x.SentAt).Seconds(), 0)
	if told.Limit != q.limit { // a host may tell two quotas in turn
		*q = hint{left: left, limit: told.Limit, askedAt: x.SentAt}
	}
	q.window = cmp.Or(told.Window, max(q.window, told.Reset))
	whole := q.renew(x, left-q.left)
	q.left, q.askedAt = left, x.SentAt
	if told.Reset <= 0 {
		return // it may be a bucket that is full
	}
	reset := x.At.Add(told.Reset)
	if !whole && x.At < q.reset && reset < q.reset.Add(rounding) {
		reset = min(reset, q.reset) // it is the same, and each time it is rounded up
	}
	q.reset, q.even = reset, 0
	mean, lasts, r := q.mean(), told.Reset.Seconds(), float64(told.Remaining)
	if told.Window > 0 && r <= mean*(lasts+1) && r+1 >= mean*(lasts-1) { // as far as whole numbers can tell
		q.even = (1 - toldMargin) * mean
	}
}

// renew takes in how many requests came back since the latest response. It reports whether the quota became whole,
// which says nothing of the refill; but if much came back, and not in a silence as long as the window, there is none.
func (q *hint) renew(x *Sample, came float64) (whole bool) {
	took, window, limit := x.SentAt.Sub(q.askedAt).Seconds(), q.window.Seconds(), float64(q.limit)
	much := 2*came > limit
	if float64(x.Quota.Remaining+int64(x.InFlight)) >= .9*limit && (much || q.renewal != always && came > 1) {
		if much && took < .9*window {
			q.renewal, q.refill = atReset, 0
		}
		return true
	}
	span := window // over which refill is a mean: so much the limit grants, however it is spread
	if q.renewal != always {
		span = max(window/8, 1) // to know soon; some hosts count in whole seconds
	}
	q.refill = max((span*q.refill+came)/(span+took), 0)
	if q.renewal != always && q.refill > q.mean()/4 {
		q.renewal, q.refill = always, (1-toldMargin)*q.mean()
	}
	return false
}

// binds reports whether the quota allows less than that rate at now.
func (q *hint) binds(now clock.Instant, rate float64) bool {
	e := q.estimate(now)
	return e.Rate > 0 && e.Rate < rate || e.NotBefore > now
}

// estimate returns what the told quota allows at now: a rate, and when the next request may be sent if too little is
// left. Whoever uses up the last one has to wait for the reset, rounded up to a second, which costs more than one request
// where the rate is above two per second: there one is kept.
func (q *hint) estimate(now clock.Instant) (e Estimate) {
	if !q.active(now) {
		return e
	}
	lasts, mean, kept := q.reset.Sub(now).Seconds(), q.mean(), 0.
	if mean > 2 {
		kept = 1
	}
	spare := min(2, float64(q.limit)/4) // a bucket may hold a few only
	e.Confidence, e.Cause = 1, control.CauseQuota
	switch {
	case q.even > 0:
		if e.Rate = q.even; q.left < 1+kept {
			e.NotBefore = q.reset
		}
	case q.renewal == always:
		e.Rate = q.refill + max(q.left-spare, 0)/q.window.Seconds()
		if q.left <= spare/2 { // it waits for spare, and a tenth of the wait if the last one were used up, for leaps
			e.NotBefore = min(q.reset, q.askedAt.Add(seconds(min(lasts/10, 1)+(spare-q.left)/q.refill)))
		}
	case lasts <= 0 && 2*q.left > float64(q.limit): // much was left at the latest response
	case lasts > 0 && q.left >= 1+kept: // the last one that is not kept goes out before the reset
		e.Rate = (q.left + 1 - kept) / lasts
	default: // the next response tells whether the quota is whole; if it is not, one right after the reset finds nothing
		if e.Rate, e.NotBefore = mean, q.reset; q.renewal != atReset {
			e.NotBefore = q.reset.Add(min(time.Second, q.window/4)) // not so late that any window would be whole
		}
	}
	return e
}

// mean returns the average rate of the quota in requests per second. It is an estimate if the window's length is not
// told: a bucket may fill in less than a second, which is the shortest reset that a header tells.
func (q *hint) mean() float64 { return float64(q.limit) / max(q.window.Seconds(), .001) }
