package admit

import (
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/treadlight/crawl/internal/admission"
)

// Plan is a limit: how many requests at once, and how many in the long run. Its fields are Name, 1 to 64 letters, digits,
// '.', '_' and '-', required; Kind, "token-bucket", "fixed-window" or "sliding-window", of which the first is the default;
// Capacity, what a bucket holds or a window admits, 1 to 1<<40; TokensPerSecond, the refill rate of a bucket, 1e-9 to
// 1e9, zero for a window; and Window, its length in whole microseconds, 1ms to 366 days, zero for a bucket.
type Plan = admission.Plan

// Rule says which requests are limited by which plans, and by which key they are counted. The first rule that matches a
// request decides. A request that no rule matches is admitted. Its fields are
//
//   - Name, in the form of a plan's name. Required.
//   - Path, a pattern: "*" matches a segment or a part of one, "**" any number of segments, also none. A rule matches if
//     its pattern matches one of the ways in which a handler may read the path. Required.
//   - Methods, in capitals; "GET" includes HEAD. Nil means all.
//   - Key, what is counted: "ip", "user", "route", "global", "header:NAME", one of Config.Keys, or several of them joined
//     by "+". Empty means "ip". A counted key is a text, used by [Limiter.Remove] and in [Denial]: "ip:192.0.2.1",
//     "ip:2001:db8:1:2::/64", "user:anna", "route:GET /pages", "global", "header:X-Api-Key:VALUE", or "key:NAME:VALUE" for
//     one of Keys. Several are "all:" and each of them after its length, such as "all:9:user:anna12:ip:192.0.2.1".
//   - Plans, the names of the plans that are charged, all or none. Rules that name the same plan share its counts. It may
//     be nil only if Concurrency is set.
//   - Cost, how many tokens a request costs; zero means 1. CostBy, the name of a function in Config.Costs that returns it;
//     empty means Cost.
//   - Concurrency, how many requests of one key may be under way in this process, from their admission until their
//     handler returns: up to 1<<24. Zero means any number.
//   - Wait, how long a request may wait to be admitted, up to an hour. At most 128 requests of a key wait, and they are
//     admitted in order. Zero means that none waits.
//   - Shadow, which counts and reports what the rule would deny, and denies nothing.
//   - OnError, "open" or "closed". Empty means Config.OnError.
type Rule = admission.Rule

// Result is a decision: Allowed; the Limit in tokens of the Plan that decided, the one with the least left, and how many
// whole tokens are Remaining; Wait, how long until the same request would be allowed if no other came, zero if it is
// allowed, the largest Duration if time alone does not help; and Reset, until all that was used is available again. Limit
// is zero and Plan empty if no plan was asked.
//
// Reason is empty if there were enough tokens; otherwise LIMITED, TOO_LARGE (more than the plan can hold), CONCURRENCY
// (too many at a time), SHADOW (would have been denied), or, while the store cannot be reached, FALLBACK, FAIL_OPEN,
// FAIL_CLOSED or TIMEOUT.
type Result = admission.Result

// Denial is the record of a denied request, or of one that a Shadow rule would have denied: then RateLimited is false and
// Shadow true. Rule is the name of the rule, empty for [Limiter.Guard]; Status that of the answer, 429, or 503 if the store
// is the reason; Method and Path those of the request, the path decoded; Result the decision. Key is what was counted, as
// [Rule] writes it: it may be secret or personal, so it is in no JSON and no log.
type Denial = admission.Denial

// ErrDenied is wrapped by the errors of denied calls.
var ErrDenied = admission.ErrDenied

// DeniedError is the error of [Limiter.Guard] for a call that is over its limit. The Wait of its Result says when to try
// again. It is [ErrDenied].
type DeniedError = admission.DeniedError

// Statistics counts decisions since the start: Allowed and Denied; Failures, calls of the store that failed; Fallbacks,
// decided by this process because the store could not be reached; Timeouts, denied because the store answered too late,
// so that it may have charged them; FailedOpen and FailedClosed, admitted and denied because the store could not be
// reached; and Exempt, requests that a rule matches, admitted by Exempt or Bypass. Down says that the store, or a part of
// it, cannot be reached. Rules are the present rules in order, with what each decided.
type Statistics = admission.Statistics

// RuleStatistics counts the requests that a Rule, by its name, has Allowed, Denied, and Shadowed, which means admitted
// although they would have been denied, since the start or since a rule of that name exists. Requests that an earlier
// rule decided are not counted. If handlers may read a path in two ways, two rules may decide about a request, and both
// count it.
type RuleStatistics = admission.RuleStatistics

// OnError is what happens while the store cannot be reached: "open" or "closed".
type OnError = admission.OnError

// Headers is which headers tell clients what is left: "both", "legacy", "ietf", "epoch" or "none"; see [Config].
type Headers = admission.Headers

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
	OnError OnError

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
	Headers Headers
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
