package admission

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Rule says which requests are limited, by what, and how. Its fields are those that files have, so that rules can be
// written down, changed at run time, and kept; functions are referred to by names, which RuleSetConfig explains.
type Rule struct {
	Name string `json:"name"` // its identity, with the form of a plan's name. Empty is an error.
	// Path is a pattern: "*" is one segment or a part of one, "**" any number of segments, also none. A request matches
	// if one of the ways in which a handler may read its path matches; see [RuleSet]. Empty is an error.
	Path    string   `json:"path"`
	Methods []string `json:"methods,omitempty"` // "GET" includes HEAD, as in http.ServeMux. Empty means all methods.
	// Key names what requests are counted by: "ip", "user", "route", "global", "header:NAME", one of
	// RuleSetConfig.Keys, or several of them joined by "+". Empty means "ip".
	Key string `json:"key,omitempty"`
	// Plans names the plans to charge; all are charged or none. Rules that name the same plan charge the same account.
	// Empty means none, which needs a Concurrency.
	Plans  []string `json:"plans,omitempty"`
	Cost   int64    `json:"cost,omitempty"`    // how many tokens a request is charged. Zero means 1.
	CostBy string   `json:"cost_by,omitempty"` // name of the function in RuleSetConfig.Costs that returns it. Empty means Cost.
	// Concurrency is how many requests of one key may be in flight in this process, from their admission until their
	// handler returns. Zero means any number.
	Concurrency int64 `json:"concurrency,omitempty"`
	// Wait is how long a request may wait for its turn, up to an hour: for its place among the Concurrency, then for
	// tokens. Requests of one key wait in the order in which they arrived, at most 128; each attempt to charge the
	// plans is counted as a decision. Zero means that none waits.
	Wait time.Duration `json:"-"`
	// Shadow makes the rule count and report what it would deny, and deny nothing. Requests do not wait, and clients
	// see no headers of the rule. False means that it denies.
	Shadow bool `json:"shadow,omitempty"`
	// OnError is the decision if neither store nor fallback answers or the key function fails. Empty means
	// Config.OnError.
	OnError OnError `json:"on_error,omitempty"`
}

// ruleForm is a rule as files spell it.
type ruleForm struct {
	plainRule
	Wait span `json:"wait,omitempty"`
}

type plainRule Rule // without the methods, which would recurse

// MarshalJSON encodes the rule as files have it.
func (r Rule) MarshalJSON() ([]byte, error) {
	return json.Marshal(ruleForm{plainRule(r), span(r.Wait)})
}

// UnmarshalJSON decodes a rule as files have it. An unknown field is an error. The values are checked not here but by
// [RuleSet.Replace].
func (r *Rule) UnmarshalJSON(text []byte) (err error) {
	var f ruleForm
	if err := readJSON(bytes.NewReader(text), &f); err != nil {
		return err
	}
	*r = Rule(f.plainRule)
	r.Wait = time.Duration(f.Wait)
	return nil
}

func (r *Rule) clone() Rule {
	c := *r
	c.Methods, c.Plans = slices.Clone(r.Methods), slices.Clone(r.Plans)
	return c
}

func ruleError(field string, value any, fix string) error {
	return &FieldError{field, value, fix, ErrInvalidRule}
}

// ErrUnknownRule is wrapped by the error for a name that no rule of the set has.
var ErrUnknownRule = errors.New("unknown rule")

// RuleSetConfig has the functions and settings that rules refer to.
type RuleSetConfig struct {
	// Trusted are the proxies whose X-Forwarded-For and X-Real-IP are believed; see [ClientIP]. A prefix that contains
	// every address is an error. Empty means none: the address is that of the connection.
	Trusted   []netip.Prefix
	Principal func(*http.Request) string // returns the user of a request, empty if there is none. Nil means that no request has a user.
	// Keys are further key functions by name. They take precedence over those of the package. The accounts of each are
	// separate from all others. If a function returns the empty string, the request is counted by the address. Empty
	// means none.
	Keys map[string]KeyFunc
	// Costs are cost functions by name. A negative cost counts as 1, so that a request of unknown length is not free; 0
	// charges nothing. Empty means none.
	Costs map[string]func(*http.Request) int64
	Clock clock.Clock // for requests that wait. Nil means the system clock.
}

// RuleSet has plans, rules in their order, of which the first that matches applies, and the paths that are excluded.
// All are replaced together while requests are in flight. Make it by [NewRuleSet]; all methods are safe for concurrent
// use.
//
// Some paths are read in different ways by different handlers: those with dots, empty segments, parameters after a
// semicolon, backslashes, capitals, or an encoding that is needless or doubled, as "/a/..%2Fb", "/Login", "/login;v=1"
// and "/log%2569n". To such a request the first rule for each reading applies, mostly the same one, and it is not
// excluded. So no client passes a strict rule by spelling the path so that a lenient one matches, or none. If two rules
// have patterns that differ only in case, both apply.
type RuleSet struct {
	cfg   RuleSetConfig             // never changes after NewRuleSet
	table atomic.Pointer[ruleTable] // a request uses the same table to its end
	mu    sync.Mutex                // held while the table is changed
}

// NewRuleSet returns a set of these plans, rules and exclusions; see [RuleSet.Replace] for their form, and for the
// errors. Nil rules means those of [DefaultRules], with the default plans whose names plans does not have, and with the
// default exclusions if exclude is nil. An empty list of rules means no rules.
func NewRuleSet(cfg RuleSetConfig, plans []Plan, rules []Rule, exclude []string) (*RuleSet, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Clock = cmp.Or(cfg.Clock, clock.System())
	s := &RuleSet{cfg: cfg}
	s.table.Store(&ruleTable{plans: &planSet{}})
	if rules == nil {
		usual, all, free := DefaultRules()
		plans = slices.Clone(plans)
		for _, p := range usual {
			if !slices.ContainsFunc(plans, func(own Plan) bool { return own.Name == p.Name }) {
				plans = append(plans, p)
			}
		}
		if rules = all; exclude == nil {
			exclude = free
		}
	}
	return s, s.Replace(plans, rules, exclude)
}

func (cfg *RuleSetConfig) check() error {
	for i, p := range cfg.Trusted {
		if unmapPrefix(p).Bits() <= 0 { // negative for an invalid prefix
			return fmt.Errorf("the prefix Trusted[%d] is %v: name the proxies, since who is trusted may say that he is anybody", i, p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Keys)) {
		if !validName(name) || cfg.Keys[name] == nil {
			return fmt.Errorf("the function Keys[%q] is no use: give a function by a name, for which %s", name, nameFix)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Costs)) {
		if cfg.Costs[name] == nil {
			return fmt.Errorf("the function Costs[%q] is nil: give a function", name)
		}
	}
	return nil
}

// Replace replaces all plans, rules and exclusions by these or, if it returns an error, none. An exclusion is a pattern
// of paths, with a method before it if it is for one method only: "OPTIONS /**". It excludes only requests whose path
// can be read in one way. Errors name the place, as `rules[2].path`; those about plans and rules match [ErrInvalidPlan]
// or [ErrInvalidRule].
//
// If a rule keeps its name and Concurrency, requests in flight still count.
func (s *RuleSet) Replace(plans []Plan, rules []Rule, exclude []string) error {
	return s.change(func(d *draft) error { *d = draft{plans, rules, exclude}; return nil }, nil)
}

// Plans returns all plans in their order. The slice is the caller's.
func (s *RuleSet) Plans() []Plan { return slices.Clone(s.planSet().plans) }

func (s *RuleSet) planSet() *planSet { return s.table.Load().plans }

// draft has a set's plans, rules and exclusions as they are given, in slices of its own.
type draft struct {
	plans   []Plan
	rules   []Rule
	exclude []string
}

func (d *draft) putPlan(p Plan) error {
	at := slices.IndexFunc(d.plans, func(have Plan) bool { return have.Name == p.Name })
	if at < 0 {
		at, d.plans = len(d.plans), append(d.plans, p)
	}
	d.plans[at] = p
	return nil
}

func (d *draft) removePlan(name string) error {
	n := len(d.plans)
	d.plans = slices.DeleteFunc(d.plans, func(p Plan) bool { return p.Name == name })
	if len(d.plans) == n {
		return unknown(name)
	}
	return nil
}

func (d *draft) put(r Rule, before string) error {
	at := slices.IndexFunc(d.rules, func(have Rule) bool { return have.Name == r.Name })
	if at >= 0 && before == "" {
		d.rules[at] = r
		return nil
	}
	if at >= 0 { // the rule moves
		d.rules = slices.Delete(d.rules, at, at+1)
	}
	to := len(d.rules)
	if before != "" {
		to = slices.IndexFunc(d.rules, func(have Rule) bool { return have.Name == before })
	}
	if to < 0 {
		return fmt.Errorf("%w %q", ErrUnknownRule, before)
	}
	d.rules = slices.Insert(d.rules, to, r)
	return nil
}

func (d *draft) remove(name string) error {
	n := len(d.rules)
	d.rules = slices.DeleteFunc(d.rules, func(r Rule) bool { return r.Name == name })
	if len(d.rules) == n {
		return fmt.Errorf("%w %q", ErrUnknownRule, name)
	}
	return nil
}

// conflictError is the error of a change that is valid by itself but contradicts the other plans and rules.
type conflictError struct{ error }

func (e *conflictError) Unwrap() error { return e.error }

// change calls do with a draft of the present set, calls keep, if it is not nil, to save the result, and then puts all
// of it in force at once. If one of them fails, nothing changes.
func (s *RuleSet) change(do func(*draft) error, keep func(*ruleTable) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.table.Load()
	d := draft{slices.Clone(old.given.plans), slices.Clone(old.given.rules), slices.Clone(old.given.exclude)}
	if err := do(&d); err != nil {
		return err
	}
	plans, err := newPlanSet(d.plans)
	if err != nil {
		return err
	}
	next, err := s.compile(old, plans, &d)
	switch {
	case err != nil && !slices.Equal(d.plans, old.plans.plans):
		return &conflictError{err}
	case err == nil && keep != nil:
		err = keep(next)
	}
	if err == nil {
		s.table.Store(next)
	}
	return err
}

// DefaultRules returns what an API with accounts needs to begin with, and an example for rules of one's own: plans,
// rules in their order, and exclusions. The slices are the caller's.
//
//	path                rule        at most         per
//	/api/auth/login     login       5 in a minute   address
//	/api/auth/register  register    3 in an hour    address
//	/api/blog/**        blog-write  10 in a minute  user, for methods that change something
//	/api/**             api         100 in a minute user, or address for requests without a user
//
// All are sliding windows: around the border of two fixed ones twice as many guesses at a password would be allowed.
// For the same reason the first two deny when the store does not answer. They count by the address because a client
// that logs in has no user yet.
func DefaultRules() (plans []Plan, rules []Rule, exclude []string) {
	plans = []Plan{
		{Name: "login", Kind: KindSlidingWindow, Capacity: 5, Window: time.Minute},
		{Name: "register", Kind: KindSlidingWindow, Capacity: 3, Window: time.Hour},
		{Name: "blog-write", Kind: KindSlidingWindow, Capacity: 10, Window: time.Minute},
		{Name: "api", Kind: KindSlidingWindow, Capacity: 100, Window: time.Minute},
	}
	rules = []Rule{
		{Name: "login", Path: "/api/auth/login", Key: "ip", Plans: []string{"login"}, OnError: FailClosed},
		{Name: "register", Path: "/api/auth/register", Key: "ip", Plans: []string{"register"}, OnError: FailClosed},
		{
			Name: "blog-write", Path: "/api/blog/**", Methods: []string{"POST", "PUT", "PATCH", "DELETE"},
			Key: "user", Plans: []string{"blog-write"},
		},
		{Name: "api", Path: "/api/**", Key: "user", Plans: []string{"api"}},
	}
	// Health checks must not fail because of a limit, and a stream is one request for hours.
	return plans, rules, []string{"/api/health", "/api/health/stream", "/api/traces/stream"}
}
