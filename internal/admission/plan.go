package admission

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Kind names the algorithm of a plan, as files and errors spell it.
type Kind string

// The kinds of plans.
const (
	KindTokenBucket   Kind = "token-bucket"
	KindFixedWindow   Kind = "fixed-window"
	KindSlidingWindow Kind = "sliding-window"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{KindTokenBucket, KindFixedWindow, KindSlidingWindow} }

const (
	// MaxCapacity is the largest capacity of a plan: a tebi (2⁴⁰), for plans that count bytes. There a double still
	// distinguishes parts of four thousandths of a token.
	MaxCapacity int64 = 1 << 40

	// minRate is a token in 31 years: a slower plan is meant as a prohibition, which a rule says better. maxRate is a
	// thousand tokens per microsecond, the unit of time.
	minRate = 1e-9
	maxRate = 1e9

	minWindow = time.Millisecond     // over a network, nobody notices a shorter one
	maxWindow = 366 * 24 * time.Hour // the longest quota in use

	// maxName is the longest name of a plan in bytes, so that a key made of it fits into stores and headers.
	maxName = 64

	// minTTL is the shortest time after which a store may forget: Redis deletes a key at once if its expiry is zero.
	// maxTTL is some hundred years, far from where expiries overflow.
	minTTL = time.Second
	maxTTL = 100 * maxWindow
)

// Plan is a limit: how much may be used at once and how much in the long run. It is a value and is not changed; a
// [RuleSet] replaces it by another of the same name. A key then keeps what it has used, unless a bucket becomes a
// window or a window a bucket: then it begins anew.
type Plan struct {
	Name            string        `json:"name"`                        // its identity: 1 to 64 letters, digits, '.', '_' and '-'
	Kind            Kind          `json:"kind"`                        // the algorithm. Empty means KindTokenBucket.
	Capacity        int64         `json:"capacity"`                    // what a bucket holds, or what a window admits: 1 to MaxCapacity
	TokensPerSecond float64       `json:"tokens_per_second,omitempty"` // how fast a bucket refills: 1e-9 to 1e9
	Window          time.Duration `json:"-"`                           // of a window: whole microseconds, 1ms to 366 days
}

// The kinds of errors about the fields of a plan or a rule.
var (
	ErrInvalidPlan = errors.New("invalid plan")
	ErrInvalidRule = errors.New("invalid rule")
)

// FieldError describes one field of a plan or a rule that is wrong. It matches [ErrInvalidPlan] or [ErrInvalidRule].
type FieldError struct {
	Field string // as files spell it: "name", "tokens_per_second", "plans[1]", …
	Value any    // the value given
	Fix   string // what to write instead
	of    error
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s is %v: %s", e.Field, e.Value, e.Fix) }

func (e *FieldError) Unwrap() error { return e.of }

func planError(field string, value any, fix string) error {
	return &FieldError{field, value, fix, ErrInvalidPlan}
}

func quote[T ~string](s T) string { return strconv.Quote(string(s)) }

// Settle returns p with its defaults filled in, or a [*FieldError] with the first thing that is wrong. Repositories
// expect settled plans.
func (p Plan) Settle() (Plan, error) {
	p.Kind = cmp.Or(p.Kind, KindTokenBucket)
	bucket, rate := p.Kind == KindTokenBucket, p.TokensPerSecond
	switch {
	case !validName(p.Name):
		return p, planError("name", quote(p.Name), nameFix)
	case !slices.Contains(Kinds(), p.Kind):
		return p, planError("kind", quote(p.Kind), `use "token-bucket", "fixed-window" or "sliding-window"`)
	case p.Capacity < 1 || p.Capacity > MaxCapacity:
		return p, planError("capacity", p.Capacity, capacityFix)
	case bucket && !(rate >= minRate && rate <= maxRate): // negated, so that NaN is refused too
		return p, planError("tokens_per_second", rate, "use 1e-9 to 1e9")
	case bucket && p.Window != 0:
		return p, planError("window", p.Window, "leave it out: a token bucket has none")
	case !bucket && (p.Window < minWindow || p.Window > maxWindow):
		return p, planError("window", p.Window, fmt.Sprintf("use %v to %v", minWindow, maxWindow))
	case !bucket && p.Window%time.Microsecond != 0:
		return p, planError("window", p.Window, "use whole microseconds")
	case !bucket && rate != 0:
		return p, planError("tokens_per_second", rate, "leave it out: a window has none")
	}
	return p, nil
}

const nameFix = "use 1 to 64 letters, digits, '.', '_' and '-'"

var capacityFix = fmt.Sprintf("use a whole number from 1 to %d", MaxCapacity)

func validName(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// Period returns how long a plan remembers: the time in which an empty bucket fills, the length of a fixed window, or
// two lengths of a sliding one. After it nothing that was used counts any longer. It is at most a hundred years, in
// whole microseconds.
func (p Plan) Period() time.Duration {
	switch p.Kind {
	case KindFixedWindow:
		return p.Window
	case KindSlidingWindow:
		return 2 * p.Window
	}
	fill := math.Ceil(float64(p.Capacity) / p.TokensPerSecond * second)
	if fill >= float64(maxTTL/time.Microsecond) {
		return maxTTL
	}
	return Micros(fill).duration()
}

// TTL returns how long a store must keep the state of a key after it was last charged: the Period, and at least a
// second.
func (p Plan) TTL() time.Duration { return max(minTTL, p.Period()) }

// PerWindow returns the plan as a number of tokens in a time. For a bucket, that is the time in which it fills.
func (p Plan) PerWindow() (tokens int64, window time.Duration) {
	if p.Window != 0 {
		return p.Capacity, p.Window
	}
	return p.Capacity, p.Period()
}

// planForm is a plan as files spell it.
type planForm struct {
	plainPlan
	Window span `json:"window,omitempty"`
}

type plainPlan Plan // without the methods, which would recurse

// MarshalJSON encodes the plan as files have it.
func (p Plan) MarshalJSON() ([]byte, error) {
	return json.Marshal(planForm{plainPlan(p), span(p.Window)})
}

// planOf returns the settled plan of a tree as files have it. Its errors about fields are [*FieldError].
func planOf(tree any) (p Plan, err error) {
	fields, ok := tree.(map[string]any)
	if !ok {
		return Plan{}, planError("name", "missing", "write a plan as a mapping of its fields")
	}
	const textFix = "write a text, in quotes if it looks like something else"
	known := map[string]struct {
		to  any
		fix string
	}{
		"name": {&p.Name, textFix}, "kind": {&p.Kind, textFix},
		"capacity":          {(*whole)(&p.Capacity), capacityFix},
		"tokens_per_second": {&p.TokensPerSecond, "write a number"},
		"window":            {(*span)(&p.Window), `write a duration with its unit, such as "1m" or "24h"`},
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, ok := known[name]
		if !ok {
			return Plan{}, planError(name, "not known", "use name, kind, capacity, tokens_per_second, window")
		}
		value := fields[name]
		text, err := json.Marshal(value)
		if err == nil { // an error means that it is no number
			err = json.Unmarshal(text, field.to)
		}
		if err != nil || value == nil {
			if s, ok := value.(string); ok {
				value = quote(s) // quoted, to show what is wrong with "60"
			}
			return Plan{}, planError(name, value, field.fix)
		}
	}
	return p.Settle()
}

// whole is a whole number, also written as 1e3. It is read as a double, which holds every number up to MaxCapacity.
type whole int64

func (w *whole) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return strconv.ErrSyntax
	}
	*w = whole(f)
	return nil
}

// span is a duration that files spell as a text, such as "1m".
type span time.Duration

// MarshalText returns the text.
func (d span) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a text; an empty one is zero. Its error is that of a rule's wait: planOf has its own.
func (d *span) UnmarshalText(text []byte) (err error) {
	var v time.Duration
	if len(text) > 0 {
		if v, err = time.ParseDuration(string(text)); err != nil {
			return ruleError("wait", quote(string(text)), `write a duration with its unit, such as "2s"`)
		}
	}
	*d = span(v)
	return nil
}

// ErrUnknownPlan is wrapped by the error for a name that no plan has.
var ErrUnknownPlan = errors.New("unknown plan")

// maxPlans bounds the plans of a set, and so the accounts of each key.
const maxPlans = 10_000

// maxLists is how many lists of plans are kept. They come from rules, of which there are fewer.
const maxLists = 1024

// planSet has settled plans in the order in which they were given, and their places by name, which never change.
type planSet struct {
	plans []Plan
	index map[string]int

	mu    sync.RWMutex      // guards what follows
	lists map[string][]Plan // by their names; so looking up a list again allocates nothing
}

func newPlanSet(plans []Plan) (*planSet, error) {
	if len(plans) > maxPlans {
		return nil, fmt.Errorf("plans: there are %d: use no more than %d", len(plans), maxPlans)
	}
	set := &planSet{plans: make([]Plan, 0, len(plans)), index: make(map[string]int, len(plans)), lists: map[string][]Plan{}}
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

func unknown(name string) error { return fmt.Errorf("%w %q", ErrUnknownPlan, name) }

func (s *planSet) plan(name string) (p Plan, ok bool) {
	i, ok := s.index[name]
	if ok {
		p = s.plans[i]
	}
	return p, ok
}

// list returns the plans of these names, each once, in a slice that never changes: a store may keep it. Its error wraps
// ErrUnknownPlan.
func (s *planSet) list(names []string) (plans []Plan, err error) {
	if len(names) == 1 {
		if i, ok := s.index[names[0]]; ok {
			return s.plans[i : i+1 : i+1], nil
		}
	}
	var room [256]byte
	key := room[:0]
	for _, name := range names {
		key = append(binary.AppendUvarint(key, uint64(len(name))), name...) // names of requests may contain anything
	}
	s.mu.RLock()
	plans, ok := s.lists[string(key)]
	s.mu.RUnlock()
	if ok {
		return plans, nil
	}
	for at, name := range names {
		p, ok := s.plan(name)
		if !ok {
			return nil, unknown(name)
		}
		if !slices.Contains(names[:at], name) {
			plans = append(plans, p)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lists) < maxLists {
		s.lists[string(key)] = plans
	}
	return plans, nil
}
