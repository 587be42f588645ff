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

// Server is the host's side of a run. One goroutine calls it, and now never goes back from one Serve to the next.
type Server interface {
	// Serve takes the request that arrives at now and decides about it.
	Serve(now clock.Instant) Answer
	// Next returns the earliest instant, not before now, at which a request would be admitted, as far as the server
	// knows at now, which may be before the last Serve. It changes nothing. The result may be too early, since [Oracle]
	// asks again at that instant.
	Next(now clock.Instant) clock.Instant
}

// Answer is the outcome of a request. The client never sees one whose Delay exceeds its timeout.
type Answer struct {
	Status     int           // of HTTP; zero if Err is set
	Err        error         // why there is no status; nil if there is one
	Delay      time.Duration // from the arrival of the request to the departure of the response
	RetryAfter time.Duration // counted from the departure of the response; zero means none
	Quota      header.Quota  // zero if the response has no quota
	Refused    bool          // by a limiter: neither served nor failed
	Ban        bool          // the request made the server lock the client out for a while
}

func admitted() Answer { return Answer{Status: http.StatusOK} }

type hintForm uint8

const (
	silent    hintForm = iota // no Retry-After
	exact                     // the time that is left, rounded up to seconds
	constant                  // always the same time
	wholeDate                 // the date when the wait ends, rounded up to the second
)

type hint struct {
	form hintForm
	d    time.Duration // for constant
}

// after returns the Retry-After given at now to a client that has to wait for wait.
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

// steps is a value that changes over time. The steps are in order of time, from zero on.
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

// leaky is nginx's limit_req, which is also a token bucket of burst+1 tokens.
type leaky struct {
	rate   steps         // requests per second
	burst  float64       // requests allowed above the rate
	delay  bool          // delay them (no "nodelay")
	status int           // of a refusal; the default of limit_req_status is 503
	hint   hint          // nginx sends none
	excess float64       // requests above the rate, at last
	last   clock.Instant // the last admission; a refusal changes nothing
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
	// A millionth of a request is a rounding error, not excess.
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

// seconds converts and rounds up, except for a thousandth of a nanosecond, which is a rounding error.
func seconds(s float64) time.Duration { return time.Duration(math.Ceil(s*1e9 - 1e-3)) }

// evasive is mod_evasive: after more than N requests in one second of the clock it answers 403 until no request has
// come for the length of the block.
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

// pages adds the time to make a page, which is lognormal. Without a Server it is a host without a limit.
type pages struct {
	Server               // nil if there is no limit
	median time.Duration // of the time that an admitted response takes
	sigma  float64       // of the logarithm of that time
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
	// patience is how long a request may wait in a queue before it is answered with 503: three times the client's
	// timeout.
	patience = 30 * time.Second
	// spare, divided by the square root of the number of workers (the square-root staffing rule), is the share of a
	// queue's capacity that Oracle leaves unused. Closer to full, the waiting time grows without bound.
	spare = 0.2
	// lag is how far Oracle may be behind its pace and still catch up: more than the guard of any link, and too little
	// to fill a queue.
	lag = time.Second / 2
)

// queue is M/M/c: N workers with exponential service times that serve requests in the order of their arrival. It
// refuses nothing but becomes slow.
type queue struct {
	*limit
	free  []clock.Instant // when each worker has finished its requests
	rnd   *rand.Rand
	paced clock.Instant // when Oracle's next request is due
}

func (s *queue) Serve(now clock.Instant) Answer {
	s.paced = max(s.paced, now.Add(-lag)).Add(seconds(1 / ((1 - spare/math.Sqrt(float64(s.N))) * s.rps(time.Duration(now)))))
	first := slices.Index(s.free, slices.Min(s.free))
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

// outage gives every request the same answer for a while, without asking the server.
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
