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

// Headers is which headers tell clients what is left. Empty means HeadersBoth.
type Headers string

// The headers.
const (
	HeadersBoth   Headers = "both"   // those of HeadersLegacy and of HeadersIETF, and the window told once
	HeadersLegacy Headers = "legacy" // X-RateLimit-Limit, -Remaining and -Reset, and -Policy, which has the window
	HeadersIETF   Headers = "ietf"   // RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-10)
	HeadersNone   Headers = "none"   // none. Retry-After is there in any case.
	HeadersEpoch  Headers = "epoch"  // HeadersBoth, but X-RateLimit-Reset is the Unix time, as at GitHub, and not seconds
)

func (h Headers) valid() bool {
	return h == "" || slices.Contains([]Headers{HeadersBoth, HeadersLegacy, HeadersIETF, HeadersNone, HeadersEpoch}, h)
}

func (h Headers) legacy() bool { return h != HeadersIETF }

func (h Headers) ietf() bool { return h != HeadersLegacy }

// The headers as net/http keeps them.
const (
	policyHeader    = "Ratelimit-Policy"
	limitHeader     = "Ratelimit"
	legacyLimit     = "X-Ratelimit-Limit"
	legacyRemaining = "X-Ratelimit-Remaining"
	legacyReset     = "X-Ratelimit-Reset"
	legacyPolicy    = "X-Ratelimit-Policy"
)

// tell writes what a decision says into the headers of its answer, before the handler runs, which may change them.
// What nobody knows is not told: when the store does not answer there is no number to believe. The values are those of
// the writers of package header, which a test compares; each request pays for them, so they are one text and one list,
// and nothing is canonicalized. clk is asked where a header tells a time.
func (h Headers) tell(to http.Header, t *terms, res *Result, clk clock.Clock) {
	if h == HeadersNone {
		return
	}
	values := make([]string, 0, 5)
	add := func(name, value string) {
		values = append(values, value)
		last := len(values) - 1
		to[name] = values[last : last+1 : last+1] // who adds a line has his own list
	}
	if t.policy != "" && h.ietf() {
		add(policyHeader, t.policy)
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
		at := clk.Now().Add(until)
		text = strconv.AppendInt(text, at.Unix()+ceilSeconds(time.Duration(at.Nanosecond())), 10)
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
	// Violated is the draft's extension for its first type.
	Violated []string `json:"violated-policies,omitempty"`
	// Reason is the Result's, so that clients, logs and tests speak of the same thing.
	Reason Reason `json:"reason,omitempty"`
}

// write answers with the document. net/http leaves out the body for HEAD.
func (p problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // it is of text and numbers
		body = nil
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store") // it is about one client and one moment
	h.Del("Content-Encoding")          // of whoever meant to write something else
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}

// quietAfter is after how long without a denial a limit is said to deny no more.
const quietAfter = time.Minute

// DenialLog writes a line when denials begin and one, with their number, when there have been none
// for a minute and a call is let in, however many there were: a log of each would be as long as an
// attacker likes. The zero DenialLog is ready; it is safe for concurrent use and must not be copied.
type DenialLog struct {
	denying atomic.Bool // set with mu held

	mu          sync.Mutex // guards what follows
	since, last time.Time
	denied      int64
}

// Denied counts a denial of what, a request or a call. If it is the first, it is written.
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

// Allowed notes that a call was let in.
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
