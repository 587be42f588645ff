package admit

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/treadlight/crawl/internal/admission"
)

// Plan is a limit: how many requests at once, and how many in the long run.
type Plan struct {
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

// Rule says which requests are limited by which plans, and by which key they are counted. The first rule that
// matches a request decides. A request that no rule matches is admitted.
type Rule struct {
	// Name identifies the rule, in the form of a plan's name. Required.
	Name string
	// Path is a pattern: "*" matches a segment or a part of one, "**" any number of segments, also none. A rule matches
	// if its pattern matches one of the ways in which a handler may read the path. Required.
	Path string
	// Methods are in capitals; "GET" includes HEAD. Nil means all.
	Methods []string
	// Key names what is counted: "ip", "user", "route", "global", "header:NAME", one of Config.Keys, or several of
	// them joined by "+". Empty means "ip".
	//
	// A counted key is a text, used by [Limiter.Remove] and in [Denial.Key]: "ip:192.0.2.1", "ip:2001:db8:1:2::/64",
	// "user:anna", "route:GET /pages", "global", "header:X-Api-Key:VALUE", or "key:NAME:VALUE" for one of Keys. Several
	// are "all:" and each of them after its length, such as "all:9:user:anna12:ip:192.0.2.1".
	Key string
	// Plans are the names of the plans that are charged, all or none. Rules that name the same plan share its counts.
	// It may be nil only if Concurrency is set.
	Plans []string
	// Cost is how many tokens a request costs. Zero means 1.
	Cost int64
	// CostBy is the name of a function in Config.Costs that returns the cost. Empty means Cost.
	CostBy string
	// Concurrency is how many requests of one key may be under way in this process, from their admission until their
	// handler returns: up to 1<<24. Zero means any number.
	Concurrency int64
	// Wait is how long a request may wait to be admitted, up to an hour. At most 128 requests of a key wait, and they
	// are admitted in order. Zero means that none waits.
	Wait time.Duration
	// Shadow counts and reports what the rule would deny, and denies nothing.
	Shadow bool
	// OnError is "open" or "closed"; see Config.OnError. Empty means the value of that.
	OnError string
}

// Result is a decision.
type Result struct {
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

// Statistics counts decisions since the start.
type Statistics struct {
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
	Rules []RuleStatistics `json:"rules,omitempty"`
}

// RuleStatistics counts what a rule decided about requests, since the start or since a rule of that name exists.
// Requests that an earlier rule decided are not counted. If handlers may read a path in two ways, two rules may decide
// about a request, and both count it.
type RuleStatistics struct {
	Rule     string `json:"rule"`     // its name
	Allowed  uint64 `json:"allowed"`  // requests admitted
	Denied   uint64 `json:"denied"`   // requests denied
	Shadowed uint64 `json:"shadowed"` // requests admitted by a Shadow rule that would have been denied
}

// Denial is the record of a denied request, or of one that a Shadow rule would have denied.
type Denial struct {
	RateLimited bool   `json:"rateLimited"`      // true if it was denied, false if a Shadow rule would have denied it
	Rule        string `json:"rule"`             // name of the rule; empty for [Limiter.Guard]
	Shadow      bool   `json:"shadow,omitempty"` // it would have been denied
	Status      int    `json:"status"`           // of the answer: 429, or 503 if the store is the reason
	Method      string `json:"method"`           // of the request
	Path        string `json:"path"`             // as it was sent, decoded
	Key         string `json:"-"`                // what was counted, as [Rule] writes it; it may be secret or personal, so it is never in JSON or logs
	Result      Result `json:"result"`           // the decision
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
var ErrDenied = errors.New("denied by a limit")

// DeniedError is the error of [Limiter.Guard] for a call that is over its limit. It is [ErrDenied].
type DeniedError struct {
	Result Result // Wait says when to try again
}

// Error says which plan denied, why, and for how long.
func (e *DeniedError) Error() string {
	r := &e.Result
	if r.Wait == admission.Never || r.Wait == 0 {
		return fmt.Sprintf("denied by plan %q: %s", r.Plan, r.Reason)
	}
	return fmt.Sprintf("denied by plan %q: %s, try again in %v", r.Plan, r.Reason, r.Wait)
}

// Is reports whether target is ErrDenied.
func (e *DeniedError) Is(target error) bool { return target == ErrDenied }

// Config configures a [Limiter]. The zero Config has the rules of an API with accounts, keeps its counts in memory, and
// denies with status 429.
type Config struct {
	// Plans are the limits, Rules say to which requests they apply, and Exclude has paths that are not limited, such as
	// "/health" and "OPTIONS /**". Nil Rules mean rules for an API with accounts: 5 logins a minute (/api/auth/login)
	// and 3 registrations an hour (/api/auth/register) per address, 10 changes a minute below /api/blog and 100
	// requests a minute below /api per user, or per address if the user is not known. A nil Exclude then means the
	// paths that belong to them. An empty list of Rules limits nothing.
	Plans   []Plan
	Rules   []Rule
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
	// [Limiter.Subscribe] is for functions that may. Nil means none.
	OnDenied func(Denial)
	// Log receives a line when a rule begins to deny, one when it stops, with the number it denied, and one for each
	// change of the rules or of whether the Store can be reached. Nil means none.
	Log *slog.Logger
	// AdminToken is the secret of 16 bytes or more for [Limiter.Admin]. Empty means that Admin refuses every request.
	AdminToken string
}
