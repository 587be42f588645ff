package admission

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/clock"
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
// values, one list, and nothing to canonicalize.
//
// clk is asked where a header tells a time.
func (h Headers) tell(to http.Header, t *terms, res *Result, clk clock.Clock) {
	if h == HeadersNone {
		return
	}
	list := lines{to, make([]string, 0, h.most())}
	if t.policy != "" && h.ietf() {
		list.add(policyHeader, t.policy)
	}
	if res.unknown() || res.Limit == 0 {
		return
	}
	left, until := res.told(t.planOf(res))
	slots := res.Reason == ReasonConcurrency // for which there is no reset
	known := !slots && until != Never
	var buf [176]byte // a name of 76 bytes at most, and five numbers, of which no time has 19
	text := strconv.AppendInt(buf[:0], left, 10)
	remaining := len(text)
	text = strconv.AppendInt(text, ceilSeconds(until), 10)
	seconds, from := len(text), remaining // where those end, and the reset of the older headers begins
	if known && h == HeadersEpoch {
		from = seconds
		text = strconv.AppendInt(text, ceilUnix(clk.Now().Add(until)), 10)
	}
	reset := len(text)
	if h.ietf() {
		text = append(append(append(text, '"'), res.Plan...), `";r=`...) // a plan's name has nothing to escape
		text = append(text, text[:remaining]...)
		if known {
			text = append(append(text, ";t="...), text[remaining:seconds]...)
		}
	}
	all := string(text)
	if h.legacy() && !slots {
		list.add(legacyLimit, t.limitOf(res))
		list.add(legacyRemaining, all[:remaining])
		if known {
			list.add(legacyReset, all[from:reset])
		}
	}
	if h.ietf() {
		list.add(limitHeader, all[reset:])
	}
}

// most is how many headers there may be.
func (h Headers) most() int {
	switch h {
	case HeadersLegacy:
		return 3
	case HeadersIETF:
		return 2
	}
	return 5
}

// lines are headers of one line each, which are kept in one list.
type lines struct {
	to     http.Header
	values []string // with room for all
}

func (l *lines) add(name, value string) {
	l.values = append(l.values, value)
	last := len(l.values) - 1
	l.to[name] = l.values[last : last+1 : last+1] // who adds a line has his own list
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

// told is what clients are told remains, and the reset. Both are for a client that spreads the
// one over the other: it uses all that the plan grants, and finds something left each time.
//
// What remains is what can be taken at once. But a time of less than a second cannot be told:
// then it is what can be taken within the next second, one after the other. Who waited a whole
// second for each would use little of a limit of many a second.
func (r *Result) told(p *Plan) (left int64, until time.Duration) {
	left, until = r.Remaining, r.untilMore(p)
	if !r.Allowed || p == nil || until <= 0 || until >= time.Second {
		return left, until
	}
	most := int64(time.Second) * max(left, 1) / int64(until)
	if left == 0 && most < 2 {
		return 0, until // which is rounded up
	}
	return max(left, min(r.Limit, most)), time.Second
}

// untilMore is the reset that clients are told. Denied, it is the Wait, so that it says the
// same as Retry-After. If nothing is left it is when there is one more. Otherwise it is for how
// long what is left should last. The time until all is back, which is longer for whatever
// slides or flows, would have an obedient client use half of that. From a second on it is in
// whole ones, rounded down, since what is left may be taken at once; what is to be waited for
// is rounded up where it is told. Never is for what takes longer than a Duration can say, and
// is not told.
// p is the plan of the Result; of none it is nil.
func (r *Result) untilMore(p *Plan) time.Duration {
	switch {
	case !r.Allowed && r.Wait != Never:
		return r.Wait
	case p == nil || r.Reset == Never:
		return r.Reset
	case r.Remaining == 0:
		return r.untilNext(p)
	}
	left := float64(r.Remaining)
	var last float64 // seconds
	switch p.Kind {
	case KindFixedWindow: // the one that comes after them comes in the next window
		last = r.Reset.Seconds() * left / (left + 1)
	case KindSlidingWindow:
		last = p.Window.Seconds() * left / float64(r.Limit)
	default:
		last = left / (p.TokensPerSecond * float64(r.Limit) / float64(p.Capacity)) // see untilNext
	}
	until := min(r.Reset, time.Duration(math.Ceil(min(last, maxReset.Seconds())*float64(time.Second))))
	if until >= time.Second {
		return until.Truncate(time.Second)
	}
	return until
}

// maxReset is the longest that is told: a hundred years.
const maxReset = maxTTL

// untilNext is when one token can be taken, if none can now. Of a fallback the Limit is its
// share of the plan, and the rate of a bucket is so much less.
func (r *Result) untilNext(p *Plan) time.Duration {
	switch p.Kind {
	case KindSlidingWindow:
		return r.next
	case KindFixedWindow:
		return r.Reset
	}
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
	case ReasonFailClosed, ReasonTimeout, ReasonTooManyKeys:
		return "It is not known at the moment whether the request may be served. Try again later."
	case ReasonLimited:
		if r.Wait == Never {
			return fmt.Sprintf("The quota %q of %d has not enough left, and will not have in any time worth waiting for.", r.Plan, r.Limit)
		}
		return fmt.Sprintf("The quota %q of %d has not enough left. Try again in %s s.", r.Plan, r.Limit, r.retryAfter())
	}
	return "The request was not admitted."
}
