package redis

import (
	"context"
)

// Budget is what all processes of a job have together, and what they use of it.
type Budget struct {
	Name string `json:"name"` // of its term, such as "max_pages"
	Plan string `json:"plan"` // as the term has it
	// Used is pages, seconds since the job was begun, requests or bytes a second, or
	// requests that are out, by what the budget bounds: of rates and requests that are out it is
	// the sum of what the processes have told last.
	Used float64 `json:"used"`
}

// The terms that are budgets of the job as a whole.
var budgetTerms = []string{
	maxPages, "max_time", "ratelimit.global_rps", "ratelimit.global_concurrency", "ratelimit.global_bytes",
}

// budgets fills in those that the job has.
func (f *Fleet) budgets(ctx context.Context, s *Status) error {
	s.Budgets = []Budget{}
	for _, name := range budgetTerms {
		plan, ok := s.Terms[name]
		if !ok {
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
		case "max_time":
			b.Used = s.Now.Sub(s.Created).Seconds()
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
