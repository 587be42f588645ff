package simulate

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// client paces the requests to a host of a run. The driver passes the present instant to its methods.
type client interface {
	// ready returns when it is worth requesting a permit: now or later.
	ready(now clock.Instant) clock.Instant
	// acquire returns a permit for one request, or false.
	acquire(now clock.Instant) (ratelimit.Permit, bool)
	// learn passes on the outcome of a request.
	learn(now clock.Instant, fb *ratelimit.Feedback)
	// inspect returns the present plan.
	inspect() ratelimit.DomainSnapshot
}

const host = "host.test"

func hostName(i int) string {
	if i == 0 {
		return host
	}
	return fmt.Sprintf("host%d.test", i+1)
}

var address = netip.AddrFrom4([4]byte{192, 0, 2, 1})

// engine is one host of the politeness engine. All hosts of a run share the engine's limiter.
type engine struct {
	host    string
	limiter *ratelimit.AdaptiveRateLimiter
	ctx     *impatient
}

func (e *engine) ready(now clock.Instant) clock.Instant {
	at, why := e.limiter.ReadyAt(e.host, 0, 0)
	if why == ratelimit.LimitNone {
		return now
	}
	return max(clock.Instant(at.Sub(epoch())), now+1)
}

func (e *engine) acquire(clock.Instant) (ratelimit.Permit, bool) {
	e.ctx.waiting = false
	p, err := e.limiter.Acquire(e.ctx, e.host)
	return p, err == nil
}

func (e *engine) learn(_ clock.Instant, fb *ratelimit.Feedback) { e.limiter.Feedback(e.host, *fb) }

func (e *engine) inspect() ratelimit.DomainSnapshot {
	d, _ := e.limiter.Inspect(e.host)
	return d
}

// oracle plans on a copy of the server. It asks the copy for the earliest instant at which a request may arrive, and
// serves the request there at its latest arrival, so that the plan includes jitter.
type oracle struct {
	model Server
	lead  time.Duration // from the permit to the earliest arrival
	guard time.Duration // from the earliest arrival to almost the latest
	gap   time.Duration // the least time between two permits, by the ceiling of the client
	next  clock.Instant // the earliest next permit, by the ceiling and Retry-After
}

func (c *oracle) ready(now clock.Instant) clock.Instant {
	if now < c.next {
		return c.next
	}
	arrive := now.Add(c.lead)
	return now.Add(max(0, c.model.Next(arrive).Sub(arrive)))
}

func (c *oracle) acquire(now clock.Instant) (ratelimit.Permit, bool) {
	if c.ready(now) > now {
		return nil, false
	}
	c.model.Serve(now.Add(c.lead + c.guard))
	c.next = max(c.next, now.Add(-latenessAllowance)).Add(c.gap)
	return unbound{}, true
}

// latenessAllowance is how far a client may be behind its schedule and still catch up.
const latenessAllowance = 10 * time.Millisecond

// learn obeys Retry-After. The oracle knows everything else.
func (c *oracle) learn(now clock.Instant, fb *ratelimit.Feedback) {
	if fb.RetryAfter > 0 {
		c.next = max(c.next, now.Add(fb.RetryAfter))
	}
}

func (c *oracle) inspect() ratelimit.DomainSnapshot {
	return ratelimit.DomainSnapshot{Domain: host, Reason: "knows the server"}
}

type unbound struct{}

func (unbound) Release() {}

// forever is later than the end of every run, with room for sums.
const forever = clock.Instant(1 << 61)

// virtual is the clock of one run. Only its driver's goroutine uses it.
type virtual struct{ now clock.Instant }

// epoch is when runs begin. Any date will do.
func epoch() time.Time { return time.Unix(1_767_225_600, 0).UTC() }

func (v *virtual) Now() time.Time                  { return epoch().Add(time.Duration(v.now)) }
func (v *virtual) Since(t time.Time) time.Duration { return v.Now().Sub(t) }

// NewTimer returns a timer that never fires, since nothing waits in a run.
func (v *virtual) NewTimer(time.Duration) clock.Timer { return idle{} }

type idle struct{}

func (idle) C() <-chan time.Time      { return nil }
func (idle) Stop() bool               { return true }
func (idle) Reset(time.Duration) bool { return true }

// impatient is the context of a caller that takes a permit now or not at all.
type impatient struct {
	clock   *virtual
	ended   chan struct{} // closed
	waiting bool          // something waits for the end of the context
}

func newImpatient(v *virtual) *impatient {
	c := &impatient{clock: v, ended: make(chan struct{})}
	close(c.ended)
	return c
}

func (c *impatient) Deadline() (time.Time, bool) { return c.clock.Now(), true }
func (c *impatient) Value(any) any               { return nil }

func (c *impatient) Done() <-chan struct{} {
	c.waiting = true
	return c.ended
}

func (c *impatient) Err() error {
	if c.waiting {
		return context.DeadlineExceeded
	}
	return nil
}
