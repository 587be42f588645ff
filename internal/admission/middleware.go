package admission

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/treadlight/crawl/internal/clock"
)

const (
	// DefaultBypassHeader is where bypass tokens are looked for.
	DefaultBypassHeader = "X-RateLimit-Bypass"
	// minToken is the shortest secret: below it, it can be guessed at the rate at which
	// a server answers.
	minToken = 16
)

// MiddlewareConfig is what a middleware needs.
type MiddlewareConfig struct {
	Admitter *Admitter // decides. Zero is an error.
	Rules    *RuleSet  // says for whom and by what, and may change. Zero is an error.
	// Bypass is secrets of 16 bytes or more; who shows one is not limited at all. They are
	// compared in constant time. Zero means that there are none.
	Bypass []string
	// BypassHeader is the header in which they are shown. Zero means DefaultBypassHeader.
	BypassHeader string
	// Headers is what clients are told of their quota. Zero means HeadersBoth.
	Headers Headers
	// Shadow is Rule.Shadow of all rules. False means that each rule says.
	Shadow bool
	// Deny, if set, writes the answer of a denial, with the status of the Denial; headers
	// are set already. Zero means a problem document (RFC 9457).
	Deny func(w http.ResponseWriter, r *http.Request, d Denial)
	// OnDenied, if set, is told every denial, and what a shadow rule would have denied,
	// by the goroutine of the request and with no lock held. It must not block. Zero means
	// that nobody is.
	OnDenied func(Denial)
	// Log gets a record of the first denial of a rule, without the key, which may be a secret,
	// and when it denies no more how many there were, and an error when a key function fails.
	// Zero means no log.
	Log *slog.Logger
}

// Denial is the record of a request that was denied, as traces keep it.
type Denial struct {
	RateLimited bool   `json:"rateLimited"`      // it was denied; false if the rule only looks on
	Rule        string `json:"rule"`             // the rule's name
	Shadow      bool   `json:"shadow,omitempty"` // it would have been denied
	Status      int    `json:"status"`           // of the answer: 429, or 503 when that is the server's trouble
	Method      string `json:"method"`
	Path        string `json:"path"` // as it came, decoded
	Key         string `json:"-"`    // who was counted, which may be a secret or personal
	Result      Result `json:"result"`
}

// LogValue is the record without the key.
func (d Denial) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Bool("rateLimited", d.RateLimited), slog.String("rule", d.Rule), slog.Bool("shadow", d.Shadow),
		slog.Int("status", d.Status), slog.String("method", d.Method), slog.String("path", d.Path),
		slog.String("plan", d.Result.Plan), slog.String("reason", string(d.Result.Reason)), slog.Duration("wait", d.Result.Wait),
	)
}

// Middleware returns what puts rules in front of a handler. Its errors name the field and
// the fix.
//
// The handler gets the ResponseWriter of the server itself, so that all that it can do
// works: Flush, Hijack, ReadFrom, deadlines, pushes. A place among a rule's Concurrency
// is given back when the handler returns or panics.
//
// Of a request whose path can be read in several ways the rules of all readings must let
// it in; see [RuleSet].
func Middleware(cfg MiddlewareConfig) (func(http.Handler) http.Handler, error) {
	switch {
	case cfg.Admitter == nil:
		return nil, errors.New("Admitter is missing: give one of New")
	case cfg.Rules == nil:
		return nil, errors.New("Rules is missing: give one of NewRuleSet")
	case cfg.Admitter.cfg.Registry != cfg.Rules.cfg.Registry:
		return nil, errors.New("Rules has another Registry than Admitter: give both the same")
	case cfg.Headers > HeadersEpoch:
		return nil, fmt.Errorf("Headers is %d: set it to one of HeadersBoth to HeadersEpoch", cfg.Headers)
	}
	d := &door{cfg: cfg, clk: cfg.Rules.cfg.Clock}
	for i, token := range cfg.Bypass {
		if len(token) < minToken {
			return nil, fmt.Errorf("the token Bypass[%d] is too short: use %d bytes or more, chosen at random", i, minToken)
		}
		d.bypass = append(d.bypass, sha256.Sum256([]byte(token)))
	}
	if cfg.BypassHeader == "" {
		d.cfg.BypassHeader = DefaultBypassHeader
	}
	d.cfg.BypassHeader = http.CanonicalHeaderKey(d.cfg.BypassHeader)
	if cfg.Log == nil {
		d.cfg.Log = slog.New(slog.DiscardHandler)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.serve(w, r, next) })
	}, nil
}

// door is a middleware. It never changes.
type door struct {
	cfg    MiddlewareConfig
	clk    clock.Clock
	bypass [][sha256.Size]byte
}

// serve lets a request in by all rules that are for it, mostly one.
func (d *door) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	now := d.cfg.Rules.inForce()
	m := now.table.match(r)
	if m.first != nil && !d.bypasses(r) {
		var held places
		defer held.giveBack()
		release, ok := d.enter(w, r, m.first, now.plans, true)
		if held.first = release; !ok {
			return
		}
		for _, rule := range m.more {
			release, ok := d.enter(w, r, rule, now.plans, false)
			if held.more = append(held.more, release); !ok {
				return
			}
		}
	}
	next.ServeHTTP(w, r)
}

// places is what gives back those that a request has among the Concurrency of its rules;
// nil where it has none. One deferred call for all of them costs less than one for each.
type places struct {
	first func()
	more  []func()
}

func (p *places) giveBack() {
	if p.first != nil {
		p.first()
	}
	for _, release := range p.more {
		if release != nil {
			release()
		}
	}
}

// bypasses reports whether a token is shown. All are compared, by their digests, so that
// the time tells neither how much of one was right nor which.
func (d *door) bypasses(r *http.Request) bool {
	if len(d.bypass) == 0 {
		return false
	}
	lines := r.Header[d.cfg.BypassHeader]
	if len(lines) != 1 {
		return false
	}
	shown := sha256.Sum256([]byte(lines[0]))
	found := 0
	for i := range d.bypass {
		found |= subtle.ConstantTimeCompare(shown[:], d.bypass[i][:])
	}
	return found == 1
}

// enter asks one rule. Unless it is not ok, the request goes on, and release, if there is
// one, is to be called at its end. Of several rules the first has the headers, unless
// another denies.
func (d *door) enter(w http.ResponseWriter, r *http.Request, rule *compiledRule, set *planSet, first bool) (release func(), ok bool) {
	t := rule.termsIn(set)
	if !t.whole && !rule.failed.Swap(true) {
		d.cfg.Log.ErrorContext(r.Context(), "a rule goes on with plans that the registry has no more", slog.String("rule", rule.Name))
	}
	var v verdict
	err := d.judge(r, rule, t, &v)
	shadow := d.shadows(rule)
	switch {
	case err == nil:
	case shadow:
		return nil, true
	default: // the client is gone, or an outer deadline has passed
		problem{Title: "The request ended before it was admitted", Status: http.StatusServiceUnavailable}.write(w)
		return nil, false
	}
	if v.res.Allowed {
		rule.denials.Allowed(r.Context(), d.cfg.Log, d.clk, "request", rule.Name)
	} else {
		d.record(r, rule, &v, shadow)
	}
	if shadow {
		return v.release, true
	}
	if first || !v.res.Allowed {
		d.cfg.Headers.tell(w.Header(), t, &v.res, d.clk)
	}
	if v.res.Allowed {
		return v.release, true
	}
	d.refuse(w, r, rule, &v)
	return nil, false
}

func (d *door) shadows(rule *compiledRule) bool { return d.cfg.Shadow || rule.Shadow }

func (d *door) denial(r *http.Request, rule *compiledRule, v *verdict) Denial {
	return Denial{
		RateLimited: true, Rule: rule.Name, Status: v.res.Status(),
		Method: r.Method, Path: r.URL.Path, Key: v.key, Result: v.res,
	}
}

// record tells the hook and the log. Without them it does nothing: the more requests are
// denied, the less each should cost.
func (d *door) record(r *http.Request, rule *compiledRule, v *verdict, shadow bool) {
	logs := d.cfg.Log.Enabled(r.Context(), slog.LevelInfo)
	if d.cfg.OnDenied == nil && !logs {
		return
	}
	record := d.denial(r, rule, v)
	if shadow {
		record.RateLimited, record.Shadow, record.Result.Reason = false, true, ReasonShadow
	}
	if d.cfg.OnDenied != nil {
		d.cfg.OnDenied(record)
	}
	if logs {
		rule.denials.Denied(r.Context(), d.cfg.Log, d.clk, "request", record)
	}
}

// refuse writes the answer of a denial.
func (d *door) refuse(w http.ResponseWriter, r *http.Request, rule *compiledRule, v *verdict) {
	if after := v.res.retryAfter(); after != "" {
		w.Header()["Retry-After"] = []string{after}
	}
	if d.cfg.Deny != nil {
		d.cfg.Deny(w, r, d.denial(r, rule, v))
		return
	}
	problemOf(&v.res).write(w)
}
