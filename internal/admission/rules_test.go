package admission_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
)

// ruleSet is the rules over plans "a", "b" and "c" of ten tokens, one per second each.
func ruleSet(rules []admission.Rule, exclude ...string) *admission.RuleSet {
	plans := []admission.Plan{
		{Name: "a", Capacity: 10, TokensPerSecond: 1},
		{Name: "b", Capacity: 10, TokensPerSecond: 1},
		{Name: "c", Capacity: 10, TokensPerSecond: 1},
	}
	return must(admission.NewRuleSet(admission.RuleSetConfig{}, plans, rules, exclude))
}

// ruleFor is the name of the rule for a request, such as "GET /a"; empty if there is none.
func ruleFor(s *admission.RuleSet, request string) string {
	method, target, _ := strings.Cut(request, " ")
	rule, _ := s.Rule(httptest.NewRequest(method, target, nil))
	return rule.Name
}

func TestFirstMatchWins(t *testing.T) {
	s := ruleSet([]admission.Rule{
		{Name: "login", Path: "/api/auth/login", Plans: []string{"a"}},
		{Name: "write", Path: "/api/blog/**", Methods: []string{"POST", "PUT"}, Plans: []string{"a"}},
		{Name: "read", Path: "/api/blog/**", Methods: []string{"GET"}, Plans: []string{"a"}},
		{Name: "api", Path: "/api/**", Plans: []string{"b"}},
	}, "/api/health", "OPTIONS /**")
	for request, want := range map[string]string{
		"GET /api/auth/login":    "login",
		"GET /api/auth/login/":   "login",
		"GET /api/auth/login?x":  "login",
		"GET /api/auth/login/x":  "api",
		"POST /api/blog/1":       "write",
		"GET /api/blog":          "read",
		"HEAD /api/blog":         "read", // whom GET's handler serves
		"DELETE /api/blog/1":     "api",
		"get /api/blog":          "api", // another method than GET
		"GET /api":               "api",
		"GET /":                  "",
		"GET /api/health":        "",
		"GET /api/health/":       "",
		"OPTIONS /api/blog":      "",
		"GET /api/health/stream": "api",
		// No request excludes itself by a path that one handler reads as the excluded one and another does not.
		"GET /api/%68ealth":            "api",
		"GET /api//health":             "api",
		"GET /api/login/../health":     "api",
		"GET /api/login%2F..%2Fhealth": "api",
	} {
		require.Equal(t, want, ruleFor(s, request), request)
	}
}

func TestMethodOverrideIsNotHonoured(t *testing.T) {
	s := ruleSet([]admission.Rule{
		{Name: "write", Path: "/**", Methods: []string{"POST"}, Plans: []string{"a"}},
		{Name: "read", Path: "/**", Methods: []string{"GET"}, Plans: []string{"b"}},
	})
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		r := httptest.NewRequest(http.MethodPost, "/a?_method=GET", nil)
		r.Header.Set(name, "GET")
		rule, ok := s.Rule(r)
		require.True(t, ok)
		require.Equal(t, "write", rule.Name, name)
	}
}

func TestRuleErrors(t *testing.T) {
	good := admission.Rule{Name: "r", Path: "/", Plans: []string{"a"}}
	for want, change := range map[string]func(*admission.Rule){
		`rules[1].name is ""`:                   func(r *admission.Rule) { r.Name = "" },
		`rules[1].name is "x y"`:                func(r *admission.Rule) { r.Name = "x y" },
		`rules[1].name is "first"`:              func(r *admission.Rule) { r.Name = "first" },
		`rules[1].path is ""`:                   func(r *admission.Rule) { r.Path = "" },
		`rules[1].path is "/a/**b"`:             func(r *admission.Rule) { r.Path = "/a/**b" },
		`rules[1].methods[1] is "post"`:         func(r *admission.Rule) { r.Methods = []string{"GET", "post"} },
		`rules[1].key is "who"`:                 func(r *admission.Rule) { r.Key = "who" },
		`rules[1].key is "ip+"`:                 func(r *admission.Rule) { r.Key = "ip+" },
		`rules[1].key is "header:"`:             func(r *admission.Rule) { r.Key = "header:" },
		`rules[1].plans is empty`:               func(r *admission.Rule) { r.Plans = nil },
		`rules[1].plans[1] is "none"`:           func(r *admission.Rule) { r.Plans = []string{"a", "none"} },
		`rules[1].plans is 17 names`:            func(r *admission.Rule) { r.Plans = make([]string, 17) },
		`rules[1].cost is -1`:                   func(r *admission.Rule) { r.Cost = -1 },
		`rules[1].cost is 11: use no more than`: func(r *admission.Rule) { r.Cost = 11 },
		`rules[1].cost is 2: leave it out`:      func(r *admission.Rule) { r.Cost, r.CostBy = 2, "bytes" },
		`rules[1].cost_by is "bytes"`:           func(r *admission.Rule) { r.CostBy = "bytes" },
		`rules[1].concurrency is -1`:            func(r *admission.Rule) { r.Concurrency = -1 },
		`rules[1].wait is 2h0m0s`:               func(r *admission.Rule) { r.Wait = 2 * time.Hour },
		`rules[1].on_error is "ajar"`:           func(r *admission.Rule) { r.OnError = "ajar" },
	} {
		s := ruleSet([]admission.Rule{good})
		bad := good
		change(&bad)
		err := s.Replace(s.Plans(), []admission.Rule{{Name: "first", Path: "/", Plans: []string{"a"}}, bad}, nil)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, admission.ErrInvalidRule, want)
		require.Equal(t, []admission.Rule{good}, s.Rules(), "nothing is replaced")
	}
	s := ruleSet(nil)
	require.ErrorContains(t, s.Replace(nil, nil, []string{"/a", "get /b"}), `exclude[1] is "get /b"`)
	require.ErrorContains(t, s.Replace(nil, nil, []string{"b"}), `exclude[0] is "b": begin it with "/"`)
	require.ErrorContains(t, s.Replace(nil, make([]admission.Rule, 1001), nil), "use no more than 1000")
}

func TestNewRuleSetRejects(t *testing.T) {
	for want, cfg := range map[string]admission.RuleSetConfig{
		"Trusted[1] is 0.0.0.0/0: name the proxies": {Trusted: prefixes("10.0.0.0/8", "0.0.0.0/0")},
		"Trusted[0] is ::/0":                        {Trusted: prefixes("::/0")},
		"Trusted[0] is ::ffff:0.0.0.0/96":           {Trusted: prefixes("::ffff:0.0.0.0/96")}, // all of IPv4
		"Trusted[0] is invalid Prefix":              {Trusted: make([]netip.Prefix, 1)},
		`Keys["a b"]`:                               {Keys: map[string]admission.KeyFunc{"a b": admission.Global()}},
		`Keys["tenant"]`:                            {Keys: map[string]admission.KeyFunc{"tenant": nil}},
		`Costs["bytes"]`:                            {Costs: map[string]func(*http.Request) int64{"bytes": nil}},
	} {
		_, err := admission.NewRuleSet(cfg, nil, nil, nil)
		require.ErrorContains(t, err, want)
	}
}

func TestPutAndRemoveRules(t *testing.T) {
	rule := func(name string) admission.Rule {
		return admission.Rule{Name: name, Path: "/", Plans: []string{"a"}}
	}
	s := ruleSet([]admission.Rule{rule("one"), rule("two")}, "/x")
	names := func() string {
		var all []string
		for _, r := range s.Rules() {
			all = append(all, r.Name)
		}
		return strings.Join(all, " ")
	}
	require.NoError(t, s.Put(rule("three"), ""))
	require.Equal(t, "one two three", names())
	require.NoError(t, s.Put(rule("zero"), "one"))
	require.Equal(t, "zero one two three", names())
	changed := rule("one")
	changed.Cost = 3
	require.NoError(t, s.Put(changed, ""))
	require.Equal(t, "zero one two three", names())
	require.Equal(t, int64(3), s.Rules()[1].Cost)
	require.NoError(t, s.Put(rule("three"), "zero"))
	require.Equal(t, "three zero one two", names())
	require.ErrorIs(t, s.Put(rule("x"), "none"), admission.ErrUnknownRule)
	require.ErrorIs(t, s.Put(rule("one"), "one"), admission.ErrUnknownRule)
	require.ErrorIs(t, s.Put(admission.Rule{Name: "bad"}, ""), admission.ErrInvalidRule)
	require.NoError(t, s.Remove("zero"))
	require.ErrorIs(t, s.Remove("zero"), admission.ErrUnknownRule)
	require.Equal(t, "three one two", names())
	require.Equal(t, []string{"/x"}, s.Excluded())
}

func TestDefaultRules(t *testing.T) {
	plans, rules, exclude := admission.DefaultRules()
	s := must(admission.NewRuleSet(admission.RuleSetConfig{}, plans, rules, exclude))
	for request, want := range map[string]struct {
		rule   string
		tokens int64
		window time.Duration
	}{
		"POST /api/auth/login":    {"login", 5, time.Minute},
		"POST /api/auth/register": {"register", 3, time.Hour},
		"POST /api/blog":          {"blog-write", 10, time.Minute},
		"GET /api/blog":           {"api", 100, time.Minute},
		"GET /api/users/1":        {"api", 100, time.Minute},
		"GET /api/health":         {},
		"GET /api/traces/stream":  {},
		"GET /index.html":         {},
	} {
		require.Equal(t, want.rule, ruleFor(s, request), request)
		p, _ := s.Plan(want.rule)
		require.Equal(t, want.tokens, p.Capacity, request)
		require.Equal(t, want.window, p.Window, request)
	}
}

// TestNoRulesAreTheDefaultRules: who gives no rules has those of DefaultRules by whichever
// constructor, with their plans beside its own; a list of no rules is none.
func TestNoRulesAreTheDefaultRules(t *testing.T) {
	plans, rules, exclude := admission.DefaultRules()
	own := admission.Plan{Name: "api", Kind: admission.KindFixedWindow, Capacity: 7, Window: time.Second}
	set := must(admission.NewRuleSet(admission.RuleSetConfig{}, []admission.Plan{own}, nil, nil))
	require.Equal(t, rules, set.Rules())
	require.Equal(t, exclude, set.Excluded())
	require.Len(t, set.Plans(), len(plans))
	kept, _ := set.Plan("api")
	require.Equal(t, own, kept)

	set = plansOf()
	require.Empty(t, set.Rules())
	require.Empty(t, set.Plans())
}

func TestSettle(t *testing.T) {
	p := must(admission.Plan{Name: "p", Capacity: 1, TokensPerSecond: 1}.Settle())
	require.Equal(t, admission.KindTokenBucket, p.Kind, "the default")

	bucket := admission.Plan{Name: "p", Kind: admission.KindTokenBucket, Capacity: 5, TokensPerSecond: 1}
	window := admission.Plan{Name: "p", Kind: admission.KindFixedWindow, Capacity: 5, Window: time.Second}
	for _, tc := range []struct {
		field string
		plan  admission.Plan
		edit  func(*admission.Plan)
	}{
		{"name", bucket, func(p *admission.Plan) { p.Name = "" }},
		{"name", bucket, func(p *admission.Plan) { p.Name = "a:b" }},
		{"name", bucket, func(p *admission.Plan) { p.Name = "é" }},
		{"name", bucket, func(p *admission.Plan) { p.Name = strings.Repeat("p", 65) }},
		{"kind", bucket, func(p *admission.Plan) { p.Kind = "leaky" }},
		{"capacity", bucket, func(p *admission.Plan) { p.Capacity = 0 }},
		{"capacity", window, func(p *admission.Plan) { p.Capacity = -1 }},
		{"capacity", window, func(p *admission.Plan) { p.Capacity = admission.MaxCapacity + 1 }},
		{"tokens_per_second", bucket, func(p *admission.Plan) { p.TokensPerSecond = 0 }},
		{"tokens_per_second", bucket, func(p *admission.Plan) { p.TokensPerSecond = -1 }},
		{"tokens_per_second", bucket, func(p *admission.Plan) { p.TokensPerSecond = 1e10 }},
		{"tokens_per_second", bucket, func(p *admission.Plan) { p.TokensPerSecond = math.NaN() }},
		{"tokens_per_second", bucket, func(p *admission.Plan) { p.TokensPerSecond = math.Inf(1) }},
		{"tokens_per_second", window, func(p *admission.Plan) { p.TokensPerSecond = 1 }},
		{"window", bucket, func(p *admission.Plan) { p.Window = time.Second }},
		{"window", window, func(p *admission.Plan) { p.Window = 0 }},
		{"window", window, func(p *admission.Plan) { p.Window = time.Microsecond }},
		{"window", window, func(p *admission.Plan) { p.Window = 367 * 24 * time.Hour }},
		{"window", window, func(p *admission.Plan) { p.Window = time.Second + 1 }},
	} {
		tc.edit(&tc.plan)
		_, err := tc.plan.Settle()
		require.ErrorIs(t, err, admission.ErrInvalidPlan, "%+v", tc.plan)
		var wrong *admission.FieldError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, tc.field, wrong.Field, "%+v", tc.plan)
	}
}

func TestPlanTimes(t *testing.T) {
	for _, tc := range []struct {
		plan        admission.Plan
		period, ttl time.Duration
		window      time.Duration
	}{
		{admission.Plan{Capacity: 10, TokensPerSecond: 2}, 5 * time.Second, 5 * time.Second, 5 * time.Second},
		{admission.Plan{Capacity: 1, TokensPerSecond: 3}, 333334 * time.Microsecond, time.Second, 333334 * time.Microsecond},
		{admission.Plan{Capacity: 1, TokensPerSecond: 1e9}, time.Microsecond, time.Second, time.Microsecond},
		{
			admission.Plan{Capacity: admission.MaxCapacity, TokensPerSecond: 1e-9},
			36600 * 24 * time.Hour, 36600 * 24 * time.Hour, 36600 * 24 * time.Hour,
		},
		{admission.Plan{Kind: admission.KindFixedWindow, Capacity: 5, Window: time.Minute}, time.Minute, time.Minute, time.Minute},
		{admission.Plan{Kind: admission.KindSlidingWindow, Capacity: 5, Window: time.Minute}, 2 * time.Minute, 2 * time.Minute, time.Minute},
		{admission.Plan{Kind: admission.KindFixedWindow, Capacity: 5, Window: time.Millisecond}, time.Millisecond, time.Second, time.Millisecond},
	} {
		tc.plan.Name = "p"
		p := settled(tc.plan)
		require.Equal(t, tc.period, p.Period(), "Period of %+v", p)
		require.Equal(t, tc.ttl, p.TTL(), "TTL of %+v", p)
		tokens, window := p.PerWindow()
		require.Equal(t, p.Capacity, tokens)
		require.Equal(t, tc.window, window, "PerWindow of %+v", p)
	}
}

func TestPlanJSON(t *testing.T) {
	p := settled(admission.Plan{Name: "login", Kind: admission.KindSlidingWindow, Capacity: 5, Window: time.Minute})
	require.JSONEq(t, `{"name":"login","kind":"sliding-window","capacity":5,"window":"1m0s"}`, string(must(json.Marshal(p))))

	for _, tc := range []struct{ text, field string }{
		{`{"name":"p","capacity":1,"tokens_per_second":1,"burst":2}`, "burst"},
		{`{"name":3,"capacity":1,"tokens_per_second":1}`, "name"},
		{`{"name":"p","capacity":1.5,"tokens_per_second":1}`, "capacity"},
		{`{"name":"p","capacity":1e300,"tokens_per_second":1}`, "capacity"},
		{`{"name":"p","capacity":"1","tokens_per_second":1}`, "capacity"},
		{`{"name":"p","capacity":1,"tokens_per_second":1e999}`, "tokens_per_second"},
		{`{"name":"p","kind":"fixed-window","capacity":1,"window":60}`, "window"},
		{`{"name":"p","kind":"fixed-window","capacity":1,"window":"60"}`, "window"},
		{`{"name":"p","kind":null,"capacity":1,"window":"1m"}`, "kind"},
		{`[]`, "name"},
	} {
		_, err := admission.PlanOfJSON(tc.text)
		var wrong *admission.FieldError
		require.ErrorAs(t, err, &wrong, tc.text)
		require.Equal(t, tc.field, wrong.Field, tc.text)
	}
}

var (
	login = admission.Plan{Name: "login", Kind: admission.KindFixedWindow, Capacity: 5, Window: time.Minute}
	api   = admission.Plan{Name: "api", Kind: admission.KindTokenBucket, Capacity: 100, TokensPerSecond: 1.5}
	daily = admission.Plan{Name: "daily", Kind: admission.KindSlidingWindow, Capacity: 1000, Window: 24 * time.Hour}
)

func plansOf(plans ...admission.Plan) *admission.RuleSet {
	return must(admission.NewRuleSet(admission.RuleSetConfig{}, plans, []admission.Rule{}, nil))
}

func TestPlansChange(t *testing.T) {
	r := plansOf()
	require.Empty(t, r.Plans())
	require.NoError(t, r.PutPlan(login))
	require.NoError(t, r.PutPlan(admission.Plan{Name: "api", Capacity: 100, TokensPerSecond: 1.5}))
	require.Equal(t, []admission.Plan{login, api}, r.Plans(), "settled, in the order they came")

	stricter := login
	stricter.Capacity = 3
	require.NoError(t, r.PutPlan(stricter))
	require.Equal(t, []admission.Plan{stricter, api}, r.Plans(), "in its place")
	require.ErrorIs(t, r.PutPlan(admission.Plan{Name: "x"}), admission.ErrInvalidPlan)

	require.NoError(t, r.RemovePlan("login"))
	require.ErrorIs(t, r.RemovePlan("login"), admission.ErrUnknownPlan)
	_, ok := r.Plan("login")
	require.False(t, ok)
	p, ok := r.Plan("api")
	require.True(t, ok)
	require.Equal(t, api, p)

	require.EqualError(t, r.Replace([]admission.Plan{login, api, login}, nil, nil), `plans[2].name is "login": use another name, plans[0] has it`)
	require.Equal(t, []admission.Plan{api}, r.Plans(), "an error changes nothing")
	r.Plans()[0].Capacity = 1
	require.Equal(t, []admission.Plan{api}, r.Plans(), "the slice is the caller's")
}

func TestPlansAreBounded(t *testing.T) {
	plans := make([]admission.Plan, 10_000)
	for i := range plans {
		plans[i] = login
		plans[i].Name = fmt.Sprint(i)
	}
	r := plansOf(plans...)
	require.ErrorContains(t, r.PutPlan(login), "no more than 10000")
	require.ErrorContains(t, r.Replace(append(plans, login), nil, nil), "no more than 10000")
}
