// Package admit limits the requests to a service of net/http: how many each address, user or key may send, by rules for
// paths. Counts are kept in memory, in a file of SQLite, or in Redis for many processes.
//
//	limits, err := admit.New(admit.Config{
//		Plans: []admit.Plan{{Name: "visitors", Capacity: 100, TokensPerSecond: 1}},
//		Rules: []admit.Rule{{Name: "pages", Path: "/**", Key: "ip", Plans: []string{"visitors"}}},
//	})
//	…
//	http.ListenAndServe(":8080", limits.Handler(service))
//
// The first rule that matches the method and path of a request decides. It charges the plans that it names, all or none,
// and headers tell the client what is left. A denied request gets 429, a Retry-After and a problem document.
// [Limiter.Guard] limits work that is no request. [Limiter.Admin] changes plans and rules at run time.
//
// SQLite and Redis are linked with an import of github.com/treadlight/crawl/sqlite or /redis.
package admit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
	"github.com/treadlight/crawl/internal/admission/sqlite"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/resilience"
)

// Limiter limits the requests to a service. Its methods are safe for concurrent use.
type Limiter struct {
	admitter *admission.Admitter
	file     string
	rules    *admission.RuleSet
	wrap     func(http.Handler) http.Handler
	admin    http.Handler // nil without a token

	log      *slog.Logger
	onDenied func(Denial)   // the program's hook; nil for none
	hub      resilience.Hub // passes denials to subscribers
	calls    admission.DenialLog

	stores []admission.Repository // in the order in which they are closed
	stop   context.CancelFunc     // ends the goroutines of beside
	beside sync.WaitGroup
}

// New returns the limits of a service: wrap the service's handler with [Limiter.Handler], and call [Limiter.Close] when the
// service has ended. The error names the field and says how to mend it, or names the place in the file.
//
// With SQLite it starts a goroutine that cleans up once an hour; with Redis it begins to connect. Close ends both.
func New(cfg Config) (*Limiter, error) {
	if cfg.Processes < 0 {
		return nil, fmt.Errorf("admit.Config.Processes is %d: use 1 or more, or leave it out for 1", cfg.Processes)
	}
	if cfg.Process < 0 || cfg.Process > max(1, cfg.Processes) {
		return nil, fmt.Errorf("admit.Config.Process is %d: use 1 to Processes, or leave it out", cfg.Process)
	}
	if cfg.Deadline < 0 {
		return nil, fmt.Errorf("admit.Config.Deadline is %v: use more than 0, or leave it out for %v", cfg.Deadline, admission.DefaultDeadline)
	}
	if cfg.Lease != 0 && !isRedis(cfg.Store) {
		return nil, fmt.Errorf("admit.Config.Lease is %v: leave it out, only Redis has leases", cfg.Lease)
	}
	a := &Limiter{file: cfg.File, stop: func() {}, log: cfg.Log, onDenied: cfg.OnDenied}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	err := a.limits(&cfg)
	if err == nil {
		err = a.open(&cfg)
	}
	if err == nil {
		err = a.assemble(&cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("admit.Config: %w", errors.Join(err, a.Close()))
	}
	return a, nil
}

// limits takes the plans and rules from the file if there is one, otherwise from cfg.
func (a *Limiter) limits(cfg *Config) (err error) {
	set := admission.RuleSetConfig{Trusted: cfg.Trusted, Principal: cfg.Principal, Keys: cfg.Keys, Costs: cfg.Costs}
	if a.file != "" {
		if a.rules, err = admission.NewRuleSet(set, nil, []admission.Rule{}, nil); err != nil {
			return err
		}
		if err := a.rules.LoadFile(a.file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	a.rules, err = admission.NewRuleSet(set, each(cfg.Plans, planOf), each(cfg.Rules, ruleOf), cfg.Exclude)
	if err != nil && slices.ContainsFunc([]string{"plans", "rules", "exclude"}, func(field string) bool { return strings.HasPrefix(err.Error(), field) }) {
		return &inGo{err}
	}
	return err
}

// inGo rewrites an error that begins with a field as files spell it, to the field's Go name: Rules[0].CostBy for
// rules[0].cost_by.
type inGo struct{ error }

func (e *inGo) Unwrap() error { return e.error }

func (e *inGo) Error() string {
	field, rest, _ := strings.Cut(e.error.Error(), " ")
	capital := true
	return strings.Map(func(c rune) rune {
		switch {
		case c == '_':
			capital, c = true, -1
		case capital:
			capital, c = false, unicode.ToUpper(c)
		default:
			capital = c == '.'
		}
		return c
	}, field) + " " + rest
}

func isRedis(store string) bool {
	return strings.HasPrefix(store, "redis://") || strings.HasPrefix(store, "rediss://")
}

func (a *Limiter) open(cfg *Config) error {
	ac := admission.Config{Rules: a.rules, OnError: admission.OnError(cfg.OnError), Log: a.log, Deadline: cfg.Deadline}
	local, err := memory.New(memory.Config{})
	if err != nil {
		return err
	}
	a.stores = append(a.stores, local)
	file, isFile := strings.CutPrefix(cfg.Store, "sqlite:")
	switch {
	case cfg.Store == "" || cfg.Store == "memory":
		ac.Repository = local
	case isFile:
		ac.Repository, err = a.openSQLite(file)
	case isRedis(cfg.Store):
		ac.Deadline = 0 // the repository has its own
		ac.Repository, err = a.openRedis(cfg)
	default:
		// The message does not quote the value, which may be a URL with a password and a wrong scheme.
		return errors.New(`the Store is not known: use "memory", "sqlite:FILE" or "redis://HOST:PORT"`)
	}
	if err != nil {
		return fmt.Errorf("the Store: %w", err)
	}
	if ac.Repository != local {
		n := max(1, cfg.Processes)
		ac.Fallback, ac.Share, ac.Process = local, 1/float64(n), int64(cfg.Process)
		if cfg.Process == 0 {
			ac.Process = rand.Int64N(int64(n))
		}
		if plans := a.rules.Plans(); cfg.Processes == 0 && len(plans) > 0 {
			a.log.Warn("admit.Config.Processes is not set and means 1: while the store is out of reach each process grants whole limits; set it to how many processes share the store",
				slog.String("plan", plans[0].Name), slog.Int64("limit", plans[0].Capacity), slog.Int64("granted_by_four_processes", 4*plans[0].Capacity))
		}
	}
	a.admitter, err = admission.New(ac)
	return err
}

func (a *Limiter) openSQLite(file string) (admission.Repository, error) {
	store, err := sqlite.New(sqlite.Config{Path: file, OnCleanup: func(_ int64, err error) {
		if err != nil {
			a.log.Warn("the admission store cannot be cleaned up", slog.Any("error", err))
		}
	}})
	if err != nil {
		return nil, err
	}
	a.stores = append(a.stores, store)
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.beside.Go(func() { _ = store.Run(ctx) }) // its only error is that the context has ended
	return store, nil
}

func (a *Limiter) openRedis(cfg *Config) (admission.Repository, error) {
	open, err := admission.Redis.Get()
	if err != nil {
		return nil, err
	}
	store, err := open(admission.RedisConfig{URL: cfg.Store, Deadline: cfg.Deadline, Lease: cfg.Lease, Instances: cfg.Processes})
	if err != nil {
		return nil, err
	}
	a.stores = append(a.stores, store)
	return store, nil
}

func (a *Limiter) assemble(cfg *Config) (err error) {
	var deny func(http.ResponseWriter, *http.Request, admission.Denial)
	if cfg.Deny != nil {
		deny = func(w http.ResponseWriter, r *http.Request, d admission.Denial) { cfg.Deny(w, r, denialOf(&d)) }
	}
	a.wrap, err = admission.Middleware(admission.MiddlewareConfig{
		Admitter: a.admitter, Bypass: cfg.Bypass, Exempt: cfg.Exempt, Headers: admission.Headers(cfg.Headers), Shadow: cfg.Shadow,
		Deny: deny, OnDenied: a.tell, Log: a.log,
	})
	if err != nil || cfg.AdminToken == "" {
		return err
	}
	a.admin, err = admission.Admin(admission.AdminConfig{
		Token: cfg.AdminToken, Admitter: a.admitter, File: cfg.File, Log: a.log,
	})
	if err != nil {
		return fmt.Errorf("AdminToken: %w", err)
	}
	return nil
}

// Allow charges tokens to key under plans, all or none, and returns the decision. Zero tokens charge nothing. A denial
// is no error.
func (a *Limiter) Allow(ctx context.Context, key string, plans []string, tokens int64) (Result, error) {
	res, err := a.admitter.Allow(ctx, key, plans, tokens)
	return resultOf(&res), err
}

// Remove deletes the counts of key under all plans, in every store. The key is the one given to [Limiter.Allow], or
// of requests the text that [Rule] describes, such as "user:anna" or, if the user is not known, "ip:192.0.2.1". An
// unknown key, also a misspelled one, is no error; [Limiter.RemoveWhere] says how many it found.
func (a *Limiter) Remove(ctx context.Context, key string) error { return a.admitter.Remove(ctx, key) }

// RemoveWhere deletes the counts of all keys for which match returns true, and returns their number, also with an
// error. A key longer than 256 bytes is only known by its digest, "sha256:…". It looks at every stored key and may call
// match twice for one, so it is for operators and not for requests.
func (a *Limiter) RemoveWhere(ctx context.Context, match func(key string) bool) (int, error) {
	return a.admitter.RemoveWhere(ctx, match)
}

// Statistics returns what was decided so far.
func (a *Limiter) Statistics() Statistics {
	s := a.admitter.Statistics()
	return statisticsOf(&s)
}

// Handler applies the limits in front of next. The ResponseWriter that next gets is the server's own, so Flush, Hijack
// and the like work.
func (a *Limiter) Handler(next http.Handler) http.Handler { return a.wrap(next) }

// denied is a denial as an event of the hub. Its error is nil; otherwise programs that print events would print it.
type denied struct {
	resilience.RateLimitedEvent
	Denial
}

// Subscribe calls fn with every denial, and with each that a Shadow rule would have made. It is for traces, counters
// and dashboards: fn may block, because it is called on a goroutine of its own, in the order of the denials. A thousand
// denials may wait for it; further ones are dropped and counted by [Limiter.Dropped]. A panic of fn ends only that
// call.
//
// After off has returned, fn is not called again, though a call may still run. fn may subscribe and unsubscribe; it
// must not call [Limiter.Close], which waits for it.
func (a *Limiter) Subscribe(fn func(Denial)) (off func()) {
	return resilience.Subscribe(&a.hub, func(e denied) { fn(e.Denial) })
}

// Dropped is how many denials subscribers did not get because too many waited.
func (a *Limiter) Dropped() uint64 { return a.hub.Dropped() }

// tell calls the program's hook with a denial, in the goroutine of the request, and passes the denial to the hub.
func (a *Limiter) tell(inner admission.Denial) {
	d := denialOf(&inner)
	if a.onDenied != nil {
		a.onDenied(d)
	}
	if a.hub.Wants() {
		a.hub.Emit(denied{resilience.RateLimitedEvent{At: clock.System().Now(), Name: d.Rule, Wait: d.Result.Wait}, d})
	}
}

// Guard calls fn and returns its error if key may be charged tokens under plans, all or none; otherwise it returns a
// [*DeniedError] at once. It limits work that is no HTTP request, such as sending a mail. Its denials are reported like
// those of requests, with no rule, method or path.
func (a *Limiter) Guard(ctx context.Context, key string, plans []string, tokens int64, fn func(context.Context) error) error {
	res, err := a.admitter.Allow(ctx, key, plans, tokens)
	switch {
	case err != nil:
		return err
	case !res.Allowed:
		record := admission.Denial{RateLimited: true, Status: res.Status(), Key: key, Result: res}
		a.tell(record)
		a.calls.Denied(ctx, a.log, clock.System(), "call", record)
		return &DeniedError{resultOf(&res)}
	}
	a.calls.Allowed(ctx, a.log, clock.System(), "call", "")
	return fn(ctx)
}

// Admin returns the endpoint that shows and changes plans and rules at run time: GET of /plans, /rules and /statistics,
// PUT and DELETE of /plans/{name} and /rules/{name}, PUT of /rules for all of them, and DELETE of /keys/{key}. Requests
// need the AdminToken as a bearer token; without an AdminToken all are refused. Bodies are JSON in the form of the
// File, which changes are written to, if there is one. Mount it with http.StripPrefix.
func (a *Limiter) Admin() http.Handler {
	if a.admin == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "there is no AdminToken", http.StatusForbidden)
		})
	}
	return a.admin
}

// Reload reads the File again and replaces plans and rules, all of them or, if it returns an error, none. Counts stay.
func (a *Limiter) Reload() error {
	if a.file == "" {
		return errors.New("there is no File to reload")
	}
	return a.rules.LoadFile(a.file)
}

// Close ends the goroutines, after subscribers got all denials, and closes the store. OnError then decides about
// requests. It may be called again.
func (a *Limiter) Close() error {
	a.stop()
	a.beside.Wait()
	errs := make([]error, 0, 2+len(a.stores))
	errs = append(errs, a.hub.Close())
	if a.admitter != nil {
		errs = append(errs, a.admitter.Close())
	}
	for _, s := range a.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
