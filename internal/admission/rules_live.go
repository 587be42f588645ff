package admission

// limits is rules and plans that belong together.
type limits struct {
	table *ruleTable
	plans *planSet
}

// inForce is what a request is judged by from beginning to end, also if it waits. Table
// and registry change one after the other ([RuleSet.change]), and a registry by itself too:
// so the table tells the plans that come with it, and which ones of the registry they
// replace.
func (s *RuleSet) inForce() limits {
	for {
		l := limits{s.table.Load(), s.cfg.Registry.current()}
		if s.table.Load() != l.table { // changed in between, and perhaps the registry after it
			continue
		}
		if l.plans == l.table.before {
			l.plans = l.table.plans
		}
		return l
	}
}

// draft is limits that are being changed.
type draft struct {
	plans   *planSet
	rules   []Rule
	exclude []string
}

// conflictError is a change that is right by itself but not beside the rules there are.
type conflictError struct{ err error }

func (e *conflictError) Error() string { return e.err.Error() }

func (e *conflictError) Unwrap() error { return e.err }

// change puts what do makes of the present limits in their place, all at once, after
// keep, if it is not nil, has kept them. If one of them fails, nothing has changed.
// Neither runs with a lock that requests take or those who change rules or plans by
// themselves; if such a change comes in between, both run again.
func (s *RuleSet) change(do func(*draft) error, keep func(limits) error) error {
	s.admin.Lock()
	defer s.admin.Unlock()
	for {
		old := limits{s.table.Load(), s.cfg.Registry.current()}
		d := draft{old.plans, old.table.specs(), old.table.excludeSpecs()}
		if err := do(&d); err != nil {
			return err
		}
		next, err := s.compile(old.table, d.plans, d.rules, d.exclude)
		if err != nil && d.plans != old.plans {
			return &conflictError{err}
		} else if err != nil {
			return err
		}
		if keep != nil {
			if err := keep(limits{next, next.plans}); err != nil {
				return err
			}
		}
		if s.publish(old, next) {
			return nil
		}
	}
}

// publish puts limits in force, unless there are others than old by now.
func (s *RuleSet) publish(old limits, next *ruleTable) bool {
	reg := s.cfg.Registry
	s.mu.Lock()
	defer s.mu.Unlock()
	reg.mu.Lock()
	defer reg.mu.Unlock()
	if s.table.Load() != old.table || reg.current() != old.plans {
		return false
	}
	next.before = old.plans
	s.table.Store(next)
	reg.set.Store(next.plans)
	return true
}
