package testsite

import (
	"net/http"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// action is what a host does with a request.
type action uint8

const (
	actServe  action = iota // after delay
	actStatus               // at once
	actReset
	actHang // until the instant until
)

// verdict is what a host decided at the arrival of a request. All of it is decided
// there: what depends on how the answer goes would depend on the scheduler too.
type verdict struct {
	act        action
	status     int
	retryAfter string // the header; empty means none
	delay      time.Duration
	until      clock.Instant
	admitted   bool // by the limiter, which must be told of the end
	robots     bool // what follows is the host's word on robots.txt
}

// decideLocked goes through the reasons not to serve in the order that the package
// comment promises.
func (h *host) decideLocked(now clock.Instant, t target) verdict {
	if o := h.outageLocked(now); o != nil {
		return h.outageVerdictLocked(now, o)
	}
	if t.kind == kindRobots {
		return h.decideRobotsLocked(now, t)
	}
	n := h.numbered
	h.numbered++
	if status := h.script.next(); status != http.StatusOK {
		return h.statusLocked(now, status, unknown)
	}
	if ok, ready := h.lim.admit(now); !ok {
		return h.statusLocked(now, h.cfg.Refusal.Status, ready)
	}
	v := verdict{admitted: true, delay: h.latency(t, n)}
	h.fail(&v, n)
	return v
}

// decideRobotsLocked leaves out script and flakiness: a crawler that cannot get
// robots.txt rightly stays away, and that is a scenario to be asked for by name
// (Robots.Status), not one to be thrown in by chance.
func (h *host) decideRobotsLocked(now clock.Instant, t target) verdict {
	if ok, ready := h.lim.admit(now); !ok {
		return h.statusLocked(now, h.cfg.Refusal.Status, ready)
	}
	r := &h.cfg.Robots
	v := verdict{delay: h.latency(t, 0)}
	if r.Status != 0 && (r.Times == 0 || h.answers < r.Times) {
		v = h.statusLocked(now, r.Status, unknown)
	}
	h.answers++
	v.admitted, v.robots = true, true
	return v
}

// fail makes v a failure if page request n is one that fails.
func (h *host) fail(v *verdict, n int) {
	f := &h.cfg.Flaky
	if f.Probability == 0 {
		return
	}
	d := newDraw(h.seed, streamFlaky, n)
	if d.unit() >= f.Probability {
		return
	}
	v.act = actReset
	if k := f.Kinds[d.below(len(f.Kinds))]; k != kindReset {
		v.act = actStatus
		v.status, _ = strconv.Atoi(k) // validate lets nothing else through
	}
}

// outageVerdictLocked treats close-listener as a reset: that is what a handler
// without a listener can do, and what a connection that was accepted in the last
// moment sees.
func (h *host) outageVerdictLocked(now clock.Instant, o *Outage) verdict {
	switch o.Mode {
	case modeStatus:
		return h.statusLocked(now, o.Status, o.end())
	case modeHang:
		return verdict{act: actHang, until: o.end()}
	case modeReset, modeClose:
		return verdict{act: actReset}
	}
	return h.statusLocked(now, http.StatusServiceUnavailable, o.end())
}

// statusLocked answers with a status. 429 and 503 are refusals: they are counted as
// such and carry the Retry-After that the host gives. ready is when the host will
// answer again, or unknown.
func (h *host) statusLocked(now clock.Instant, status int, ready clock.Instant) verdict {
	v := verdict{act: actStatus, status: status}
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return v
	}
	var until clock.Instant
	v.retryAfter, until = h.cfg.Refusal.retryAfter(h.site.epoch, now, ready)
	h.rec.refuse(now, until, h.site.cfg.Grace)
	return v
}

// retryAfter is the header of a refusal at now and the instant it speaks of: now if
// there is none. It is written here and not by the code that the crawler reads it
// with: a judge must not share the mistakes of whom it judges. Both forms have whole seconds only, so the wait is rounded up: a
// client that honours it to the letter must not come too early.
func (r *Refusal) retryAfter(epoch time.Time, now, ready clock.Instant) (header string, until clock.Instant) {
	wait := r.Wait
	if wait == 0 {
		wait = time.Second
		if ready != unknown {
			wait = ready.Sub(now)
		}
	}
	switch r.RetryAfter {
	case retrySeconds:
		seconds := (wait + time.Second - 1) / time.Second
		return strconv.Itoa(int(seconds)), now.Add(seconds * time.Second)
	case retryDate:
		// Adding a second less a nanosecond before the cut rounds up.
		date := epoch.Add(time.Duration(now) + wait + time.Second - 1).Truncate(time.Second).UTC()
		return date.Format(http.TimeFormat), clock.Instant(date.Sub(epoch))
	}
	return "", now
}
