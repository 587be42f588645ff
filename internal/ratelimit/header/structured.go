package header

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

const (
	// UnitInFlight is the unit of a policy whose quota is how many requests of a client may be in flight at once: a
	// client that has no more than that is never refused.
	UnitInFlight = "concurrent-requests"

	// unitRequests is the unit of a policy that names none. Quotas of other units are never used to pace requests.
	unitRequests = "requests"

	// maxInteger is the largest Integer of a structured field, RFC 9651 section 3.3.1.
	maxInteger = 999_999_999_999_999
)

// Policy is one member of RateLimit-Policy: a quota as the server has set it up.
type Policy struct {
	Name   string        // required, printable ASCII
	Quota  int64         // units per window, required
	Window time.Duration // whole seconds; zero if not told
	Unit   string        // "requests", "content-bytes", …; empty means requests
}

// FormatPolicies returns the value of RateLimit-Policy. It fails if a name or unit is not printable ASCII, and if there
// are no policies.
func FormatPolicies(policies []Policy) (string, error) {
	if len(policies) == 0 {
		return "", errors.New("no members: leave the header out")
	}
	var list httpsfv.List
	for _, p := range policies {
		it := httpsfv.NewItem(p.Name)
		it.Params.Add("q", min(p.Quota, maxInteger))
		if p.Window > 0 {
			it.Params.Add("w", int64((p.Window+time.Second-1)/time.Second))
		}
		if p.Unit != "" {
			it.Params.Add("qu", p.Unit)
		}
		list = append(list, it)
	}
	text, err := httpsfv.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("names and units are printable ASCII: %w", err)
	}
	return text, nil
}

// parseStandard returns the tightest request quota of RateLimit, with the smallest in-flight policy. If the reset is
// missing, the policy's window bounds it.
func parseStandard(h http.Header) (tightest Quota, ok bool) {
	if len(h["Ratelimit"]) == 0 {
		return Quota{}, false
	}
	limits, ok := parseMembers(h["Ratelimit"], "r", "t")
	if !ok {
		return parseDraft7(h)
	}
	policies, _ := parseMembers(h["Ratelimit-Policy"], "q", "w")
	found := false
	for _, r := range limits {
		var p member
		for _, each := range policies {
			if each.name == r.name {
				p = each
				break
			}
		}
		if p.unit != "" && p.unit != unitRequests {
			continue
		}
		q := Quota{Limit: p.units, Remaining: r.units, Reset: r.span, Window: p.span}
		if !r.timed {
			q.Reset = p.span
		}
		if !found || q.tighter(tightest) {
			tightest, found = q, true
		}
	}
	for _, p := range policies {
		if p.unit == UnitInFlight && p.units > 0 && (tightest.InFlight == 0 || p.units < tightest.InFlight) {
			tightest.InFlight = p.units
		}
	}
	return tightest, !tightest.IsZero()
}

// parseDraft7 reads RateLimit and RateLimit-Policy in the form of the seventh draft: one quota, "limit=100,
// remaining=50, reset=5", and policies such as "100;w=60".
func parseDraft7(h http.Header) (q Quota, ok bool) {
	d, err := httpsfv.UnmarshalDictionary(h["Ratelimit"])
	if err != nil {
		return Quota{}, false
	}
	said := params(func(key string) (any, bool) {
		m, found := d.Get(key)
		it, _ := m.(httpsfv.Item)
		return it.Value, found
	})
	if !said.integer("remaining", &q.Remaining, true) || !said.integer("limit", &q.Limit, false) || !said.seconds("reset", &q.Reset) {
		return Quota{}, false
	}
	if q.Limit > 0 {
		q.Window = parseWindow(strings.Join(h["Ratelimit-Policy"], ", "), q.Limit)
	}
	return q, !q.IsZero()
}

// member is one member of RateLimit: what is left of a policy's quota, and for how long; or one of RateLimit-Policy:
// the quota, and its window.
type member struct {
	name, unit string
	units      int64
	span       time.Duration
	timed      bool // whether span was present
}

// parseMembers parses the lines of a header, a list of Strings with parameters. ok is false if any part is malformed.
func parseMembers(lines []string, units, span string) (all []member, ok bool) {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return nil, false
	}
	for _, m := range list {
		it, _ := m.(httpsfv.Item)
		name, ok := it.Value.(string)
		if !ok {
			return nil, false
		}
		p, r := params(it.Params.Get), member{name: name}
		_, r.timed = p(span)
		if !p.integer(units, &r.units, true) || !p.seconds(span, &r.span) || !p.text("qu", &r.unit) || !p.bytes("pk") {
			return nil, false
		}
		all = append(all, r)
	}
	return all, len(all) > 0
}

// params returns the value of a parameter. Unknown parameters are never looked up.
type params func(key string) (value any, found bool)

// integer stores a parameter, which must be a non-negative Integer.
func (p params) integer(key string, to *int64, required bool) bool {
	v, found := p(key)
	if !found {
		return !required
	}
	n, ok := v.(int64)
	*to = n
	return ok && n >= 0
}

// seconds stores an Integer as that many seconds, or as the longest Duration if there are more.
func (p params) seconds(key string, to *time.Duration) bool {
	var n int64
	ok := p.integer(key, &n, false)
	*to = time.Duration(min(n, int64(maxDuration/time.Second))) * time.Second
	return ok
}

// text stores a String. It accepts a Token too, because both are in use for units.
func (p params) text(key string, to *string) bool {
	v, found := p(key)
	switch v := v.(type) {
	case string:
		*to = v
	case httpsfv.Token:
		*to = string(v)
	default:
		return !found
	}
	return true
}

// bytes reports whether the parameter is a Byte Sequence or absent.
func (p params) bytes(key string) bool {
	v, found := p(key)
	_, ok := v.([]byte)
	return ok || !found
}
