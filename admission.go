package crawl

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/service"
)

// AdmitPlan is a limit: how many requests at once, and how many in the long run.
type AdmitPlan struct {
	// Name identifies the plan: 1 to 64 letters, digits, '.', '_' and '-'. Required.
	Name string
	// Kind is "token-bucket", "fixed-window" or "sliding-window". Empty means token-bucket.
	Kind string
	// Capacity is how many tokens a bucket holds or a window admits: 1 to 1<<40.
	Capacity int64
	// TokensPerSecond is the refill rate of a bucket: 1e-9 to 1e9. Zero for a window.
	TokensPerSecond float64
	// Window is the length of a window, in whole microseconds: 1ms to 366 days. Zero for a bucket.
	Window time.Duration
}

// AdmitRule says which requests are limited by which plans, and by which key they are counted. The first rule that
// matches a request decides. A request that no rule matches is admitted.
type AdmitRule struct {
	// Name identifies the rule, in the form of a plan's name. Required.
	Name string
	// Path is a pattern: "*" matches a segment or a part of one, "**" any number of segments, also none. A rule matches
	// if its pattern matches one of the ways in which a handler may read the path. Required.
	Path string
	// Methods are in capitals; "GET" includes HEAD. Nil means all.
	Methods []string
	// Key names what is counted: "ip", "user", "route", "global", "header:NAME", one of AdmitConfig.Keys, or several of
	// them joined by "+". Empty means "ip".
	//
	// A counted key is a text, used by [Admission.Remove] and in [Denial.Key]: "ip:192.0.2.1", "ip:2001:db8:1:2::/64",
	// "user:anna", "route:GET /pages", "global", "header:X-Api-Key:VALUE", or "key:NAME:VALUE" for one of Keys. Several
	// are "all:" and each of them after its length, such as "all:9:user:anna12:ip:192.0.2.1".
	Key string
	// Plans are the names of the plans that are charged, all or none. Rules that name the same plan share its counts.
	// It may be nil only if Concurrency is set.
	Plans []string
	// Cost is how many tokens a request costs. Zero means 1.
	Cost int64
	// CostBy is the name of a function in AdmitConfig.Costs that returns the cost. Empty means Cost.
	CostBy string
	// Concurrency is how many requests of one key may be under way in this process, from their admission until their
	// handler returns: up to 1<<24. Zero means any number.
	Concurrency int64
	// Wait is how long a request may wait to be admitted, up to an hour. At most 128 requests of a key wait, and they
	// are admitted in order. Zero means that none waits.
	Wait time.Duration
	// Shadow counts and reports what the rule would deny, and denies nothing.
	Shadow bool
	// OnError is "open" or "closed"; see AdmitConfig.OnError. Empty means the value of that.
	OnError string
}

// AdmitResult is a decision.
type AdmitResult struct {
	Allowed   bool  `json:"allowed"`   // false if the request is over a limit
	Limit     int64 `json:"limit"`     // capacity of the plan in tokens; zero if no plan was asked
	Remaining int64 `json:"remaining"` // whole tokens left right after the decision, 0 to Limit
	// Wait is how long until the same request would be allowed if no other came. Zero if it is allowed; the largest
	// Duration if time alone does not help.
	Wait  time.Duration `json:"wait_ns"`
	Reset time.Duration `json:"reset_ns"`       // until all that was used is available again; zero if it is now
	Plan  string        `json:"plan,omitempty"` // the plan that decided, with the least left; empty for none
	// Reason is empty if there were enough tokens; otherwise LIMITED, TOO_LARGE (more than the plan can hold),
	// CONCURRENCY (too many at a time), SHADOW (would have been denied), or, while the store cannot be reached,
	// FALLBACK, FAIL_OPEN, FAIL_CLOSED or TIMEOUT.
	Reason string `json:"reason,omitempty"`
}

// AdmitStatistics counts decisions since the start.
type AdmitStatistics struct {
	Allowed      uint64 `json:"allowed"`       // admitted
	Denied       uint64 `json:"denied"`        // denied
	Failures     uint64 `json:"failures"`      // calls of the store that failed
	Fallbacks    uint64 `json:"fallbacks"`     // decided by this process because the store could not be reached
	Timeouts     uint64 `json:"timeouts"`      // denied because the store answered too late; it may have charged them
	FailedOpen   uint64 `json:"failed_open"`   // admitted because the store could not be reached
	FailedClosed uint64 `json:"failed_closed"` // denied because the store could not be reached
	Exempt       uint64 `json:"exempt"`        // requests that a rule matches, admitted by Exempt or Bypass
	Down         bool   `json:"down"`          // the store, or a part of it, cannot be reached
	// Rules are the present rules in order, with what each decided about requests.
	Rules []AdmitRuleStatistics `json:"rules,omitempty"`
}

// AdmitRuleStatistics counts what a rule decided about requests, since the start or since a rule of that name exists.
// Requests that an earlier rule decided are not counted. If handlers may read a path in two ways, two rules may decide
// about a request, and both count it.
type AdmitRuleStatistics struct {
	Rule     string `json:"rule"`     // its name
	Allowed  uint64 `json:"allowed"`  // requests admitted
	Denied   uint64 `json:"denied"`   // requests denied
	Shadowed uint64 `json:"shadowed"` // requests admitted by a Shadow rule that would have been denied
}

// Denial is the record of a denied request, or of one that a Shadow rule would have denied.
type Denial struct {
	RateLimited bool        `json:"rateLimited"`      // true if it was denied, false if a Shadow rule would have denied it
	Rule        string      `json:"rule"`             // name of the rule; empty for [Admission.Guard]
	Shadow      bool        `json:"shadow,omitempty"` // it would have been denied
	Status      int         `json:"status"`           // of the answer: 429, or 503 if the store is the reason
	Method      string      `json:"method"`           // of the request
	Path        string      `json:"path"`             // as it was sent, decoded
	Key         string      `json:"-"`                // what was counted, as [AdmitRule] writes it; it may be secret or personal, so it is never in JSON or logs
	Result      AdmitResult `json:"result"`           // the decision
}

// LogValue is the record without the key.
func (d Denial) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Bool("rateLimited", d.RateLimited), slog.String("rule", d.Rule), slog.Bool("shadow", d.Shadow),
		slog.Int("status", d.Status), slog.String("method", d.Method), slog.String("path", d.Path),
		slog.String("plan", d.Result.Plan), slog.String("reason", d.Result.Reason), slog.Duration("wait", d.Result.Wait),
	)
}

// ErrDenied is wrapped by the errors of denied calls.
var ErrDenied = admission.ErrDenied

// DeniedError is the error of [Admission.Guard] for a call that is over its limit. It is [ErrDenied].
type DeniedError struct {
	Result AdmitResult // Wait says when to try again
}

// Error says which plan denied, why, and for how long.
func (e *DeniedError) Error() string {
	r := &e.Result
	inner := admission.DeniedError{Result: admission.Result{Plan: r.Plan, Reason: admission.Reason(r.Reason), Wait: r.Wait}}
	return inner.Error()
}

// Is reports whether target is ErrDenied.
func (e *DeniedError) Is(target error) bool { return target == ErrDenied }

// AdmitConfig configures [Admit]. The zero AdmitConfig has the rules of an API with accounts, keeps its counts in
// memory, and denies with status 429.
type AdmitConfig struct {
	// Plans are the limits, Rules say to which requests they apply, and Exclude has paths that are not limited, such as
	// "/health" and "OPTIONS /**". Nil Rules mean rules for an API with accounts: 5 logins a minute (/api/auth/login)
	// and 3 registrations an hour (/api/auth/register) per address, 10 changes a minute below /api/blog and 100
	// requests a minute below /api per user, or per address if the user is not known. A nil Exclude then means the
	// paths that belong to them. An empty list of Rules limits nothing.
	Plans   []AdmitPlan
	Rules   []AdmitRule
	Exclude []string
	// File is where plans, rules and exclusions are kept, as JSON or YAML by its ending. If the file exists, it
	// replaces the three fields above; if not, it is written when an administrator changes something. Empty means no
	// file.
	File string

	// Store is where counts are kept: "memory"; "sqlite:" and the name of a file, which outlives the process and may be
	// shared by processes of one computer; or a URL that begins with "redis://" or "rediss://", for processes on any
	// computers. While SQLite or Redis cannot be reached, this process decides alone, unless OnError is "closed". Empty
	// means memory.
	Store string
	// Processes is how many processes share the Store. While it cannot be reached, each of them admits its part of a
	// limit per whole window, and charges the Store with that afterwards. Zero means 1: if more processes share the
	// Store, each then admits the whole limit, and the Log says so once.
	Processes int
	// Process is the number of this process, from 1 to Processes. If a limit is below Processes, while the Store cannot
	// be reached the processes admit requests in turn; with different numbers they stay within the limit in every whole
	// window. Zero means a random number, with which they do so on average.
	Process int
	// Deadline is how long a decision of SQLite or Redis may take, once Redis is connected. A request whose decision is
	// late is answered with status 503 and a Retry-After, because it may have been charged. After three in a row the
	// Store counts as unreachable. Zero means 250ms.
	Deadline time.Duration
	// Lease is how long tokens may be held in this process before they are used, up to 10s. It saves most calls of
	// Redis; a bucket then may admit its rate times Lease more at once. Zero means that none are held.
	Lease time.Duration
	// OnError is what happens to requests while the Store cannot be reached: with "open" this process admits its part
	// of each limit, with "closed" it answers 503 with a Retry-After and the reason FAIL_CLOSED. A rule may have its
	// own. Empty means open.
	OnError string

	// Trusted are the proxies whose X-Forwarded-For and X-Real-IP are believed. Nil means none: the address of the
	// connection counts.
	Trusted []netip.Prefix
	// Principal returns the user of a request, or an empty string, for which the address counts. Nil means that no user
	// is known.
	Principal func(*http.Request) string
	// Keys are functions that return what is counted, by the name that rules use. The values of each function are
	// counted apart from those of others. A request for which a function returns an empty string is counted by its
	// address. Nil means only "ip", "user", "route", "global" and "header:NAME".
	Keys map[string]func(*http.Request) (string, error)
	// Costs are functions that return what a request costs, by the name that rules use. Nil means none.
	Costs map[string]func(*http.Request) int64

	// Bypass are secrets of 16 bytes or more; a request with one of them in its header X-RateLimit-Bypass is not
	// limited. Nil means none.
	Bypass []string
	// Exempt, if set, reports whether a request is not limited, such as one of a monitor or a partner. It must be safe
	// for concurrent use. Nil means that none is.
	Exempt func(*http.Request) bool
	// Headers is which headers tell clients what is left: "both", "legacy" (X-RateLimit-Limit, -Remaining, -Reset in
	// seconds from now, and -Policy such as "100;w=60"), "ietf" (RateLimit and RateLimit-Policy), "epoch" (both, but
	// X-RateLimit-Reset is the Unix time), or "none". Retry-After is always sent. Empty means both.
	Headers string
	// Shadow counts and reports what would be denied by any rule, and denies nothing.
	Shadow bool
	// Deny, if set, writes the answer of a denial, with the Denial's Status. Nil writes a problem document (RFC 9457).
	Deny func(w http.ResponseWriter, r *http.Request, d Denial)
	// OnDenied, if set, is called with every denial on the goroutine of the request. It must not block;
	// [Admission.Subscribe] is for functions that may. Nil means none.
	OnDenied func(Denial)
	// Log receives a line when a rule begins to deny, one when it stops, with the number it denied, and one for each
	// change of the rules or of whether the Store can be reached. Nil means none.
	Log *slog.Logger
	// AdminToken is the secret of 16 bytes or more for [Admission.Admin]. Empty means that Admin refuses every request.
	AdminToken string
}

// Admission limits the requests to a service. Its methods are safe for concurrent use.
type Admission struct{ inner *service.Service }

// Admit returns the limits of a service: wrap the service's handler with [Admission.Handler], and call
// [Admission.Close] when the service has ended. The error names the field and says how to mend it, or names the place
// in the file.
//
// With SQLite it starts a goroutine that cleans up once an hour; with Redis it begins to connect. Close ends both.
func Admit(cfg AdmitConfig) (*Admission, error) {
	s, err := service.New(cfg.inner())
	if err != nil {
		return nil, err
	}
	return &Admission{s}, nil
}

func (c *AdmitConfig) inner() service.Config {
	in := service.Config{
		Plans: each(c.Plans, planOf), Rules: each(c.Rules, ruleOf), Exclude: c.Exclude, File: c.File, Store: c.Store,
		Processes: c.Processes, Process: c.Process, Deadline: c.Deadline, Lease: c.Lease, OnError: admission.OnError(c.OnError),
		AdminToken: c.AdminToken,
		RuleSet:    admission.RuleSetConfig{Trusted: c.Trusted, Principal: c.Principal, Costs: c.Costs, Keys: make(map[string]admission.KeyFunc, len(c.Keys))},
		Middleware: admission.MiddlewareConfig{Bypass: c.Bypass, Exempt: c.Exempt, Headers: admission.Headers(c.Headers), Shadow: c.Shadow, Log: c.Log},
	}
	for name, key := range c.Keys {
		in.RuleSet.Keys[name] = key
	}
	if deny := c.Deny; deny != nil {
		in.Middleware.Deny = func(w http.ResponseWriter, r *http.Request, d admission.Denial) { deny(w, r, denialOf(&d)) }
	}
	if tell := c.OnDenied; tell != nil {
		in.Middleware.OnDenied = func(d admission.Denial) { tell(denialOf(&d)) }
	}
	return in
}

func planOf(p *AdmitPlan) admission.Plan {
	return admission.Plan{Name: p.Name, Kind: admission.Kind(p.Kind), Capacity: p.Capacity, TokensPerSecond: p.TokensPerSecond, Window: p.Window}
}

func ruleOf(r *AdmitRule) admission.Rule {
	return admission.Rule{
		Name: r.Name, Path: r.Path, Methods: r.Methods, Key: r.Key, Plans: r.Plans, Cost: r.Cost, CostBy: r.CostBy,
		Concurrency: r.Concurrency, Wait: r.Wait, Shadow: r.Shadow, OnError: admission.OnError(r.OnError),
	}
}

func admitResultOf(r *admission.Result) AdmitResult {
	return AdmitResult{
		Allowed: r.Allowed, Limit: r.Limit, Remaining: r.Remaining, Wait: r.Wait, Reset: r.Reset, Plan: r.Plan, Reason: string(r.Reason),
	}
}

func denialOf(d *admission.Denial) Denial {
	return Denial{
		RateLimited: d.RateLimited, Rule: d.Rule, Shadow: d.Shadow, Status: d.Status, Method: d.Method, Path: d.Path,
		Key: d.Key, Result: admitResultOf(&d.Result),
	}
}

// Handler applies the limits in front of next. The ResponseWriter that next gets is the server's own, so Flush, Hijack
// and the like work.
func (a *Admission) Handler(next http.Handler) http.Handler { return a.inner.Handler(next) }

// Allow charges tokens to key under plans, all or none, and returns the decision. Zero tokens charge nothing. A denial
// is no error.
func (a *Admission) Allow(ctx context.Context, key string, plans []string, tokens int64) (AdmitResult, error) {
	res, err := a.inner.Allow(ctx, key, plans, tokens)
	return admitResultOf(&res), err
}

// Guard calls fn and returns its error if key may be charged tokens under plans, all or none; otherwise it returns a
// [*DeniedError] at once. It limits work that is no HTTP request, such as sending a mail. Its denials are reported like
// those of requests, with no rule, method or path.
func (a *Admission) Guard(ctx context.Context, key string, plans []string, tokens int64, fn func(context.Context) error) error {
	var own error // of fn, which may have been denied by another guard: that error is its own
	err := a.inner.Guard(ctx, key, plans, tokens, func(ctx context.Context) error {
		own = fn(ctx)
		return own
	})
	if refused, ok := errors.AsType[*admission.DeniedError](err); ok && own == nil {
		return &DeniedError{admitResultOf(&refused.Result)}
	}
	return err
}

// Remove deletes the counts of key under all plans, in every store. The key is the one given to [Admission.Allow], or
// of requests the text that [AdmitRule] describes, such as "user:anna" or, if the user is not known, "ip:192.0.2.1". An
// unknown key, also a misspelled one, is no error; [Admission.RemoveWhere] says how many it found.
func (a *Admission) Remove(ctx context.Context, key string) error { return a.inner.Remove(ctx, key) }

// RemoveWhere deletes the counts of all keys for which match returns true, and returns their number, also with an
// error. A key longer than 256 bytes is only known by its digest, "sha256:…". It looks at every stored key and may call
// match twice for one, so it is for operators and not for requests.
func (a *Admission) RemoveWhere(ctx context.Context, match func(key string) bool) (int, error) {
	return a.inner.RemoveWhere(ctx, match)
}

// Subscribe calls fn with every denial, and with each that a Shadow rule would have made. It is for traces, counters
// and dashboards: fn may block, because it is called on a goroutine of its own, in the order of the denials. A thousand
// denials may wait for it; further ones are dropped and counted by [Admission.Dropped]. A panic of fn ends only that
// call.
//
// After off has returned, fn is not called again, though a call may still run. fn may subscribe and unsubscribe; it
// must not call [Admission.Close], which waits for it.
func (a *Admission) Subscribe(fn func(Denial)) (off func()) {
	return a.inner.Subscribe(func(d admission.Denial) { fn(denialOf(&d)) })
}

// Dropped is how many denials subscribers did not get because too many waited.
func (a *Admission) Dropped() uint64 { return a.inner.Dropped() }

// Admin returns the endpoint that shows and changes plans and rules at run time: GET of /plans, /rules and /statistics,
// PUT and DELETE of /plans/{name} and /rules/{name}, PUT of /rules for all of them, and DELETE of /keys/{key}. Requests
// need the AdminToken as a bearer token; without an AdminToken all are refused. Bodies are JSON in the form of the
// File, which changes are written to, if there is one. Mount it with http.StripPrefix.
func (a *Admission) Admin() http.Handler { return a.inner.Admin() }

// Reload reads the File again and replaces plans and rules, all of them or, if it returns an error, none. Counts stay.
func (a *Admission) Reload() error { return a.inner.Reload() }

// Statistics returns what was decided so far.
func (a *Admission) Statistics() AdmitStatistics {
	s := a.inner.Statistics()
	return AdmitStatistics{
		Allowed: s.Allowed, Denied: s.Denied, Failures: s.Failures, Fallbacks: s.Fallbacks, Timeouts: s.Timeouts,
		FailedOpen: s.FailedOpen, FailedClosed: s.FailedClosed, Exempt: s.Exempt, Down: s.Down,
		Rules: each(s.Rules, func(r *admission.RuleStatistics) AdmitRuleStatistics { return AdmitRuleStatistics(*r) }),
	}
}

// Close ends the goroutines, after subscribers got all denials, and closes the store. OnError then decides about
// requests. It may be called again.
func (a *Admission) Close() error { return a.inner.Close() }
