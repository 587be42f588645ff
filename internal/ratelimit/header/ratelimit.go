package header

import (
	"net/http"
	"strings"
	"time"
)

// UnitInFlight is the unit of a policy whose quota is how many requests of a client may be
// under way at once: who holds no more is never refused. There is nothing to wait for but the
// end of one of them, so no reset is told.
const UnitInFlight = "concurrent-requests"

// unitRequests is the unit of a policy that names none. Those of bytes and other units are
// read too, but never taken for a pace.
const unitRequests = "requests"

// Policy is one member of RateLimit-Policy: a quota as the server has set it up.
type Policy struct {
	Name         string        // required, printable ASCII; joins it with its [Remaining]
	Quota        int64         // units per window, required
	Window       time.Duration // whole seconds; zero if not said
	Unit         string        // "requests", "content-bytes", …; empty means requests
	PartitionKey []byte        // what the quota is counted by; nil if not said
}

// Remaining is one member of RateLimit: what is left of a policy's quota.
type Remaining struct {
	Name         string        // required, printable ASCII; of the [Policy]
	Units        int64         // left in this window, required
	Reset        time.Duration // whole seconds until more is granted
	HasReset     bool          // the server said when
	PartitionKey []byte        // as in the policy; nil if not said
}

// ParsePolicies reads the lines of a RateLimit-Policy header. It is not ok, and the
// header counts as absent, if any part is malformed or lacks what is required.
func ParsePolicies(lines []string) ([]Policy, bool) {
	items, ok := parseItems(lines)
	if !ok {
		return nil, false
	}
	policies := make([]Policy, 0, len(items))
	for _, it := range items {
		p := Policy{Name: it.name}
		ok := it.integer("q", &p.Quota, true) && it.seconds("w", &p.Window) &&
			it.text("qu", &p.Unit) && it.bytes("pk", &p.PartitionKey)
		if !ok {
			return nil, false
		}
		policies = append(policies, p)
	}
	return policies, len(policies) > 0
}

// ParseRateLimit reads the lines of a RateLimit header. It is not ok, and the header
// counts as absent, if any part is malformed or lacks what is required.
func ParseRateLimit(lines []string) ([]Remaining, bool) {
	items, ok := parseItems(lines)
	if !ok {
		return nil, false
	}
	limits := make([]Remaining, 0, len(items))
	for _, it := range items {
		_, hasReset := it.get("t")
		r := Remaining{Name: it.name, HasReset: hasReset}
		ok := it.integer("r", &r.Units, true) && it.seconds("t", &r.Reset) && it.bytes("pk", &r.PartitionKey)
		if !ok {
			return nil, false
		}
		limits = append(limits, r)
	}
	return limits, len(limits) > 0
}

// parseStandard is the tightest request quota of RateLimit, and of the policies for what may be
// under way at once the smallest. Where a member does not say its reset, the window of its
// policy bounds it.
func parseStandard(h http.Header) (tightest Quota, ok bool) {
	if len(h["Ratelimit"]) == 0 {
		return Quota{}, false
	}
	limits, ok := ParseRateLimit(h["Ratelimit"])
	if !ok {
		return parseDraft7(h)
	}
	policies, _ := ParsePolicies(h["Ratelimit-Policy"])
	found := false
	for _, r := range limits {
		p := policyOf(policies, r.Name)
		if p.Unit != "" && p.Unit != unitRequests {
			continue
		}
		q := Quota{Limit: p.Quota, Remaining: r.Units, Reset: r.Reset, Window: p.Window}
		if !r.HasReset {
			q.Reset = p.Window
		}
		if !found || q.tighter(tightest) {
			tightest, found = q, true
		}
	}
	for _, p := range policies {
		if p.Unit == UnitInFlight && p.Quota > 0 && (tightest.InFlight == 0 || p.Quota < tightest.InFlight) {
			tightest.InFlight = p.Quota
		}
	}
	return tightest, !tightest.IsZero()
}

// parseDraft7 reads RateLimit and RateLimit-Policy as the seventh draft had them: one quota,
// "limit=100, remaining=50, reset=5", and policies such as "100;w=60".
func parseDraft7(h http.Header) (q Quota, ok bool) {
	said, ok := parseDictionary(h["Ratelimit"])
	if !ok || !said.integer("remaining", &q.Remaining, true) || !said.integer("limit", &q.Limit, false) ||
		!said.seconds("reset", &q.Reset) {
		return Quota{}, false
	}
	if q.Limit > 0 {
		q.Window = parseWindow(strings.Join(h["Ratelimit-Policy"], ", "), q.Limit)
	}
	return q, !q.IsZero()
}

// policyOf is the policy of that name, or one that says nothing.
func policyOf(policies []Policy, name string) Policy {
	for _, p := range policies {
		if p.Name == name {
			return p
		}
	}
	return Policy{}
}

// FormatPolicies writes a RateLimit-Policy value. It fails on a name or unit that
// is not printable ASCII, on no policies, and on a negative number.
func FormatPolicies(policies []Policy) (string, error) {
	var w itemWriter
	for _, p := range policies {
		w.name(p.Name)
		w.integer("q", p.Quota)
		if p.Window > 0 {
			w.integer("w", ceilSeconds(p.Window))
		}
		if p.Unit != "" {
			w.last.Params.Add("qu", p.Unit)
		}
		w.bytes("pk", p.PartitionKey)
	}
	return w.result()
}

// FormatRateLimit writes a RateLimit value, resets rounded up to whole seconds. It
// fails on a name that is not printable ASCII, on no members, and on a negative number.
func FormatRateLimit(limits []Remaining) (string, error) {
	var w itemWriter
	for _, r := range limits {
		w.name(r.Name)
		w.integer("r", r.Units)
		if r.HasReset {
			w.integer("t", ceilSeconds(r.Reset))
		}
		w.bytes("pk", r.PartitionKey)
	}
	return w.result()
}
