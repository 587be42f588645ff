package admission

import (
	"slices"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/limit"
)

// slotsSuffix makes the name of the policy that tells a rule's concurrency.
const slotsSuffix = "-concurrency"

// terms are what a rule comes to in a set of plans: all that is the same for each of its
// requests. They never change.
type terms struct {
	of     *planSet      // for which they were made
	set    *planSet      // in which the plans were found: the same, or that of the rule's table
	whole  bool          // the plans were found in the same
	plans  []Plan        // what is charged, each once
	limits []limitFields // what the older headers say of each
	policy string        // the value of RateLimit-Policy; empty if there is nothing to tell
}

// limitFields is a plan as X-RateLimit-Limit and X-RateLimit-Policy tell it: "100" and "100;w=60".
type limitFields struct{ tokens, policy string }

func limitOf(tokens int64, window time.Duration) limitFields {
	text := strconv.FormatInt(tokens, 10)
	return limitFields{text, text + ";w=" + strconv.FormatInt(ceilSeconds(window), 10)}
}

// termsIn are a rule's terms in the set that is in force. They are made when the first
// request comes after a change. Around one, requests of both sets may make them in turn.
func (r *compiledRule) termsIn(set *planSet) *terms {
	known := r.terms.Load()
	if known == nil || known.of != set {
		known = r.makeTerms(set)
		r.terms.Store(known)
	}
	return known
}

// makeTerms looks the plans up in set, unless one was taken out of the registry that the
// rule still needs: a rule that counts nothing any more would let everybody in.
func (r *compiledRule) makeTerms(set *planSet) *terms {
	t := &terms{of: set, set: set, whole: true}
	if slices.ContainsFunc(r.Plans, func(name string) bool { return !set.has(name) }) {
		t.set, t.whole = r.plans, false
	}
	var told []header.Policy
	for at, name := range r.Plans {
		p, ok := t.set.plan(name)
		if !ok || slices.Contains(r.Plans[:at], name) {
			continue
		}
		tokens, window := p.PerWindow()
		tokens, window = limit.Standing{Limit: tokens, Window: window}.PerWindow()
		told = append(told, header.Policy{Name: name, Quota: tokens, Window: window})
		t.plans = append(t.plans, p)
		t.limits = append(t.limits, limitOf(tokens, window))
	}
	if r.Concurrency > 0 {
		told = append(told, header.Policy{Name: r.Name + slotsSuffix, Quota: r.Concurrency, Unit: header.UnitInFlight})
	}
	if text, err := header.FormatPolicies(told); err == nil { // the error is that there are none
		t.policy = text
	}
	return t
}

// planOf is the plan that a Result is about, or nil: of a rule's few, the names of most
// differ in their length already.
func (t *terms) planOf(res *Result) *Plan {
	for i := range t.plans {
		if t.plans[i].Name == res.Plan {
			return &t.plans[i]
		}
	}
	return nil
}

// limitOf is the limit of a Result. Of a fallback it is not that of the plan.
func (t *terms) limitOf(res *Result) limitFields {
	for i := range t.plans {
		if p := &t.plans[i]; p.Capacity == res.Limit {
			return t.limits[i]
		}
	}
	if p := t.planOf(res); p != nil {
		return limitOf(res.Standing(p).PerWindow())
	}
	return limitOf(res.Limit, 0)
}
