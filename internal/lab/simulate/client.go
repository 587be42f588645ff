package simulate

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// client paces the requests to a host of a run. The driver calls it at the present.
type client interface {
	// ready is when it is worth asking for a grant: now or later.
	ready(now clock.Instant) clock.Instant
	// acquire grants one request, or does not.
	acquire(now clock.Instant) (ratelimit.Permit, bool)
	// learn takes in what became of a request.
	learn(now clock.Instant, fb *ratelimit.Feedback)
	// inspect is what it plans at present.
	inspect() ratelimit.DomainSnapshot
}

// host is the first domain of a run, and mostly the only one.
const host = "host.test"

// hostName is the name of a run's i-th domain.
func hostName(i int) string {
	if i == 0 {
		return host
	}
	return fmt.Sprintf("host%d.test", i+1)
}

// address is where all hosts of a run are, if there are several.
var address = netip.AddrFrom4([4]byte{192, 0, 2, 1})

// engine is the real thing, which all hosts of a run have in common.
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

// clairvoyant plans on a server equal to the one it meets. It asks there for the
// earliest instant at which a grant may arrive and books it for the latest, so that
// whatever jitter does in between is in the plan.
type clairvoyant struct {
	model Server
	lead  time.Duration // from grant to the earliest arrival
	guard time.Duration // from that to the latest, or nearly so
	gap   time.Duration // its owner's ceiling: the least time between two grants
	next  clock.Instant // as far as the ceiling goes, and orders to wait
}

func (c *clairvoyant) ready(now clock.Instant) clock.Instant {
	if now < c.next {
		return c.next
	}
	arrive := now.Add(c.lead)
	return now.Add(max(0, c.model.Next(arrive).Sub(arrive)))
}

func (c *clairvoyant) acquire(now clock.Instant) (ratelimit.Permit, bool) {
	if c.ready(now) > now {
		return nil, false
	}
	c.model.Serve(now.Add(c.lead + c.guard))
	c.next = max(c.next, now.Add(-catchUp)).Add(c.gap)
	return unbound{}, true
}

// catchUp is how far a paced sender may lag behind its schedule and still make good
// for it: a scheduler's tick, not a burst.
const catchUp = 10 * time.Millisecond

// learn obeys orders, as everybody does; all else it knows.
func (c *clairvoyant) learn(now clock.Instant, fb *ratelimit.Feedback) {
	if fb.RetryAfter > 0 {
		c.next = max(c.next, now.Add(fb.RetryAfter))
	}
}

func (c *clairvoyant) inspect() ratelimit.DomainSnapshot {
	return ratelimit.DomainSnapshot{Domain: host, Reason: "knows the server"}
}

// unbound is a permit of nobody.
type unbound struct{}

func (unbound) Release() {}
