package admission

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/limit"
)

const (
	// bypassHeader is the header with a bypass token, in the form of net/http's map.
	bypassHeader = "X-Ratelimit-Bypass"
	// minToken is the shortest secret, in bytes: a shorter one can be guessed at the rate at which a server answers.
	minToken = 16
)

// MiddlewareConfig configures [Middleware].
type MiddlewareConfig struct {
	Admitter *Admitter // decides by its Rules. Nil is an error.
	// Bypass has secrets of 16 bytes or more. A request that shows one in the header X-RateLimit-Bypass is not limited
	// at all. They are compared in constant time. Empty means that there are none.
	Bypass []string
	// Exempt, if set, reports whether a request is not limited at all, such as one from monitoring. It must be safe for
	// concurrent use. Nil means that none is exempt.
	Exempt  func(*http.Request) bool
	Headers Headers // the headers that tell clients their quota. Empty means HeadersBoth.
	Shadow  bool    // makes all rules shadow rules (see Rule.Shadow). False means that each rule's own field counts.
	// Deny, if set, writes the response of a denial, with the status of the Denial; headers are already set. Nil means
	// a problem document (RFC 9457).
	Deny func(w http.ResponseWriter, r *http.Request, d Denial)
	// OnDenied, if set, is called with every denial, and with what a shadow rule would have denied, by the goroutine of
	// the request and with no lock held. It must not block.
	OnDenied func(Denial)
	// Log logs when a rule begins to deny; when it has stopped, it logs how many requests were denied, without the key.
	// It also logs an error when a key function fails. Nil means no log.
	Log *slog.Logger
}

// Denial is the record of a request that was denied, in the form that traces keep.
type Denial struct {
	RateLimited bool   `json:"rateLimited"`      // whether it was denied; false if the rule only observes
	Rule        string `json:"rule"`             // the rule's name
	Shadow      bool   `json:"shadow,omitempty"` // whether it would have been denied by a shadow rule
	Status      int    `json:"status"`           // of the response: 429, or 503 if the server is the cause
	Method      string `json:"method"`
	Path        string `json:"path"` // as received, decoded
	Key         string `json:"-"`    // under which it was counted; may be a secret or personal
	Result      Result `json:"result"`
}

// LogValue returns the record without the key.
func (d Denial) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Bool("rateLimited", d.RateLimited), slog.String("rule", d.Rule), slog.Bool("shadow", d.Shadow),
		slog.Int("status", d.Status), slog.String("method", d.Method), slog.String("path", d.Path),
		slog.String("plan", d.Result.Plan), slog.String("reason", string(d.Result.Reason)), slog.Duration("wait", d.Result.Wait),
	)
}

// Middleware returns a function that puts the rules in front of a handler. Its errors name the field and the fix.
//
// The handler gets the server's own ResponseWriter, so that everything it supports works: Flush, Hijack, ReadFrom,
// deadlines, pushes. A place among a rule's Concurrency is released when the handler returns or panics.
//
// If the path of a request can be read in several ways, the rules of all readings must allow it; see [RuleSet].
func Middleware(cfg MiddlewareConfig) (func(http.Handler) http.Handler, error) {
	switch {
	case cfg.Admitter == nil:
		return nil, errors.New("Admitter is missing: give one of New")
	case !cfg.Headers.valid():
		return nil, fmt.Errorf(`the Headers are %q: use "both", "epoch", "legacy", "ietf" or "none"`, cfg.Headers)
	}
	d := &door{cfg: cfg, rules: cfg.Admitter.cfg.Rules, clk: cfg.Admitter.cfg.Rules.cfg.Clock}
	for i, token := range cfg.Bypass {
		if len(token) < minToken {
			return nil, fmt.Errorf("the token Bypass[%d] is too short: use %d bytes or more, chosen at random", i, minToken)
		}
		d.bypass = append(d.bypass, sha256.Sum256([]byte(token)))
	}
	if cfg.Log == nil {
		d.cfg.Log = slog.New(slog.DiscardHandler)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.serve(w, r, next) })
	}, nil
}

type door struct {
	cfg    MiddlewareConfig
	rules  *RuleSet
	clk    clock.Clock
	bypass [][sha256.Size]byte
}

// serve passes a request to next if all rules that apply to it, mostly one, allow it.
func (d *door) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rules := d.rules.table.Load().match(make([]*compiledRule, 0, 2), r)
	if len(rules) > 0 && (d.bypasses(r) || d.cfg.Exempt != nil && d.cfg.Exempt(r)) {
		d.cfg.Admitter.exempt.Add(1)
		rules = nil
	}
	held := make([]func(), 0, 4) // functions that release the places among the Concurrency of rules
	defer func() {
		for _, release := range held {
			release()
		}
	}()
	for i, rule := range rules {
		release, ok := d.enter(w, r, rule, i == 0)
		if release != nil {
			held = append(held, release)
		}
		if !ok {
			return
		}
	}
	next.ServeHTTP(w, r)
}

// bypasses reports whether the request shows a bypass token. It compares the digests of all tokens, so that the time
// tells neither how much of a token was right nor which token it was.
func (d *door) bypasses(r *http.Request) bool {
	if len(d.bypass) == 0 {
		return false
	}
	lines := r.Header[bypassHeader]
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

// enter has one rule decide. If ok, the request goes on, and release, if it is not nil, must be called at its end. If
// several rules apply, the headers are those of the first, unless another rule denies.
func (d *door) enter(w http.ResponseWriter, r *http.Request, rule *compiledRule, first bool) (release func(), ok bool) {
	t := rule.terms
	v := verdict{door: d, rule: rule, terms: t, shadow: d.cfg.Shadow || rule.Shadow}
	if rule.Wait > 0 {
		v.begun = d.clk.Now()
	}
	err := v.judge(r)
	rule.counts.count(&v, err)
	switch {
	case err != nil && v.shadow:
		return nil, true
	case err != nil: // the client is gone, or an outer deadline has passed
		problem{Title: "The request ended before it was admitted", Status: http.StatusServiceUnavailable}.write(w)
		return nil, false
	case v.res.Allowed:
		rule.denials.Allowed(r.Context(), d.cfg.Log, d.clk, "request", rule.Name)
	default:
		v.record(r)
	}
	if v.shadow {
		return v.release, true
	}
	if first || !v.res.Allowed {
		d.cfg.Headers.tell(w.Header(), t, &v.res, d.clk)
	}
	if !v.res.Allowed {
		v.refuse(w, r)
	}
	return v.release, v.res.Allowed
}

type ruleCounts struct{ allowed, denied, shadowed atomic.Uint64 }

func (c *ruleCounts) count(v *verdict, err error) {
	switch {
	case err != nil: // the client is gone and gets no response
	case v.res.Allowed:
		c.allowed.Add(1)
	case v.shadow:
		c.shadowed.Add(1)
	default:
		c.denied.Add(1)
	}
}

// busyWait is the wait told to a client whose turn depends on when other requests end, which is not known. Headers
// cannot tell less than a second.
const busyWait = time.Second

type verdict struct {
	door   *door
	rule   *compiledRule
	terms  *terms
	shadow bool      // the rule only observes
	begun  time.Time // when the request arrived, if it may wait

	key     string
	res     Result
	release func() // releases its place; nil if it has none
}

// judge finds the key, takes a place, and charges the plans. It takes the place first: a request that is denied because
// no place is free costs no tokens, and a place that was taken for a request that is then denied is released. Its error
// is that of the request's context.
func (v *verdict) judge(r *http.Request) (err error) {
	d, rule := v.door, v.rule
	if v.key, err = rule.key(r); err != nil {
		// Logged once for each rule, as the cause is mostly the same.
		if !rule.failed.Swap(true) {
			d.cfg.Log.ErrorContext(r.Context(), "the key of a rule cannot be told", slog.String("rule", rule.Name), slog.Any("error", err))
		}
		v.key, v.res = "", d.cfg.Admitter.fail(&Plan{}, rule.OnError)
		d.cfg.Admitter.count(&v.res)
		return nil
	}
	if rule.slots == nil {
		return v.charge(r)
	}
	release, err := rule.slots.AcquireRelease(r.Context(), foldKey(v.key), 1, v.patience())
	if errors.Is(err, limit.ErrLimited) {
		v.res = Result{Limit: rule.Concurrency, Plan: rule.Name + slotsSuffix, Wait: busyWait, Reason: ReasonConcurrency}
		d.cfg.Admitter.count(&v.res)
		return nil
	} else if err != nil {
		return err
	}
	defer func() { // also if a cost function, a store or a hook panics: otherwise the place would be lost for good
		if v.release == nil {
			release()
		}
	}()
	if err = v.charge(r); err != nil || !v.res.Allowed {
		return err
	}
	if len(v.terms.plans) == 0 {
		v.res = Result{Allowed: true, Limit: rule.Concurrency, Plan: rule.Name + slotsSuffix}
		if places, ok := rule.slots.Statistics(foldKey(v.key)); ok {
			v.res.Remaining = places.Available
		}
	}
	v.release = release
	return nil
}

func (v *verdict) patience() time.Duration {
	if v.rule.Wait == 0 || v.shadow {
		return 0
	}
	return max(0, v.rule.Wait-v.door.clk.Since(v.begun))
}

// charge charges the plans. If they deny, it tries again as long as the rule lets the request wait, each time when the
// last answer said that there would be tokens. Requests of one key wait in line, so that only the first asks the store
// and the others follow in turn. A request that finds nobody in line asks at once, also while others do the same,
// because one after another would be slow with a store that is far away.
func (v *verdict) charge(r *http.Request) error {
	ctx, rule, a := r.Context(), v.rule, v.door.cfg.Admitter
	req := request{foldKey(v.key), v.terms.plans, rule.tokens(r), rule.OnError}
	if rule.line == nil || v.shadow {
		return a.decide(ctx, &req, &v.res)
	}
	if line, ok := rule.line.Statistics(req.key); !ok || line.InUse == 0 {
		if err := a.decide(ctx, &req, &v.res); err != nil || v.settled() {
			return err
		}
	}
	leave, err := rule.line.AcquireRelease(ctx, req.key, 1, v.patience())
	if errors.Is(err, limit.ErrLimited) {
		return v.stillInLine(ctx, &req)
	} else if err != nil {
		return err
	}
	defer leave()
	for {
		if err := a.decide(ctx, &req, &v.res); err != nil || v.settled() {
			return err
		}
		if err := clock.Sleep(ctx, v.door.clk, v.res.Wait); err != nil {
			return err
		}
	}
}

// settled reports whether the request was allowed, or waiting as long as it may would not help.
func (v *verdict) settled() bool {
	return v.res.Allowed || v.res.Wait <= 0 || v.res.Wait > v.patience()
}

// stillInLine decides a request that waited in line for too long: it is denied. It looks at the plans for the headers
// and the time to wait, but takes nothing.
func (v *verdict) stillInLine(ctx context.Context, req *request) error {
	req.tokens = 0
	err := v.door.cfg.Admitter.decide(ctx, req, &v.res)
	if err != nil || v.res.unknown() {
		return err
	}
	_, wait := v.res.told(v.terms.planOf(&v.res))
	v.res.Allowed, v.res.Reason, v.res.Wait = false, ReasonLimited, max(busyWait, wait)
	return nil
}

func (r *compiledRule) tokens(req *http.Request) int64 {
	switch {
	case r.cost != nil:
		if n := r.cost(req); n >= 0 {
			return n
		}
	case r.Cost > 0:
		return r.Cost
	}
	return 1
}

func (v *verdict) denial(r *http.Request) Denial {
	return Denial{
		RateLimited: true, Rule: v.rule.Name, Status: v.res.Status(),
		Method: r.Method, Path: r.URL.Path, Key: v.key, Result: v.res,
	}
}

// record passes the denial to the hook and the log. Without them it does nothing: the more requests are denied, the
// less each should cost.
func (v *verdict) record(r *http.Request) {
	cfg := &v.door.cfg
	logs := cfg.Log.Enabled(r.Context(), slog.LevelInfo)
	if cfg.OnDenied == nil && !logs {
		return
	}
	record := v.denial(r)
	if v.shadow {
		record.RateLimited, record.Shadow, record.Result.Reason = false, true, ReasonShadow
	}
	if cfg.OnDenied != nil {
		cfg.OnDenied(record)
	}
	if logs {
		v.rule.denials.Denied(r.Context(), cfg.Log, v.door.clk, "request", record)
	}
}

func (v *verdict) refuse(w http.ResponseWriter, r *http.Request) {
	if after := v.res.retryAfter(); after != "" {
		w.Header()["Retry-After"] = []string{after}
	}
	if v.door.cfg.Deny != nil {
		v.door.cfg.Deny(w, r, v.denial(r))
		return
	}
	v.res.problem().write(w)
}
