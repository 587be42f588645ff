package crawl

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/service"
)

// AdmitPlan is a limit: Name (1 to 64 letters, digits, '.', '_' and '-'); Kind ("token-bucket", the default,
// "fixed-window" or "sliding-window"); Capacity, what a bucket holds or a window admits (1 to 1<<40); TokensPerSecond,
// the refill rate of a bucket (1e-9 to 1e9); and Window, the length of a window (1ms to 366 days).
type AdmitPlan = admission.Plan

// AdmitRule says which requests are limited, by which plans, and who is counted: Name; Path, a pattern
// with "*" and "**"; Methods (none: all); Key ("ip", "user", "route", "global", "header:NAME", one of
// AdmitConfig.Keys, or several joined by "+"); Plans; Cost in tokens (0: 1) or CostBy, a function of
// AdmitConfig.Costs; Concurrency, how many requests of a key may be under way (0: any number); Wait,
// for how long one may wait for its turn; Shadow and OnError as in AdmitConfig.
type AdmitRule = admission.Rule

// AdmitResult is a decision: Allowed, Limit, Remaining, Wait (until the same question would be allowed),
// Reset, and of the tightest plan its name (Plan) and the Reason.
type AdmitResult = admission.Result

// AdmitStatistics counts decisions since the start: Allowed, Denied, Failures of the store, Fallbacks,
// Timeouts, FailedOpen, FailedClosed, and Down while the store is out of reach.
type AdmitStatistics = admission.Statistics

// Denial is the record of a denied request: RateLimited (false if the rule only looks on), Rule, Shadow,
// Status, Method, Path, Key (never written to JSON or logs) and Result.
type Denial = admission.Denial

// DeniedError is the error of [Admission.Guard] for a call that is over its limit. It
// tells when to come again, and is an [ErrDenied].
type DeniedError = admission.DeniedError

// ErrDenied is what the errors of denied calls are.
var ErrDenied = admission.ErrDenied

// AdmitConfig says who may come in how often. The zero AdmitConfig is usable: it has the
// rules of [DefaultAdmitRules], keeps its counts in memory, and denies with status 429.
type AdmitConfig struct {
	// Plans, Rules and Exclude are the limits, whom they are for, and the paths that cost nothing, such as "/health"
	// and "OPTIONS /**". Without Rules those of DefaultAdmitRules hold, with its plans beside these and its Exclude if
	// there is none; a list of no rules is none.
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
	OnError admission.OnError

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

// DefaultAdmitRules is what an API with accounts needs to begin with: 5 logins in a minute and 3 registrations in an
// hour of one address, 10 posts in a minute and 100 requests in a minute of one user, or one address where the user is
// not known. The slices are the caller's.
func DefaultAdmitRules() (plans []AdmitPlan, rules []AdmitRule, exclude []string) {
	return admission.DefaultRules()
}

// Admit returns what limits the requests to a service of any kind: put
// [Admission.Handler] around the service's handler, and call [Admission.Close] when it has
// ended. Its errors name the field and the fix, or tell where in the file.
//
// With SQLite it starts a goroutine that cleans up once an hour, and with Redis it begins to connect; Close ends both.
func Admit(cfg AdmitConfig) (*Admission, error) {
	s, err := service.New(service.Config(cfg))
	if err != nil {
		return nil, err
	}
	return &Admission{s}, nil
}

// Handler puts the limits in front of next. The ResponseWriter that next gets is the
// server's own, so Flush, Hijack and the rest work.
func (a *Admission) Handler(next http.Handler) http.Handler { return a.inner.Handler(next) }

// Allow charges tokens to key under plans, all of them or none, and says what was decided.
// Zero tokens only look. A denial is no error.
func (a *Admission) Allow(ctx context.Context, key string, plans []string, tokens int64) (AdmitResult, error) {
	return a.inner.Allow(ctx, key, plans, tokens)
}

// Guard calls fn if key may be charged tokens under plans, all of them or none, and returns its error; otherwise it
// returns a [*DeniedError] at once. It is for what is not a request: a mail sent, a job begun. Its denials are told as
// those of requests are, with no rule, method or path.
func (a *Admission) Guard(ctx context.Context, key string, plans []string, tokens int64, fn func(context.Context) error) error {
	return a.inner.Guard(ctx, key, plans, tokens, fn)
}

// Remove forgets what key has used under all plans, wherever that is kept: its next request
// finds all of them whole. Not to know the key is no error.
func (a *Admission) Remove(ctx context.Context, key string) error { return a.inner.Remove(ctx, key) }

// RemoveWhere does so for all keys of which match is true, and says how many, also with an
// error. A key longer than 256 bytes is known by its digest only, "sha256:…". It looks at
// every key that is kept: it is for operators, not for requests.
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
func (a *Admission) Subscribe(fn func(Denial)) (off func()) { return a.inner.Subscribe(fn) }

// Dropped is how many denials found no place on their way to those who subscribed.
func (a *Admission) Dropped() uint64 { return a.inner.Dropped() }

// Admin is the endpoint by which plans and rules are looked at and changed at run time: GET, PUT and DELETE of
// /plans/{name} and /rules/{name}, GET of /statistics, and DELETE of /keys/{key}, with the token as a bearer token.
// Changes are kept in the File if there is one. Without an AdminToken everything is forbidden. Mount it with
// http.StripPrefix, where only administrators come.
func (a *Admission) Admin() http.Handler { return a.inner.Admin() }

// Reload reads the File again and puts its plans and rules in the place of the present
// ones, all of them or, if it returns an error, none. Counts stay.
func (a *Admission) Reload() error { return a.inner.Reload() }

// Statistics is what was decided so far.
func (a *Admission) Statistics() AdmitStatistics { return a.inner.Statistics() }

// Close ends what runs beside the requests, after those who subscribed have been told all denials, and closes the
// store. Requests that come later find no store, and are decided by OnError. It may be called again.
func (a *Admission) Close() error { return a.inner.Close() }
