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

// AdmitPlan is a limit: so much at once, and so much in the long run.
type AdmitPlan struct {
	// Name is its identity: 1 to 64 letters, digits, '.', '_' and '-'. Empty is an error.
	Name string
	// Kind is "token-bucket", "fixed-window" or "sliding-window". Empty means token-bucket.
	Kind string
	// Capacity is what a bucket holds, or what a window admits, in tokens: 1 to 1<<40.
	Capacity int64
	// TokensPerSecond is how fast a bucket refills: 1e-9 to 1e9. Zero for a window.
	TokensPerSecond float64
	// Window is the length of a window: whole microseconds, 1ms to 366 days. Zero for a bucket.
	Window time.Duration
}

// AdmitRule says which requests are limited, by which plans, and who is counted. The first rule that matches a request
// counts, and those behind it are not asked; none, and it is let in.
type AdmitRule struct {
	// Name is its identity, as a plan's is. Empty is an error.
	Name string
	// Path is a pattern: "*" is one segment or a part of one, "**" any number of segments, none included. A request is
	// matched by every way in which a handler may read its path. Empty is an error.
	Path string
	// Methods are in capitals; "GET" is for HEAD too. Nil means all.
	Methods []string
	// Key names who is counted: "ip", "user", "route", "global", "header:NAME", one of AdmitConfig.Keys, or several of
	// them joined by "+". Empty means "ip".
	//
	// What is counted is a text that says what it is of, for [Admission.Remove] and in [Denial.Key]: "ip:192.0.2.1",
	// "ip:2001:db8:1:2::/64", "user:anna", "route:GET /pages", "global", "header:X-Api-Key:VALUE", "key:NAME:VALUE" for one of
	// Keys, and for several "all:" and each behind its length, such as "all:9:user:anna12:ip:192.0.2.1".
	Key string
	// Plans are the names of plans that are charged, all or none. Rules that name the same plan charge the same account.
	// Nil needs a Concurrency.
	Plans []string
	// Cost is what a request is charged, in tokens. Zero means 1.
	Cost int64
	// CostBy is the function of AdmitConfig.Costs that tells it. Empty means Cost.
	CostBy string
	// Concurrency is how many requests of one key may be under way in this process, from their admission until their
	// handler returns: up to 1<<24. Zero means any number.
	Concurrency int64
	// Wait is for how long a request may wait for its turn, up to an hour; those of a key in the order in which they
	// came, and no more than 128. Zero means that nobody waits.
	Wait time.Duration
	// Shadow counts and tells what would be denied, and denies nothing. False means that it denies.
	Shadow bool
	// OnError is "open" or "closed", see AdmitConfig.OnError. Empty means what that says.
	OnError string
}

// AdmitResult is a decision.
type AdmitResult struct {
	Allowed   bool  `json:"allowed"`   // false: the request is over a limit
	Limit     int64 `json:"limit"`     // capacity of the plan, in tokens; zero if no plan was asked
	Remaining int64 `json:"remaining"` // whole tokens that could be taken right after the decision, 0 to Limit
	// Wait is how long until the same question would be allowed if nobody else came. Zero if it was, and the longest
	// Duration if time alone does not help.
	Wait  time.Duration `json:"wait_ns"`
	Reset time.Duration `json:"reset_ns"`       // until nothing that was used counts any more; zero means it is so now
	Plan  string        `json:"plan,omitempty"` // the tightest plan, which all this is about; empty for none
	// Reason is empty if there were tokens; else LIMITED, TOO_LARGE (more than the plan ever holds), CONCURRENCY (too
	// many at a time), SHADOW (would have been denied), or, while the store is out of reach, FALLBACK, FAIL_OPEN,
	// FAIL_CLOSED and TIMEOUT.
	Reason string `json:"reason,omitempty"`
}

// AdmitStatistics counts decisions since the start.
type AdmitStatistics struct {
	Allowed      uint64 `json:"allowed"`       // let in, whoever decided
	Denied       uint64 `json:"denied"`        // kept out, whoever decided
	Failures     uint64 `json:"failures"`      // questions that the store did not answer
	Fallbacks    uint64 `json:"fallbacks"`     // decided by this process, as the store was out of reach
	Timeouts     uint64 `json:"timeouts"`      // kept out, since the store answered too late and may have charged
	FailedOpen   uint64 `json:"failed_open"`   // let in because nothing answered
	FailedClosed uint64 `json:"failed_closed"` // kept out because nothing answered
	Exempt       uint64 `json:"exempt"`        // requests that a rule is for, and that Exempt or Bypass let by
	Down         bool   `json:"down"`          // the store, or a part of it, is out of reach
	// Rules are the present rules in their order, and what each has decided of requests.
	Rules []AdmitRuleStatistics `json:"rules,omitempty"`
}

// AdmitRuleStatistics is what a rule has decided of requests, since the start or since there is one of that name. Those
// of rules that come after another that matched are not counted. A path that handlers may read in two ways can have two first
// rules: both are asked, and count it.
type AdmitRuleStatistics struct {
	Rule     string `json:"rule"`     // its name
	Allowed  uint64 `json:"allowed"`  // requests let in
	Denied   uint64 `json:"denied"`   // requests denied
	Shadowed uint64 `json:"shadowed"` // requests let in that would have been denied: the rule only looks on
}

// Denial is the record of a denied request, or of what a rule that only looks on would have denied.
type Denial struct {
	RateLimited bool        `json:"rateLimited"`      // it was denied; false if the rule only looks on
	Rule        string      `json:"rule"`             // name of the rule; empty for a [Admission.Guard]
	Shadow      bool        `json:"shadow,omitempty"` // it would have been denied
	Status      int         `json:"status"`           // of the answer: 429, or 503 when that is the server's trouble
	Method      string      `json:"method"`           // of the request
	Path        string      `json:"path"`             // as it came, decoded
	Key         string      `json:"-"`                // who was counted, as [AdmitRule] spells it, which may be a secret or personal: never in JSON or logs
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

// ErrDenied is what the errors of denied calls are.
var ErrDenied = admission.ErrDenied

// DeniedError is the error of [Admission.Guard] for a call that is over its limit. It is an [ErrDenied].
type DeniedError struct {
	Result AdmitResult // Wait says when to come again
}

// Error says which plan denied, why, and for how long.
func (e *DeniedError) Error() string {
	r := &e.Result
	inner := admission.DeniedError{Result: admission.Result{Plan: r.Plan, Reason: admission.Reason(r.Reason), Wait: r.Wait}}
	return inner.Error()
}

// Is reports whether target is ErrDenied.
func (e *DeniedError) Is(target error) bool { return target == ErrDenied }

// AdmitConfig says who may come in how often. The zero AdmitConfig is usable: it has the
// rules of an API with accounts, keeps its counts in memory, and denies with status 429.
type AdmitConfig struct {
	// Plans, Rules and Exclude are the limits, whom they are for, and the paths that cost nothing, such as "/health"
	// and "OPTIONS /**". Nil Rules are what an API with accounts begins with: 5 logins in a minute (/api/auth/login) and 3
	// registrations in an hour (/api/auth/register) of one address, 10 changes in a minute below /api/blog and 100 requests
	// in a minute below /api of one user, or one address where the user is not known; an Exclude that is nil is then
	// theirs too. A list of no rules is none.
	Plans   []AdmitPlan
	Rules   []AdmitRule
	Exclude []string
	// File is where plans, rules and exclusions are kept, in JSON or YAML by its name. If it
	// is there, it counts and the three above do not; if not, it is written when an
	// administrator changes something. Zero means that there is no file.
	File string

	// Store is where the counts are: "memory"; "sqlite:" and the name of a file, which outlives the process and may be
	// shared by several of one computer; or a URL that begins with "redis://" or "rediss://", for any number of
	// processes anywhere. While SQLite or Redis is out of reach, this process goes on by itself unless OnError is
	// "closed". Zero means memory.
	Store string
	// Processes is how many processes share the Store: while it is out of reach, each lets in its part of each limit
	// per whole window, and no more, and the Store is charged that when it is back. Zero means 1: four processes that
	// do not say so let in four times the limit then, and the Log says so once.
	Processes int
	// Process is which of the Processes this is, from 1 on. A limit below Processes is less than one for each of them;
	// while the Store is out of reach they take turns at it, and with numbers that differ let in no more than the
	// limit in any whole window. Zero means a number drawn at random: then they do so on average.
	Process int
	// Deadline is how long a decision of SQLite or Redis may take, once Redis is connected. A
	// request whose decision is late gets status 503 and a Retry-After, since it may have been
	// charged; after three in a row the Store counts as out of reach. Zero means 250ms.
	Deadline time.Duration
	// Lease is how long tokens may be held here before they are used, up to 10s, which saves most of the trips to
	// Redis; a bucket then admits up to its rate times Lease more at once. Zero means that nothing is held.
	Lease time.Duration
	// OnError is what happens to requests while the Store is out of reach: "open" has this
	// process decide by its part of each limit, "closed" answers 503 with Retry-After and the
	// reason FAIL_CLOSED. Rules may say it for themselves. Zero means open.
	OnError string

	// Trusted are the proxies whose X-Forwarded-For and X-Real-IP are believed. Zero means
	// none, and that the address of the connection counts.
	Trusted []netip.Prefix
	// Principal tells the user of a request, empty if there is none: then the address
	// counts. Zero means that nobody is known.
	Principal func(*http.Request) string
	// Keys are functions that say who is counted, by the names under which rules refer to them. Each counts apart from
	// all others; who has no such key, so that it says nothing, is counted by the address. Zero means none beside
	// "ip", "user", "route", "global" and "header:NAME".
	Keys map[string]func(*http.Request) (string, error)
	// Costs are functions that say what a request costs, by the names under which rules refer to them. Zero means none.
	Costs map[string]func(*http.Request) int64

	// Bypass is secrets of 16 bytes or more; a request that has one in its header
	// X-RateLimit-Bypass is not limited. Zero means none.
	Bypass []string
	// Exempt, if set, reports whether a request is not limited at all, such as one of a monitor or a partner. It must be
	// safe for concurrent use. Nil means that none is.
	Exempt func(*http.Request) bool
	// Headers tells clients what is left: "both", "legacy" (X-RateLimit-Limit, -Remaining, -Reset in seconds from now,
	// and -Policy such as "100;w=60"), "ietf" (RateLimit and RateLimit-Policy), "epoch" (both, but X-RateLimit-Reset
	// is the Unix time), or "none". Retry-After is there in any case. Zero means both.
	Headers string
	// Shadow counts and tells what would be denied, and denies nothing. False means that it denies.
	Shadow bool
	// Deny, if set, writes the answer of a denial with the Denial's Status. Zero means a problem document (RFC 9457).
	Deny func(w http.ResponseWriter, r *http.Request, d Denial)
	// OnDenied, if set, is told every denial by the goroutine of the request. It must not
	// block; [Admission.Subscribe] is for what may. Zero means that nobody is.
	OnDenied func(Denial)
	// Log has when a rule begins to deny and how many it denied when it has stopped, changes of the rules, and when the
	// Store goes out of reach and answers again: a line for each change, and none for each request. Zero means no log.
	Log *slog.Logger
	// AdminToken is the secret of 16 bytes or more of [Admission.Admin]. Zero means that there is no such endpoint.
	AdminToken string
}

// Admission limits the requests to a service. Its methods are safe for concurrent use.
type Admission struct{ inner *service.Service }

// Admit returns what limits the requests to a service of any kind: put
// [Admission.Handler] around the service's handler, and call [Admission.Close] when it has
// ended. Its errors name the field and the fix, or tell where in the file.
//
// With SQLite it starts a goroutine that cleans up once an hour, and with Redis it begins to connect; Close ends both.
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
		Trusted: c.Trusted, Principal: c.Principal, Keys: c.Keys, Costs: c.Costs, Bypass: c.Bypass, Exempt: c.Exempt,
		Headers: c.Headers, Shadow: c.Shadow, Log: c.Log, AdminToken: c.AdminToken,
	}
	if deny := c.Deny; deny != nil {
		in.Deny = func(w http.ResponseWriter, r *http.Request, d admission.Denial) { deny(w, r, denialOf(&d)) }
	}
	if tell := c.OnDenied; tell != nil {
		in.OnDenied = func(d admission.Denial) { tell(denialOf(&d)) }
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

// Handler puts the limits in front of next. The ResponseWriter that next gets is the
// server's own, so Flush, Hijack and the rest work.
func (a *Admission) Handler(next http.Handler) http.Handler { return a.inner.Handler(next) }

// Allow charges tokens to key under plans, all of them or none, and says what was decided.
// Zero tokens only look. A denial is no error.
func (a *Admission) Allow(ctx context.Context, key string, plans []string, tokens int64) (AdmitResult, error) {
	res, err := a.inner.Allow(ctx, key, plans, tokens)
	return admitResultOf(&res), err
}

// Guard calls fn if key may be charged tokens under plans, all of them or none, and returns its error; otherwise it
// returns a [*DeniedError] at once. It is for what is not a request: a mail sent, a job begun. Its denials are told as
// those of requests are, with no rule, method or path.
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

// Remove forgets what key has used under all plans, wherever that is kept: its next request finds all of them whole. The
// key is what [Admission.Allow] was given, or of requests as [AdmitRule] spells it, such as "user:anna". Not to know it is no error.
func (a *Admission) Remove(ctx context.Context, key string) error { return a.inner.Remove(ctx, key) }

// RemoveWhere does so for all keys of which match is true, and says how many, also with an error. A key longer than 256
// bytes is known by its digest only, "sha256:…". It looks at every key that is kept, and may ask match for one twice: it
// is for operators, not for requests.
func (a *Admission) RemoveWhere(ctx context.Context, match func(key string) bool) (int, error) {
	return a.inner.RemoveWhere(ctx, match)
}

// Subscribe has fn called with every denial, and with what a rule that only looks on would have denied. It is for
// traces, counters and dashboards: fn may be slow and may block, because it is called beside the requests, on one
// goroutine, in the order of the denials. A thousand of them wait for it; what comes beyond that is left out and
// counted by [Admission.Dropped]. A panic of fn ends that call only.
//
// After off has returned fn is not called again, though a call may still be running. fn may
// subscribe and unsubscribe; it must not call [Admission.Close], which waits for it.
func (a *Admission) Subscribe(fn func(Denial)) (off func()) {
	return a.inner.Subscribe(func(d admission.Denial) { fn(denialOf(&d)) })
}

// Dropped is how many denials found no place on their way to those who subscribed.
func (a *Admission) Dropped() uint64 { return a.inner.Dropped() }

// Admin is the endpoint by which plans and rules are looked at and changed at run time: GET of /plans, /rules and
// /statistics, PUT and DELETE of /plans/{name} and /rules/{name}, PUT of /rules for all of them, and DELETE of /keys/{key},
// with the token as a bearer token. Bodies are JSON as in the File, where changes are kept if there is one. Without an AdminToken everything is forbidden. Mount it with
// http.StripPrefix, where only administrators come.
func (a *Admission) Admin() http.Handler { return a.inner.Admin() }

// Reload reads the File again and puts its plans and rules in the place of the present
// ones, all of them or, if it returns an error, none. Counts stay.
func (a *Admission) Reload() error { return a.inner.Reload() }

// Statistics is what was decided so far.
func (a *Admission) Statistics() AdmitStatistics {
	s := a.inner.Statistics()
	return AdmitStatistics{
		Allowed: s.Allowed, Denied: s.Denied, Failures: s.Failures, Fallbacks: s.Fallbacks, Timeouts: s.Timeouts,
		FailedOpen: s.FailedOpen, FailedClosed: s.FailedClosed, Exempt: s.Exempt, Down: s.Down,
		Rules: each(s.Rules, func(r *admission.RuleStatistics) AdmitRuleStatistics { return AdmitRuleStatistics(*r) }),
	}
}

// Close ends what runs beside the requests, after those who subscribed have been told all denials, and closes the
// store. Requests that come later find no store, and are decided by OnError. It may be called again.
func (a *Admission) Close() error { return a.inner.Close() }
