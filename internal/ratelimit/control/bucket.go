package control

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// bucket is what is known of a bucket whose refusals order a pause that is longer than
// its next token takes: often the same few seconds or a minute for everyone. A cycle
// then has a pause in it, in which a bucket fills up and a counter does not, and its mean is
// of little use.
//
// What was admitted in any span before a refusal is at most the burst allowance and the
// rate times the span, and in one span just that: since the bucket was last full. So
// each refusal gives the rate as a function of the allowance. The faster the rate rose
// before, the more of what was admitted was allowance; the search and the climb rise at
// such different paces that their functions cross in one point, which is the bucket.
type bucket struct {
	needed    [allowances]float32 // the function as of the end of the search
	sustained float32             // the latest crossing; zero for none
}

const (
	// allowances are those at which the function is known: 0, 1, 3, 7 and so on to 127.
	// More than that is a window rather than a burst.
	allowances = 8
	// spans that are looked at are seconds, up to longestSpan: a bucket that took longer
	// to empty was near its rate, and any span will do.
	longestSpan = time.Minute
	// probablyLess and surelyLess bound by how much a crossing may lower the rate that was
	// refused: by less as long as a window of another length explains it as well.
	probablyLess = 0.6
	surelyLess   = 0.9
)

// allowance is the burst allowance of a place in the function.
func allowance(i int) float64 { return float64(int(1)<<i - 1) }

// explain takes in a refusal with an order, while it is fresh: of what lies further
// back the history knows less.
func (b *bucket) explain(needs [allowances]float32, search bool) {
	if search || b.needed[0] == 0 { // the search ended without an order, or was another crawl's
		*b = bucket{needed: needs}
		return
	}
	b.sustained = b.crossing(needs)
	if needs[0] > b.needed[0] {
		b.needed = needs // the limit has risen since
	}
}

// crossing is where the function of the search and that of now have the same rate.
func (b *bucket) crossing(now [allowances]float32) float32 {
	for i, n := range now {
		over := n - b.needed[i]
		switch {
		case over < 0:
			continue
		case i == 0:
			return n
		}
		under := b.needed[i-1] - now[i-1]
		return now[i-1] + (n-now[i-1])*under/(under+over)
	}
	return now[allowances-1]
}

// needs is the function at this refusal: what buckets of those allowances must have
// sustained.
func (s *steer) needs() (rates [allowances]float32) {
	for span := time.Second; span <= longestSpan && clock.Instant(span) < s.sentAt; span += time.Second {
		in := s.admittedIn(span)
		for i := range rates {
			rates[i] = max(rates[i], float32((in-allowance(i))/seconds(span)))
		}
	}
	return rates
}

// crossed is the rate of the crossing where the refusal came with an order; zero where it did not.
// Who counts over a second, and orders to wait for one, is a bucket with next to no allowance.
// What a rise from below left unused is in the mean of its cycle, but not in the crossing.
func (s *steer) crossed() float64 {
	if s.order == 0 {
		return 0
	}
	return float64(s.sustained)
}

// takeBucket takes the bucket's rate for the ceiling.
func (s *steer) takeBucket(least float64) {
	s.ceil, s.provisional = min(max(float64(s.sustained), least*s.failRate), 0.97*s.failRate), false
}

// agreed is what a bucket sustains that was full when the search came to that rate, and again
// when the climb did; zero if there is no search to compare with. A rate that grows by the
// factor e^g per second has asked for (r−R)²/2gr more than R once it is at r, a little above.
// That is the allowance both times, so the search went beyond R by √(growth/climbing) times as
// much as the climb. Without an allowance both are refused at the same rate, which is it.
//
// Where the bucket was not full again the climb was refused sooner, and this is too low, as
// the mean of a cycle is where it was: the higher of the two is the ceiling.
func (s *steer) agreed() float64 {
	if s.sought == 0 {
		return 0
	}
	further := math.Sqrt(growth / climbing)
	return min(steady*s.failRate, s.failRate-(float64(s.sought)-s.failRate)/(further-1))
}
