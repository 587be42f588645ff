package simulate

import (
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// Server is a host's side of a run. One goroutine calls it, and now never goes back from one
// Serve to the next.
type Server interface {
	// Serve takes the request that arrives at now and decides about it.
	Serve(now clock.Instant) Answer
	// Next is the earliest instant, no earlier than now, at which a request would be admitted
	// as far as the server knows at now, which may be before the last Serve. It changes
	// nothing. [Oracle] asks again at that instant, so it may be too early.
	Next(now clock.Instant) clock.Instant
}

// Answer is what a request comes to. One whose Delay exceeds the client's timeout
// is never seen by the client.
type Answer struct {
	Status     int           // of HTTP; zero if Err is set
	Err        error         // why there is no status; nil if there is one
	Delay      time.Duration // from arrival to the answer's departure
	RetryAfter time.Duration // from the answer's departure; zero if none
	Quota      header.Quota  // zero if nothing was said
	Refused    bool          // a limiter turned it away: neither work nor failure
	Ban        bool          // it made the server lock the client out for a while
}

func admitted() Answer { return Answer{Status: http.StatusOK} }

type hintForm uint8

const (
	silent    hintForm = iota // no Retry-After
	exact                     // the time that is left, in seconds rounded up
	constant                  // always the same
	wholeDate                 // the date of the end, rounded up to the second
)

type hint struct {
	form hintForm
	d    time.Duration // of a constant one
}

// after is the Retry-After given at now to a client that has to wait for that long.
func (o hint) after(now clock.Instant, wait time.Duration) time.Duration {
	switch o.form {
	case exact:
		return max(time.Second, ceil(wait, time.Second))
	case constant:
		return o.d
	case wholeDate:
		return ceil(time.Duration(now)+wait, time.Second) - time.Duration(now)
	case silent:
	}
	return 0
}

func ceil(d, unit time.Duration) time.Duration { return (d + unit - 1) / unit * unit }

type step struct {
	from  time.Duration
	value float64
}

// steps is a value that changes with time, in the order of time from zero on.
type steps []step

func (s steps) at(t time.Duration) float64 {
	if len(s) == 0 {
		return 1
	}
	v := s[0].value
	for _, p := range s[1:] {
		if t < p.from {
			break
		}
		v = p.value
	}
	return v
}

func always(v float64) steps { return steps{{0, v}} }

// leaky is nginx's limit_req, and also a token bucket of burst+1 tokens.
type leaky struct {
	rate   steps         // requests per second
	burst  float64       // requests allowed above the rate
	delay  bool          // delay them (no "nodelay")
	status int           // of a refusal; limit_req_status is 503 unless set
	hint   hint          // nginx gives none
	excess float64       // above the rate, as of last
	last   clock.Instant // admission; a refusal leaves the state as it is
	seen   bool
}

func (s *leaky) after(now clock.Instant) float64 {
	if !s.seen {
		return 0
	}
	return max(0, s.excess-s.rate.at(time.Duration(now))*now.Sub(s.last).Seconds()+1)
}

func (s *leaky) Serve(now clock.Instant) Answer {
	excess := s.after(now)
	rate := s.rate.at(time.Duration(now))
	// A millionth of a request is rounding, not excess.
	if excess > s.burst+1e-6 {
		return Answer{Status: s.status, Refused: true, RetryAfter: s.hint.after(now, seconds((excess-s.burst)/rate))}
	}
	s.excess, s.last, s.seen = excess, now, true
	a := admitted()
	if s.delay {
		a.Delay = seconds(excess / rate)
	}
	return a
}

// Next leaves some of the burst for jitter.
func (s *leaky) Next(now clock.Instant) clock.Instant {
	over := s.after(now) - (s.burst - min(4, s.burst/2))
	if over <= 1e-6 {
		return now
	}
	return now.Add(seconds(over / s.rate.at(time.Duration(now))))
}

// seconds converts and rounds up, but for a thousandth of a nanosecond, a rounding error.
func seconds(s float64) time.Duration { return time.Duration(math.Ceil(s*1e9 - 1e-3)) }

// evasive is mod_evasive: after more than N requests in a second of the clock it answers 403
// until no request has come for the block's length.
type evasive struct {
	*limit
	second clock.Instant
	count  int
	until  clock.Instant // end of the block, which every request moves
}

func (s *evasive) Serve(now clock.Instant) Answer {
	blocked := now < s.until
	if second := now / clock.Instant(time.Second); second > s.second {
		s.second, s.count = second, 0
	}
	if !blocked {
		s.count++
	}
	if !blocked && s.count <= s.N {
		return admitted()
	}
	s.until = now.Add(s.Block)
	return Answer{Status: http.StatusForbidden, Refused: true, Ban: !blocked}
}

func (s *evasive) Next(now clock.Instant) clock.Instant {
	if now < s.until {
		return s.until
	}
	if second := now / clock.Instant(time.Second); second <= s.second && s.count >= s.N {
		return (s.second + 1) * clock.Instant(time.Second)
	}
	return now
}

// pages adds a lognormal time to make a page. Without a Server it is a host without a limit.
type pages struct {
	Server               // nil if there is no limit
	median time.Duration // of what an admitted answer takes
	sigma  float64       // of its logarithm
	factor steps         // of the median; nil means none
	rnd    *rand.Rand
}

func (s *pages) Serve(now clock.Instant) Answer {
	a := admitted()
	if s.Server != nil {
		a = s.Server.Serve(now)
	}
	if a.Status == http.StatusOK {
		d := float64(s.median) * math.Exp(s.sigma*s.rnd.NormFloat64())
		if s.factor != nil {
			d *= s.factor.at(time.Duration(now))
		}
		a.Delay += time.Duration(d)
	}
	return a
}

func (s *pages) Next(now clock.Instant) clock.Instant {
	if s.Server == nil {
		return now
	}
	return s.Server.Next(now)
}

const (
	// patience is how long a request may wait before the queue answers 503: three times the
	// client's timeout.
	patience = 30 * time.Second
	// spare is what Oracle leaves of a queue's capacity, over the square root of its
	// workers (the square-root staffing rule): closer to full, waiting grows without bound.
	spare = 0.2
	// lag is how far Oracle may be behind its pace and still catch up: more than any
	// link's guard, and too little to fill a queue.
	lag = time.Second / 2
)

// queue is M/M/c: so many workers, exponential service times, in the order of arrival. It
// refuses nothing and becomes slow instead.
type queue struct {
	*limit
	free  []clock.Instant // when each worker is done with what it has
	rnd   *rand.Rand
	paced clock.Instant // when Oracle's next is due
}

func (s *queue) Serve(now clock.Instant) Answer {
	s.paced = max(s.paced, now.Add(-lag)).Add(seconds(1 / ((1 - spare/math.Sqrt(float64(s.N))) * s.rps(time.Duration(now)))))
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
	work := float64(s.Per) * s.Slower.at(time.Duration(now)) * s.rnd.ExpFloat64()
	s.free[first] = start.Add(time.Duration(work))
	a := admitted()
	a.Delay = s.free[first].Sub(now)
	return a
}

func (s *queue) Next(now clock.Instant) clock.Instant { return max(now, s.paced) }

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
	refusals []clock.Instant // of the last minute
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
	for len(s.refusals) > 0 && s.refusals[0] <= now.Add(-time.Minute) {
		s.refusals = slices.Delete(s.refusals, 0, 1)
	}
	s.refusals = append(s.refusals, now)
	if len(s.refusals) > s.max {
		s.refusals, s.until, a.Ban = nil, now.Add(s.term), true
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
