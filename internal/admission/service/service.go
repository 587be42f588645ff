// Package service opens the store of an admission service and puts its rules, limits, headers and endpoints together.
// Package crawl offers it to programs as Admit.
package service

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
	"time"
	"unicode"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
	"github.com/treadlight/crawl/internal/admission/sqlite"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/resilience"
)

// Config configures a [Service]. It is AdmitConfig of package crawl, which documents the fields.
type Config struct {
	Plans      []admission.Plan
	Rules      []admission.Rule
	Exclude    []string
	File       string
	Store      string
	Processes  int
	Process    int
	Deadline   time.Duration
	Lease      time.Duration
	OnError    admission.OnError
	AdminToken string
	RuleSet    admission.RuleSetConfig
	Middleware admission.MiddlewareConfig // its Log and OnDenied are those of the service; New sets the Admitter
}

// Service limits the requests to a service. Its methods are safe for concurrent use.
type Service struct {
	*admission.Admitter
	file  string
	rules *admission.RuleSet
	wrap  func(http.Handler) http.Handler
	admin http.Handler // nil without a token

	log      *slog.Logger
	onDenied func(admission.Denial) // the program's hook; nil for none
	hub      resilience.Hub         // passes denials to subscribers
	calls    admission.DenialLog

	stores []admission.Repository // in the order in which they are closed
	stop   context.CancelFunc     // ends the goroutines of beside
	beside sync.WaitGroup
}

// New opens the store and puts the limits together. Close ends what New starts: with SQLite a goroutine that cleans up
// once an hour, with Redis the connections. Its errors name the field.
func New(cfg Config) (*Service, error) {
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
	a := &Service{file: cfg.File, stop: func() {}, log: cfg.Middleware.Log, onDenied: cfg.Middleware.OnDenied}
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
		return nil, fmt.Errorf("AdmitConfig: %w", errors.Join(err, a.Close()))
	}
	return a, nil
}

// limits takes the plans and rules from the file if there is one, otherwise from cfg.
func (a *Service) limits(cfg *Config) (err error) {
	if a.file != "" {
		if a.rules, err = admission.NewRuleSet(cfg.RuleSet, nil, []admission.Rule{}, nil); err != nil {
			return err
		}
		if err := a.rules.LoadFile(a.file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	a.rules, err = admission.NewRuleSet(cfg.RuleSet, cfg.Plans, cfg.Rules, cfg.Exclude)
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

func (a *Service) open(cfg *Config) error {
	ac := admission.Config{Rules: a.rules, OnError: cfg.OnError, Log: a.log, Deadline: cfg.Deadline}
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
			a.log.Warn("AdmitConfig.Processes is not set and means 1: while the store is out of reach each process grants whole limits; set it to how many processes share the store",
				slog.String("plan", plans[0].Name), slog.Int64("limit", plans[0].Capacity), slog.Int64("granted_by_four_processes", 4*plans[0].Capacity))
		}
	}
	a.Admitter, err = admission.New(ac)
	return err
}

func (a *Service) openSQLite(file string) (admission.Repository, error) {
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

func (a *Service) openRedis(cfg *Config) (admission.Repository, error) {
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

func (a *Service) assemble(cfg *Config) (err error) {
	cfg.Middleware.Admitter, cfg.Middleware.OnDenied = a.Admitter, a.tell
	a.wrap, err = admission.Middleware(cfg.Middleware)
	if err != nil || cfg.AdminToken == "" {
		return err
	}
	a.admin, err = admission.Admin(admission.AdminConfig{
		Token: cfg.AdminToken, Admitter: a.Admitter, File: cfg.File, Log: a.log,
	})
	if err != nil {
		return fmt.Errorf("AdminToken: %w", err)
	}
	return nil
}

// Handler returns next behind the limits.
func (a *Service) Handler(next http.Handler) http.Handler { return a.wrap(next) }

// denied is a denial as an event of the hub. Its error is nil; otherwise programs that print events would print it.
type denied struct {
	resilience.RateLimitedEvent
	admission.Denial
}

// Subscribe has fn called with every denial, by another goroutine than the request's, until off is called.
func (a *Service) Subscribe(fn func(admission.Denial)) (off func()) {
	return resilience.Subscribe(&a.hub, func(e denied) { fn(e.Denial) })
}

// Dropped returns how many denials the hub dropped because subscribers were too slow.
func (a *Service) Dropped() uint64 { return a.hub.Dropped() }

// tell calls the program's hook with a denial, in the goroutine of the request, and passes the denial to the hub.
func (a *Service) tell(d admission.Denial) {
	if a.onDenied != nil {
		a.onDenied(d)
	}
	if a.hub.Wants() {
		a.hub.Emit(denied{resilience.RateLimitedEvent{At: clock.System().Now(), Name: d.Rule, Wait: d.Result.Wait}, d})
	}
}

// Guard calls fn and returns its error, if tokens of plans can be charged to key. They stay charged whether fn succeeds,
// fails or panics. Otherwise Guard returns the error of [admission.Admitter.Allow] or a [*admission.DeniedError], which it
// logs and passes on as a denial.
func (a *Service) Guard(ctx context.Context, key string, plans []string, tokens int64, fn func(context.Context) error) error {
	res, err := a.Allow(ctx, key, plans, tokens)
	switch {
	case err != nil:
		return err
	case !res.Allowed:
		record := admission.Denial{RateLimited: true, Status: res.Status(), Key: key, Result: res}
		a.tell(record)
		a.calls.Denied(ctx, a.log, clock.System(), "call", record)
		return &admission.DeniedError{Result: res}
	}
	a.calls.Allowed(ctx, a.log, clock.System(), "call", "")
	return fn(ctx)
}

// Admin returns the endpoint that shows and changes plans and rules.
func (a *Service) Admin() http.Handler {
	if a.admin == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "there is no AdminToken", http.StatusForbidden)
		})
	}
	return a.admin
}

// Reload loads the File again.
func (a *Service) Reload() error {
	if a.file == "" {
		return errors.New("there is no File to reload")
	}
	return a.rules.LoadFile(a.file)
}

// Close ends the background goroutines and closes the stores.
func (a *Service) Close() error {
	a.stop()
	a.beside.Wait()
	errs := make([]error, 0, 2+len(a.stores))
	errs = append(errs, a.hub.Close())
	if a.Admitter != nil {
		errs = append(errs, a.Admitter.Close())
	}
	for _, s := range a.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
