package testsite

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/limit"
)

type action uint8

const (
	actServe  action = iota // after delay
	actStatus               // at once
	actReset
	actHang // until the instant until
)

// decision is what a host decides at the arrival of a request. It decides everything there:
// what it decided later would depend on the scheduler.
type decision struct {
	act        action
	status     int
	retryAfter string // the header; empty means none
	refused    bool   // by a limit, which has a body of its own
	delay      time.Duration
	until      clock.Instant
	quota      *limit.Standing // for the headers; nil: none
	admitted   bool            // by the gate, which must be told of the end
	robots     bool            // the answer is the host's robots.txt
}

// decideLocked goes through the reasons not to serve in the order of the package comment.
func (h *host) decideLocked(now clock.Instant, t target) decision {
	if o := h.outageLocked(now); o != nil {
		return h.failLocked(now, o)
	}
	if t.kind == kindRobots {
		return h.decideRobotsLocked(now, t)
	}
	n := h.numbered
	h.numbered++
	if status := h.script.next(); status != http.StatusOK {
		return h.statusLocked(now, status, unknown)
	}
	d, ok := h.enterLocked(now, h.latency(t, n))
	if ok {
		h.flake(&d, n)
	}
	return d
}

// decideRobotsLocked has no script and no random failures: a crawler that cannot get
// robots.txt stays away, which is a scenario of its own (Robots.Status).
func (h *host) decideRobotsLocked(now clock.Instant, t target) decision {
	d, ok := h.enterLocked(now, h.latency(t, 0))
	if !ok {
		return d
	}
	r := &h.cfg.Robots
	if r.Status != 0 && (r.Times == 0 || h.answers < r.Times) {
		said := h.statusLocked(now, r.Status, unknown)
		d.act, d.status, d.retryAfter = said.act, said.status, said.retryAfter
	}
	h.answers++
	d.robots = true
	return d
}

// enterLocked asks the gate. If it does not admit the request, the decision is final.
func (h *host) enterLocked(now clock.Instant, latency time.Duration) (d decision, ok bool) {
	if h.gate == nil {
		return decision{delay: latency}, true
	}
	p := h.gate.admit(now)
	switch {
	case p.banned:
		h.rec.Banned++
		return h.cfg.Ban.decision(), false
	case !p.ok:
		d := h.refuseLocked(now, h.cfg.Refusal.Status, p.ready)
		d.quota, d.refused = p.quota, true
		return d, false
	}
	if p.factor != 1 {
		latency = time.Duration(float64(latency) * p.factor)
	}
	return decision{admitted: true, delay: p.delay + latency, quota: p.quota}, true
}

func (h *host) flake(d *decision, n int) {
	f := &h.cfg.Flaky
	if f.Probability == 0 {
		return
	}
	drawn := newDraw(h.seed, streamFlaky, n)
	if drawn.unit() >= f.Probability {
		return
	}
	d.act = actReset
	if k := f.Kinds[drawn.below(len(f.Kinds))]; k != kindReset {
		d.act = actStatus
		d.status, _ = strconv.Atoi(k) // validate allows only numbers
	}
}

// failLocked answers during an outage. Without a listener to close, close-listener is a
// reset: also a connection that was accepted in the last moment ends so.
func (h *host) failLocked(now clock.Instant, o *Outage) decision {
	switch o.Mode {
	case modeStatus:
		return h.statusLocked(now, cmp.Or(o.Status, http.StatusServiceUnavailable), o.end())
	case modeHang:
		return decision{act: actHang, until: o.end()}
	case modeReset, modeClose:
		return decision{act: actReset}
	}
	return h.statusLocked(now, http.StatusServiceUnavailable, o.end())
}

// statusLocked answers with a status. Every 429 and 503 is a refusal.
func (h *host) statusLocked(now clock.Instant, status int, ready clock.Instant) decision {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return decision{act: actStatus, status: status}
	}
	return h.refuseLocked(now, status, ready)
}

// refuseLocked counts a refusal and adds the host's Retry-After. ready is when the host will
// admit a request, or unknown.
func (h *host) refuseLocked(now clock.Instant, status int, ready clock.Instant) decision {
	d := decision{act: actStatus, status: status}
	var until clock.Instant
	d.retryAfter, until = h.cfg.Refusal.retryAfter(h.site.epoch, now, ready)
	h.rec.refuse(now, until, h.site.cfg.Grace)
	if status >= http.StatusInternalServerError {
		h.rec.Unavailable++
	}
	return d
}
