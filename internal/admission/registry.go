package admission

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// ErrUnknownPlan is the error for a name that no plan of the registry has.
var ErrUnknownPlan = errors.New("unknown plan")

// maxPlans bounds a registry, and with it what each key may have accounts of.
const maxPlans = 10_000

// Registry has plans by name. Readers see a whole set: the one before a change or the one after.
// The zero Registry is empty and ready. All methods are safe for concurrent use; a Registry must
// not be copied.
type Registry struct {
	set atomic.Pointer[planSet] // nil means empty

	mu sync.Mutex // taken by those who change the set, one after the other
}

// planSet never changes.
type planSet struct {
	plans []Plan // in the order in which they came, settled
	index map[string]int
}

// NewRegistry returns a Registry of these plans. Its error tells which of them is wrong, as
// `plans[2].capacity`, and is an [ErrInvalidPlan].
func NewRegistry(plans ...Plan) (*Registry, error) {
	r := &Registry{}
	return r, r.Replace(plans...)
}

// Replace puts these plans in the place of all others, or, if it returns an error, none.
func (r *Registry) Replace(plans ...Plan) error {
	return r.change(func(*planSet) (*planSet, error) { return newPlanSet(plans) })
}

// Put adds a plan, or puts it in the place of the one of its name. Its error is a [*FieldError].
func (r *Registry) Put(p Plan) error {
	return r.change(func(old *planSet) (*planSet, error) { return old.with(p) })
}

// change puts what do makes of the present set in its place.
func (r *Registry) change(do func(old *planSet) (*planSet, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := do(r.current())
	if err == nil {
		r.set.Store(next)
	}
	return err
}

func newPlanSet(plans []Plan) (*planSet, error) {
	if len(plans) > maxPlans {
		return nil, fmt.Errorf("plans: there are %d: use no more than %d", len(plans), maxPlans)
	}
	set := &planSet{make([]Plan, 0, len(plans)), make(map[string]int, len(plans))}
	for i, p := range plans {
		p, err := p.Settle()
		if first, ok := set.index[p.Name]; ok && err == nil {
			err = planError("name", quote(p.Name), fmt.Sprintf("use another name, plans[%d] has it", first))
		}
		if err != nil {
			return nil, fmt.Errorf("plans[%d].%w", i, err)
		}
		set.index[p.Name] = i
		set.plans = append(set.plans, p)
	}
	return set, nil
}

// with is a set with a plan more, or in the place of the one of its name.
func (s *planSet) with(p Plan) (*planSet, error) {
	p, err := p.Settle()
	if err != nil {
		return nil, err
	}
	next := &planSet{slices.Clone(s.plans), s.index}
	if i, ok := s.index[p.Name]; ok {
		next.plans[i] = p
		return next, nil
	}
	if len(s.plans) >= maxPlans {
		return nil, fmt.Errorf("plans: there are %d: remove one first", len(s.plans))
	}
	next.index = maps.Clone(s.index)
	next.index[p.Name] = len(next.plans)
	next.plans = append(next.plans, p)
	return next, nil
}

// without is a set without the plan of that name, or ErrUnknownPlan.
func (s *planSet) without(name string) (*planSet, error) {
	i, ok := s.index[name]
	if !ok {
		return nil, unknown(name)
	}
	return newPlanSet(slices.Delete(slices.Clone(s.plans), i, i+1))
}

func unknown(name string) error { return fmt.Errorf("%w %q", ErrUnknownPlan, name) }

// Plan is the plan of that name, settled.
func (r *Registry) Plan(name string) (Plan, bool) { return r.current().plan(name) }

func (s *planSet) plan(name string) (p Plan, ok bool) {
	i, ok := s.index[name]
	if ok {
		p = s.plans[i]
	}
	return p, ok
}

// Plans is all plans, in the order in which they came. The slice is the caller's.
func (r *Registry) Plans() []Plan { return slices.Clone(r.current().plans) }

func (r *Registry) current() *planSet {
	for {
		if set := r.set.Load(); set != nil {
			return set
		}
		r.set.CompareAndSwap(nil, &planSet{index: map[string]int{}})
	}
}
