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
	// sum and squares are sums over the present span: of logarithms of latencies in seconds, and of their squares.
	sum, squares float32
	// srtt is the smoothed latency in seconds, as TCP's: each response moves it by an eighth. Zero means none yet.
	srtt float32
	// mu and variance are mean and variance of the logarithms of latencies without a queue.
	mu, variance float32
	// n is the number of responses in the present span.
	n uint16
	// answers is the number of responses in mu and variance, at most plainAnswers; zero before the first span.
	answers uint8
	// slow is the number of slow spans in a row.
	slow uint8
	// queue is nil until the host had a queue.
	*queue
}

// queue is what is known of a host that has had a queue.
type queue struct {
	capacity float64       // requests per second that the host completed while it had a queue, as a moving mean
	allowed  float64       // rate that makes no queue, in requests per second; zero means any
	share    float64       // share of allowed that is used while the queue empties; zero if there is none
	found    float64       // mean logarithm of latencies when the drain began, or at the latest check that found less
	at       clock.Instant // the next check of the drain, or else when the queue was last seen to be gone
}

const (
	// The first plainAnswers responses make a plain mean; then what is usual moves slowly. With fewer than fewAnswers
	// the variance is not believed to be less than leastSpread, a factor of two either way.
	plainAnswers = 200
	fewAnswers   = 50
	leastSpread  = 0.5
	most         = 150 // responses that a moving mean of the capacity rests on
)

// time takes in the latency of any response, for srtt.
func (q *queueing) time(latency time.Duration) {
	l := float32(max(latency.Seconds(), 1e-6))
	if q.srtt == 0 {
		q.srtt = l
	}
	q.srtt += 0.125 * (l - q.srtt)
}

// observe takes in the latency of a response outside pauses and Recover. At the end of a span (16 responses and a
// second, or 4 and five seconds; the first one 4) it returns what judge found: zero, CauseLatency or CauseRebased.
func (q *queueing) observe(x *Sample) control.Cause {
	if q.n == 0 {
		q.spanAt = x.At
	}
	ln := math.Log(max(x.Latency.Seconds(), 1e-6))
	q.n++
	q.sum += float32(ln)
	q.squares += float32(ln * ln)
	age := x.At.Sub(q.spanAt)
	first := q.answers == 0 && q.n >= 4
	full := q.n >= 16 && age >= time.Second || q.n >= 4 && age >= 5*time.Second || q.n == math.MaxUint16
	if !first && !full {
		return 0
	}
	cause := q.judge(x)
	q.n, q.sum, q.squares = 0, 0, 0
	return cause
}

// judge compares a span that is over with what is usual. A slow span begins a drain: at once in a search, after the
// second in a row elsewhere. A span that is not slow teaches what is usual, and ends a drain.
func (q *queueing) judge(x *Sample) control.Cause {
	n := float64(q.n)
	m := float64(q.sum) / n
	v := max(float64(q.squares)/n-m*m, 0)
	done := (n - 1) / max(x.At.Sub(q.spanAt).Seconds(), .001)
	if q.answers == 0 || math.Exp(m)-math.Exp(float64(q.mu)) <= x.LatencyFloor ||
		m-float64(q.mu) <= max(math.Log(x.LatencyRatio), x.LatencyZ*math.Sqrt(q.spread()*(1/n+1/float64(q.answers)))) {
		q.slow = 0
		q.learn(m, v)
		if q.queue != nil {
			q.quiet(x.At, done, n)
		}
		return 0
	}
	q.slow = min(q.slow+1, 2)
	if q.queue == nil || q.share == 0 {
		if x.Mode != Search && q.slow < 2 {
			return 0
		}
		if q.queue == nil {
			q.queue = &queue{capacity: done}
		}
	}
	q.capacity += (done - q.capacity) * min(1, n/most)
	if q.share > 0 {
		return q.drain(x, m)
	}
	q.allowed = min(.99*lower(q.allowed, x.Rate), 1.03*q.capacity)
	q.share, q.found, q.at = x.Draining, m, x.At.Add(q.drainTime())
	return control.CauseLatency
}

// spread returns the variance of a latency's logarithm, at least leastSpread of too few responses.
func (q *queueing) spread() float64 {
	if q.answers < fewAnswers {
		return max(float64(q.variance), leastSpread)
	}
	return float64(q.variance)
}

// learn moves what is usual towards the mean m and the variance v of a span.
func (q *queueing) learn(m, v float64) {
	n := float32(q.n)
	weight := n / (float32(q.answers) + n)
	if q.answers >= plainAnswers {
		weight = 0.02
		if m < float64(q.mu) {
			weight = 0.1
		}
	}
	q.mu += weight * (float32(m) - q.mu)
	q.variance += weight * (float32(v) - q.variance)
	q.answers = uint8(min(int(q.answers)+int(q.n), plainAnswers))
}

// usual returns the mean latency without a queue, in seconds, of a lognormal distribution.
func (q *queueing) usual() float64 {
	if q.answers == 0 {
		return float64(q.srtt)
	}
	return math.Exp(float64(q.mu + q.variance/2))
}

// quiet takes in a span without a queue. It ends a drain, or raises the allowed rate if most of it was used: by 1 % a
// second and more, up to 20 %, the longer ago the rate was too fast.
func (q *queueing) quiet(now clock.Instant, done, n float64) {
	if q.share > 0 {
		q.share, q.at = 0, now
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
	return max(3*time.Second, seconds(4*q.usual()))
}

// drain checks a drain when its time is over, after one more slow span. If latencies fell, allowed falls by a tenth. If
// not, even less is used once. If that does not help either, the latencies do not depend on the rate: they become the
// usual ones, and any rate is allowed.
func (q *queueing) drain(x *Sample, m float64) control.Cause {
	if x.At < q.at {
		q.found = max(q.found, m) // responses to requests from before the drain still come
		return 0
	}
	q.at = x.At.Add(q.drainTime())
	switch {
	case m < q.found-.1:
		q.found = m
		q.allowed *= .9
		return 0
	case q.share == x.Draining:
		q.share *= x.Draining
		return 0
	}
	q.mu, q.slow = float32(m), 0 // the host is slower now, and that is usual
	q.allowed, q.share = 0, 0
	return control.CauseRebased
}

// estimate returns the rate at which the host has no queue, and less while a queue empties. It says nothing of a host
// without a bound.
func (q *queueing) estimate() Estimate {
	if q.queue == nil || q.allowed == 0 {
		return Estimate{}
	}
	e := Estimate{Rate: q.allowed, Confidence: 1, Cause: control.CauseLatency}
	if q.share > 0 {
		e.Rate *= q.share
	}
	return e
}

// inFlight returns how many requests at once a rate needs: by Little's law rate times latency, plus 25 %, four standard
// deviations of a Poisson number, and four.
func (q *queueing) inFlight(rate float64) int {
	m := rate * q.usual()
	if q.answers == 0 {
		return 4 + int(4*m)
	}
	return int(math.Ceil(1.25*m + 4*math.Sqrt(m) + 4))
}
