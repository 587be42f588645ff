package admission

import (
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

// Rule says which requests are limited, by what, and how. Those that it has in common
// with files are its fields; functions have names, which RuleSetConfig explains, so that
// rules can be written down, changed at run time, and kept.
type Rule struct {
	// Name is the rule's identity, as a plan's name is. Zero is an error.
	Name string
	// Path is a pattern: "*" is one segment or a part of one, "**" any number of segments,
	// none included. Requests are matched by their cleaned path, in any case, by every way in
	// which a handler may read it, a trailing slash left aside; see [RuleSet]. Zero is an error.
	Path string
	// Methods are those it is for; "GET" is for HEAD too, as at http.ServeMux. What a
	// header asks to have instead of the method makes no difference. Zero means all.
	Methods []string
	// Key names who is counted: "ip", "user", "route", "global", "header:NAME", one of
	// RuleSetConfig.Keys, or several of them joined by "+". Zero means "ip".
	Key string
	// Plans names the plans that are charged, all or none. Rules that name the same plan
	// charge the same account. Zero means none, which needs a Concurrency.
	Plans []string
	// Cost is what a request is charged, in tokens. Zero means 1.
	Cost int64
	// CostBy names the function of RuleSetConfig.Costs that tells the cost instead. Zero
	// means that Cost does.
	CostBy string
	// Concurrency is how many requests of one key may be under way in this process,
	// from their admission until their handler returns. RateLimit-Policy tells it as
	// "concurrent-requests": a client that holds no more is never refused for it. Of a rule
	// without Plans, RateLimit tells how many more there may be now; there is no reset. Zero
	// means any number.
	Concurrency int64
	// Wait is for how long a request may wait for its turn, up to an hour: for its place
	// among the Concurrency, then for tokens. Those of one key wait in the order in which
	// they came, and no more than 128; each look at the plans is a decision that is
	// counted. That a client has gone is seen, but by net/http not while there is a
	// body that nobody has read yet. Zero means that nobody waits.
	Wait time.Duration
	// Shadow counts and tells what would be denied, and denies nothing. Nothing waits, and
	// clients see no header of it. The Admitter counts what it denies all the same. False
	// means that it denies.
	Shadow bool
	// OnError is what is decided if nothing answers or the key cannot be told. Zero means
	// what the Admitter's Config says.
	OnError OnError
}

// ErrInvalidRule is what the errors about a rule's fields are.
var ErrInvalidRule = errors.New("invalid rule")

// RuleError is one thing wrong with a rule. It is an [ErrInvalidRule].
type RuleError struct {
	Field string // as files spell it: "path", "plans[1]", …
	Value any    // what was said
	Fix   string // what to say instead
}

// Error names the field, the value and the fix.
func (e *RuleError) Error() string { return fmt.Sprintf("%s is %v: %s", e.Field, e.Value, e.Fix) }

// Is reports whether target is ErrInvalidRule.
func (e *RuleError) Is(target error) bool { return target == ErrInvalidRule }

// ErrUnknownRule is the error for a name that no rule of the set has.
var ErrUnknownRule = errors.New("unknown rule")

// RuleSetConfig is what rules refer to.
type RuleSetConfig struct {
	Registry *Registry // has the plans. Zero is an error.
	// Trusted are the proxies whose X-Forwarded-For and X-Real-IP are believed; see
	// [ClientIP]. A prefix of everybody is an error. Zero means none: the address is that of
	// the connection.
	Trusted []netip.Prefix
	// Principal tells the user of a request, empty if there is none; see [User]. Zero
	// means that nobody is known, and "user" is the address.
	Principal func(*http.Request) string
	// Keys are further key functions by name, of letters, digits, '.', '_' and '-'. They
	// go before those of the package. Each counts apart from all others, as "key:NAME:" and
	// what it says; who has no such key, so that it says nothing, is counted by the address.
	// Zero means none.
	Keys map[string]KeyFunc
	// Costs are cost functions by name. Less than 0 counts as 1, so that a length that is
	// not known is not a gift; 0 is charged nothing. Zero means none.
	Costs map[string]func(*http.Request) int64
	// Clock is for those who wait. Zero means the system's.
	Clock clock.Clock
}

// RuleSet has rules in their order, of which the first that matches counts, and the paths
// that cost nothing. Both are replaced while requests are under way. Make it by
// [NewRuleSet]; all methods are safe for concurrent use.
//
// Some paths are read in one way by one handler and in another by the next: with dots, empty
// segments, parameters after a semicolon, backslashes, capitals, or an encoding that need not
// be or is there twice, as "/a/..%2Fb", "/Login", "/login;v=1" and "/log%2569n". For such a
// request the first rule of each reading counts it, mostly the same one, and it is not
// excluded. So nobody comes by a strict rule by spelling its path so that a lenient one
// matches, or none. Two rules whose patterns differ in case alone both count a request.
type RuleSet struct {
	cfg   RuleSetConfig // never changes after NewRuleSet
	table atomic.Pointer[ruleTable]
	mu    sync.Mutex // taken by those who change the table, one after the other
	admin sync.Mutex // taken before mu by those who change plans with the rules, and save both
}

// NewRuleSet returns a set of these rules and exclusions; see [RuleSet.Replace] for the
// form of both, and the error. Of nil rules it is one of [DefaultRules], whose plans it adds to
// the registry where that has none of their names, and whose exclusions count if exclude is
// nil. A list of no rules is none.
func NewRuleSet(cfg RuleSetConfig, rules []Rule, exclude []string) (*RuleSet, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	s := &RuleSet{cfg: cfg}
	s.table.Store(&ruleTable{})
	if rules == nil {
		var err error
		if rules, exclude, err = withDefaults(cfg.Registry, exclude); err != nil {
			return nil, err
		}
	}
	return s, s.Replace(rules, exclude)
}

func (cfg *RuleSetConfig) check() error {
	if cfg.Registry == nil {
		return errors.New("Registry is missing: give one of NewRegistry")
	}
	for i, p := range cfg.Trusted {
		if unmapPrefix(p).Bits() <= 0 { // less than 0 is that of no prefix
			return fmt.Errorf("the prefix Trusted[%d] is %v: name the proxies, since who is trusted may say that he is anybody", i, p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Keys)) {
		if !validName(name) || cfg.Keys[name] == nil {
			return fmt.Errorf("the function Keys[%q] is no use: give a function by a name of 1 to %d letters, digits, '.', '_' and '-'", name, maxName)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Costs)) {
		if cfg.Costs[name] == nil {
			return fmt.Errorf("the function Costs[%q] is nil: give a function", name)
		}
	}
	return nil
}

// Replace puts these rules and exclusions in the place of all others, or, if it returns
// an error, none. An exclusion is a pattern of paths, with a method before it if it is
// for one only: "OPTIONS /**". It excludes only requests whose path can be read in one
// way. Errors tell the place, as `rules[2].path`; those about rules are an [ErrInvalidRule].
//
// Of a rule that keeps its name and Concurrency, requests under way go on to count.
func (s *RuleSet) Replace(rules []Rule, exclude []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replaceLocked(rules, exclude)
}

func (s *RuleSet) replaceLocked(rules []Rule, exclude []string) error {
	table, err := s.compile(s.table.Load(), s.cfg.Registry.current(), rules, exclude)
	if err == nil {
		s.table.Store(table)
	}
	return err
}

// Put puts a rule in the place of the one of its name. A new one goes before the rule
// that is named, or after all others if none is: ErrUnknownRule if there is no such.
func (s *RuleSet) Put(r Rule, before string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	table := s.table.Load()
	rules, err := withRule(table.specs(), r, before)
	if err != nil {
		return err
	}
	return s.replaceLocked(rules, table.excludeSpecs())
}

// withRule is rules, which it may change, after [RuleSet.Put].
func withRule(rules []Rule, r Rule, before string) ([]Rule, error) {
	at := slices.IndexFunc(rules, func(have Rule) bool { return have.Name == r.Name })
	if at >= 0 && before == "" {
		rules[at] = r
		return rules, nil
	}
	if at >= 0 { // it moves
		rules = slices.Delete(rules, at, at+1)
	}
	to := len(rules)
	if before != "" {
		to = slices.IndexFunc(rules, func(have Rule) bool { return have.Name == before })
	}
	if to < 0 {
		return nil, fmt.Errorf("%w %q", ErrUnknownRule, before)
	}
	return slices.Insert(rules, to, r), nil
}

// Remove removes the rule of that name, or returns ErrUnknownRule. Requests under way
// that it let in go on.
func (s *RuleSet) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	table := s.table.Load()
	rules, err := withoutRule(table.specs(), name)
	if err != nil {
		return err
	}
	return s.replaceLocked(rules, table.excludeSpecs())
}

// withoutRule is rules, which it changes, after [RuleSet.Remove].
func withoutRule(rules []Rule, name string) ([]Rule, error) {
	left := slices.DeleteFunc(rules, func(r Rule) bool { return r.Name == name })
	if len(left) == len(rules) {
		return nil, fmt.Errorf("%w %q", ErrUnknownRule, name)
	}
	return left, nil
}

// Rules is all rules in their order. The slice is the caller's.
func (s *RuleSet) Rules() []Rule { return s.table.Load().specs() }

// Excluded is all exclusions. The slice is the caller's.
func (s *RuleSet) Excluded() []string { return s.table.Load().excludeSpecs() }

// Rule is the rule that counts for a request, without asking for anything: for those who
// want to know why. It is not ok if there is none.
func (s *RuleSet) Rule(r *http.Request) (rule Rule, ok bool) {
	m := s.table.Load().match(r)
	if m.first == nil {
		return Rule{}, false
	}
	return m.first.Rule.clone(), true
}

// clone is a rule that shares nothing with r.
func (r *Rule) clone() Rule {
	c := *r
	c.Methods, c.Plans = slices.Clone(r.Methods), slices.Clone(r.Plans)
	return c
}
