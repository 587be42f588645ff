package testsite

import (
	"net/http"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
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
	refused    bool   // by a limit, which has a body of its own
	delay      time.Duration
	until      clock.Instant
	quota      *header.Standing // for the headers; nil: none
	admitted   bool             // by the gate, which must be told of the end
	robots     bool             // what follows is the host's word on robots.txt
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
	v, ok := h.enterLocked(now, h.latency(t, n))
	if ok {
		h.fail(&v, n)
	}
	return v
}

// decideRobotsLocked leaves out script and flakiness: a crawler that cannot get
// robots.txt rightly stays away, and that is a scenario to be asked for by name
// (Robots.Status), not one to be thrown in by chance.
func (h *host) decideRobotsLocked(now clock.Instant, t target) verdict {
	v, ok := h.enterLocked(now, h.latency(t, 0))
	if !ok {
		return v
	}
	r := &h.cfg.Robots
	if r.Status != 0 && (r.Times == 0 || h.answers < r.Times) {
		said := h.statusLocked(now, r.Status, unknown)
		v.act, v.status, v.retryAfter = said.act, said.status, said.retryAfter
	}
	h.answers++
	v.robots = true
	return v
}

// enterLocked asks the gate. If it does not let the request in, the verdict is final.
func (h *host) enterLocked(now clock.Instant, latency time.Duration) (v verdict, ok bool) {
	if h.gate == nil {
		return verdict{delay: latency}, true
	}
	p := h.gate.admit(now)
	switch {
	case p.banned:
		h.rec.banned++
		return h.cfg.Ban.verdict(), false
	case !p.ok:
		v := h.refuseLocked(now, h.cfg.Refusal.Status, p.ready)
		v.quota, v.refused = p.quota, true
		return v, false
	}
	if p.factor != 1 {
		latency = time.Duration(float64(latency) * p.factor)
	}
	return verdict{admitted: true, delay: p.delay + latency, quota: p.quota}, true
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

// statusLocked answers with a status. 429 and 503 are refusals, whoever gives them.
func (h *host) statusLocked(now clock.Instant, status int, ready clock.Instant) verdict {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return verdict{act: actStatus, status: status}
	}
	return h.refuseLocked(now, status, ready)
}

// refuseLocked is a refusal, which is counted as such and carries the Retry-After that the
// host gives. ready is when the host will answer again, or unknown.
func (h *host) refuseLocked(now clock.Instant, status int, ready clock.Instant) verdict {
	v := verdict{act: actStatus, status: status}
	var until clock.Instant
	v.retryAfter, until = h.cfg.Refusal.retryAfter(h.site.epoch, now, ready)
	h.rec.refuse(now, until, h.site.cfg.Grace)
	if status >= http.StatusInternalServerError {
		h.rec.unavailable++
	}
	return v
}
