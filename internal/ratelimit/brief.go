package ratelimit

import "github.com/treadlight/crawl/internal/ratelimit/breaker"

// Brief is what a table shows of a domain.
type Brief struct {
	FillRate     float64       // requests per second
	AvgLatencyMS float64       // of the last 64 answers; zero before the first
	State        breaker.State // of the breaker
}

// Brief is [AdaptiveRateLimiter.Inspect] without what takes long: the words, and what has to
// be sorted. It is not known under the same condition.
func (l *AdaptiveRateLimiter) Brief(domain string) (b Brief, known bool) {
	s, known := l.peek(Domain(domain))
	s.mu.Lock()
	defer s.mu.Unlock()
	return Brief{s.bucket.rate.rps(), millis(s.tail.Mean()), s.stateLocked(s.nowLocked())}, known
}
