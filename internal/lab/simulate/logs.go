package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// slidingLogs are S22: limiters that remember when each of the last requests was admitted.
// They bear a bulge once, and give it back a window later as slowly as it began.
func slidingLogs() []Scenario {
	const short, medium, whole = 10 * time.Second, time.Minute, 10 * time.Minute
	dated := order{form: wholeDate}
	rps := func(n int, w time.Duration) float64 { return float64(n) / w.Seconds() }
	keeps := func(n int, w time.Duration, o order) func(*rand.Rand) Server {
		return func(*rand.Rand) Server { return newSliding(n, w, tooMany, o) }
	}
	// lasting is sc for long enough to meet six windows of ten minutes. The first is lost to
	// the search, whoever asks: of an hour ten minutes.
	lasting := func(sc Scenario) Scenario {
		sc.Duration = 6 * whole
		return sc
	}
	distant := func(name, doc string, n int, w time.Duration, o order) Scenario {
		return farHost(name, doc, rps(n, w), keeps(n, w, o))
	}
	nextDoor := func(name, doc string, n int, w time.Duration) Scenario {
		return nearHost(name, doc, rps(n, w), keeps(n, w, order{}))
	}
	quick := func(name, doc string, limiter func(*rand.Rand) Server) Scenario {
		return Scenario{
			Name: name, Doc: doc, Link: Link{RTT: time.Millisecond, Jitter: 0.1}, Capacity: flat(10), MaxRPS: 100,
			New: func(rnd *rand.Rand) Server {
				return &pages{Server: limiter(rnd), median: 20 * time.Millisecond, sigma: 0.4, rnd: rnd}
			},
		}
	}
	return []Scenario{
		distant("S22a", "sliding log 100 in 10 s, Retry-After date", 100, short, dated),
		nextDoor("S22b", "near sliding log 60 in 10 s, bare 429", 60, short),
		nextDoor("S22c", "near sliding log 600 in 10 s, bare 429", 600, short),
		distant("S22d", "sliding log 600 in 10 s, bare 429", 600, short, order{}),
		distant("S22e", "sliding log 60 in 60 s, bare 429", 60, medium, order{}),
		nextDoor("S22f", "near sliding log 300 in 60 s, bare 429", 300, medium),
		distant("S22g", "sliding log 300 in 60 s, Retry-After date", 300, medium, dated),
		lasting(distant("S22h", "sliding log 600 in 10 min, bare 429", 600, whole, order{})),
		lasting(nextDoor("S22i", "near sliding log 120 in 10 min, bare 429", 120, whole)),
		lasting(distant("S22j", "sliding log 600 in 10 min, Retry-After date", 600, whole, dated)),
		quick("S22k", "sliding log 100 in 10 s, Retry-After date, quick pages, client's ceiling 100/s",
			keeps(100, short, dated)),
		quick("S22l", "bucket 12/s of 30 before a sliding log of 300 in 30 s, Retry-After date, quick pages, client's ceiling 100/s",
			func(*rand.Rand) Server {
				return &both{leaky{rate: always(12), burst: 29, status: tooMany, order: dated}, newSliding(300, 30*time.Second, tooMany, dated)}
			}),
	}
}

// both are a bucket and, behind it, another limiter. What that refuses takes nothing from the bucket.
type both struct {
	bucket leaky
	behind Server
}

func (s *both) Serve(now clock.Instant) Answer {
	before := s.bucket
	a := s.bucket.Serve(now)
	if a.Refused {
		return a
	}
	if a = s.behind.Serve(now); a.Refused {
		s.bucket = before
	}
	return a
}

func (s *both) Next(now clock.Instant) clock.Instant {
	return max(s.bucket.Next(now), s.behind.Next(now))
}
