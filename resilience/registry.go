package resilience

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"github.com/treadlight/crawl/limit"
)

// Registry holds policies by name, each for one type of value, until they are removed. It has no bound of its own: the
// program chooses the names.
//
// The zero Registry is empty and ready for use. It is safe for concurrent use.
type Registry struct {
	mu       sync.Mutex // guards what follows
	policies map[string]registered
	closed   bool
}

type registered interface{ Close() error }

// Register adds p under name. From then on the registry closes p. It fails if the name is taken; see [Replace] and
// [Put].
func Register[T any](r *Registry, name string, p Policy[T]) error {
	return r.put(name, p, p == nil, func(taken bool) bool { return !taken }, "the name is taken; look it up, or replace it with Replace or Put")
}

// Replace replaces the policy under name by p, closes the old one, and returns the error of closing it. There must be
// an old one, and it must not be p; it may be of another type.
func Replace[T any](r *Registry, name string, p Policy[T]) error {
	return r.put(name, p, p == nil, func(taken bool) bool { return taken }, "there is none to replace; add it with Register or Put")
}

// Put adds p under name as Register does, or replaces the policy there as [Replace] does.
func Put[T any](r *Registry, name string, p Policy[T]) error {
	return r.put(name, p, p == nil, func(bool) bool { return true }, "")
}

// put adds p under name if allowed agrees, and closes the policy that was there. It closes without the lock held,
// because closing may wait for calls in flight.
func (r *Registry) put(name string, p registered, missing bool, allowed func(taken bool) bool, refusal string) error {
	if name == "" || missing {
		return fmt.Errorf("register policy %q: want a name and a policy", name)
	}
	r.mu.Lock()
	old, taken := r.policies[name]
	var err error
	switch {
	case r.closed:
		err = ErrClosed
	case !allowed(taken):
		err = errors.New(refusal)
	case r.policies == nil:
		r.policies = map[string]registered{name: p}
	default:
		r.policies[name] = p
	}
	r.mu.Unlock()
	switch {
	case err != nil:
		return fmt.Errorf("register policy %q: %w", name, err)
	case taken:
		return old.Close()
	}
	return nil
}

// Lookup returns the policy under name. It fails if there is none, if it is not for the type T, and after Close, with
// [ErrClosed].
func Lookup[T any](r *Registry, name string) (Policy[T], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.policies[name]
	p, typed := found.(Policy[T])
	switch {
	case r.closed:
		return nil, fmt.Errorf("policy %q: %w", name, ErrClosed)
	case !ok:
		return nil, fmt.Errorf("policy %q: no such name; there are %q", name, slices.Sorted(maps.Keys(r.policies)))
	case !typed:
		return nil, fmt.Errorf("policy %q: it is a %T, which is no %T", name, found, (*Policy[T])(nil))
	}
	return p, nil
}

// Remove removes the policy under name and closes it. It returns nil if there is none.
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

// Names returns the names in use, sorted.
func (r *Registry) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.policies))
}

// Close closes every policy, in the order of their names, and joins the errors. Later registrations and lookups fail.
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

const maxBreakers = 1024

// BreakersConfig configures [NewBreakers].
type BreakersConfig struct {
	Max   int         // greatest number of names; zero means 1024
	Clock limit.Clock // for breakers whose configuration has none; nil means the system clock
	Hub   *Hub        // for breakers whose configuration has none; nil means no events
}

// Breakers shares breakers by name. It never forgets one, because an open breaker must stay. All methods are safe for
// concurrent use.
type Breakers struct {
	cfg BreakersConfig

	mu     sync.Mutex // guards what follows
	byName map[string]*Breaker
}

// NewBreakers returns a Breakers without breakers.
func NewBreakers(cfg BreakersConfig) (*Breakers, error) {
	if cfg.Max < 0 {
		return nil, fmt.Errorf("breakers: Max = %d: want 1 or more", cfg.Max)
	}
	cfg.Max = cmp.Or(cfg.Max, maxBreakers)
	return &Breakers{cfg: cfg, byName: map[string]*Breaker{}}, nil
}

// Get returns the breaker of that name, and makes it if there is none. It fails if cfg is invalid, if the name is empty
// or differs from that in cfg, if there are too many names, or if the breaker exists with other settings; then the
// error names the first that differs. Zero settings mean the defaults.
func (r *Breakers) Get(name string, cfg BreakerConfig) (*Breaker, error) {
	if name == "" || cfg.Name != "" && cfg.Name != name {
		return nil, fmt.Errorf("breakers: name %q with Name = %q: want a name, and the same or none", name, cfg.Name)
	}
	cfg.Name = name
	cfg.Clock = cmp.Or(cfg.Clock, r.cfg.Clock)
	cfg.Hub = cmp.Or(cfg.Hub, r.cfg.Hub)
	b, err := NewBreaker(cfg)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	have := r.byName[name]
	switch {
	case have != nil:
		if err := have.cfg.conflict(&b.cfg); err != nil {
			return nil, err
		}
		return have, nil
	case len(r.byName) >= r.cfg.Max:
		return nil, fmt.Errorf("breakers: %q is one more than Max = %d: raise Max, or take fewer names", name, r.cfg.Max)
	}
	r.byName[name] = b
	return b, nil
}

// conflict returns an error if a setting of other differs from that of c, both with defaults filled in. It uses
// reflection to cover future fields.
func (c *BreakerConfig) conflict(other *BreakerConfig) error {
	have, want := reflect.ValueOf(*c), reflect.ValueOf(*other)
	for i := range have.NumField() {
		if a, b := have.Field(i), want.Field(i); !a.Equal(b) {
			return fmt.Errorf("breakers: %q has %s = %v, not %v: use the same settings or another name", c.Name, have.Type().Field(i).Name, a, b)
		}
	}
	return nil
}

// Lookup returns the breaker of that name, if there is one.
func (r *Breakers) Lookup(name string) (*Breaker, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.byName[name]
	return b, ok
}

// Names returns all names, sorted.
func (r *Breakers) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.byName))
}

// Snapshot returns a snapshot of every breaker by name. They are not all of the same instant.
func (r *Breakers) Snapshot() map[string]BreakerSnapshot {
	r.mu.Lock()
	all := maps.Clone(r.byName) // each breaker is then locked without this lock held
	r.mu.Unlock()
	s := make(map[string]BreakerSnapshot, len(all))
	for name, b := range all {
		s[name] = b.Snapshot()
	}
	return s
}

// Healthy reports whether all breakers are closed. An empty registry is healthy.
func (r *Breakers) Healthy() bool { return healthy(r.Snapshot()) }

// healthy reports whether all breakers of a snapshot are closed. With one snapshot for both, the handler's status and
// body agree.
func healthy(all map[string]BreakerSnapshot) bool {
	for _, s := range all {
		if !s.Healthy() {
			return false
		}
	}
	return true
}

type health struct {
	Healthy  bool                       `json:"healthy"`
	Circuits map[string]BreakerSnapshot `json:"circuits"`
}

// Handler returns a handler for health checks, for GET and HEAD. The status is 200 if all breakers are closed,
// otherwise 503. The body is a JSON object with "healthy" and with "circuits", the snapshots by name.
func (r *Breakers) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		all := r.Snapshot()
		h := health{Healthy: healthy(all), Circuits: all}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store") // the present health
		if !h.Healthy {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(h) // an error means that the client is gone
	})
}
