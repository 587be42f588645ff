// Package service opens the store of an admission service and puts its rules, limits, headers and
// endpoints together. The package crawl shows it to programs as Admit.
package service

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
	"github.com/treadlight/crawl/resilience"
)

// Config says who may come in how often: the AdmitConfig of the package crawl, which says what
// each field means.
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
	Trusted    []netip.Prefix
	Principal  func(*http.Request) string
	Keys       map[string]func(*http.Request) (string, error)
	Costs      map[string]func(*http.Request) int64
	Bypass     []string
	Headers    string
	Shadow     bool
	Deny       func(w http.ResponseWriter, r *http.Request, d admission.Denial)
	OnDenied   func(admission.Denial)
	Log        *slog.Logger
	AdminToken string
}

// Service limits the requests to a service. Its methods are safe for concurrent use.
type Service struct {
	file     string
	rules    *admission.RuleSet
	admitter *admission.Admitter
	wrap     func(http.Handler) http.Handler
	admin    http.Handler // nil without a token

	log      *slog.Logger
	onDenied func(admission.Denial)
	hub      resilience.Hub // of denials
	calls    admission.DenialLog

	stores []admission.Repository // to be closed, in this order
	stop   context.CancelFunc     // of what runs beside the requests
	beside sync.WaitGroup
}

// New opens the store and puts the limits together. Close ends what it starts: with SQLite a
// goroutine that cleans up once an hour, with Redis the connections. Its errors name the field.
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
	a := &Service{file: cfg.File, stop: func() {}, log: cfg.Log}
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
func (a *Service) limits(cfg *Config) (*admission.Registry, error) {
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
		if a.rules, err = admission.NewRuleSet(set, []admission.Rule{}, nil); err != nil {
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
func (a *Service) open(cfg *Config, registry *admission.Registry) error {
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
func (a *Service) warnOfProcesses(processes int, registry *admission.Registry) {
	plans := registry.Plans()
	if processes != 0 || len(plans) == 0 {
		return
	}
	p := &plans[0]
	a.log.Warn("AdmitConfig.Processes is not set and means 1: while the store is out of reach each process grants whole limits; set it to how many processes share the store",
		slog.String("plan", p.Name), slog.Int64("limit", p.Capacity), slog.Int64("granted_by_four_processes", 4*p.Capacity))
}

func (a *Service) openSQLite(file string, log *slog.Logger) (admission.Repository, error) {
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

func (a *Service) openRedis(cfg *Config) (admission.Repository, error) {
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
func (a *Service) assemble(cfg *Config) (err error) {
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

// Handler puts the limits in front of next.
func (a *Service) Handler(next http.Handler) http.Handler { return a.wrap(next) }

// Allow charges tokens to key under plans, all of them or none.
func (a *Service) Allow(ctx context.Context, key string, plans []string, tokens int64) (admission.Result, error) {
	return a.admitter.Allow(ctx, key, plans, tokens)
}

// Remove forgets what key has used under all plans.
func (a *Service) Remove(ctx context.Context, key string) error { return a.admitter.Remove(ctx, key) }

// RemoveWhere does so for all keys of which match is true.
func (a *Service) RemoveWhere(ctx context.Context, match func(key string) bool) (int, error) {
	return a.admitter.RemoveWhere(ctx, match)
}

// Admin is the endpoint by which plans and rules are changed.
func (a *Service) Admin() http.Handler {
	if a.admin == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "there is no AdminToken", http.StatusForbidden)
		})
	}
	return a.admin
}

// Reload reads the File again.
func (a *Service) Reload() error {
	if a.file == "" {
		return errors.New("there is no File to reload")
	}
	return a.rules.LoadFile(a.file)
}

// Statistics is what was decided so far.
func (a *Service) Statistics() admission.Statistics { return a.admitter.Statistics() }

// Close ends what runs beside the requests, and closes the stores.
func (a *Service) Close() error {
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
