package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// hint paces by the quota that the host tells. Where the length of its window is told and what is left lasts until the
// reset at the average, it asks at that: whether the window ends, slides or is a bucket need not be known. Else what is
// left is spread over the time until the quota is whole again. A window that slides is known by not being whole at the
// reset that was told, or by what is left not falling; it is asked at its limit over its length, and for more or less by
// what is left all the time.
type hint struct {
	left    float64       // requests that may still be sent; meaningless after reset
	reset   clock.Instant // when the quota is whole
	soonest clock.Instant // the soonest reset that was told of this window: each is rounded up
	due     clock.Instant // what is sent from then on finds it whole, unless its window slides
	askedAt clock.Instant // of the request whose answer was the last word
	said    int64         // requests left, in that answer
	limit   int64         // of the quota that it told of
	top     int64         // requests left at the first answer of the present window
	answers uint16        // since then
	missed  uint8         // times in a row that it was not whole when it should have been
	longest time.Duration // of the resets that were told
	pace    float64       // requests per second of a window that slides; zero for one that ends
	more    float64       // times its pace that it is asked for
	least   float64       // that was told to be left since moreAt
	moreAt  clock.Instant
	average float64       // requests per second that the limit grants; zero if its window is not told
	most    float64       // the same, or what is left per second if that is more
	steady  bool          // what is left lasts at the average until the reset
	until   clock.Instant // these hold, if no answer says otherwise
}

const (
	rounding  = 2 * time.Second // is more than what whole seconds and the way of an answer do to a reset
	slides    = 3               // missed resets of a window that slides: an answer that was overtaken may look like one
	fewTold   = 6               // answers show that what is left does not fall
	leastMore = .5              // times the pace: a window that is counted in whole seconds is one longer than is told
	mostMore  = 100             // times the pace: whole seconds make a short reset as many times as long
)

// active reports whether the host's own word sets the pace. A nil hint never does.
func (q *hint) active(now clock.Instant) bool {
	return q != nil && (now < q.reset || q.average > 0 && now < q.until)
}

func (q *hint) send() {
	if q != nil {
		q.left--
	}
}

// observe takes in what an answer says. What is in flight may not be counted yet.
func (q *hint) observe(x *Sample) {
	told, now := &x.Quota, x.At
	if q == nil || told.IsZero() || told.Reset <= 0 || x.SentAt < q.askedAt {
		return // it says nothing, or was overtaken by what says more
	}
	q.observeAverage(x)
	reset, flying := now.Add(told.Reset), int64(x.InFlight)
	if told.Limit != q.limit || told.Remaining > q.said || q.soonest < x.SentAt {
		q.soonest = reset
	}
	q.soonest = min(q.soonest, reset)
	turned := x.SentAt >= q.due || now >= q.reset.Add(-rounding) && reset > q.reset.Add(rounding)
	switch {
	case told.Limit != q.limit: // a host may tell of two quotas in turn
		q.pace, q.missed, q.longest, q.due, q.answers, q.top = 0, 0, 0, 0, 0, told.Remaining
	case turned || q.pace == 0 && told.Remaining > q.said+flying:
		q.renewed(x, turned) // or more is left again than answers in another order explain
		q.due = 0
	case now < q.reset.Add(-rounding) && reset > q.reset.Add(rounding):
		if q.missed = min(q.missed+1, slides); q.missed == slides { // it moves on before it is reached
			q.slide(x)
		}
	case q.pace == 0 && q.refills(told.Remaining):
		q.slide(x)
	case q.active(now) && q.pace == 0:
		reset = min(reset, q.reset) // the same window: whole seconds are rounded up each time
	}
	if x.SentAt >= q.due || now < q.due { // or it was on its way at the reset, and has no say on that
		q.due = reset
	}
	q.answers = min(q.answers+1, math.MaxUint16-1)
	q.longest = max(q.longest, told.Reset)
	q.reset, q.said, q.limit, q.askedAt = reset, told.Remaining, told.Limit, x.SentAt
	q.left = float64(told.Remaining - max(flying-1, 0))
	q.adapt(now)
}

// observeAverage takes in the limit over its window, and whether what is left of it lasts until the reset at that rate,
// as far as whole seconds and requests can tell.
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
	q.until = x.At.Add(rounding + 2*told.Window)
	q.average, q.most = (1-x.ToldMargin)*q.average, max((1-x.ToldMargin)*q.average, q.most)
}

// renewed is told of the first answer of what should be a new window, by its reset or because more is left. If the
// quota is not whole then, the window gives back one by one what it took. If it is, that tells something only where
// much was taken.
func (q *hint) renewed(x *Sample, turned bool) {
	whole := x.Quota.Limit - int64(x.InFlight)
	switch q.missed = min(q.missed+1, slides); {
	case q.refills(q.said):
		q.slide(x)
	case x.Quota.Remaining >= whole-whole/10 && (q.pace == 0 || 2*int64(q.answers) >= x.Quota.Limit):
		q.pace, q.missed = 0, 0
	case q.missed == slides, q.missed == slides-1 && turned && x.Quota.Remaining < whole/2:
		q.slide(x)
	}
	q.answers, q.top = 0, x.Quota.Remaining
}

// refills reports whether what is left falls by less than half of what is asked for: it comes back all
// the time, and what is told of a reset is no pace.
func (q *hint) refills(left int64) bool {
	return q.answers >= fewTold && 2*(q.top-left) < int64(q.answers)
}

// slide takes the window for one that slides. If its length is not told, that is the longest reset, which
// was told when the window was empty.
func (q *hint) slide(x *Sample) {
	w := x.Quota.Window
	if w <= 0 {
		w = max(x.Quota.Reset, q.longest)
	}
	if q.pace == 0 {
		q.more, q.moreAt, q.least = 1, x.At, math.MaxFloat64
	}
	q.pace = (1 - x.ToldMargin) * float64(x.Quota.Limit) / w.Seconds()
}

// spare requests of a window that slides are left unused: the pace falls with what is left below that. Who
// uses up the last is told to wait for the reset, and that may be as long as the window.
func (q *hint) spare() float64 { return max(2, float64(q.limit)/60) }

// adapt asks a window that slides for more where much was left all the time, and for less where it was used up: the
// pace that was told has a resolution. What a step does shows a window later, so that it is a part of what is missing.
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

// binds reports whether a rate has to be lowered.
func (q *hint) binds(now clock.Instant, rate float64) bool {
	e := q.estimate(now)
	return e.Rate > 0 && e.Rate < rate || e.NotBefore > now
}

// estimate is what the host's own word allows.
func (q *hint) estimate(now clock.Instant) (e Estimate) {
	if !q.active(now) {
		return e
	}
	e.Confidence, e.Cause, e.Rate = 1, control.CauseQuota, q.most
	switch {
	case q.steady:
		if e.Rate = q.average; q.left < 1+q.kept() {
			e.NotBefore = q.soonest
		}
	case now >= q.reset:
	case q.pace > 0:
		e.Rate = lower(e.Rate, q.pace*q.more*min(max(q.left, .5)/q.spare(), 1))
	case q.left < 1+q.kept():
		e.NotBefore = q.reset
	default: // the last of n goes before the reset
		e.Rate = lower(e.Rate, (q.left+1-q.kept())/max(q.reset.Sub(now).Seconds(), .001))
	}
	return e
}

// kept is what is left unused of a window that ends. Who uses up the last of it is told to wait for the
// reset, and that is rounded up to a whole second, which is worth more than a request where these are many.
func (q *hint) kept() float64 {
	rate := q.average
	if rate == 0 {
		rate = float64(q.limit) / max(q.longest.Seconds(), .001)
	}
	if q.limit > 1 && rate > 2 {
		return 1
	}
	return 0
}

// lower is the lower of two rates, of which zero is none.
func lower(a, b float64) float64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
