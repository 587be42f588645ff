package admission

import (
	"context"
	"net/http"
	"strings"
)

// What an administrator does by the endpoint.
func (s *RuleSet) Put(r Rule, before string) error {
	return s.change(func(d *draft) error { return d.put(r, before) }, nil)
}

func (s *RuleSet) Remove(name string) error {
	return s.change(func(d *draft) error { return d.remove(name) }, nil)
}

func (s *RuleSet) Rules() []Rule          { return s.table.Load().given.rules }
func (s *RuleSet) Excluded() []string     { return s.table.Load().given.exclude }
func (s *RuleSet) Save(path string) error { return save(path, s.table.Load()) }

// Rule is the first rule that counts for a request.
func (s *RuleSet) Rule(r *http.Request) (rule Rule, ok bool) {
	rules := s.table.Load().match(nil, r)
	if len(rules) == 0 {
		return Rule{}, false
	}
	return rules[0].Rule, true
}

func (s *RuleSet) PutPlan(p Plan) error {
	return s.change(func(d *draft) error { return d.putPlan(p) }, nil)
}

func (s *RuleSet) RemovePlan(name string) error {
	return s.change(func(d *draft) error { return d.removePlan(name) }, nil)
}

func (s *RuleSet) Plan(name string) (Plan, bool) { return s.planSet().plan(name) }

// PlanOfJSON reads a plan as files and requests have it.
func PlanOfJSON(text string) (Plan, error) {
	var tree any
	if err := readJSON(strings.NewReader(text), &tree); err != nil {
		return Plan{}, err
	}
	return planOf(tree)
}

// SetMaxOwed bounds the accounts that may owe something.
func (a *Admitter) SetMaxOwed(n int) { a.maxOwed = n }

// AllowOr is Allow with an OnError of the request's own.
func (a *Admitter) AllowOr(ctx context.Context, how OnError, key string, plans []string, tokens int64) (res Result, err error) {
	req := request{key: key, tokens: tokens, onError: how}
	if req.plans, err = a.cfg.Rules.planSet().list(plans); err == nil {
		err = a.decide(ctx, &req, &res)
	}
	return res, err
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
