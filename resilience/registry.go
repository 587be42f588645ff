package resilience

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Registry holds policies by name, so that what configuration builds is found where it is
// used. A name stands for one policy of one type of value. It holds what was registered
// until it is taken out: as many policies as the program names, not as its input does.
//
// The zero Registry is empty and ready. It is safe for concurrent use.
type Registry struct {
	mu       sync.Mutex // guards what follows
	policies map[string]registered
	closed   bool
}

type registered interface{ Close() error }

// Register puts p under name. It refuses a name that is taken: who shares a policy looks
// it up, and who would replace it calls [Replace] or [Put]. From now on the registry
// closes p.
func Register[T any](r *Registry, name string, p Policy[T]) error {
	return r.put(name, p, p == nil, func(taken bool) error {
		if taken {
			return errors.New("the name is taken; look it up, or replace it with Replace or Put")
		}
		return nil
	})
}

// Replace puts p in the place of the policy under name, which it closes and of which it
// returns the error. There must be one, other than p; it may be for another type of value.
func Replace[T any](r *Registry, name string, p Policy[T]) error {
	return r.put(name, p, p == nil, func(taken bool) error {
		if !taken {
			return errors.New("there is none to replace; add it with Register or Put")
		}
		return nil
	})
}

// Put adds p under name or replaces the policy that is there, as Register and [Replace] do.
func Put[T any](r *Registry, name string, p Policy[T]) error {
	return r.put(name, p, p == nil, func(bool) error { return nil })
}

// put puts p under name, if allowed agrees, and closes what was there. It is closed with no
// lock held: calls that are under way at it end first.
func (r *Registry) put(name string, p registered, missing bool, allowed func(taken bool) error) error {
	if name == "" || missing {
		return fmt.Errorf("register policy %q: want a name and a policy", name)
	}
	r.mu.Lock()
	old, taken := r.policies[name]
	err := allowed(taken)
	if r.closed {
		err = ErrClosed
	}
	if err != nil {
		r.mu.Unlock()
		return fmt.Errorf("register policy %q: %w", name, err)
	}
	if r.policies == nil {
		r.policies = make(map[string]registered)
	}
	r.policies[name] = p
	r.mu.Unlock()
	if !taken {
		return nil
	}
	return old.Close()
}

// Lookup is the policy under name. The error says what there is when there is none, and
// when it is for another type of value than T. After Close it is [ErrClosed].
func Lookup[T any](r *Registry, name string) (Policy[T], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("policy %q: %w", name, ErrClosed)
	}
	found, ok := r.policies[name]
	if !ok {
		return nil, fmt.Errorf("policy %q: no such name; there are %q", name, r.namesLocked())
	}
	p, ok := found.(Policy[T])
	if !ok {
		return nil, fmt.Errorf("policy %q: it is a %T, which is no %T", name, found, (*Policy[T])(nil))
	}
	return p, nil
}

// Remove takes the policy under name out and closes it. There need not be one.
func (r *Registry) Remove(name string) error {
	r.mu.Lock()
	p, ok := r.policies[name]
	delete(r.policies, name)
	r.mu.Unlock()
	if !ok {
		return nil
	}
	return p.Close()
}

// Names are the names in use, sorted.
func (r *Registry) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.namesLocked()
}

func (r *Registry) namesLocked() []string { return slices.Sorted(maps.Keys(r.policies)) }

// Close closes every policy, in the order of their names, and joins their errors. Later
// registrations and lookups fail.
func (r *Registry) Close() error {
	r.mu.Lock()
	policies := r.policies
	r.policies, r.closed = nil, true
	r.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		errs = append(errs, policies[name].Close())
	}
	return errors.Join(errs...)
}
