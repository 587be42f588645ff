package admission

import (
	"bytes"
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

// Rule says which requests are limited, by what, and how. Those that it has in common with files
// are its fields; functions have names, which RuleSetConfig explains, so that rules can be written
// down, changed at run time, and kept.
type Rule struct {
	Name string `json:"name"` // its identity, as a plan's name is. Zero is an error.
	// Path is a pattern: "*" is one segment or a part of one, "**" any number of segments, none included.
	// Requests are matched by every way in which a handler may read their path; see [RuleSet]. Zero is an error.
	Path    string   `json:"path"`
	Methods []string `json:"methods,omitempty"` // "GET" is for HEAD too, as at http.ServeMux. Zero means all.
	// Key names who is counted: "ip", "user", "route", "global", "header:NAME", one of RuleSetConfig.Keys, or
	// several of them joined by "+". Zero means "ip".
	Key string `json:"key,omitempty"`
	// Plans names the plans that are charged, all or none. Rules that name the same plan charge the same
	// account. Zero means none, which needs a Concurrency.
	Plans  []string `json:"plans,omitempty"`
	Cost   int64    `json:"cost,omitempty"`    // what a request is charged, in tokens. Zero means 1.
	CostBy string   `json:"cost_by,omitempty"` // the function of RuleSetConfig.Costs that tells it. Zero means Cost.
	// Concurrency is how many requests of one key may be under way in this process, from their admission until
	// their handler returns. Zero means any number.
	Concurrency int64 `json:"concurrency,omitempty"`
	// Wait is for how long a request may wait for its turn, up to an hour: for its place among the Concurrency,
	// then for tokens. Those of one key wait in the order in which they came, and no more than 128; each look
	// at the plans is a decision that is counted. Zero means that nobody waits.
	Wait time.Duration `json:"-"`
	// Shadow counts and tells what would be denied, and denies nothing. Nothing waits, and clients see no
	// header of it. False means that it denies.
	Shadow bool `json:"shadow,omitempty"`
	// OnError is what is decided if nothing answers or the key cannot be told. Zero means what Config says.
	OnError OnError `json:"on_error,omitempty"`
}

// ruleForm is a rule as files spell it: its wait is what time.ParseDuration reads.
type ruleForm struct {
	plainRule
	Wait string `json:"wait,omitempty"`
}

type plainRule Rule // without its methods

// MarshalJSON writes the rule as files have it.
func (r Rule) MarshalJSON() ([]byte, error) {
	f := ruleForm{plainRule: plainRule(r)}
	if r.Wait != 0 {
		f.Wait = r.Wait.String()
	}
	return json.Marshal(f)
}

// UnmarshalJSON reads a rule as files have it. A field that there is not is an error. What the
// fields say is not looked at here but by [RuleSet.Replace].
func (r *Rule) UnmarshalJSON(text []byte) (err error) {
	var f ruleForm
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return err
	}
	if f.Wait != "" {
		if f.plainRule.Wait, err = time.ParseDuration(f.Wait); err != nil {
			return ruleError("wait", quote(f.Wait), `write a duration with its unit, such as "2s"`)
		}
	}
	*r = Rule(f.plainRule)
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

// ErrUnknownRule is the error for a name that no rule of the set has.
var ErrUnknownRule = errors.New("unknown rule")

// RuleSetConfig is what rules refer to.
type RuleSetConfig struct {
	// Trusted are the proxies whose X-Forwarded-For and X-Real-IP are believed; see [ClientIP]. A prefix of
	// everybody is an error. Zero means none: the address is that of the connection.
	Trusted   []netip.Prefix
	Principal func(*http.Request) string // the user of a request, empty if there is none. Zero: nobody is known.
	// Keys are further key functions by name. They go before those of the package. Each counts apart from all
	// others; who has no such key, so that it says nothing, is counted by the address. Zero means none.
	Keys map[string]KeyFunc
	// Costs are cost functions by name. Less than 0 counts as 1, so that a length that is not known is not a
	// gift; 0 is charged nothing. Zero means none.
	Costs map[string]func(*http.Request) int64
	Clock clock.Clock // for those who wait. Zero means the system's.
}

// RuleSet has plans, rules in their order, of which the first that matches counts, and the paths that
// cost nothing. All are replaced together while requests are under way. Make it by [NewRuleSet]; all
// methods are safe for concurrent use.
//
// Some paths are read in one way by one handler and in another by the next: with dots, empty segments, parameters
// after a semicolon, backslashes, capitals, or an encoding that need not be or is there twice, as "/a/..%2Fb",
// "/Login", "/login;v=1" and "/log%2569n". For such a request the first rule of each reading counts it, mostly the
// same one, and it is not excluded. So nobody comes by a strict rule by spelling its path so that a lenient one
// matches, or none. Two rules whose patterns differ in case alone both count a request.
type RuleSet struct {
	cfg   RuleSetConfig             // never changes after NewRuleSet
	table atomic.Pointer[ruleTable] // what a request is judged by to its end
	mu    sync.Mutex                // taken by those who change the table, one after the other
}

// NewRuleSet returns a set of these plans, rules and exclusions; see [RuleSet.Replace] for the form of
// all, and the error. Nil rules are those of [DefaultRules], with their plans where none of plans has
// the name, and with their exclusions if exclude is nil. A list of no rules is none.
func NewRuleSet(cfg RuleSetConfig, plans []Plan, rules []Rule, exclude []string) (*RuleSet, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
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
		if unmapPrefix(p).Bits() <= 0 { // less than 0 is that of no prefix
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

// Replace puts these plans, rules and exclusions in the place of all others, or, if it returns an error,
// none. An exclusion is a pattern of paths, with a method before it if it is for one only: "OPTIONS
// /**". It excludes only requests whose path can be read in one way. Errors tell the place, as
// `rules[2].path`; those about plans and rules are an [ErrInvalidPlan] or an [ErrInvalidRule].
//
// Of a rule that keeps its name and Concurrency, requests under way go on to count.
func (s *RuleSet) Replace(plans []Plan, rules []Rule, exclude []string) error {
	return s.change(func(d *draft) error { *d = draft{plans, rules, exclude}; return nil }, nil)
}

// Plans is all plans, in the order in which they came. The slice is the caller's.
func (s *RuleSet) Plans() []Plan { return slices.Clone(s.planSet().plans) }

func (s *RuleSet) planSet() *planSet { return s.table.Load().plans }

// draft is limits that are being changed. Its slices are its own.
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
	if at >= 0 { // it moves
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

// conflictError is a change that is right by itself but not beside the rules there are.
type conflictError struct{ error }

func (e *conflictError) Unwrap() error { return e.error }

// change puts what do makes of the present limits in their place, all at once, after keep, if it is not
// nil, has kept them. If one of them fails, nothing has changed.
func (s *RuleSet) change(do func(*draft) error, keep func(*ruleTable) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.table.Load()
	d := draft{slices.Clone(old.plans.plans), old.specs(), old.excludeSpecs()}
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

// DefaultRules is what an API with accounts needs to begin with, and a pattern for one's own: plans,
// rules in their order, and what costs nothing. The slices are the caller's.
//
//	path                rule        at most         per
//	/api/auth/login     login       5 in a minute   address
//	/api/auth/register  register    3 in an hour    address
//	/api/blog/**        blog-write  10 in a minute  user, for what changes something
//	/api/**             api         100 in a minute user, or address of who has none
//
// All are sliding windows: around the border of two fixed ones there would be twice as many guesses
// at a password. For the same reason the first two are closed when the store does not answer. They
// count by the address because who logs in is no user yet.
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
	// Probes of whether it lives must not be what it dies of, and streams are one request for hours.
	return plans, rules, []string{"/api/health", "/api/health/stream", "/api/traces/stream"}
}
