package admission

import (
	"fmt"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/limit"
)

// Reason says why a decision is not simply that there were tokens. Logs, headers, problem documents and tests print it
// unchanged.
type Reason string

// The reasons. Repositories give the first three, the Admitter the next four, the middleware the others. A request to
// which no rule applies, or that shows a bypass token, has no decision.
const (
	ReasonOK       Reason = ""          // there were tokens, and they were charged
	ReasonLimited  Reason = "LIMITED"   // there were not enough tokens; Wait says when there are
	ReasonTooLarge Reason = "TOO_LARGE" // more than the plan can ever hold: waiting does not help

	ReasonFallback   Reason = "FALLBACK"    // the store is out of reach; the local fallback had tokens
	ReasonFailOpen   Reason = "FAIL_OPEN"   // the store did not answer; allowed
	ReasonFailClosed Reason = "FAIL_CLOSED" // the store did not answer; denied
	// ReasonTimeout is for a decision of a store in reach that came too late or was lost: tokens may have been charged.
	// Denied.
	ReasonTimeout Reason = "TIMEOUT"

	ReasonShadow      Reason = "SHADOW"      // would have been denied, but the rule only observes
	ReasonConcurrency Reason = "CONCURRENCY" // too many requests in flight
)

// Result is a decision, with what headers need to tell about it. Over several plans it is about the tightest: the one
// that denies for longest or, if all allow, the one with the fewest tokens left; among equals, the first.
type Result struct {
	Allowed   bool  `json:"allowed"`
	Limit     int64 `json:"limit"`     // the plan's capacity in tokens. Zero means that there was no plan.
	Remaining int64 `json:"remaining"` // how many whole tokens could be taken right after the decision, 0 to Limit
	// Wait is how long until the same request would be allowed if there were no others; at that time it is, and not a
	// microsecond before. Zero if it was allowed, Never if waiting does not help.
	Wait   time.Duration `json:"wait_ns"`
	Reset  time.Duration `json:"reset_ns"`         // how long until nothing that was used counts any longer. Zero means that nothing counts now.
	Plan   string        `json:"plan,omitempty"`   // name of the plan that all this is about. Empty means none.
	Reason Reason        `json:"reason,omitempty"` // why. Empty means that there were tokens.

	next time.Duration // of a sliding window with nothing remaining: until one token could be taken
}

// unknown reports whether the decision was made without looking at an account.
func (r *Result) unknown() bool {
	return r.Reason == ReasonFailOpen || r.Reason == ReasonFailClosed || r.Reason == ReasonTimeout
}

// Tighter reports whether r, and not o, is the Result of a decision over the plans of both; see [Result].
func (r *Result) Tighter(o *Result) bool {
	switch {
	case r.Allowed != o.Allowed:
		return o.Allowed
	case !r.Allowed:
		return r.Wait > o.Wait
	}
	return r.Remaining < o.Remaining
}

// Status returns the status of the response to a denial: 429, or 503 if the store does not answer, since that is the
// server's fault and not the client's.
func (r *Result) Status() int {
	if r.Reason == ReasonFailClosed || r.Reason == ReasonTimeout {
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// Standing returns what the Result, which is about p, tells a client about the limit. Never stands for what takes
// longer than a Duration can hold.
func (r *Result) Standing(p *Plan) limit.Standing {
	s := limit.Standing{Limit: r.Limit, Left: r.Remaining, Next: r.Wait, Refused: !r.Allowed}
	_, s.Window = p.PerWindow()
	switch {
	case s.Refused:
		if s.Next == Never { // the request is larger than the plan
			s.Next = r.Reset
		}
		return s
	case r.Reset == Never:
		s.Next, s.Lasts = Never, Never
		return s
	case p.Kind == KindFixedWindow: // the token after the remaining ones comes with the next window
		s.Next, s.Lasts = r.Reset, part(r.Reset, r.Remaining, r.Remaining+1)
	case p.Kind == KindSlidingWindow:
		s.Next, s.Lasts = r.next, part(p.Window, r.Remaining, r.Limit)
	default:
		// For a fallback, Limit is its share of the plan, and the rate is smaller in proportion.
		each := float64(p.Capacity) / float64(r.Limit) / p.TokensPerSecond * float64(time.Second)
		if r.Remaining == 0 { // Reset is when the bucket is full, so take away the time for all tokens but one
			s.Next = max(0, r.Reset-time.Duration(min(float64(r.Limit-1)*each, float64(r.Reset))))
		}
		s.Even = r.Limit == 1
		s.Lasts = time.Duration(min(float64(r.Remaining)*each, float64(r.Reset)))
	}
	if r.Reset == 0 {
		s.Lasts = 0 // nothing of the plan is used
	}
	return s
}

func part(d time.Duration, n, of int64) time.Duration {
	return time.Duration(float64(d) / float64(of) * float64(n))
}

// told returns what headers tell a client: how much is left, and the reset. If p is nil, the Result is about places,
// and left is how many more requests of the client may be in flight.
func (r *Result) told(p *Plan) (left int64, until time.Duration) {
	if p == nil {
		return r.Remaining, r.Wait
	}
	return r.Standing(p).Told()
}

// retryAfter returns the value of Retry-After, rounded up, or the empty string if waiting does not help.
func (r *Result) retryAfter() string {
	if r.Wait <= 0 || r.Wait == Never {
		return ""
	}
	return header.FormatRetryAfter(r.Wait)
}

// The problem types that draft-ietf-httpapi-ratelimit-headers-10 registers.
const (
	typeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

func (r *Result) problem() problem {
	p := problem{
		Type: typeQuotaExceeded, Title: "A quota of requests is exceeded", Status: r.Status(), Reason: r.Reason,
		Detail: fmt.Sprintf("The quota %q of %d has not enough left. Try again in %s s.", r.Plan, r.Limit, r.retryAfter()),
	}
	if r.Plan != "" {
		p.Violated = []string{r.Plan}
	}
	switch {
	case p.Status == http.StatusServiceUnavailable:
		p.Type, p.Title, p.Violated = typeReducedCapacity, "The service has less capacity for now", nil
		p.Detail = "It is not known at the moment whether the request may be served. Try again later."
	case r.Reason == ReasonTooLarge:
		p.Detail = "The request costs more than its quota ever holds. Waiting does not help."
	case r.Reason == ReasonConcurrency:
		p.Detail = fmt.Sprintf("%d requests are under way already. Wait for one of them to end.", r.Limit)
	case r.Wait == Never:
		p.Detail = fmt.Sprintf("The quota %q of %d has not enough left, and will not have in any time worth waiting for.", r.Plan, r.Limit)
	}
	return p
}
