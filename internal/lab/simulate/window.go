package simulate

import (
	"math"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

type opening uint8

const (
	onTheClock    opening = iota // at multiples of its length
	byRequest                    // at the first request after the end of the last window
	byWholeSecond                // the same, but in whole seconds, as mod_qos does
)

// fixed admits N requests per window and refuses the others.
type fixed struct {
	*limit
	phase time.Duration // offset of windows on the clock, less than Per, so that none begins with the run
	start clock.Instant
	count int
	open  bool
}

func (s *fixed) roll(now clock.Instant) {
	start := s.start
	switch {
	case s.open && now < s.start.Add(s.Per):
	case s.Opening == onTheClock:
		start = now.Add(-(time.Duration(now) + s.phase) % s.Per)
	case s.Opening == byWholeSecond:
		start = now / clock.Instant(time.Second) * clock.Instant(time.Second)
	default:
		start = now
	}
	if !s.open || start != s.start {
		s.start, s.count, s.open = start, 0, true
	}
}

func (s *fixed) Serve(now clock.Instant) Answer {
	s.roll(now)
	a := admitted()
	left := s.start.Add(s.Per).Sub(now)
	if s.count < s.N {
		s.count++
	} else {
		a = s.refuse(now, left)
	}
	if s.Quota {
		a.Quota = header.Quota{
			Limit: int64(s.N), Remaining: int64(s.N - s.count),
			Reset: ceil(left, time.Second), Window: s.Per,
		}
	}
	return a
}

func (s *fixed) Next(now clock.Instant) clock.Instant {
	c := *s
	c.roll(now)
	if c.count < c.N {
		return now
	}
	return c.start.Add(c.Per)
}

// sliding keeps a log of admissions and admits N in any window. It does not log refusals.
type sliding struct {
	*limit
	log []clock.Instant // the last N admissions
}

func (s *sliding) Serve(now clock.Instant) Answer {
	if free := s.Next(now); free > now {
		return s.tell(now, s.refuse(now, free.Sub(now)))
	}
	s.log = append(s.log[max(0, len(s.log)+1-s.N):], now)
	return s.tell(now, admitted())
}

// tell adds the quota of Flask-Limiter's moving window. The reset is when the oldest request leaves the window, rounded
// up to the next whole second.
func (s *sliding) tell(now clock.Instant, a Answer) Answer {
	if s.Quota {
		oldest, _ := slices.BinarySearch(s.log, now.Add(-s.Per)+1) // that is still in the window
		a.Quota = header.Quota{
			Limit: int64(s.N), Remaining: int64(s.N - len(s.log) + oldest),
			Reset: s.log[oldest].Add(s.Per).Sub(now)/time.Second*time.Second + time.Second,
		}
	}
	return a
}

func (s *sliding) Next(now clock.Instant) clock.Instant {
	if len(s.log) < s.N {
		return now
	}
	return max(now, s.log[0].Add(s.Per))
}

// whole is Varnish's vsthrottle: a bucket that gains whole tokens for the time since the last request it admitted, and
// drops the rest of that time. A refusal begins a Block, in which requests also take tokens.
type whole struct {
	*limit
	spent int // tokens taken, of N
	last  clock.Instant
	until clock.Instant // of the block
}

func (s *whole) after(now clock.Instant) int {
	return max(0, s.spent-int(now.Sub(s.last).Seconds()/s.Per.Seconds()*float64(s.N)))
}

func (s *whole) Serve(now clock.Instant) Answer {
	spent, blocked := s.after(now), now < s.until
	if spent < s.N {
		s.spent, s.last = spent+1, now
	} else if !blocked {
		s.until = now.Add(s.Block)
	}
	if blocked || spent >= s.N {
		return s.refuse(now, s.until.Sub(now))
	}
	return admitted()
}

// Next keeps half of the bucket for jitter, and then waits for a quarter of it at once, because jitter costs whole
// tokens.
func (s *whole) Next(now clock.Instant) clock.Instant {
	if now = max(now, s.until); s.after(now) < s.N/2 {
		return now
	}
	return max(now, s.last.Add(s.Per/4))
}

// approximate is haproxy's http_req_rate: the count of this period and the share of the last one that a sliding window
// would still contain. It counts refused requests too.
type approximate struct {
	*limit
	start     clock.Instant // of this period
	cur, prev float64
}

// roll begins the period that contains now. It forgets counts from two periods ago.
func (s *approximate) roll(now clock.Instant) {
	passed := now.Sub(s.start) / s.Per
	if passed == 0 {
		return
	}
	s.prev = s.cur
	if passed > 1 {
		s.prev = 0
	}
	s.cur = 0
	s.start = s.start.Add(passed * s.Per)
}

func (s *approximate) estimate(now clock.Instant) float64 {
	return s.cur + s.prev*(1-now.Sub(s.start).Seconds()/s.Per.Seconds())
}

func (s *approximate) Serve(now clock.Instant) Answer {
	s.roll(now)
	s.cur++
	if s.estimate(now) > float64(s.N)+1e-6 {
		return s.refuse(now, s.Per)
	}
	return admitted()
}

// Next leaves a fiftieth unused, at most four requests, for those that jitter moves into the next period.
func (s *approximate) Next(now clock.Instant) clock.Instant {
	c := *s
	c.roll(now)
	most := float64(c.N)
	over := c.estimate(now) + 1 - (most - min(4, most/50))
	if over <= 1e-6 {
		return now
	}
	end := c.start.Add(c.Per)
	if c.prev == 0 {
		return end
	}
	return min(end, now.Add(seconds(over/c.prev*c.Per.Seconds())))
}

// counter is the sliding-window counter of API gateways. It is like [approximate], but does not count refused requests.
type counter struct{ approximate }

func (s *counter) free(now clock.Instant) clock.Instant {
	c := *s
	c.roll(now)
	room := float64(c.N) - c.cur - 1
	if room < 0 {
		now, c.prev, room = c.start.Add(c.Per), c.cur, float64(c.N)-1
		c.start = now
	}
	if c.prev <= room {
		return now
	}
	return max(now, c.start.Add(seconds((1-room/c.prev)*c.Per.Seconds())))
}

func (s *counter) Serve(now clock.Instant) Answer {
	s.roll(now)
	a := admitted()
	if free := s.free(now); free > now {
		a = s.refuse(now, free.Sub(now))
	} else {
		s.cur++
	}
	if s.Quota {
		left := max(0, math.Floor(float64(s.N)-s.estimate(now)))
		a.Quota = header.Quota{Limit: int64(s.N), Remaining: int64(left), Reset: s.Per, Window: s.Per}
		if a.Refused {
			a.Quota.Reset = ceil(s.free(now).Sub(now), time.Second)
		}
	}
	return a
}

func (s *counter) Next(now clock.Instant) clock.Instant { return s.free(now) }

// clocked is fiber's sliding counter. It is like [approximate], but counts in whole seconds of a clock, so that it
// admits N requests over a second more than Per. Its quota gives the end of its period.
type clocked struct {
	approximate
	begun bool
}

// second returns the server's clock, which has whole seconds, and by how much it is late.
func second(now clock.Instant) (clock.Instant, time.Duration) {
	rest := time.Duration(now) % time.Second
	return now.Add(-rest), rest
}

func (s *clocked) Serve(now clock.Instant) Answer {
	at, _ := second(now)
	if !s.begun {
		s.begun, s.start = true, at
	}
	s.roll(at)
	s.cur++
	left, end := math.Floor(float64(s.N)-math.Floor(s.estimate(at)-s.cur)-s.cur), s.start.Add(s.Per).Sub(at)
	if left < 0 {
		return s.refuse(at, end)
	}
	a := admitted()
	if s.Quota {
		a.Quota = header.Quota{Limit: int64(s.N), Remaining: int64(left), Reset: end}
	}
	return a
}

// Next paces by the rate that is admitted at an even pace.
func (s *clocked) Next(now clock.Instant) clock.Instant {
	at, rest := second(now)
	c := *s
	c.roll(at)
	if c.estimate(at)+1 <= float64(c.N) {
		return now
	}
	return now.Add(time.Second - rest)
}

// connections is nginx's limit_conn: it refuses requests while N are open.
type connections struct {
	*limit
	ends []clock.Instant // when the open requests end, in order
}

func (c *connections) Serve(now clock.Instant) Answer {
	for len(c.ends) > 0 && c.ends[0] <= now {
		c.ends = c.ends[1:]
	}
	if len(c.ends) >= c.N {
		return Answer{Status: unavailable, Refused: true}
	}
	c.ends = append(c.ends, now.Add(c.Per))
	a := admitted()
	a.Delay = c.Per
	return a
}

func (c *connections) Next(now clock.Instant) clock.Instant {
	gone, _ := slices.BinarySearch(c.ends, now+1)
	if in := len(c.ends) - gone; in >= c.N {
		return c.ends[gone+in-c.N]
	}
	return now
}

// both is a bucket with another limiter behind it, whose refusals take nothing from the bucket.
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
