package simulate

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Link is the way between client and server. The zero Link takes no time.
type Link struct {
	RTT    time.Duration // there and back, at the least; zero means none
	Jitter float64       // mean of the exponential delay that is added each way, as a share of RTT/2; zero means none
	// Contention adds periods in which everything takes 3 to 20 times as long, as a client on
	// a busy machine sees a near host. False means none.
	Contention bool
}

const (
	// A busy machine's periods, as measured.
	periodGap = 12 * time.Second // mean time between two
	periodMin = 200 * time.Millisecond
	periodMax = 3 * time.Second
	leastSlow = 3.0
	mostSlow  = 20.0
)

// guard is how late nearly every request comes at most: three means of jitter, or the worst
// period of contention.
func (l Link) guard() time.Duration {
	half := float64(l.RTT) / 2
	g := 3 * l.Jitter * half
	if l.Contention {
		g = max(g, mostSlow*half)
	}
	return time.Duration(g)
}

type way struct {
	Link
	rnd      *rand.Rand
	from, to clock.Instant // of the present or next period
	factor   float64       // in it
}

// delay is the time of one way from now on, which may be before the now of the last call.
func (w *way) delay(now clock.Instant) time.Duration {
	d := float64(w.RTT) / 2
	if w.Jitter > 0 {
		d *= 1 + w.Jitter*w.rnd.ExpFloat64()
	}
	if w.Contention {
		if now >= w.to {
			w.period(now)
		}
		if now >= w.from {
			d *= w.factor
		}
	}
	return time.Duration(d)
}

func (w *way) period(now clock.Instant) {
	w.from = now.Add(time.Duration(w.rnd.ExpFloat64() * float64(periodGap)))
	w.to = w.from.Add(periodMin + time.Duration(w.rnd.Float64()*float64(periodMax-periodMin)))
	w.factor = leastSlow * math.Pow(mostSlow/leastSlow, w.rnd.Float64())
}

// Stalls are times in which no goroutine of the client runs, because its machine is busy: timers
// fire late and answers are read late. The zero Stalls are none.
type Stalls struct {
	Gap     time.Duration // mean time from one to the next; zero means there are none
	Longest time.Duration // they last a tenth of it to the whole; zero means there are none
}

type stalls struct {
	Stalls
	rnd      *rand.Rand
	from, to clock.Instant // of the present or next one
}

// over is when a client that wants to act at an instant can.
func (s *stalls) over(at clock.Instant) clock.Instant {
	if s.Longest == 0 {
		return at
	}
	for at >= s.to {
		s.from = s.to.Add(time.Duration(s.rnd.ExpFloat64() * float64(s.Gap)))
		s.to = s.from.Add(time.Duration((0.1 + 0.9*s.rnd.Float64()) * float64(s.Longest)))
	}
	if at < s.from {
		return at
	}
	return s.to
}

// Offer is when there are URLs to fetch. The zero Offer is: always.
type Offer struct {
	Rate  float64       // URLs per second that come in until Until; zero means all are there from the start
	Until time.Duration // from then on there is no end of them
	On    time.Duration // they are there for so long, then
	Off   time.Duration // none for so long, and so on; zero means no pauses
}

// next is when the URL after taken others is there: now or later.
func (o Offer) next(now clock.Instant, taken int) clock.Instant {
	at := now
	if o.Rate > 0 && time.Duration(now) < o.Until {
		at = max(at, min(clock.Instant(seconds(float64(taken)/o.Rate)), clock.Instant(o.Until)))
	}
	if o.Off > 0 {
		if in := time.Duration(at) % (o.On + o.Off); in >= o.On {
			at = at.Add(o.On + o.Off - in)
		}
	}
	return at
}
