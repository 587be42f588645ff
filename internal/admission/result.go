package admission

import (
	"fmt"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/limit"
)

// Reason says why a decision is not simply that there were tokens. Logs, headers, problem
// documents and tests all print it as it is.
type Reason string

// The reasons. The repositories decide for the first three of them, the Admitter for the next four, the middleware for
// the others. A request that no rule is for, or that shows a bypass token, has no decision.
const (
	ReasonOK       Reason = ""          // there were tokens, and they were charged
	ReasonLimited  Reason = "LIMITED"   // there were not enough tokens; Wait says when there are
	ReasonTooLarge Reason = "TOO_LARGE" // more than the plan can ever hold: waiting does not help

	ReasonFallback   Reason = "FALLBACK"    // the store is out of reach; the local fallback had tokens
	ReasonFailOpen   Reason = "FAIL_OPEN"   // the store did not answer; let in
	ReasonFailClosed Reason = "FAIL_CLOSED" // the store did not answer; kept out
	// ReasonTimeout is for a decision that came too late, or got lost on its way, of a store that
	// is there: it may have been charged. Kept out.
	ReasonTimeout Reason = "TIMEOUT"

	ReasonShadow      Reason = "SHADOW"      // would have been denied, but the rule only looks on
	ReasonConcurrency Reason = "CONCURRENCY" // too many at a time
)

// Result is a decision with what headers need to tell about it. Of several plans it tells about the tightest: the one
// that denies for longest, or, if all allow, the one with the fewest tokens left; of equals the first.
type Result struct {
	Allowed   bool  `json:"allowed"`
	Limit     int64 `json:"limit"`     // the plan's capacity in tokens. Zero means that no plan was asked.
	Remaining int64 `json:"remaining"` // how many whole tokens could be taken right after the decision, 0 to Limit
	// Wait is how long until the same question would be allowed if nobody else came; at that time, and not a
	// microsecond before. Zero if it was allowed, Never if time alone does not help.
	Wait   time.Duration `json:"wait_ns"`
	Reset  time.Duration `json:"reset_ns"`         // until nothing that was used counts any more. Zero means it is so now.
	Plan   string        `json:"plan,omitempty"`   // that all this is about. Zero means none.
	Reason Reason        `json:"reason,omitempty"` // why. Zero means that there were tokens.

	next time.Duration // of a sliding window of which nothing remains: until one more could be taken
}

// unknown reports whether nobody has looked at an account for the decision.
func (r *Result) unknown() bool {
	return r.Reason == ReasonFailOpen || r.Reason == ReasonFailClosed || r.Reason == ReasonTimeout
}

// Tighter reports whether r says more about a decision than o does, by the rule of [Result].
func (r *Result) Tighter(o *Result) bool {
	switch {
	case r.Allowed != o.Allowed:
		return o.Allowed
	case !r.Allowed:
		return r.Wait > o.Wait
	}
	return r.Remaining < o.Remaining
}

// Status is that of the answer to a denial: 429, or, if the store does not answer, 503, since that
// is the server's trouble and not the client's.
func (r *Result) Status() int {
	if r.Reason == ReasonFailClosed || r.Reason == ReasonTimeout {
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// Standing is what the Result, which is about p, says of a limit for a client. Never is for what
// takes longer than a Duration can say.
func (r *Result) Standing(p *Plan) limit.Standing {
	s := limit.Standing{Limit: r.Limit, Left: r.Remaining, Next: r.Wait, Refused: !r.Allowed}
	_, s.Window = p.PerWindow()
	switch {
	case s.Refused:
		if s.Next == Never { // as of more than the plan can hold
			s.Next = r.Reset
		}
		return s
	case r.Reset == Never:
		s.Next, s.Lasts = Never, Never
		return s
	case p.Kind == KindFixedWindow: // the one that comes after what is left comes in the next window
		s.Next, s.Lasts = r.Reset, part(r.Reset, r.Remaining, r.Remaining+1)
	case p.Kind == KindSlidingWindow:
		s.Next, s.Lasts = r.next, part(p.Window, r.Remaining, r.Limit)
	default:
		// Of a fallback the Limit is its share of the plan, and the rate so much less.
		each := float64(p.Capacity) / float64(r.Limit) / p.TokensPerSecond * float64(time.Second)
		if r.Remaining == 0 { // what Reset waits for beyond the first
			s.Next = max(0, r.Reset-time.Duration(min(float64(r.Limit-1)*each, float64(r.Reset))))
		}
		s.Even = r.Limit == 1
		s.Lasts = time.Duration(min(float64(r.Remaining)*each, float64(r.Reset)))
	}
	if r.Reset == 0 {
		s.Lasts = 0 // of a plan that is whole
	}
	return s
}

func part(d time.Duration, n, of int64) time.Duration {
	return time.Duration(float64(d) / float64(of) * float64(n))
}

// told is what clients are told remains, and the reset. Of places, which no plan is about, what
// remains is how many more requests of the client may be under way at once.
func (r *Result) told(p *Plan) (left int64, until time.Duration) {
	if p == nil {
		return r.Remaining, r.Wait
	}
	return r.Standing(p).Told()
}

// retryAfter is the value of Retry-After, rounded up, or empty when waiting does not help.
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
