package redis

import (
	"context"
	"maps"
	"slices"
)

// Budget is what all processes of a job have together, and what they use of it.
type Budget struct {
	Name string `json:"name"` // of its term, such as "max_pages"
	Plan string `json:"plan"` // as the term has it
	// Used is pages, seconds since the job was begun, requests or bytes a second, or
	// requests that are out, by what the budget bounds: of rates and requests that are out it is
	// the sum of what the processes have told last.
	Used float64 `json:"used"`
	// Scope is where that is used, of a budget that each scope has: of all that processes tell of
	// the busiest. Empty: the job as a whole, or no scope has used any.
	Scope string `json:"scope,omitempty"`
}

// The terms that are budgets of the job as a whole.
var budgetTerms = []string{
	maxPages, maxTime, "ratelimit.global_rps", "ratelimit.ip_rps", "ratelimit.site_rps", "ratelimit.global_concurrency", "ratelimit.global_bytes",
}

// budgets fills in those that the job has.
func (f *Fleet) budgets(ctx context.Context, s *Status) error {
	s.Budgets = []Budget{}
	for _, name := range budgetTerms {
		plan, ok := s.Terms[name]
		if !ok || plan == "0" { // an operator has taken the bound away
			continue
		}
		b := Budget{Name: name, Plan: plan}
		switch name {
		case maxPages:
			drawn, err := f.client.Do(ctx, f.client.B().Hmget().Key(jobKey(s.Job, "drawn")).Field(maxPages).Build()).AsStrSlice()
			if err != nil {
				return err
			}
			b.Used = float64(parse(drawn[0]))
		case maxTime:
			b.Used = s.Now.Sub(s.Created).Seconds()
		case "ratelimit.ip_rps", "ratelimit.site_rps":
			b.Scope, b.Used = s.busiest(name)
		default:
			for i := range s.Workers {
				if s.Workers[i].Alive {
					b.Used += s.Workers[i].Use[name]
				}
			}
		}
		s.Budgets = append(s.Budgets, b)
	}
	return nil
}

// busiest is the scope of which all processes together use most, as far as each has told of it.
func (s *Status) busiest(name string) (scope string, used float64) {
	sums := make(map[string]float64)
	for i := range s.Workers {
		if s.Workers[i].Alive {
			for at, n := range s.Workers[i].Busiest[name] {
				sums[at] += n
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(sums)) {
		if sums[at] > used {
			scope, used = at, sums[at]
		}
	}
	return scope, used
}
