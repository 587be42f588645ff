package simulate

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

type flaky struct {
	Server
	share  float64
	status []int // of the failures, in turns
	rnd    *rand.Rand
	failed int
}

func (s *flaky) Serve(now clock.Instant) Answer {
	a := s.Server.Serve(now)
	if a.Status != http.StatusOK || s.rnd.Float64() >= s.share {
		return a
	}
	s.failed++
	return Answer{Status: s.status[s.failed%len(s.status)], Delay: a.Delay}
}

// jail answers 403 for a while after more than max refusals in a minute.
type jail struct {
	Server
	max      int
	term     time.Duration
	refusals ring[clock.Instant] // of the last minute
	until    clock.Instant
}

func (s *jail) Serve(now clock.Instant) Answer {
	if now < s.until {
		return Answer{Status: http.StatusForbidden, Refused: true}
	}
	a := s.Server.Serve(now)
	if !a.Refused {
		return a
	}
	for s.refusals.n > 0 && s.refusals.first() <= now.Add(-time.Minute) {
		s.refusals.pop()
	}
	s.refusals.push(now)
	if s.refusals.n > s.max {
		s.refusals, s.until, a.Ban = ring[clock.Instant]{}, now.Add(s.term), true
	}
	return a
}

func (s *jail) Next(now clock.Instant) clock.Instant {
	if now < s.until {
		return s.until
	}
	return s.Server.Next(now)
}

type span struct{ From, To time.Duration }

type spans []span

func (s spans) at(t time.Duration) (in span, ok bool) {
	for _, in := range s {
		if t >= in.From && t < in.To {
			return in, true
		}
	}
	return span{}, false
}

// outage answers everything alike for a while, without the server.
type outage struct {
	Server
	when spans
	says Answer
}

func (s *outage) Serve(now clock.Instant) Answer {
	if _, down := s.when.at(time.Duration(now)); down {
		return s.says
	}
	return s.Server.Serve(now)
}

func (s *outage) Next(now clock.Instant) clock.Instant {
	if in, down := s.when.at(time.Duration(now)); down {
		return clock.Instant(in.To)
	}
	return s.Server.Next(now)
}
