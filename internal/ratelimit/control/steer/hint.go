package steer

import (
	"cmp"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// hint paces by the quota that the host's headers tell. If they tell the length of the window too, and what is left
// lasts until the reset at the average rate, it paces at that average; then it need not know whether the window is
// fixed, slides or is a bucket. Otherwise it spreads what is left over the time until the quota is whole again.
//
// A window that slides shows in that the quota is not whole at the reset that was told, or that what is left does not
// fall. It is paced at its limit divided by its length, and somewhat faster or slower by how much is left all the time.
// So after a reset requests go no faster than the average until a response tells whether the quota is whole.
type hint struct {
	// left is how many requests may still be sent, by the latest response and what was sent since; meaningless after
	// reset.
	left  float64
	reset clock.Instant // when the quota is whole again, by the latest response
	// due is a reset that was told: a request that is sent from then on finds the quota whole unless the window slides.
	// Zero means that none is awaited.
	due     clock.Instant
	askedAt clock.Instant // when the request was sent whose response was the latest to tell a quota
	said    int64         // requests left, in that response
	limit   int64         // requests per window, in that response
	top     int64         // requests left at the first response of the present window
	answers uint16        // responses that told the quota since then
	missed  uint8         // resets in a row at which the quota was not whole, at most slides
	longest time.Duration // longest time to a reset that was told of this limit
	pace    float64       // requests per second of a window that slides; zero if the window is not known to slide
	more    float64       // factor of pace at which requests are sent, from leastMore to mostMore
	least   float64       // fewest requests left that a response told since moreAt
	moreAt  clock.Instant // when more was last looked at
	average float64       // limit over window length in requests per second, less ToldMargin; zero if no length is told
	most    float64       // the same, or what is left over the time to the reset if that is more
	steady  bool          // what is left lasts until the reset at the average rate
	ends    bool          // the window is known to end: the quota was whole at a reset after much had been taken
}

const (
	// rounding is more than rounding to whole seconds and the time of a response can change a reset by.
	rounding = 2 * time.Second
	// slides is how many missed resets show that a window slides: one that ends may look like it where responses
	// overtake each other. Two are enough if less than half is left at the reset that was missed second.
	slides = 3
	// givenBack is how many requests a window that slides gives back before it is asked for the first time after a reset:
	// that one, one that may be in flight, and one that is left.
	givenBack = 3
	// fewTold is how many responses show that what is left does not fall.
	fewTold = 6
	// leastMore is the least factor of the pace: a window that is counted in whole seconds is up to one second longer
	// than is told.
	leastMore = .5
	// mostMore is the largest factor of the pace: rounding up to a second can make a short reset many times as long.
	mostMore = 100
)

// active reports whether a quota that the host told sets the pace at now: until a window after its reset. A nil hint
// never does.
func (q *hint) active(now clock.Instant) bool {
	return q != nil && now < q.reset.Add(rounding+q.length())
}

// send counts a request that is sent.
func (q *hint) send() {
	if q != nil {
		q.left--
	}
}

// observe takes in the quota of a response: it decides whether this is a new window, the same or one that slides.
// Requests in flight may be missing from what the host counted, so they are taken off what is left.
func (q *hint) observe(x *Sample) {
	told, now := &x.Quota, x.At
	if q == nil || told.IsZero() || x.SentAt < q.askedAt {
		return // it tells no quota, or it was overtaken by a response to a later request
	}
	reset, flying := now.Add(told.Reset), int64(x.InFlight)
	if told.Reset <= 0 {
		if told.Limit == q.limit { // it may be a bucket that is full
			q.said = told.Remaining
		}
		return
	}
	q.observeAverage(x)
	turned := x.SentAt >= q.due || now >= q.reset.Add(-rounding) && reset > q.reset.Add(rounding)
	switch {
	case told.Limit != q.limit: // a host may tell two quotas in turn
		q.pace, q.missed, q.longest, q.due, q.answers, q.top, q.ends = 0, 0, 0, 0, 0, told.Remaining, false
	case turned || q.pace == 0 && told.Remaining > q.said+flying:
		q.renewed(x, turned) // a new window, or more is left than responses in another order explain
		q.due = 0
	case now < q.reset.Add(-rounding) && reset > q.reset.Add(rounding):
		if q.missed = min(q.missed+1, slides); q.missed == slides { // the reset moves on before it comes
			q.slide(x)
		}
	case q.pace == 0 && q.refills(told.Remaining):
		q.slide(x)
	case q.active(now) && q.pace == 0:
		reset = min(reset, q.reset) // the same window: each reset is rounded up
	}
	// A request that was sent before due and answered after it does not show whether the quota is whole: due stays.
	if x.SentAt >= q.due || now < q.due {
		q.due = reset
	}
	q.answers = min(q.answers+1, math.MaxUint16-1)
	q.longest = max(q.longest, told.Reset)
	q.reset, q.said, q.limit, q.askedAt = reset, told.Remaining, told.Limit, x.SentAt
	q.left = float64(told.Remaining - max(flying-1, 0))
	q.adapt(now)
}

// observeAverage takes in the average rate, the limit over its window's length, and whether what is left lasts until
// the reset at that rate, as far as whole seconds and whole requests can tell.
func (q *hint) observeAverage(x *Sample) {
	told := &x.Quota
	q.average, q.most, q.steady = 0, 0, false
	if told.Window <= 0 || told.Limit <= 0 {
		return
	}
	left, lasts := float64(told.Remaining), told.Reset.Seconds()
	q.average = float64(told.Limit) / told.Window.Seconds()
	q.most = max(q.average, left/lasts)
	q.steady = left <= q.average*(lasts+1) && left+1 >= q.average*(lasts-1)
	q.average, q.most = (1-x.ToldMargin)*q.average, max((1-x.ToldMargin)*q.average, q.most)
}

// renewed takes in the first response of what should be a new window, by its reset (turned) or because more is left. If
// the quota is not whole time and again, the window slides: it gives back one by one what it took. A quota that is
// whole speaks for a window that ends, but only if much had been taken.
func (q *hint) renewed(x *Sample, turned bool) {
	whole, much := x.Quota.Limit-int64(x.InFlight), 2*int64(q.answers) >= x.Quota.Limit
	switch q.missed = min(q.missed+1, slides); {
	case q.refills(q.said):
		q.slide(x)
	case x.Quota.Remaining >= whole-whole/10 && (q.pace == 0 || much):
		q.pace, q.missed, q.ends = 0, 0, q.ends || much
	case q.missed == slides, q.missed == slides-1 && turned && x.Quota.Remaining < whole/2:
		q.slide(x)
	}
	q.answers, q.top = 0, x.Quota.Remaining
}

// refills reports whether what is left falls by less than half of the requests sent: the quota comes back all the time,
// and its reset is no end of a window.
func (q *hint) refills(left int64) bool {
	return q.answers >= fewTold && 2*(q.top-left) < int64(q.answers)
}

// slide takes the window for one that slides. If its length is not told, the length is the longest reset, which was
// told when the window was empty.
func (q *hint) slide(x *Sample) {
	w := x.Quota.Window
	if w <= 0 {
		w = max(x.Quota.Reset, q.longest)
	}
	if q.pace == 0 {
		q.more, q.moreAt, q.least = 1, x.At, math.MaxFloat64
	}
	q.pace, q.ends = (1-x.ToldMargin)*float64(x.Quota.Limit)/w.Seconds(), false
}

// spare returns how many requests of a sliding window are left unused; with fewer left the pace falls in proportion.
// Whoever uses up the last one has to wait for the reset, which may be as long as the window.
func (q *hint) spare() float64 { return max(2, float64(q.limit)/60) }

// adapt changes more: upward if more than spare was left all the time, downward if the quota was nearly used up, since
// the told length has a resolution. A step shows only a window later, so it corrects a part of the difference only.
func (q *hint) adapt(now clock.Instant) {
	if q.least = min(q.least, float64(q.said)); q.pace == 0 || now < q.moreAt.Add(max(time.Second, q.longest)) {
		return
	}
	if q.least < q.spare()/4 {
		q.more = max(.9*q.more, leastMore)
	} else {
		q.more = min(q.more*(1+min((q.least-q.spare())/(3*float64(q.limit)), .15)), mostMore)
	}
	q.least, q.moreAt = math.MaxFloat64, now
}

// binds reports whether the quota allows less than that rate at now.
func (q *hint) binds(now clock.Instant, rate float64) bool {
	e := q.estimate(now)
	return e.Rate > 0 && e.Rate < rate || e.NotBefore > now
}

// estimate returns what the told quota allows at now: a rate, and no request before the reset if nothing is left.
func (q *hint) estimate(now clock.Instant) (e Estimate) {
	if !q.active(now) {
		return e
	}
	e.Confidence, e.Cause, e.Rate = 1, control.CauseQuota, q.most
	switch {
	case q.steady:
		if e.Rate = q.average; q.left < 1+q.kept() {
			e.NotBefore = q.reset
		}
	case now >= q.reset && 2*q.said > q.limit: // much was left at the latest response
	case now >= q.reset: // the next one tells whether the quota is whole
		e.Rate, e.NotBefore = lower(e.Rate, q.mean()), q.turn()
	case q.pace > 0 || q.missed > 0:
		e.Rate = lower(e.Rate, q.mean()*min(max(q.left, .5)/q.spare(), 1))
	case q.left < 1+q.kept():
		e.NotBefore = q.turn()
	default: // the last of the requests left goes out before the reset
		e.Rate = lower(e.Rate, (q.left+1-q.kept())/max(q.reset.Sub(now).Seconds(), .001))
	}
	return e
}

// turn returns when the first request is sent after the reset. If little is left then of a window that slides, its
// response would tell that nothing is left until the next reset, which is obeyed. So while it is not known whether the
// window ends, that request waits until a few would have been given back, and a second at least, since the window may be
// longer than any reset that was told so far.
func (q *hint) turn() clock.Instant {
	if q.ends || q.pace > 0 {
		return q.reset
	}
	return q.reset.Add(max(time.Second, givenBack*q.length()/time.Duration(max(q.limit, 1))))
}

// kept returns how many requests of a window that ends are left unused. Whoever uses the last one is told to wait for
// the reset, rounded up to a second, which costs more than one request where the rate is above two per second.
func (q *hint) kept() float64 {
	if q.limit > 1 && q.mean() > 2 {
		return 1
	}
	return 0
}

// mean returns the average rate of the quota. Without the length of its window it is an estimate, which may be too high
// while the window is not known to slide.
func (q *hint) mean() float64 {
	return cmp.Or(max(q.average, q.pace*q.more), float64(q.limit)/max(q.longest.Seconds(), .001))
}

// length returns how long the whole quota lasts at its average rate. It is zero if no limit is told.
func (q *hint) length() time.Duration { return seconds(float64(q.limit) / max(q.mean(), 1e-6)) }

// lower returns the lower of two rates, where zero means no bound.
func lower(a, b float64) float64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
