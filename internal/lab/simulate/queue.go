package simulate

import (
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

const (
	// patience is how long a queue's tail may have to wait before the server sheds
	// load with 503. Three times the client's timeout: by then nobody listens.
	patience = 30 * time.Second
	// spare is what Clairvoyant leaves of a queue's capacity, over the square root of
	// its workers: closer to full, waiting grows without bound, and a queue of many
	// workers bears more (the square-root rule of staffing).
	spare = 0.2
	// lag is how far it may be behind its own pace and make good for it: more than any
	// link's guard, and too little to matter to a queue.
	lag = time.Second / 2
)

// queue is M/M/c: so many workers, each request a random (exponential) time of one
// of them, in the order of arrival. It refuses nothing and becomes slow instead.
type queue struct {
	service time.Duration   // mean
	slower  steps           // factor of it
	free    []clock.Instant // when each worker is done with what it has
	rnd     *rand.Rand
	paced   clock.Instant // when Clairvoyant's next is due
}

func newQueue(workers int, service time.Duration, slower steps, rnd *rand.Rand) *queue {
	return &queue{service: service, slower: slower, free: make([]clock.Instant, workers), rnd: rnd}
}

// capacity is the requests per second that keep all workers busy at t.
func (s *queue) capacity(t time.Duration) float64 {
	return float64(len(s.free)) / (s.service.Seconds() * s.slower.at(t))
}

func (s *queue) Serve(now clock.Instant) Answer {
	s.paced = max(s.paced, now.Add(-lag)).Add(seconds(1 / ((1 - spare/math.Sqrt(float64(len(s.free)))) * s.capacity(time.Duration(now)))))
	first := 0
	for i, at := range s.free {
		if at < s.free[first] {
			first = i
		}
	}
	start := max(now, s.free[first])
	if start.Sub(now) > patience {
		return Answer{Status: http.StatusServiceUnavailable}
	}
	work := float64(s.service) * s.slower.at(time.Duration(now)) * s.rnd.ExpFloat64()
	s.free[first] = start.Add(time.Duration(work))
	a := admitted()
	a.Delay = s.free[first].Sub(now)
	return a
}

func (s *queue) Next(now clock.Instant) clock.Instant { return max(now, s.paced) }
