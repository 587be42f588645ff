package testsite

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/limit"
)

type action uint8

const (
	actServe  action = iota // after delay
	actStatus               // at once
	actReset
	actHang // until the instant until
)

// decision is what a host decides when a request arrives. It decides everything then: a later decision would depend on
// the scheduler.
type decision struct {
	act        action
	status     int
	retryAfter string // the header; empty means none
	refused    bool   // by a limit, which has a body of its own
	delay      time.Duration
	until      clock.Instant
	quota      *limit.Standing // for the headers; nil means none
	admitted   bool            // by the gate, whose release must follow
	robots     bool            // the response is the host's robots.txt
}

// decideLocked goes through the reasons not to serve a request, in the order of the package comment.
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

// decideRobotsLocked applies no script and no random failures. A crawler that cannot get robots.txt stays away, which
// is a scenario of its own (Robots.Status).
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

// enterLocked asks the gate. If the gate does not admit the request, the decision is final.
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

// failLocked decides about a request during an outage. Without a listener to close, close-listener is a reset, and so
// is the end of a connection that was accepted in the last moment.
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

// statusLocked decides to answer with a status. Every 429 and 503 counts as a refusal.
func (h *host) statusLocked(now clock.Instant, status int, ready clock.Instant) decision {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return decision{act: actStatus, status: status}
	}
	return h.refuseLocked(now, status, ready)
}

// refuseLocked counts a refusal and adds the host's Retry-After. ready is when the host will admit a request, or
// unknown.
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

// Step is a part of a script: Status, for Times requests. As text it is 503, 503*3 (three times) or 503* (forever).
// Status 200 means normal service, with the host's limit, flakiness and latency.
type Step struct {
	Status int // 200, or 400 to 599; zero is an error
	Times  int // zero means once, -1 means forever
}

// MarshalText writes the short form.
func (s Step) MarshalText() ([]byte, error) {
	switch {
	case s.Times < 0:
		return fmt.Appendf(nil, "%d*", s.Status), nil
	case s.Times > 0:
		return fmt.Appendf(nil, "%d*%d", s.Status, s.Times), nil
	}
	return strconv.AppendInt(nil, int64(s.Status), 10), nil
}

// UnmarshalText reads the short form.
func (s *Step) UnmarshalText(text []byte) error {
	status, times, repeated := strings.Cut(string(text), "*")
	n, err := strconv.Atoi(status)
	out := Step{Status: n}
	if repeated && times == "" {
		out.Times = -1
	} else if repeated && err == nil {
		out.Times, err = strconv.Atoi(times)
	}
	if err != nil || repeated && out.Times == 0 {
		return fmt.Errorf("%q is no step of a script; use one such as 503, 503*3 or 503*", text)
	}
	*s = out
	return nil
}

type script struct {
	steps []Step
	done  int // how often the first step was used
}

// next returns the status for the next page request: that of the script, or 200 when the script is over.
func (s *script) next() int {
	if len(s.steps) == 0 {
		return http.StatusOK
	}
	step := s.steps[0]
	s.done++
	if step.Times >= 0 && s.done >= step.Times {
		s.steps, s.done = s.steps[1:], 0
	}
	return step.Status
}

// The headers are not written by the code with which the crawler reads them: a mistake there
// must not go unnoticed here.

// absurdSeconds is three thousand years, as from a server that gives milliseconds.
const absurdSeconds = "99999999999"

// dateForms has the layouts of dates by the words of the file: the current one, and the two obsolete ones that
// recipients must accept (RFC 9110, 5.6.7).
var dateForms = map[string]string{
	retryDate: http.TimeFormat, retryRFC850: "Monday, 02-Jan-06 15:04:05 GMT", retryAsctime: time.ANSIC,
}

// retryAfter returns the header of a refusal at now, and the end of the wait that it requests: now if there is no
// header or its value is invalid.
func (r *Refusal) retryAfter(epoch time.Time, now, ready clock.Instant) (header string, until clock.Instant) {
	switch r.RetryAfter {
	case retryPast:
		date := epoch.Add(time.Duration(now)).UTC().Add(-cmp.Or(r.Wait, time.Hour))
		return date.Format(http.TimeFormat), now
	case retryAbsurd:
		return absurdSeconds, now
	case retryGarbage:
		return "soon", now
	}
	wait := r.wait(now, ready)
	if r.RetryAfter == retrySeconds {
		seconds := (wait + time.Second - 1) / time.Second
		return strconv.Itoa(int(seconds)), now.Add(seconds * time.Second)
	}
	if layout, ok := dateForms[r.RetryAfter]; ok {
		// Adding a second less a nanosecond before Truncate rounds up.
		date := epoch.Add(time.Duration(now) + wait + time.Second - 1).Truncate(time.Second).UTC()
		return date.Format(layout), clock.Instant(date.Sub(epoch))
	}
	return "", now
}

func (r *Refusal) wait(now, ready clock.Instant) time.Duration {
	switch {
	case r.Wait != 0:
		return r.Wait
	case ready == unknown:
		return time.Second
	}
	return ready.Sub(now)
}

func (r *Refusal) tells() bool { return r.Headers != "" && r.Headers != headersNone }

// setQuota writes the quota headers, X-RateLimit-* or those of
// draft-ietf-httpapi-ratelimit-headers-10. Seconds are rounded up.
func (r *Refusal) setQuota(h http.Header, s *limit.Standing) {
	if s == nil {
		return // the limits were not asked, as in an outage or a script
	}
	q := header.QuotaOf(*s)
	ceil := func(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
	switch r.Headers {
	case headersLegacy:
		h.Set("X-RateLimit-Limit", strconv.FormatInt(q.Limit, 10))
		h.Set("X-RateLimit-Remaining", strconv.FormatInt(q.Remaining, 10))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(ceil(q.Reset), 10))
	case headersIETF:
		h.Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=%d`, q.Limit, ceil(q.Window)))
		h.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%d`, q.Remaining, ceil(q.Reset)))
	}
}
