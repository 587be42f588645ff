package admit

import "github.com/treadlight/crawl/internal/admission"

// each converts a list. Nil stays nil.
func each[A, B any](list []A, convert func(*A) B) []B {
	if list == nil {
		return nil
	}
	out := make([]B, len(list))
	for i := range list {
		out[i] = convert(&list[i])
	}
	return out
}

func planOf(p *Plan) admission.Plan {
	return admission.Plan{Name: p.Name, Kind: admission.Kind(p.Kind), Capacity: p.Capacity, TokensPerSecond: p.TokensPerSecond, Window: p.Window}
}

func ruleOf(r *Rule) admission.Rule {
	return admission.Rule{
		Name: r.Name, Path: r.Path, Methods: r.Methods, Key: r.Key, Plans: r.Plans, Cost: r.Cost, CostBy: r.CostBy,
		Concurrency: r.Concurrency, Wait: r.Wait, Shadow: r.Shadow, OnError: admission.OnError(r.OnError),
	}
}

func resultOf(r *admission.Result) Result {
	return Result{
		Allowed: r.Allowed, Limit: r.Limit, Remaining: r.Remaining, Wait: r.Wait, Reset: r.Reset, Plan: r.Plan, Reason: string(r.Reason),
	}
}

func denialOf(d *admission.Denial) Denial {
	return Denial{
		RateLimited: d.RateLimited, Rule: d.Rule, Shadow: d.Shadow, Status: d.Status, Method: d.Method, Path: d.Path,
		Key: d.Key, Result: resultOf(&d.Result),
	}
}

func statisticsOf(s *admission.Statistics) Statistics {
	out := Statistics{
		Allowed: s.Allowed, Denied: s.Denied, Failures: s.Failures, Fallbacks: s.Fallbacks, Timeouts: s.Timeouts,
		FailedOpen: s.FailedOpen, FailedClosed: s.FailedClosed, Exempt: s.Exempt, Down: s.Down,
	}
	for _, r := range s.Rules {
		out.Rules = append(out.Rules, RuleStatistics(r))
	}
	return out
}
