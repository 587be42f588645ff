package admission

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/limit"
)

const (
	maxRules       = 1000      // each request is compared with all rules, one by one: this many take some microseconds
	maxRulePlans   = 16        // all are charged in one decision, and listed in one header
	maxWait        = time.Hour // longer than any proxy keeps a request without a response
	maxConcurrency = 1 << 24   // more goroutines than a machine has memory for

	// lineLength is how many requests of one key may wait. Each takes a connection and a goroutine, and a client with
	// that many waiting requests pays no attention to denials.
	lineLength = 128

	// slotsSuffix is appended to a rule's name to name the policy that tells clients the rule's concurrency.
	slotsSuffix = "-concurrency"
)

type ruleTable struct {
	given   draft // what it was compiled from; its slices are never nil, so that files show an empty list, and never change
	rules   []*compiledRule
	exclude []exclusion
	folds   bool     // some pattern has capital letters
	plans   *planSet // contains every plan that the rules name
}

type compiledRule struct {
	Rule
	glob  glob
	any   glob // for paths with case folded
	key   KeyFunc
	cost  func(*http.Request) int64 // nil means that Cost applies
	slots *limit.Keyed[string]      // nil without Concurrency
	line  *limit.Keyed[string]      // has the waiting requests of each key; nil without Wait

	terms   *terms
	counts  *ruleCounts
	denials DenialLog
	failed  atomic.Bool // whether a failure of its key function was logged
}

type exclusion struct {
	method string // empty means all
	glob   glob
}

// match appends the rules that apply to a request: one, unless its path can be read in several ways or rules differ in
// case only. Then the first rule for each reading applies; each rule is listed once. None means that the request is
// excluded or matches no rule. A handler may or may not distinguish upper and lower case, so two rules apply: the first
// whose pattern matches the path as it is, and the first whose pattern matches it without regard to case.
func (t *ruleTable) match(rules []*compiledRule, r *http.Request) []*compiledRule {
	path, more := readings(r.URL)
	if len(more) == 0 && t.excludes(r.Method, path) {
		return rules
	}
	for i := 0; ; i++ {
		rules = t.appendFirst(rules, r.Method, path, false)
		if folded := fold(path); t.folds || folded != path {
			rules = t.appendFirst(rules, r.Method, folded, true)
		}
		if i == len(more) {
			return rules
		}
		path = more[i]
	}
}

func (t *ruleTable) excludes(method, path string) bool {
	for i := range t.exclude {
		e := &t.exclude[i]
		if (e.method == "" || covers(e.method, method)) && e.glob.match(path) {
			return true
		}
	}
	return false
}

func (t *ruleTable) appendFirst(rules []*compiledRule, method, path string, folded bool) []*compiledRule {
	for _, rule := range t.rules {
		g := &rule.glob
		if folded {
			g = &rule.any
		}
		if rule.has(method) && g.match(path) {
			if !slices.Contains(rules, rule) {
				rules = append(rules, rule)
			}
			break
		}
	}
	return rules
}

// has reports whether the rule applies to the request's method. Headers that override the method are not read: a client
// could choose by them a rule for a method that the handler does not see.
func (r *compiledRule) has(method string) bool {
	return len(r.Methods) == 0 || slices.ContainsFunc(r.Methods, func(m string) bool { return covers(m, method) })
}

// covers reports whether a rule for method m applies to method. The handlers of GET serve HEAD too.
func covers(m, method string) bool {
	return m == method || m == http.MethodGet && method == http.MethodHead
}

// compile makes a table of d. It keeps from the table in use the limiters by which requests in flight are counted.
func (s *RuleSet) compile(old *ruleTable, plans *planSet, d *draft) (*ruleTable, error) {
	if n := len(d.rules) + len(d.exclude); n > maxRules {
		return nil, fmt.Errorf("rules: there are %d with the exclusions: use no more than %d", n, maxRules)
	}
	next := &ruleTable{plans: plans, given: draft{plans.plans, make([]Rule, len(d.rules)), append([]string{}, d.exclude...)}}
	index := map[string]int{}
	for i := range d.rules {
		next.given.rules[i] = d.rules[i].clone()
		rule, err := s.compileRule(plans, next.given.rules[i])
		if err == nil {
			if first, ok := index[rule.Name]; ok {
				err = ruleError("name", quote(rule.Name), fmt.Sprintf("use another name, rules[%d] has it", first))
			}
		}
		if err == nil {
			err = rule.equip(s, old)
		}
		if err != nil {
			return nil, fmt.Errorf("rules[%d].%w", i, err)
		}
		index[rule.Name] = i
		next.rules = append(next.rules, rule)
		next.folds = next.folds || rule.any.text != rule.glob.text
	}
	for i, text := range d.exclude {
		e, err := parseExclusion(text)
		if err != nil {
			return nil, fmt.Errorf("exclude[%d] is %w", i, err)
		}
		next.exclude = append(next.exclude, e)
	}
	return next, nil
}

// parseExclusion reads a pattern, or a method, a space and a pattern. The method allows to exclude the OPTIONS requests
// that browsers send ahead of others (preflight): if one is denied, the page breaks.
func parseExclusion(text string) (e exclusion, err error) {
	pattern := text
	if method, rest, ok := strings.Cut(text, " "); ok {
		if !validMethod(method) {
			return e, fmt.Errorf(`%q: write a path, or a method, a space and a path, as "OPTIONS /**"`, text)
		}
		e.method, pattern = method, strings.TrimLeft(rest, " ")
	}
	e.glob, err = parseGlob(pattern)
	return e, err
}

// compileRule resolves the names in a rule: its key, plans and cost function.
func (s *RuleSet) compileRule(plans *planSet, r Rule) (c *compiledRule, err error) {
	if err := r.check(plans); err != nil {
		return nil, err
	}
	c = &compiledRule{Rule: r, terms: r.terms(plans)}
	if c.glob, err = parseGlob(r.Path); err == nil {
		c.any, err = parseGlob(fold(r.Path))
	}
	if err != nil {
		return nil, ruleError("path", fmt.Sprintf("%.40q", r.Path), err.Error())
	}
	if c.key, err = s.keyByName(r.Key); err != nil {
		return nil, err
	}
	if r.CostBy != "" {
		if c.cost = s.cfg.Costs[r.CostBy]; c.cost == nil {
			return nil, ruleError("cost_by", quote(r.CostBy), "use a name that Costs has")
		}
	}
	return c, nil
}

// check checks the fields of a rule and whether its plans exist. A rule that limits nothing is an error: as the first
// match it would allow everything.
func (r *Rule) check(plans *planSet) error {
	switch {
	case !validName(r.Name):
		return ruleError("name", quote(r.Name), nameFix)
	case len(r.Plans) == 0 && r.Concurrency == 0:
		return ruleError("plans", "empty", "name a plan, or set a concurrency, or exclude the path")
	case len(r.Plans) > maxRulePlans:
		return ruleError("plans", fmt.Sprintf("%d names", len(r.Plans)), fmt.Sprintf("use no more than %d", maxRulePlans))
	case r.Cost < 0 || r.Cost > MaxCapacity:
		return ruleError("cost", r.Cost, fmt.Sprintf("use 1 to %d, or leave it out for 1", MaxCapacity))
	case r.Cost != 0 && r.CostBy != "":
		return ruleError("cost", r.Cost, "leave it out: cost_by tells the cost")
	case r.Concurrency < 0 || r.Concurrency > maxConcurrency:
		return ruleError("concurrency", r.Concurrency, fmt.Sprintf("use 1 to %d, or leave it out for any number", maxConcurrency))
	case r.Wait < 0 || r.Wait > maxWait:
		return ruleError("wait", r.Wait, fmt.Sprintf("use up to %v, or leave it out", maxWait))
	case !r.OnError.valid():
		return ruleError("on_error", quote(r.OnError), `use "open" or "closed", or leave it out`)
	}
	for i, m := range r.Methods {
		if !validMethod(m) {
			return ruleError(fmt.Sprintf("methods[%d]", i), quote(m), "write a method as requests do, in capitals")
		}
	}
	for i, name := range r.Plans {
		if p, ok := plans.plan(name); !ok {
			return ruleError(fmt.Sprintf("plans[%d]", i), quote(name), "use the name of a plan")
		} else if r.Cost > p.Capacity {
			return ruleError("cost", r.Cost, fmt.Sprintf("use no more than plan %q ever holds, which is %d", name, p.Capacity))
		}
	}
	return nil
}

// validMethod reports whether s can be a method. All methods in use are in capital letters, so another spelling is
// taken for a mistake.
func validMethod(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == ""
}

// equip gives a rule the limiters of this process. It takes those of the old rule of the same name if their settings
// are equal: otherwise a change of another setting would allow as many requests again as are in flight. Limiters that
// are replaced are not closed: requests that they admitted still release their places to them, and requests that wait
// at them go on waiting.
func (r *compiledRule) equip(s *RuleSet, old *ruleTable) (err error) {
	before := &compiledRule{}
	if i := slices.IndexFunc(old.rules, func(o *compiledRule) bool { return o.Name == r.Name }); i >= 0 {
		before = old.rules[i]
	}
	if r.counts = before.counts; r.counts == nil {
		r.counts = new(ruleCounts)
	}
	if r.Concurrency > 0 {
		if r.slots = before.slots; r.slots == nil || before.Concurrency != r.Concurrency {
			r.slots, err = s.turnstile(r.Name, r.Concurrency)
		}
	}
	if r.Wait > 0 && len(r.Plans) > 0 && err == nil {
		if r.line = before.line; r.line == nil {
			r.line, err = s.turnstile(r.Name, 1)
		}
	}
	return err
}

// turnstile returns a limiter that admits at requests at a time for each key. Keys for which it has no room of their
// own share one count, which is slower for them and lets nobody pass the limit.
func (s *RuleSet) turnstile(name string, at int64) (*limit.Keyed[string], error) {
	return limit.NewKeyed(limit.KeyedConfig[string]{
		Name: name, Limit: limit.Spec{Kind: limit.KindConcurrency, Permits: at, Queue: lineLength},
	}, limit.WithClock(s.cfg.Clock))
}

// keyByName returns the key function for the key of a rule, in which several names may be joined by "+".
func (s *RuleSet) keyByName(text string) (KeyFunc, error) {
	text = cmp.Or(text, "ip")
	var parts []KeyFunc
	for name := range strings.SplitSeq(text, "+") {
		key := s.oneKey(name)
		if key == nil {
			return nil, ruleError("key", quote(text), `use "ip", "user", "route", "global", "header:NAME", a name that Keys has, or several joined by "+"`)
		}
		parts = append(parts, key)
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return Composite(parts...), nil
}

// oneKey returns the function of one name, or nil if the name is unknown. A request without such a key is counted by
// its address, found with the trusted proxies of the rules.
func (s *RuleSet) oneKey(name string) KeyFunc {
	ip := ClientIP(s.cfg.Trusted...)
	if key := s.cfg.Keys[name]; key != nil {
		return byName("key:"+name+":", key, ip) // a name contains no colon
	}
	switch name {
	case "ip":
		return ip
	case "user":
		return User(s.cfg.Principal, ip)
	case "route":
		return Route()
	case "global":
		return Global()
	}
	if header, ok := strings.CutPrefix(name, "header:"); ok && validName(header) {
		return Header(header, ip)
	}
	return nil
}

type terms struct {
	plans  []Plan        // the plans that are charged, each once
	limits []limitFields // what X-RateLimit-Limit and X-RateLimit-Policy say of each
	policy string        // the value of RateLimit-Policy; empty if no plan can be told
}

// limitFields has the values of X-RateLimit-Limit and X-RateLimit-Policy for a plan: "100" and "100;w=60".
type limitFields struct{ tokens, policy string }

func limitOf(tokens int64, window time.Duration) limitFields {
	text := strconv.FormatInt(tokens, 10)
	return limitFields{text, text + ";w=" + strconv.FormatInt(ceilSeconds(window), 10)}
}

func (r *Rule) terms(set *planSet) *terms {
	t := &terms{}
	t.plans, _ = set.list(r.Plans) // the plans of a checked rule exist
	var told []header.Policy
	for _, p := range t.plans {
		tokens, window := p.PerWindow()
		tokens, window = limit.Standing{Limit: tokens, Window: window}.PerWindow()
		told = append(told, header.Policy{Name: p.Name, Quota: tokens, Window: window})
		t.limits = append(t.limits, limitOf(tokens, window))
	}
	if r.Concurrency > 0 {
		told = append(told, header.Policy{Name: r.Name + slotsSuffix, Quota: r.Concurrency, Unit: header.UnitInFlight})
	}
	if text, err := header.FormatPolicies(told); err == nil { // the error means that there are no policies
		t.policy = text
	}
	return t
}

// planOf returns the plan that a Result is about, or nil. It compares names one by one: a rule has few plans, and most
// of their names differ in length already.
func (t *terms) planOf(res *Result) *Plan {
	for i := range t.plans {
		if t.plans[i].Name == res.Plan {
			return &t.plans[i]
		}
	}
	return nil
}

// limitOf returns the limit that headers show for a Result. For a decision of a fallback that is the fallback's share,
// and not the limit of the plan.
func (t *terms) limitOf(res *Result) limitFields {
	for i := range t.plans {
		if p := &t.plans[i]; p.Capacity == res.Limit {
			return t.limits[i]
		}
	}
	if p := t.planOf(res); p != nil {
		return limitOf(res.Standing(p).PerWindow())
	}
	return limitOf(res.Limit, 0)
}
