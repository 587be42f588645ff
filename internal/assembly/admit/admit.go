// Package admit puts the parts of an admission service together.
package admit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
	"github.com/treadlight/crawl/internal/admission/redis"
	"github.com/treadlight/crawl/internal/admission/sqlite"
	"github.com/treadlight/crawl/internal/fetch/resilience"
)

// AdmitPlan is a limit: so much at once and so much in the long run. Its Kind is
// "token-bucket", "fixed-window" or "sliding-window".
type AdmitPlan = admission.Plan

// AdmitRule says which requests are limited, by which plans, and who is counted.
type AdmitRule = admission.Rule

// AdmitResult is a decision with what there is to tell about it.
type AdmitResult = admission.Result

// AdmitStatistics is what was decided so far.
type AdmitStatistics = admission.Statistics

// Denial is the record of a request that was denied.
type Denial = admission.Denial

// DeniedError is the error of [Admission.Guard] for a call that is over its limit. It
// tells when to come again, and is an [ErrDenied].
type DeniedError = admission.DeniedError

// ErrDenied is what the errors of denied calls are.
var ErrDenied = admission.ErrDenied

// AdmitConfig says who may come in how often. The zero AdmitConfig is usable: it has the
// rules of [DefaultAdmitRules], keeps its counts in memory, and denies with status 429.
type AdmitConfig struct {
	// Plans, Rules and Exclude are the limits, whom they are for, and the paths that cost
	// nothing, such as "/health" and "OPTIONS /**". Without Rules those of DefaultAdmitRules
	// hold, with its plans beside these and its Exclude if there is none; a list of no rules
	// is none.
	Plans   []AdmitPlan
	Rules   []AdmitRule
	Exclude []string
	// File is where plans, rules and exclusions are kept, in JSON or YAML by its name. If it
	// is there, it counts and the three above do not; if not, it is written when an
	// administrator changes something. Zero means that there is no file.
	File string

	// Store is where the counts are: "memory"; "sqlite:" and the name of a file, which
	// outlives the process and may be shared by several of one computer; or a URL that
	// begins with "redis://" or "rediss://", for any number of processes anywhere. While
	// SQLite or Redis is out of reach, this process goes on by itself unless OnError is
	// "closed". Zero means memory.
	Store string
	// Processes is how many processes share the Store: while it is out of reach, each lets in
	// its part of each limit per whole window, and no more, and the Store is charged that when
	// it is back. Zero means 1: four processes that do not say so let in four times the limit
	// then, and the Log says so once.
	Processes int
	// Process is which of the Processes this is, from 1 on. A limit below Processes is less than
	// one for each of them; while the Store is out of reach they take turns at it, and with
	// numbers that differ let in no more than the limit in any whole window. Zero means a number
	// drawn at random: then they do so on average.
	Process int
	// Deadline is how long a decision of SQLite or Redis may take, once Redis is connected. A
	// request whose decision is late gets status 503 and a Retry-After, since it may have been
	// charged; after three in a row the Store counts as out of reach. Zero means 250ms.
	Deadline time.Duration
	// Lease is how long tokens may be held here before they are used, up to 10s, which
	// saves most of the trips to Redis; a bucket then admits up to its rate times Lease
	// more at once. Zero means that nothing is held.
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
	// Keys are functions that say who is counted, by the names under which rules refer to
	// them. Each counts apart from all others; who has no such key, so that it says nothing,
	// is counted by the address. Zero means none beside "ip", "user", "route", "global" and
	// "header:NAME".
	Keys map[string]func(*http.Request) (string, error)
	// Costs are functions that say what a request costs, by the names under which rules refer
	// to them. Zero means none.
	Costs map[string]func(*http.Request) int64

	// Bypass is secrets of 16 bytes or more; a request that has one in its header
	// X-RateLimit-Bypass is not limited. Zero means none.
	Bypass []string
	// Headers tells clients what is left: "both", "legacy" (X-RateLimit-Limit, -Remaining,
	// -Reset in seconds from now, and -Policy such as "100;w=60"), "ietf" (RateLimit and
	// RateLimit-Policy), "epoch" (both, but X-RateLimit-Reset is the Unix time), or "none".
	// Retry-After is there in any case. Zero means both.
	Headers string
	// Shadow counts and tells what would be denied, and denies nothing. False means that
	// it denies.
	Shadow bool
	// Deny, if set, writes the answer of a denial with the Denial's Status. Zero means a
	// problem document (RFC 9457).
	Deny func(w http.ResponseWriter, r *http.Request, d Denial)
	// OnDenied, if set, is told every denial by the goroutine of the request. It must not
	// block; [Admission.Subscribe] is for what may. Zero means that nobody is.
	OnDenied func(Denial)
	// Log has when a rule begins to deny and how many it denied when it has stopped, changes of
	// the rules, and when the Store goes out of reach and answers again: a line for each change,
	// and none for each request. Zero means no log.
	Log *slog.Logger
	// AdminToken is the secret of 16 bytes or more of [Admission.Admin]. Zero means that
	// there is no such endpoint.
	AdminToken string
}

// Admission limits the requests to a service. Its methods are safe for concurrent use.
type Admission struct {
	file     string
	rules    *admission.RuleSet
	admitter *admission.Admitter
	wrap     func(http.Handler) http.Handler
	admin    http.Handler // nil without a token

	log      *slog.Logger
	onDenied func(Denial)
	hub      resilience.Hub // of denials
	calls    admission.DenialLog

	stores []admission.Repository // to be closed, in this order
	stop   context.CancelFunc     // of what runs beside the requests
	beside sync.WaitGroup
}

// DefaultAdmitRules is what an API with accounts needs to begin with: 5 logins in a
// minute and 3 registrations in an hour of one address, 10 posts in a minute and 100
// requests in a minute of one user, or one address where the user is not known. The
// slices are the caller's.
func DefaultAdmitRules() (plans []AdmitPlan, rules []AdmitRule, exclude []string) {
	return admission.DefaultRules()
}

// Admit returns what limits the requests to a service of any kind: put
// [Admission.Handler] around the service's handler, and call [Admission.Close] when it has
// ended. Its errors name the field and the fix, or tell where in the file.
//
// With SQLite it starts a goroutine that cleans up once an hour, and with Redis it begins to
// connect; Close ends both.
func Admit(cfg AdmitConfig) (*Admission, error) {
	if cfg.Processes < 0 {
		return nil, fmt.Errorf("AdmitConfig.Processes is %d: use 1 or more, or leave it out for 1", cfg.Processes)
	}
	if cfg.Process < 0 || cfg.Process > max(1, cfg.Processes) {
		return nil, fmt.Errorf("AdmitConfig.Process is %d: use 1 to Processes, or leave it out", cfg.Process)
	}
	if cfg.Deadline < 0 {
		return nil, fmt.Errorf("AdmitConfig.Deadline is %v: use more than 0, or leave it out for %v", cfg.Deadline, admission.DefaultDeadline)
	}
	if cfg.Lease != 0 && !isRedis(cfg.Store) {
		return nil, fmt.Errorf("AdmitConfig.Lease is %v: leave it out, only Redis has leases", cfg.Lease)
	}
	a := &Admission{file: cfg.File, stop: func() {}, log: cfg.Log}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.onDenied = a.told(cfg.OnDenied)
	registry, err := a.limits(&cfg)
	if err == nil {
		err = a.open(&cfg, registry)
	}
	if err == nil {
		err = a.assemble(&cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("AdmitConfig: %w", errors.Join(err, a.Close()))
	}
	return a, nil
}

// limits takes plans and rules from the file if there is one, and else from cfg.
func (a *Admission) limits(cfg *AdmitConfig) (*admission.Registry, error) {
	registry, err := admission.NewRegistry()
	if err != nil {
		return nil, err
	}
	set := admission.RuleSetConfig{
		Registry: registry, Trusted: cfg.Trusted, Principal: cfg.Principal, Costs: cfg.Costs,
		Keys: make(map[string]admission.KeyFunc, len(cfg.Keys)),
	}
	for name, key := range cfg.Keys {
		set.Keys[name] = key
	}
	if a.file != "" {
		if a.rules, err = admission.NewRuleSet(set, []AdmitRule{}, nil); err != nil {
			return nil, err
		}
		if err := a.rules.LoadFile(a.file); !errors.Is(err, fs.ErrNotExist) {
			return registry, err
		}
	}
	if err := registry.Replace(cfg.Plans...); err != nil {
		return nil, err
	}
	a.rules, err = admission.NewRuleSet(set, cfg.Rules, cfg.Exclude)
	return registry, err
}

func isRedis(store string) bool {
	return strings.HasPrefix(store, "redis://") || strings.HasPrefix(store, "rediss://")
}

// open opens the store, and the one in memory that stands in for it.
func (a *Admission) open(cfg *AdmitConfig, registry *admission.Registry) error {
	ac := admission.Config{Registry: registry, OnError: cfg.OnError, Log: cfg.Log, Deadline: cfg.Deadline}
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
		ac.Repository, err = a.openSQLite(file, cfg.Log)
	case isRedis(cfg.Store):
		ac.Deadline = 0 // it has its own
		ac.Repository, err = a.openRedis(cfg)
	default:
		// The value is not told: it may be a URL with a password and a wrong scheme.
		return errors.New(`the Store is not known: use "memory", "sqlite:FILE" or "redis://HOST:PORT"`)
	}
	if err != nil {
		return fmt.Errorf("the Store: %w", err)
	}
	if ac.Repository != local {
		ac.Fallback, ac.Share, ac.Process = local, 1/float64(max(1, cfg.Processes)), int64(cfg.Process)
		if cfg.Process == 0 {
			ac.Process = rand.Int64N(int64(max(1, cfg.Processes)))
		}
		a.warnOfProcesses(cfg.Processes, registry)
	}
	a.admitter, err = admission.New(ac)
	return err
}

// warnOfProcesses says what a limit is worth while the store is out of reach, if nobody has
// said how many processes share it.
func (a *Admission) warnOfProcesses(processes int, registry *admission.Registry) {
	plans := registry.Plans()
	if processes != 0 || len(plans) == 0 {
		return
	}
	p := &plans[0]
	a.log.Warn("AdmitConfig.Processes is not set and means 1: while the store is out of reach each process grants whole limits; set it to how many processes share the store",
		slog.String("plan", p.Name), slog.Int64("limit", p.Capacity), slog.Int64("granted_by_four_processes", 4*p.Capacity))
}

func (a *Admission) openSQLite(file string, log *slog.Logger) (admission.Repository, error) {
	sc := sqlite.Config{Path: file}
	if log != nil {
		sc.OnCleanup = func(_ int64, err error) {
			if err != nil {
				log.Warn("the admission store cannot be cleaned up", slog.Any("error", err))
			}
		}
	}
	store, err := sqlite.New(sc)
	if err != nil {
		return nil, err
	}
	a.stores = append(a.stores, store)
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.beside.Go(func() { _ = store.Run(ctx) }) // it ends with the context, and has no other error to tell
	return store, nil
}

func (a *Admission) openRedis(cfg *AdmitConfig) (admission.Repository, error) {
	option, err := rueidis.ParseURL(cfg.Store)
	if err != nil {
		return nil, errors.New("it is no URL of Redis") // what is wrong with it may be the password
	}
	store, err := redis.New(redis.Config{Redis: option, Deadline: cfg.Deadline, Lease: cfg.Lease, Instances: cfg.Processes})
	if err != nil {
		return nil, err
	}
	a.stores = append(a.stores, store)
	store.Connect()
	return store, nil
}

// admitHeaders is the headers by the names of AdmitConfig.
var admitHeaders = map[string]admission.Headers{
	"": admission.HeadersBoth, "both": admission.HeadersBoth, "legacy": admission.HeadersLegacy,
	"ietf": admission.HeadersIETF, "none": admission.HeadersNone, "epoch": admission.HeadersEpoch,
}

// assemble makes what requests go through.
func (a *Admission) assemble(cfg *AdmitConfig) (err error) {
	headers, ok := admitHeaders[cfg.Headers]
	if !ok {
		return fmt.Errorf(`the Headers are %q: use "both", "epoch", "legacy", "ietf" or "none"`, cfg.Headers)
	}
	a.wrap, err = admission.Middleware(admission.MiddlewareConfig{
		Admitter: a.admitter, Rules: a.rules, Bypass: cfg.Bypass, Headers: headers, Shadow: cfg.Shadow,
		Deny: cfg.Deny, OnDenied: a.onDenied, Log: cfg.Log,
	})
	if err != nil || cfg.AdminToken == "" {
		return err
	}
	a.admin, err = admission.Admin(admission.AdminConfig{
		Token: cfg.AdminToken, Rules: a.rules, Admitter: a.admitter, File: cfg.File, Log: cfg.Log,
	})
	if err != nil {
		return fmt.Errorf("AdminToken: %w", err)
	}
	return nil
}

// Handler puts the limits in front of next. The ResponseWriter that next gets is the
// server's own, so Flush, Hijack and the rest work.
func (a *Admission) Handler(next http.Handler) http.Handler { return a.wrap(next) }

// Allow charges tokens to key under plans, all of them or none, and says what was decided.
// Zero tokens only look. A denial is no error.
func (a *Admission) Allow(ctx context.Context, key string, plans []string, tokens int64) (AdmitResult, error) {
	return a.admitter.Allow(ctx, key, plans, tokens)
}

// Remove forgets what key has used under all plans, wherever that is kept: its next request
// finds all of them whole. Not to know the key is no error.
func (a *Admission) Remove(ctx context.Context, key string) error { return a.admitter.Remove(ctx, key) }

// RemoveWhere does so for all keys of which match is true, and says how many, also with an
// error. A key longer than 256 bytes is known by its digest only, "sha256:…". It looks at
// every key that is kept: it is for operators, not for requests.
func (a *Admission) RemoveWhere(ctx context.Context, match func(key string) bool) (int, error) {
	return a.admitter.RemoveWhere(ctx, match)
}

// Admin is the endpoint by which plans and rules are looked at and changed at run time:
// GET, PUT and DELETE of /plans/{name} and /rules/{name}, GET of /statistics, and DELETE
// of /keys/{key}, with the token as a bearer token. Changes are kept in the File if there
// is one. Without an AdminToken everything is forbidden. Mount it with http.StripPrefix,
// where only administrators come.
func (a *Admission) Admin() http.Handler {
	if a.admin == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "there is no AdminToken", http.StatusForbidden)
		})
	}
	return a.admin
}

// Reload reads the File again and puts its plans and rules in the place of the present
// ones, all of them or, if it returns an error, none. Counts stay.
func (a *Admission) Reload() error {
	if a.file == "" {
		return errors.New("there is no File to reload")
	}
	return a.rules.LoadFile(a.file)
}

// Statistics is what was decided so far.
func (a *Admission) Statistics() AdmitStatistics { return a.admitter.Statistics() }

// Close ends what runs beside the requests, after those who subscribed have been told all
// denials, and closes the store. Requests that come later find no store, and are decided
// by OnError. It may be called again.
func (a *Admission) Close() error {
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
