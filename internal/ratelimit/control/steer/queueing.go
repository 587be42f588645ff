package steer

import (
	"math"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// queueing finds the rate from which responses wait in a queue at the host, which shows before anything is refused. A
// response is late if it takes more than twice the usual time. By Markov's inequality that is less than half of all
// responses unless the host has become slower, so a sum that each late response raises and any other lowers stays near
// zero, whatever the distribution (a cumulative sum, as Page's). When it has risen to lateSum there is a queue, and what
// the host completed meanwhile is its capacity.
//
// Then the rate is bounded, and with it the requests in flight (rate times usual latency, by Little's law). At first the
// bound is below the capacity, until emptied responses to requests that were sent since have shown the latency without a
// queue; a latency that did not fall becomes the usual one. Then the bound is somewhat above the capacity, and rises with
// each response until there is a queue again, as in LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus).
type queueing struct {
	usual   float32       // smoothed latency without a queue, in seconds; zero before the first response
	late    int8          // the sum; below zero, how many responses without a queue are still to come
	n       uint16        // responses since the sum was last zero
	since   clock.Instant // when the sum was last zero, or a queue was found
	allowed float32       // requests per second that make hardly a queue; zero means any
}

const (
	lateSum = 12 // by chance one run in 10,000 gets there, where a quarter of the responses are late
	// leastDelay is by how many seconds a response has to be later, whatever the usual time: a near host responds in less
	// than a scheduler takes.
	leastDelay = .05
	emptied    = 12   // as many responses give a mean to a quarter or so
	above      = 1.2  // factor of the capacity, so that the host never idles; also TCP's of pacing
	regrow     = 0.05 // requests per second that each response adds: at the rate of the bound 5 % a second
	outlier    = 4    // times the usual latency that a response counts at most: one huge page does not matter

	// These are the shares by which the usual latency moves: with each of the responses that show it when a queue has
	// emptied, and with all responses of a round trip while no bound is near. A queue that grows by more than slowly in a
	// round trip is therefore found, and not taken for usual.
	quickly = 1. / 8
	slowly  = 1. / 50
)

// observe takes in the latency of an admitted response, and reports whether it shows a queue.
func (q *queueing) observe(x *Sample) (found bool) {
	latency := max(x.Latency.Seconds(), 1e-6)
	if q.usual == 0 {
		q.usual, q.late, q.since = float32(latency), -emptied, never
	}
	if q.late < 0 {
		if x.SentAt > q.since {
			q.late++
			q.learn(latency, quickly)
		}
		return false
	}
	usual := float64(q.usual)
	if q.free(x.Rate) {
		q.learn(latency, slowly/float64(max(x.InFlight, 1)))
	}
	if q.n = min(q.n+1, math.MaxUint16-1); q.late == 0 {
		q.since, q.n = x.At, 0
	}
	if latency-usual <= max(usual, leastDelay) {
		q.late = max(q.late-1, 0)
		if q.allowed > 0 {
			q.allowed += regrow
		}
		return false
	}
	q.late = min(q.late+1, math.MaxInt8-1)
	took := x.At.Sub(q.since).Seconds()
	if !x.has(Queues) || q.late < lateSum || took < 1 {
		return false
	}
	q.allowed = float32(above * float64(q.n) / took)
	q.since, q.late = x.At, -emptied
	return true
}

// learn moves the usual latency by a share of what a response differs from it.
func (q *queueing) learn(latency, share float64) {
	if q.allowed > 0 || q.late >= 0 { // the first response may have been much faster than the others
		latency = min(latency, outlier*float64(q.usual))
	}
	q.usual += float32(share) * (float32(latency) - q.usual)
}

// free reports whether a rate is far below the bound, so that there is no queue.
func (q *queueing) free(rate float64) bool { return q.allowed == 0 || float64(q.allowed) > 2*rate }

// estimate returns the rate at which the host has hardly a queue, and less while one empties. It says nothing of a host
// that never had one.
func (q *queueing) estimate(t *Tuning) Estimate {
	if q.allowed == 0 {
		return Estimate{}
	}
	e := Estimate{Rate: float64(q.allowed), Confidence: 1, Cause: control.CauseLatency}
	if q.late < 0 {
		e.Rate *= t.Draining
	}
	return e
}

// inFlight returns how many requests at once a rate needs: by Little's law rate times latency, and no more while a queue
// empties. Else the number varies: a host that has queues gets a standard deviation of a Poisson number more, and two;
// others four, 25 % and four.
func (q *queueing) inFlight(rate float64) int {
	m := rate * float64(q.usual)
	switch {
	case q.free(rate):
		m = 1.25*m + 4*math.Sqrt(m) + 4
	case q.late >= 0:
		m += math.Sqrt(m) + 2
	}
	return int(math.Ceil(m))
}
