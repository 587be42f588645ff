package admission

import "time"

// Reason says why a decision is not simply that there were tokens. Logs, headers,
// problem documents and tests all print it as it is.
type Reason string

// The reasons. The repositories decide for the first four of them, the Admitter for the
// next four, the middleware for the others. A request that no rule is for, or that shows
// a bypass token, has no decision.
const (
	ReasonOK      Reason = ""        // there were tokens, and they were charged
	ReasonLimited Reason = "LIMITED" // there were not enough tokens; Wait says when there are
	// ReasonTooLarge is for more tokens than the plan can ever hold: waiting does not help.
	ReasonTooLarge Reason = "TOO_LARGE"
	// ReasonTooManyKeys is for a key for which the repository has no place.
	ReasonTooManyKeys Reason = "TOO_MANY_KEYS"

	ReasonFallback   Reason = "FALLBACK"    // the store is out of reach; the local fallback had tokens
	ReasonFailOpen   Reason = "FAIL_OPEN"   // the store did not answer; let in
	ReasonFailClosed Reason = "FAIL_CLOSED" // the store did not answer; kept out
	// ReasonTimeout is for a decision that came too late, or got lost on its way, of a store
	// that is there: it may have been charged. Kept out.
	ReasonTimeout Reason = "TIMEOUT"

	ReasonShadow      Reason = "SHADOW"      // would have been denied, but the rule only looks on
	ReasonConcurrency Reason = "CONCURRENCY" // too many at a time
)

// Result is a decision with what headers need to tell about it. Of several plans it
// tells about the tightest: the one that denies for longest, or, if all allow, the one
// with the fewest tokens left; of equals the first.
type Result struct {
	Allowed bool `json:"allowed"`
	// Limit is the plan's capacity in tokens. Zero means that no plan was asked.
	Limit int64 `json:"limit"`
	// Remaining is how many whole tokens could be taken right after the decision, 0 to Limit.
	Remaining int64 `json:"remaining"`
	// Wait is how long until the same question would be allowed if nobody else came; at
	// that time, and not a microsecond before. Zero if it was allowed, Never if time
	// alone does not help.
	Wait time.Duration `json:"wait_ns"`
	// Reset is how long until nothing that was used counts any more. Zero means it is so now.
	Reset time.Duration `json:"reset_ns"`
	// Plan is the name of the plan that all this is about. Zero means none.
	Plan string `json:"plan,omitempty"`
	// Reason is why. Zero means that there were tokens.
	Reason Reason `json:"reason,omitempty"`

	next time.Duration // of a sliding window of which nothing remains: until one more could be taken
}

// unknown reports whether nobody has looked at an account for the decision.
func (r *Result) unknown() bool {
	return r.Reason == ReasonFailOpen || r.Reason == ReasonFailClosed || r.Reason == ReasonTimeout
}

// Tighter reports whether r says more about a decision than o does, by the rule of
// [Result].
func (r *Result) Tighter(o *Result) bool {
	if r.Allowed != o.Allowed {
		return o.Allowed
	}
	if !r.Allowed {
		return r.Wait > o.Wait
	}
	return r.Remaining < o.Remaining
}
