package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// queueing watches for responses that wait in a queue at the host, which shows before anything is refused. While there
// is a queue the host completes as many requests as it can, which is its capacity. Latencies are compared span by span,
// as means of logarithms, in which one huge page weighs little, and with an absolute floor: on a near host a
// scheduler's delay turns a third of a millisecond into one.
type queueing struct {
	// spanAt is when the first response of the present span came.
	spanAt clock.Instant
	// These are sums over the latencies of the present span: of logarithms of seconds, of their squares, and of
	// seconds.
	sum, squares, plain float32
	// srtt is the smoothed latency in seconds, as TCP's: each response moves it by an eighth. Zero means none yet.
	srtt float32
	// mu and variance are mean and variance of the logarithms of latencies without a queue, and usual is their mean in
	// seconds.
	mu, variance, usual float32
	// n is the number of responses in the present span.
	n uint16
	// answers is the number of responses in mu, variance and usual, at most plainAnswers; zero before the first span.
	answers uint8
	// bad is the number of slow spans in a row.
	bad uint8
	// queue is nil until the host had a queue.
	*queue
}

// queue is what is known of a host that has had a queue.
type queue struct {
	capacity float64       // requests per second that the host completed while it had a queue
	weight   float64       // responses that capacity is the mean of, at most most
	allowed  float64       // rate that makes no queue, in requests per second; zero means any
	at       clock.Instant // when allowed was last lowered, or the queue was last seen to be gone
	drain    drain
}

// drain is a time at a slower rate in which a queue empties. The zero drain means that there is none.
type drain struct {
	before float64       // mean logarithm of latencies at its beginning, or at the latest check that found less
	until  clock.Instant // when it is checked next whether latencies fell; zero if there is no drain
	was    float64       // allowed before the drain
	times  uint8         // how often allowed was lowered by a tenth in this drain, at most 5
	share  float64       // share of allowed that is used meanwhile
	deeper bool          // share was lowered a second time
}

const (
	// The first plainAnswers responses make a plain mean; then what is usual moves slowly. With fewer than fewAnswers
	// the variance is not believed to be less than leastSpread, a factor of two either way.
	plainAnswers = 200
	fewAnswers   = 50
	leastSpread  = 0.5
	most         = 150 // most responses that capacity is the mean of: older ones are forgotten
)

// time takes in the latency of any response, for srtt. Before the first span is judged, usual is the lowest latency.
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

// observe takes in the latency of a response outside pauses and Recover. At the end of a span (16 responses and a
// second, or 4 and five seconds; the first one 4) it returns what judge found: zero, CauseLatency or CauseRebased.
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

// judge compares a span that is over with what is usual. A slow span begins a drain: at once in a search, after the
// second in a row elsewhere. During a drain it is a measurement of the capacity. A span that is not slow teaches what
// is usual, unless it came near the capacity of a host that has had queues.
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

// spread returns the variance of a latency's logarithm, at least leastSpread of too few responses.
func (q *queueing) spread() float64 {
	if q.answers < fewAnswers {
		return max(float64(q.variance), leastSpread)
	}
	return float64(q.variance)
}

// learn moves what is usual towards the means of a span: mean m and variance v of logarithms, mean plain of seconds.
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

// towards returns the mean after a share weight of it was replaced by to.
func towards(mean float32, to, weight float64) float32 {
	return float32(float64(mean) + weight*(to-float64(mean)))
}

// begin lowers the allowed rate to what the host completed, and starts a drain, in which less than that is used.
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

// measure takes in how many requests per second were completed in a span of n responses with a queue.
func (q *queue) measure(done, n float64) {
	q.weight = min(q.weight+n, most)
	q.capacity += (done - q.capacity) * min(1, n/q.weight)
}

// quiet takes in a span without a queue. It ends a drain, or raises the allowed rate if most of it was used: by 1 % a
// second and more, up to 20 %, the longer ago the rate was too fast.
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

// drainTime returns how long a drain goes on before it is checked: three seconds, or four usual latencies if longer.
func (q *queueing) drainTime() time.Duration {
	return max(3*time.Second, seconds(4*float64(q.usual)))
}

// drainOn checks a drain when its time is over, after one more slow span. If latencies fell, allowed falls by a tenth
// (five times at most). If not, even less is used once. If that does not help either, the latencies do not depend on
// the rate: they become the usual ones, and allowed is what it was before.
func (q *queueing) drainOn(x *Sample, m, plain float64) control.Cause {
	d, now := &q.drain, x.At
	if now < d.until {
		d.before = max(d.before, m) // responses to requests from before the drain still come
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
	default: // the host is slower now, and that is usual
		q.mu, q.usual, q.bad = float32(m), float32(plain), 0
		q.allowed, q.drain = d.was, drain{}
		return control.CauseRebased
	}
	return 0
}

// estimate returns the rate at which the host has no queue, and less while a queue empties. It says nothing of a host
// without a bound.
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

// inFlight returns how many requests at once a rate needs: by Little's law rate times latency, plus 25 %, four standard
// deviations of a Poisson number, and four.
func (q *queueing) inFlight(rate float64) int {
	if q.answers == 0 {
		return 4 + int(4*rate*float64(q.usual))
	}
	m := rate * float64(q.usual)
	return int(math.Ceil(1.25*m + 4*math.Sqrt(m) + 4))
}
