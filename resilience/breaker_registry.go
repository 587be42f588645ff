package resilience

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

const (
	// maxBreakers is the usual bound on names. They come from configuration, where a
	// thousand is many; a program that makes them from input runs into an error
	// instead of out of memory.
	maxBreakers = 1024
	// sameTrips is up to which trip two Break functions are compared, since functions
	// cannot be: backoffs have reached their ceiling by then.
	sameTrips = 16
)

// BreakersConfig configures [NewBreakers].
type BreakersConfig struct {
	Max   int         // names; zero means 1024
	Clock clock.Clock // of breakers that bring none; zero means the system clock
	Hub   *Hub        // of breakers that bring none; zero means nobody hears
}

// Breakers are breakers by name: whoever asks for a name shares the one breaker of that
// name. None is ever forgotten, for a breaker that is open is a promise to the callee.
// All methods are safe for concurrent use.
type Breakers struct {
	cfg BreakersConfig

	mu     sync.Mutex // guards what follows
	byName map[string]*Breaker
}

// NewBreakers returns an empty registry.
func NewBreakers(cfg BreakersConfig) (*Breakers, error) {
	if cfg.Max < 0 {
		return nil, fmt.Errorf("breakers: Max = %d: want 1 or more", cfg.Max)
	}
	setDefault(&cfg.Max, maxBreakers)
	return &Breakers{cfg: cfg, byName: map[string]*Breaker{}}, nil
}

// Get returns the breaker of that name, which it makes if there is none. It fails if cfg
// is no good, if the name is empty or not that of cfg, if there are too many names, and
// if the breaker there is has other settings: the error names the first that differs.
// Zero settings mean their defaults here too, not whatever there is.
func (r *Breakers) Get(name string, cfg BreakerConfig) (*Breaker, error) {
	if name == "" || cfg.Name != "" && cfg.Name != name {
		return nil, fmt.Errorf("breakers: name %q with Name = %q: want a name, and the same or none", name, cfg.Name)
	}
	cfg.Name = name
	if cfg.Clock == nil {
		cfg.Clock = r.cfg.Clock
	}
	if cfg.Hub == nil {
		cfg.Hub = r.cfg.Hub
	}
	b, err := NewBreaker(cfg) // outside the lock: Break is asked where it is compared
	if err != nil {
		return nil, err
	}
	if b = r.keep(b); b == nil {
		return nil, fmt.Errorf("breakers: %q is one more than Max = %d: raise Max, or take fewer names", name, r.cfg.Max)
	}
	if err := b.cfg.conflict(&cfg); err != nil {
		return nil, err
	}
	return b, nil
}

// keep returns the breaker of b's name, which is b if there is none; nil if it is full.
func (r *Breakers) keep(b *Breaker) *Breaker {
	r.mu.Lock()
	defer r.mu.Unlock()
	if have := r.byName[b.cfg.Name]; have != nil {
		return have
	}
	if len(r.byName) >= r.cfg.Max {
		return nil
	}
	r.byName[b.cfg.Name] = b
	return b
}

// conflict is an error if other, with its defaults, has another setting than c.
func (c *BreakerConfig) conflict(other *BreakerConfig) error {
	o := *other // the defaults are settled in a copy, as they were in c
	if err := o.settle(); err != nil {
		return err
	}
	if at, x, y := differ(c, &o); at > 0 {
		return conflictError(c.Name, fmt.Sprintf("Break at trip %d", at), x, y)
	}
	// By reflection, so that a field that is added one day is compared from that day on.
	have, want := reflect.ValueOf(*c), reflect.ValueOf(o)
	for i := range have.NumField() {
		a, b := have.Field(i), want.Field(i)
		if field := have.Type().Field(i).Name; field != "Break" && !a.Equal(b) {
			return conflictError(c.Name, field, a, b)
		}
	}
	return nil
}

func conflictError(name, field string, have, want any) error {
	return fmt.Errorf("breakers: %q has %s = %v, not %v: use the same settings or another name", name, field, have, want)
}

// differ is the first trip that lasts differently, and how long; zero if none does.
func differ(a, b *BreakerConfig) (trip int, x, y time.Duration) {
	if a.Break == nil && b.Break == nil {
		return 0, 0, 0
	}
	for trip = range sameTrips {
		if x, y = a.breakAt(trip+1), b.breakAt(trip+1); x != y {
			return trip + 1, x, y
		}
	}
	return 0, 0, 0
}

func (c *BreakerConfig) breakAt(trips int) time.Duration {
	if c.Break == nil {
		return c.BreakFor
	}
	return c.Break(trips)
}

// Lookup returns the breaker of that name, if there is one.
func (r *Breakers) Lookup(name string) (*Breaker, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.byName[name]
	return b, ok
}

// Names are all names, sorted.
func (r *Breakers) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.byName))
}

// Snapshot has every breaker by its name. Each is of one instant, all of them are not.
func (r *Breakers) Snapshot() map[string]BreakerSnapshot {
	r.mu.Lock()
	all := maps.Clone(r.byName) // each breaker has a lock of its own, taken without this one
	r.mu.Unlock()
	s := make(map[string]BreakerSnapshot, len(all))
	for name, b := range all {
		s[name] = b.Snapshot()
	}
	return s
}

// Healthy reports whether all breakers are closed. An empty registry is healthy.
func (r *Breakers) Healthy() bool { return healthy(r.Snapshot()) }

// healthy judges one snapshot, so that the handler's status and body agree.
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

// Handler answers health checks: 200 if all breakers are closed, else 503, with a JSON object
// of "healthy" and of "circuits", the snapshots by name. It serves GET and HEAD.
func (r *Breakers) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		all := r.Snapshot()
		h := health{Healthy: healthy(all), Circuits: all}
		body, err := json.Marshal(h)
		if err != nil { // a snapshot holds nothing that JSON does not
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store") // health is of now
		if !h.Healthy {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(append(body, '\n')) // a checker that has gone needs no answer
	})
}
