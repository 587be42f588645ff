package admission

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// Headers is which headers tell clients what is left.
type Headers uint8

// The headers.
const (
	// HeadersBoth are those of HeadersLegacy and of HeadersIETF.
	HeadersBoth Headers = iota
	// HeadersLegacy are X-RateLimit-Limit, -Remaining and -Reset, which most clients read.
	HeadersLegacy
	// HeadersIETF are RateLimit and RateLimit-Policy, as draft-ietf-httpapi-ratelimit-headers-10
	// has them.
	HeadersIETF
	// HeadersNone are none. Retry-After is there in any case.
	HeadersNone
	// HeadersEpoch are HeadersBoth, but X-RateLimit-Reset is the Unix time, as at GitHub. In
	// the others it is seconds from now, which needs no clock that is right.
	HeadersEpoch
)

func (h Headers) legacy() bool { return h == HeadersBoth || h == HeadersLegacy || h == HeadersEpoch }

func (h Headers) ietf() bool { return h == HeadersBoth || h == HeadersIETF || h == HeadersEpoch }

// slotsSuffix makes the name of the policy that tells a rule's concurrency.
const slotsSuffix = "-concurrency"

// policyText is the value of RateLimit-Policy for a rule and a set of plans. It never
// changes.
type policyText struct {
	set   *planSet
	value string // empty if there is nothing to tell
}

// policyOf is the RateLimit-Policy of a rule, made once for each set of plans.
func (r *compiledRule) policyOf(set *planSet) string {
	if known := r.policy.Load(); known != nil && known.set == set {
		return known.value
	}
	made := &policyText{set: set}
	var all []header.Policy
	for _, name := range r.Plans {
		if i, ok := set.index[name]; ok {
			tokens, window := set.plans[i].PerWindow()
			all = append(all, header.Policy{Name: name, Quota: tokens, Window: window})
		}
	}
	if r.Concurrency > 0 {
		all = append(all, header.Policy{Name: r.Name + slotsSuffix, Quota: r.Concurrency, Unit: "concurrent-requests"})
	}
	if text, err := header.FormatPolicies(all); err == nil { // the error is that there are none
		made.value = text
	}
	r.policy.Store(made)
	return made.value
}

// The headers as net/http keeps them.
const (
	policyHeader    = "Ratelimit-Policy"
	limitHeader     = "Ratelimit"
	legacyLimit     = "X-Ratelimit-Limit"
	legacyRemaining = "X-Ratelimit-Remaining"
	legacyReset     = "X-Ratelimit-Reset"
)

// tell writes what a decision says into the headers of its answer. They are written
// before the handler runs, which may change them. What nobody knows is not told: when the
// store does not answer there is no number to believe.
//
// The values are those of the writers of package header, which a test compares. They are
// put together here because each request that is let in pays for it: one text of all
// values and one list, and nothing to canonicalize.
//
// now is asked for where a header tells a time.
func (h Headers) tell(to http.Header, rule *compiledRule, set *planSet, res *Result, now func() time.Time) {
	if h == HeadersNone {
		return
	}
	values := make([]string, 0, 5) // one for each header there may be
	add := func(name, value string) {
		values = append(values, value)
		to[name] = values[len(values)-1 : len(values) : len(values)] // who adds a line has his own list
	}
	if policy := rule.policyOf(set); policy != "" && h.ietf() {
		add(policyHeader, policy)
	}
	if res.Reason == ReasonFailOpen || res.Reason == ReasonFailClosed || res.Limit == 0 {
		return
	}
	var buf [192]byte // a name of 76 bytes at most, and five numbers of 19
	text, ends := buf[:0], [3]int{}
	slots := res.Reason == ReasonConcurrency // for which there is no reset
	until := res.untilMore(set)
	reset, known := ceilSeconds(until), !slots && until != Never
	text = strconv.AppendInt(text, res.Limit, 10)
	ends[0] = len(text)
	text = strconv.AppendInt(text, res.Remaining, 10)
	ends[1] = len(text)
	if h == HeadersEpoch && known {
		text = strconv.AppendInt(text, ceilUnix(now().Add(until)), 10)
	} else {
		text = strconv.AppendInt(text, reset, 10)
	}
	ends[2] = len(text)
	text = append(append(append(text, '"'), res.Plan...), `";r=`...) // a plan's name has nothing to escape
	text = strconv.AppendInt(text, res.Remaining, 10)
	if known {
		text = strconv.AppendInt(append(text, ";t="...), reset, 10)
	}
	all := string(text)
	if h.legacy() && !slots {
		add(legacyLimit, all[:ends[0]])
		add(legacyRemaining, all[ends[0]:ends[1]])
		if known {
			add(legacyReset, all[ends[1]:ends[2]])
		}
	}
	if h.ietf() {
		add(limitHeader, all[ends[2]:])
	}
}

// ceilSeconds rounds up, so that a client that obeys is never early.
func ceilSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// ceilUnix is the Unix time of t, rounded up for the same reason.
func ceilUnix(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}

// untilMore is the reset that clients are told: when what is left is more again than they
// were told is left. Denied, it is the Wait, so that it says the same as Retry-After. Of
// a bucket that is used up it is the time of the next token, and not that of the last,
// which would have obedient clients wait for a whole bucket each time. Of a sliding
// window, once the present one is over, what was taken in it fades evenly. Never is for
// what takes longer than a Duration can say, and is not told.
func (r *Result) untilMore(set *planSet) time.Duration {
	if !r.Allowed && r.Wait != Never {
		return r.Wait
	}
	i, ok := set.index[r.Plan]
	if !ok {
		return r.Reset
	}
	p := &set.plans[i]
	if p.Window != 0 {
		if r.Reset <= p.Window { // there is no window after this one
			return r.Reset
		}
		// As if all that is used had been taken in this one, of which it is not more.
		used := time.Duration(max(1, r.Limit-r.Remaining))
		return r.Reset - p.Window + (p.Window+used-1)/used
	}
	if r.Remaining > 0 || r.Reset == Never {
		return r.Reset
	}
	// Of a fallback the Limit is its share of the plan, and its rate is so much less.
	share := float64(r.Limit) / float64(p.Capacity)
	rest := float64(r.Limit-1) / p.TokensPerSecond / share * float64(time.Second) // of the tokens after it
	return max(0, r.Reset-time.Duration(min(rest, float64(r.Reset))))
}

// retryAfter is the value of Retry-After, rounded up, or empty when waiting does not help.
func (r *Result) retryAfter() string {
	if r.Wait <= 0 || r.Wait == Never {
		return ""
	}
	return header.FormatRetryAfter(r.Wait)
}

// describe is a denial in words, for who reads the answer.
func (r *Result) describe() string {
	switch r.Reason {
	case ReasonTooLarge:
		return "The request costs more than its quota ever holds. Waiting does not help."
	case ReasonConcurrency:
		return fmt.Sprintf("%d requests are under way already. Wait for one of them to end.", r.Limit)
	case ReasonFailClosed, ReasonTooManyKeys:
		return "It is not known at the moment whether the request may be served. Try again later."
	case ReasonLimited:
		if r.Wait == Never {
			return fmt.Sprintf("The quota %q of %d has not enough left, and will not have in any time worth waiting for.", r.Plan, r.Limit)
		}
		return fmt.Sprintf("The quota %q of %d has not enough left. Try again in %s s.", r.Plan, r.Limit, r.retryAfter())
	}
	return "The request was not admitted."
}
