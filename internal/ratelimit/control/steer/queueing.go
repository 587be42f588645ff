package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// queueing watches for answers that wait at the host, which shows before anything is refused. While
// there is a queue the host gets done all that it can: that is its capacity. Latencies are compared in
// logarithms, where one huge page weighs little, span by span, and with an absolute floor: on a near
// host a third of a millisecond becomes one by the scheduler's doing.
type queueing struct {
	spanAt              clock.Instant
	sum, squares, plain float32 // of the present span's latencies: logarithms, their squares, seconds
	srtt                float32 // smoothed latency in seconds
	mu, variance, usual float32 // of undisturbed latencies: mean and variance of their logarithms, and their mean
	n                   uint16  // answers in the span
	answers             uint8   // in mu and variance
	bad                 uint8   // slow spans in a row
	*queue                      // nil before the first
}

// queue is what is known of a host that has had one.
type queue struct {
	capacity float64 // requests per second that it got done meanwhile
	weight   float64 // answers that say so
	allowed  float64 // requests per second; zero for any
	at       clock.Instant
	drain    drain
}

// drain is the slow time in which a queue empties. The zero drain is none.
type drain struct {
	before float64 // mean of logarithms that began it
	until  clock.Instant
	was    float64 // allowed before
	times  uint8
	share  float64 // of what is allowed that is used meanwhile
	deeper bool
}

const (
	// plainAnswers make a plain mean, after which what is usual moves slowly. Of fewer than
	// fewAnswers the spread is not believed to be less than a factor of two either way.
	plainAnswers = 200
	fewAnswers   = 50
	leastSpread  = 0.5
	most         = 150 // answers that a capacity is the mean of
)

// time takes in a latency, of whatever answer.
func (q *queueing) time(latency time.Duration) {
	l := float32(max(latency.Seconds(), 1e-6))
	if q.srtt == 0 {
		q.srtt, q.usual = l, l
	}
	q.srtt += 0.125 * (l - q.srtt)
	if q.answers == 0 {
		q.usual = min(q.usual, l)
	}
}

// observe takes in an answer given in the ordinary course. In a search a queue is believed at once. It
// reports what it found, if anything.
func (q *queueing) observe(x *Sample) control.Cause {
	if q.n == 0 {
		q.spanAt = x.At
	}
	l := max(x.Latency.Seconds(), 1e-6)
	ln := math.Log(l)
	q.n++
	q.sum += float32(ln)
	q.squares += float32(ln * ln)
	q.plain += float32(l)
	age := x.At.Sub(q.spanAt)
	first := q.answers == 0 && q.n >= 4
	full := q.n >= 16 && age >= time.Second || q.n >= 4 && age >= 5*time.Second || q.n == math.MaxUint16
	if !first && !full {
		return 0
	}
	cause := q.judge(x)
	q.n, q.sum, q.squares, q.plain = 0, 0, 0, 0
	return cause
}

// judge compares a full span with what is usual.
func (q *queueing) judge(x *Sample) control.Cause {
	n := float64(q.n)
	m, plain := float64(q.sum)/n, float64(q.plain)/n
	v := max(float64(q.squares)/n-m*m, 0)
	done := (n - 1) / max(x.At.Sub(q.spanAt).Seconds(), .001)
	slow := q.answers > 0 && math.Exp(m)-math.Exp(float64(q.mu)) > x.LatencyFloor &&
		m-float64(q.mu) > max(math.Log(x.LatencyRatio), x.LatencyZ*math.Sqrt(q.spread()*(1/n+1/float64(q.answers))))
	switch {
	case !slow:
		q.bad = 0
		if q.queue == nil || m < float64(q.mu) || done < x.Draining*q.capacity {
			q.learn(m, v, plain)
		}
		if q.queue != nil {
			q.quiet(x.At, done, n)
		}
	case q.queue != nil && q.drain.until != 0:
		q.measure(done, n)
		return q.drainOn(x, m, plain)
	default:
		if q.bad++; x.Mode == Search || q.bad >= 2 {
			return q.begin(x, m, done, n)
		}
	}
	return 0
}

func (q *queueing) spread() float64 {
	if q.answers < fewAnswers {
		return max(float64(q.variance), leastSpread)
	}
	return float64(q.variance)
}

// learn moves what is usual towards a span.
func (q *queueing) learn(m, v, plain float64) {
	n := float64(q.n)
	weight := n / (float64(q.answers) + n)
	if q.answers >= plainAnswers {
		weight = 0.02
		if m < float64(q.mu) {
			weight = 0.1
		}
	}
	q.mu = towards(q.mu, m, weight)
	q.variance = towards(q.variance, v, weight)
	q.usual = towards(q.usual, plain, weight)
	q.answers = uint8(min(int(q.answers)+int(q.n), plainAnswers))
}

func towards(mean float32, to, weight float64) float32 {
	return float32(float64(mean) + weight*(to-float64(mean)))
}

// begin lowers what is allowed to what the host got done, and slows down so that its queue empties.
func (q *queueing) begin(x *Sample, m, done, n float64) control.Cause {
	if q.queue == nil {
		q.queue = &queue{}
	}
	q.measure(done, n)
	rate := x.Rate
	if q.allowed > 0 {
		rate = min(rate, q.allowed)
	}
	q.drain = drain{before: m, was: q.allowed, until: x.At.Add(q.drainTime()), share: x.Draining}
	q.allowed, q.at, q.bad = min(.99*rate, 1.03*q.capacity), x.At, 0
	return control.CauseLatency
}

// measure takes in what was done in a span with a queue.
func (q *queue) measure(done, n float64) {
	q.weight = min(q.weight+n, most)
	q.capacity += (done - q.capacity) * min(1, n/q.weight)
}

// quiet takes in a span without a queue: what is allowed rises, if it was used, the faster the longer ago
// it was too much.
func (q *queue) quiet(now clock.Instant, done, n float64) {
	if q.drain.until != 0 {
		q.drain, q.at = drain{}, now
		return
	}
	if q.allowed == 0 || done < .8*q.allowed {
		return
	}
	age := now.Sub(q.at).Seconds() / 10
	q.allowed *= 1 + min(.2, .01*(1+age*age))*n/q.allowed
}

func (q *queueing) drainTime() time.Duration {
	return max(3*time.Second, seconds(4*float64(q.usual)))
}

// drainOn goes lower while that helps. What does not get better has nothing to do with the rate.
func (q *queueing) drainOn(x *Sample, m, plain float64) control.Cause {
	d, now := &q.drain, x.At
	if now < d.until {
		d.before = max(d.before, m) // what was sent before comes back now
		return 0
	}
	d.until = now.Add(q.drainTime())
	better := m < d.before-.1
	switch {
	case better && d.times < 5:
		d.times++
		d.before = m
		q.allowed *= .9
	case !better && !d.deeper:
		d.deeper, d.share = true, d.share*x.Draining
	default: // it is slower now, and that is usual
		q.mu, q.usual, q.bad = float32(m), float32(plain), 0
		q.allowed, q.drain = d.was, drain{}
		return control.CauseRebased
	}
	return 0
}

// estimate is what the host gets done without a queue; while one empties, less.
func (q *queueing) estimate() Estimate {
	if q.queue == nil || q.allowed == 0 {
		return Estimate{}
	}
	e := Estimate{Rate: q.allowed, Confidence: 1, Cause: control.CauseLatency}
	if q.drain.until != 0 {
		e.Rate *= q.drain.share
	}
	return e
}

// inFlight is the most requests at once that a rate needs, by Little's law, with four standard
// deviations of what comes at random.
func (q *queueing) inFlight(rate float64) int {
	if q.answers == 0 {
		return 4 + int(4*rate*float64(q.usual))
	}
	m := rate * float64(q.usual)
	return int(math.Ceil(1.25*m + 4*math.Sqrt(m) + 4))
}
