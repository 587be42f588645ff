package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// hint paces by what the host says of its hint: what is left is spread over the
// time until it is whole again.
type hint struct {
	left    float64 // requests that may still be sent; meaningless after reset
	reset   clock.Instant
	soonest clock.Instant // the soonest reset that was told of this window: each is rounded up
	said    int64         // requests left, in the last answer
	limit   int64         // of the hint that was told of
	pace    float64       // of a window that slides, in requests per second; zero for one that ends
	due     clock.Instant // what is sent from then on finds the hint whole, unless its window slides
	top     int64         // requests left at the first answer of the present window
	answers uint16        // since then
	askedAt clock.Instant // of the request whose answer was the last word
	longest int32         // of the resets that were told, in milliseconds
	moved   uint8         // times the reset moved on before it was reached, or did not make the hint whole
	exact   bool          // pace is of a length that was told, not of a reset
	average float64       // requests per second that the limit grants; zero if its window is not told
	most    float64       // the same, or what is left per second if that is more
	steady  bool          // what is left lasts at the average until the reset
	until   clock.Instant // these hold, if no answer says otherwise
	more    float64       // times its pace that a window that slides is asked for
	least   float64       // that was left since moreAt
	moreAt  clock.Instant
}

// slides is how often a reset must have moved on for the window to be one that slides:
// an answer that was overtaken may look like it once.
const slides = 3

// fewAnswered show that what is left does not fall, if the first of them do not.
const fewAnswered = 6

const toldMargin = .02

// rounding is more than what whole seconds and the way of an answer do to a reset.
const rounding = 2 * time.Second

const (
	// leastSpare requests of a window that slides are left unused, or one in spareOf: the pace
	// falls with what is left below that. Who uses up the last is told to wait for the reset,
	// and that may be as long as the window.
	leastSpare = 2
	spareOf    = 60
	// mostMore bounds how much faster than its pace such a window may be asked: whole seconds and the
	// way of an answer make a short reset many times as long as what it stands for.
	mostMore = 100
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
func (q *hint) observe(now clock.Instant, o *control.Observation) {
	if o.Quota.IsZero() || o.Quota.Reset <= 0 || o.SentAt < q.askedAt {
		return // it says nothing, or was overtaken by what says more
	}
	q.observeAverage(now, o.Quota)
	reset := now.Add(o.Quota.Reset)
	if o.Quota.Limit != q.limit || o.Quota.Remaining > q.said || q.soonest < o.SentAt {
		q.soonest = reset
	}
	q.soonest = min(q.soonest, reset)
	switch {
	case o.Quota.Limit != q.limit: // a host may tell of two quotas in turn
		q.pace, q.moved, q.longest, q.due, q.answers, q.top = 0, 0, 0, 0, 0, o.Quota.Remaining
	case q.pace == 0 && o.SentAt >= q.due && o.Quota.Remaining < q.said && o.Quota.Remaining >= q.said-int64(o.InFlight) &&
		reset <= q.reset.Add(rounding/2+o.Latency):
		reset = max(q.reset, o.SentAt).Add(o.Latency) // it is as good as over, and what is told is rounded up
	case o.SentAt >= q.due || q.pace == 0 && o.Quota.Remaining > q.said+int64(o.InFlight):
		// The window is over, or more is left again than answers in another order explain.
		q.renewed(now, o)
		q.due = 0
	case now < q.reset.Add(-rounding) && reset > q.reset.Add(rounding):
		// The end moves on before it is reached: the window slides, and gives back all the
		// time what spreading the rest would wait for.
		if q.moved = min(q.moved+1, slides); q.moved == slides {
			q.slide(now, o)
		}
	case q.pace == 0 && q.refills(o.Quota.Remaining):
		q.slide(now, o)
	case q.active(now) && q.pace == 0:
		reset = min(reset, q.reset) // the same window: whole seconds are rounded up each time
	}
	if o.SentAt >= q.due || now < q.due { // or it was on its way at the reset, and has no say on that
		q.due = reset
	}
	q.answers = min(q.answers+1, math.MaxUint16-1)
	q.longest = max(q.longest, int32(min(o.Quota.Reset/time.Millisecond, math.MaxInt32)))
	q.reset, q.said, q.limit, q.askedAt = reset, o.Quota.Remaining, o.Quota.Limit, o.SentAt
	q.left = float64(o.Quota.Remaining) - float64(max(o.InFlight-1, 0))
	q.adapt(now)
}

// observeAverage takes in the limit over its window, and whether what is left of it lasts until
// the reset at that rate, as far as whole seconds and requests can tell. Whoever then asks no
// faster finds something left, whether the window ends, slides or flows: that need not be known.
func (q *hint) observeAverage(now clock.Instant, told header.Quota) {
	q.average, q.most, q.steady = 0, 0, false
	if told.Window <= 0 || told.Limit <= 0 {
		return
	}
	left, lasts := float64(told.Remaining), told.Reset.Seconds()
	q.average = float64(told.Limit) / told.Window.Seconds()
	q.most = max(q.average, left/lasts)
	q.steady = left <= q.average*(lasts+1) && left+1 >= q.average*(lasts-1)
	q.until = now.Add(rounding + 2*told.Window)
}

// renewed is told of the first answer of what should be a new window. If the hint is not whole
// then, the window gives back one by one what it took.
func (q *hint) renewed(now clock.Instant, o *control.Observation) {
	whole := o.Quota.Limit - int64(o.InFlight)
	switch q.moved = min(q.moved+1, slides); {
	case q.refills(q.said):
		q.slide(now, o)
	case o.Quota.Remaining >= whole-whole/10:
		q.pace, q.moved = 0, 0
	case q.moved == slides:
		q.slide(now, o)
	}
	q.answers, q.top = 0, o.Quota.Remaining
}

// refills reports whether what is left falls by less than half of what is asked for: it comes back all
// the time, and what is told of a reset is no pace.
func (q *hint) refills(left int64) bool {
	return q.answers >= fewAnswered && 2*(q.top-left) < int64(q.answers)
}

// slide takes the window for one that slides. If its length is not told, that is the longest
// reset, which was told when the window was empty.
func (q *hint) slide(now clock.Instant, o *control.Observation) {
	w := o.Quota.Window
	if q.exact = w > 0; !q.exact {
		w = max(o.Quota.Reset, q.longestReset())
	}
	if q.pace == 0 {
		q.more, q.moreAt, q.least = 1, now, math.MaxFloat64
	}
	q.pace = (1 - toldMargin) * float64(o.Quota.Limit) / w.Seconds()
}

// longestReset is the longest reset that was told.
func (q *hint) longestReset() time.Duration { return time.Duration(q.longest) * time.Millisecond }

// sliding is the rate for a window that slides. What is left of it sets that.
func (q *hint) sliding() float64 {
	return q.pace * q.more * min(max(q.left, 0.5)/q.spare(), 1)
}

// spare requests are left unused.
func (q *hint) spare() float64 { return max(leastSpare, float64(q.limit)/spareOf) }

// adapt asks a window that slides for more where much was left all the time, and for less where it was
// nearly used up: the pace that was told has a resolution.
func (q *hint) adapt(now clock.Instant) {
	if q.least = min(q.least, q.left); q.pace == 0 || q.exact || now < q.moreAt.Add(max(time.Second, q.longestReset())) {
		return
	}
	if q.least > q.spare() {
		q.more = min(1.15*q.more, mostMore)
	} else if q.least < q.spare()/2 {
		q.more = max(.9*q.more, 1)
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
	e.Confidence, e.Rate = 1, q.most
	switch {
	case q.steady:
		if e.Rate = (1 - toldMargin) * q.average; q.left < 1+q.kept() {
			e.NotBefore = q.soonest
		}
	case now >= q.reset:
	case q.pace > 0:
		e.Rate = lower(e.Rate, q.sliding())
	case q.left < 1+q.kept():
		e.NotBefore = q.reset
	default:
		left := max(q.reset.Sub(now).Seconds(), 0.001)
		e.Rate = lower(e.Rate, (q.left+1-q.kept())/left) // evenly: the last of n goes before the reset
	}
	return e
}

// lower is the lower of two rates, of which zero is none.
func lower(a, b float64) float64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// kept is what is left unused of a window. Who uses up the last of it is told to wait for the reset,
// and that is rounded up to a whole second, which is worth more than a request where these are many.
func (q *hint) kept() float64 {
	rate := q.average
	if rate == 0 {
		rate = float64(q.limit) / max(q.longestReset().Seconds(), .001)
	}
	if q.limit > 1 && rate > 2 {
		return 1
	}
	return 0
}
