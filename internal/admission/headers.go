package admission

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Headers chooses the headers that tell clients what is left of their quota. Empty means HeadersBoth.
type Headers string

// The choices of headers.
const (
	HeadersBoth   Headers = "both"   // those of HeadersLegacy and of HeadersIETF, with the window told once
	HeadersLegacy Headers = "legacy" // X-RateLimit-Limit, -Remaining, -Reset and -Policy, which has the window
	HeadersIETF   Headers = "ietf"   // RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-10)
	HeadersNone   Headers = "none"   // none but Retry-After, which is always sent
	HeadersEpoch  Headers = "epoch"  // as HeadersBoth, but X-RateLimit-Reset is a Unix time, as at GitHub, and not a number of seconds
)

func (h Headers) valid() bool {
	return h == "" || slices.Contains([]Headers{HeadersBoth, HeadersLegacy, HeadersIETF, HeadersNone, HeadersEpoch}, h)
}

func (h Headers) legacy() bool { return h != HeadersIETF }

func (h Headers) ietf() bool { return h != HeadersLegacy }

// The names of the headers in the form of net/http's map.
const (
	policyHeader    = "Ratelimit-Policy"
	limitHeader     = "Ratelimit"
	legacyLimit     = "X-Ratelimit-Limit"
	legacyRemaining = "X-Ratelimit-Remaining"
	legacyReset     = "X-Ratelimit-Reset"
	legacyPolicy    = "X-Ratelimit-Policy"
)

// tell writes what a decision says into the headers of the response, before the handler runs, which may change them.
// Numbers that are not known, because the store does not answer, are left out. The values are equal to those that
// package header writes, which a test checks. Each request pays for them, so they are made as one text and one list,
// without canonicalizing names. clk gives the time if a header tells one.
func (h Headers) tell(to http.Header, t *terms, res *Result, clk clock.Clock) {
	if h == HeadersNone {
		return
	}
	values := make([]string, 0, 5)
	add := func(name, value string) {
		values = append(values, value)
		last := len(values) - 1
		to[name] = values[last : last+1 : last+1] // limited capacity: appending a line makes a new list
	}
	if t.policy != "" && h.ietf() {
		add(policyHeader, t.policy)
	}
	if res.unknown() || res.Limit == 0 {
		return
	}
	p := t.planOf(res)
	slots := p == nil // the decision is about places in flight, which have no reset
	left, until := res.told(p)
	known := !slots && until != Never
	var buf [176]byte // room for a name of 76 bytes at most, and for five numbers of fewer than 19 digits each
	text := strconv.AppendInt(buf[:0], left, 10)
	remaining := len(text)
	text = strconv.AppendInt(text, ceilSeconds(until), 10)
	seconds, from := len(text), remaining // where the seconds end, and where the reset of the older headers begins
	if known && h == HeadersEpoch {
		from = seconds
		at := clk.Now().Add(until)
		text = strconv.AppendInt(text, at.Unix()+ceilSeconds(time.Duration(at.Nanosecond())), 10)
	}
	reset := len(text)
	if h.ietf() {
		text = append(append(append(text, '"'), res.Plan...), `";r=`...) // a plan's name contains nothing that needs escaping
		text = append(text, text[:remaining]...)
		if known {
			text = append(append(text, ";t="...), text[remaining:seconds]...)
		}
	}
	all := string(text)
	if h.legacy() && !slots {
		limit := t.limitOf(res)
		add(legacyLimit, limit.tokens)
		add(legacyRemaining, all[:remaining])
		if h == HeadersLegacy {
			add(legacyPolicy, limit.policy)
		}
		if known {
			add(legacyReset, all[from:reset])
		}
	}
	if h.ietf() {
		add(limitHeader, all[reset:])
	}
}

func ceilSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

type problem struct {
	Type   string `json:"type,omitempty"` // empty means about:blank
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Violated lists the violated policies: the draft's extension for its first problem type.
	Violated []string `json:"violated-policies,omitempty"`
	// Reason is that of the Result, so that clients, logs and tests use the same word.
	Reason Reason `json:"reason,omitempty"`
}

// write answers with the document. net/http leaves out the body in a response to HEAD.
func (p problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // cannot happen: the document is text and numbers
		body = nil
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store") // the document is about one client and one moment
	h.Del("Content-Encoding")          // set for a body that is not sent
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // an error means that the client is gone
}

// quietAfter is the time without a denial after which denials are logged as over.
const quietAfter = time.Minute

// DenialLog logs when denials begin. When there have been none for a minute and a call is then let in, it logs how many
// there were. Logging each denial would let an attacker fill the log. The zero DenialLog is ready for use. It is safe
// for concurrent use and must not be copied.
type DenialLog struct {
	denying atomic.Bool // set with mu held

	mu          sync.Mutex // guards what follows
	since, last time.Time
	denied      int64
}

// Denied counts a denial of what, such as a request or a call, and logs it if it is the first.
func (l *DenialLog) Denied(ctx context.Context, log *slog.Logger, clk clock.Clock, what string, record slog.LogValuer) {
	now := clk.Now()
	l.mu.Lock()
	first := !l.denying.Swap(true)
	if first {
		l.since, l.denied = now, 0
	}
	l.last = now
	l.denied++
	l.mu.Unlock()
	if first {
		attrs := append([]slog.Attr{slog.String("what", what)}, record.LogValue().Resolve().Group()...)
		log.LogAttrs(ctx, slog.LevelInfo, "over the limit", attrs...)
	}
}

// Allowed notes that a call was let in, and logs the number of denials if they are over.
func (l *DenialLog) Allowed(ctx context.Context, log *slog.Logger, clk clock.Clock, what, name string) {
	if !l.denying.Load() {
		return
	}
	l.mu.Lock()
	over := l.denying.Load() && clk.Now().Sub(l.last) >= quietAfter
	denied, lasted := l.denied, l.last.Sub(l.since)
	if over {
		l.denying.Store(false)
	}
	l.mu.Unlock()
	if over {
		log.LogAttrs(ctx, slog.LevelInfo, "within the limit again", slog.String("what", what), slog.String("rule", name),
			slog.Int64("denied", denied), slog.Duration("over", lasted))
	}
}
