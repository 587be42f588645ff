package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

type request struct {
	permit ratelimit.Permit
	sentAt clock.Instant
	url    url
	answer Answer
	site   int32
	second uint8 // of the server's clock on arrival, from 1 to 60
}

type url struct {
	tries    int32         // so far, including this one
	failures int32         // of them, without refusals
	due      clock.Instant // when it may be tried again
}

const (
	maxFailures = 4                // failures of a URL: the first try and the crawler's three retries
	retryDelay  = time.Second      // before a URL is tried again; the backoff of the host is up to the strategy
	askAgain    = time.Millisecond // after the engine has denied a permit that it had forecast
)

type site struct {
	client     client
	server     Server
	lookAt     clock.Instant // when to request the next permit, unless a response comes first
	again      []url         // to try again
	taken      int           // URLs tried so far
	turn       int           // when its last request was sent, as a number among all requests
	granted    int           // permits after the first minute
	retryUntil clock.Instant // end of the latest Retry-After
}

type driver struct {
	Simulation
	clock  virtual
	end    clock.Instant
	sites  []*site
	way    way
	stalls stalls
	meter  *meter

	events   events
	lookAt   clock.Instant // the earliest lookAt of the sites, unless a response comes first
	slots    []request
	free     []int32 // slots not in use
	inFlight int
	turns    int // requests sent so far
	seconds  int // passed to OnSecond so far
	fb       ratelimit.Feedback
	merged   time.Duration // when the hosts were first paced as one, or Never
}

func (d *driver) run(ctx context.Context) error {
	d.look()
	for checked := clock.Instant(0); ; {
		at := min(d.lookAt, d.events.next())
		if at >= d.end {
			d.passSeconds(d.end)
			return nil
		}
		// Once a second of the run: it costs as much as an event.
		if at.Sub(checked) >= time.Second {
			if err := ctx.Err(); err != nil {
				return err
			}
			checked = at
		}
		if d.stall(at) {
			continue
		}
		d.passSeconds(at)
		d.clock.now = at
		if at == d.events.next() {
			d.handle(d.events.pop())
		} else {
			d.look()
		}
	}
}

func (d *driver) stall(at clock.Instant) bool {
	byEvent := at == d.events.next()
	if byEvent && d.events.coming[len(d.events.coming)-1].what == arrival {
		return false // at the server
	}
	over := d.stalls.over(at)
	switch {
	case over == at:
		return false
	case byEvent:
		d.events.push(over, answer, d.events.pop().slot)
	default:
		d.lookAt = over
	}
	return true
}

func (d *driver) passSeconds(to clock.Instant) {
	if d.OnSecond == nil {
		return
	}
	for ; clock.Instant(d.seconds+1)*clock.Instant(time.Second) <= to; d.seconds++ {
		d.clock.now = clock.Instant(d.seconds+1) * clock.Instant(time.Second)
		span := d.meter.seconds[d.seconds]
		d.OnSecond(Second{time.Duration(d.seconds) * time.Second, span.Capacity, span, int(d.meter.granted[d.seconds]), d.inspect()})
	}
}

// inspect returns the plan of the first host, with the sum of the planned rates of all hosts that had a request. Hosts
// with a shared limit count together with the rate of that limit at most.
func (d *driver) inspect() ratelimit.DomainSnapshot {
	first := d.sites[0].client.inspect()
	var free, held float64
	common := math.Inf(1)
	for i, s := range d.sites {
		plan := first
		if i > 0 {
			if s.turn == 0 {
				continue
			}
			plan = s.client.inspect()
		}
		if plan.Group == nil {
			free += plan.FillRate
			continue
		}
		held += plan.FillRate
		common = plan.Group.Rate
	}
	first.FillRate = free + min(held, common)
	if g := first.Group; g != nil && g.Learned {
		first.Reason = g.Reason
	}
	return first
}

// look sends what may be sent now, and finds out when to look again.
func (d *driver) look() {
	now := d.clock.now
	d.lookAt = forever
	for d.inFlight < d.Scenario.MaxInFlight {
		i := d.due(now)
		s := d.sites[i]
		if s.lookAt > now {
			for _, s := range d.sites {
				d.lookAt = min(d.lookAt, s.lookAt)
			}
			return
		}
		if s.lookAt = s.backlog(now, &d.Scenario.Offer); s.lookAt > now {
			continue
		}
		if s.lookAt = s.client.ready(now); s.lookAt > now {
			continue
		}
		permit, ok := s.client.acquire(now)
		if !ok {
			if s.lookAt = s.client.ready(now); s.lookAt <= now {
				s.lookAt = now.Add(askAgain)
			}
			continue
		}
		d.send(i, permit)
	}
}

// due returns, of the sites that are due, the one whose last request is the oldest. If none is due it returns any site.
func (d *driver) due(now clock.Instant) int {
	best := 0
	for i, s := range d.sites {
		if b := d.sites[best]; s.lookAt <= now && (b.lookAt > now || s.turn < b.turn) {
			best = i
		}
	}
	return best
}

func (s *site) backlog(now clock.Instant, offer *Offer) clock.Instant {
	if len(s.again) > 0 && s.again[0].due <= now {
		return now
	}
	at := offer.next(now, s.taken)
	if len(s.again) > 0 {
		at = min(at, s.again[0].due)
	}
	return at
}

// send sends the site's next URL. A URL that waits for another try goes first.
func (d *driver) send(i int, permit ratelimit.Permit) {
	now := d.clock.now
	s := d.sites[i]
	var u url
	if len(s.again) > 0 && s.again[0].due <= now {
		u = s.again[0]
		s.again = slices.Delete(s.again, 0, 1)
	} else {
		s.taken++
	}
	u.tries++
	d.turns++
	s.turn = d.turns
	if now >= clock.Instant(time.Minute) {
		s.granted++
	}
	slot := d.slot()
	d.slots[slot] = request{permit: permit, sentAt: now, url: u, site: int32(i)}
	d.inFlight++
	d.meter.sent(now, now < s.retryUntil)
	d.events.push(now.Add(d.way.delay(now)), arrival, slot)
}

func (d *driver) slot() int32 {
	if n := len(d.free); n > 0 {
		slot := d.free[n-1]
		d.free = d.free[:n-1]
		return slot
	}
	d.slots = append(d.slots, request{})
	return int32(len(d.slots) - 1)
}

func (d *driver) handle(e event) {
	if e.what == arrival {
		d.arrive(e)
		return
	}
	d.receive(e.slot)
	d.look()
}

var errTimeout = fmt.Errorf("simulated: no answer in time: %w", context.DeadlineExceeded)

func (d *driver) arrive(e event) {
	r := &d.slots[e.slot]
	r.answer = d.sites[r.site].server.Serve(e.at)
	r.second = uint8(e.at/clock.Instant(time.Second)%60) + 1
	// Beyond the timeout the delay does not matter; the sum must not overflow.
	done := e.at.Add(min(r.answer.Delay, 2*d.Scenario.Timeout))
	done = done.Add(d.way.delay(done))
	if late := r.sentAt.Add(d.Scenario.Timeout); done > late {
		// A refusal that is late is a failure to the client, and still one of a limiter.
		done = late
		r.answer = Answer{Err: errTimeout, Refused: r.answer.Refused, Ban: r.answer.Ban}
	}
	d.meter.decided(e.at, &r.answer)
	d.events.push(max(done, e.at), answer, e.slot)
}

// receive passes the response on to the client. If the URL is to be tried again, it goes back to the site.
func (d *driver) receive(slot int32) {
	r := d.slots[slot]
	s := d.sites[r.site]
	now := d.clock.now
	fb := &d.fb
	*fb = ratelimit.Feedback{
		StatusCode: r.answer.Status, Err: r.answer.Err, Latency: now.Sub(r.sentAt), RetryAfter: r.answer.RetryAfter,
		SentAt: epoch().Add(time.Duration(r.sentAt)), Quota: r.answer.Quota, Second: r.second, Retry: r.url.tries > 1,
	}
	s.client.learn(now, fb)
	s.lookAt = now
	s.retryUntil = max(s.retryUntil, now.Add(fb.RetryAfter))
	r.permit.Release()
	d.slots[slot].permit = nil // so that a free slot keeps no permit alive
	d.free = append(d.free, slot)
	d.inFlight--
	if d.onAnswer != nil {
		d.onAnswer(time.Duration(now), fb)
	}
	class := outcome.Of(fb.StatusCode, fb.Err)
	if !r.answer.Refused && (class.Transient() || class == outcome.ServerError) {
		r.url.failures++
	}
	// A refusal does not count as a failure.
	back := r.answer.Refused || class.Transient() && r.url.failures < maxFailures
	d.meter.answered(now, fb, r.url, back)
	if back {
		r.url.due = now.Add(retryDelay)
		s.again = append(s.again, r.url)
	}
}

func (a *Answer) ok() bool { return a.Err == nil && a.Status == http.StatusOK && !a.Refused }

type event struct {
	at   clock.Instant
	seq  uint64 // orders events at the same instant by when they were made
	slot int32  // of the request
	what stage
}

type stage uint8

const (
	arrival stage = iota // the request reaches the server
	answer               // the response, or the timeout, reaches the client
)

type events struct {
	coming []event
	seq    uint64
}

func (q *events) next() clock.Instant {
	if len(q.coming) == 0 {
		return forever
	}
	return q.coming[len(q.coming)-1].at
}

func (q *events) push(at clock.Instant, what stage, slot int32) {
	q.seq++
	e := event{at: at, seq: q.seq, slot: slot, what: what}
	i, _ := slices.BinarySearchFunc(q.coming, e, func(a, b event) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.seq, a.seq)) })
	q.coming = slices.Insert(q.coming, i, e)
}

func (q *events) pop() event {
	last := len(q.coming) - 1
	e := q.coming[last]
	q.coming = q.coming[:last]
	return e
}
