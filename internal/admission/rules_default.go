package admission

import "time"

// withDefaults is the default rules and exclusions, if there are none of the program's own. The
// plans that they need it adds to the registry, where one with the same name counts.
func withDefaults(registry *Registry, own []string) (rules []Rule, exclude []string, err error) {
	plans, rules, exclude := DefaultRules()
	for _, p := range plans {
		if _, ok := registry.Plan(p.Name); ok {
			continue
		}
		if err := registry.Put(p); err != nil {
			return nil, nil, err
		}
	}
	if own != nil {
		exclude = own
	}
	return rules, exclude, nil
}

// DefaultRules is what an API with accounts needs to begin with, and a pattern for one's
// own: plans, rules in their order, and what costs nothing. The slices are the caller's.
//
//	path                rule        at most         per
//	/api/auth/login     login       5 in a minute   address
//	/api/auth/register  register    3 in an hour    address
//	/api/blog/**        blog-write  10 in a minute  user, for what changes something
//	/api/**             api         100 in a minute user, or address of who has none
//
// All are sliding windows: around the border of two fixed ones there would be twice as
// many guesses at a password. For the same reason the first two are closed when the store
// does not answer. They count by the address because who logs in is no user yet.
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
	// Probes of whether it lives must not be what it dies of, and streams are one
	// request for hours.
	return plans, rules, []string{"/api/health", "/api/health/stream", "/api/traces/stream"}
}
