package admission

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/limit"
)

// Headers is which headers tell clients what is left.
type Headers uint8

// The headers.
const (
	// HeadersBoth are those of HeadersLegacy and of HeadersIETF, and the window told once.
	HeadersBoth Headers = iota
	// HeadersLegacy are X-RateLimit-Limit, -Remaining and -Reset, which most clients read, and
	// -Policy, which has the window as RateLimit-Policy does.
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
	legacyPolicy    = "X-Ratelimit-Policy"
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
	p := t.planOf(res)
	slots := p == nil // it is about places, for which there is no reset
	left, until := res.told(p)
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
		limit := t.limitOf(res)
		list.add(legacyLimit, limit.tokens)
		list.add(legacyRemaining, all[:remaining])
		if h == HeadersLegacy {
			list.add(legacyPolicy, limit.policy)
		}
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
		return 4
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

// told is what clients are told remains, and the reset. Of places, which no plan is about,
// what remains is how many more requests of the client may be under way at once.
func (r *Result) told(p *Plan) (left int64, until time.Duration) {
	if p == nil {
		return r.Remaining, r.Wait
	}
	return r.Standing(p).Told()
}

// Standing is what the Result, which is about p, says of a limit for a client. Never is for
// what takes longer than a Duration can say.
func (r *Result) Standing(p *Plan) limit.Standing {
	s := limit.Standing{Limit: r.Limit, Left: r.Remaining, Next: r.Wait, Refused: !r.Allowed}
	_, s.Window = p.PerWindow()
	if s.Refused && s.Next == Never { // as of more than the plan can hold
		s.Next = r.Reset
	}
	if s.Refused {
		return s
	}
	if r.Reset == Never {
		s.Next, s.Lasts = Never, Never
		return s
	}
	switch p.Kind {
	case KindFixedWindow: // the one that comes after what is left comes in the next window
		s.Next, s.Lasts = r.Reset, part(r.Reset, r.Remaining, r.Remaining+1)
	case KindSlidingWindow:
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

// part is n of as many parts of d.
func part(d time.Duration, n, of int64) time.Duration {
	return time.Duration(float64(d) / float64(of) * float64(n))
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
