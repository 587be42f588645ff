package admission

import (
	"errors"
	"fmt"
	"math"
	"slices"
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

// Kinds is all kinds.
func Kinds() []Kind { return []Kind{KindTokenBucket, KindFixedWindow, KindSlidingWindow} }

const (
	// MaxCapacity is a tebibyte, for those who count bytes. A double still tells four
	// thousand parts of a token from each other there, so that a refill is not rounded away.
	MaxCapacity int64 = 1 << 40

	// minRate is a token in 31 years: what is slower is meant as a prohibition, and a
	// rule says that better. maxRate is a thousand tokens in the microsecond that is our
	// unit of time.
	minRate = 1e-9
	maxRate = 1e9

	// Nobody sees a window shorter than a millisecond from the other end of a
	// connection, and the longest quota in use is of a leap year.
	minWindow = time.Millisecond
	maxWindow = 366 * 24 * time.Hour

	// maxName keeps a key made of it within what stores and headers take.
	maxName = 64

	// minTTL is the shortest time after which a store may forget: Redis takes an expiry
	// of zero for an order to delete. maxTTL is some hundred years, far from where
	// expiries overflow.
	minTTL = time.Second
	maxTTL = 100 * maxWindow
)

// Plan is a limit: so much at once and so much in the long run. It is a value and is not
// changed; a registry replaces it by another of the same name. A key keeps then what it
// has used, but for a bucket that becomes a window or the other way round: those begin anew.
type Plan struct {
	// Name is the plan's identity: 1 to 64 letters, digits, '.', '_' and '-'. Zero is an error.
	Name string
	// Kind is the algorithm. Zero means KindTokenBucket.
	Kind Kind
	// Capacity is what a bucket holds, or what a window admits: tokens, from 1 to
	// MaxCapacity. Zero is an error.
	Capacity int64
	// TokensPerSecond is how fast a bucket refills: 1e-9 to 1e9. Zero is an error for a
	// bucket and the only value for a window.
	TokensPerSecond float64
	// Window is the length of a window: whole microseconds, from a millisecond to 366
	// days. Zero is an error for a window and the only value for a bucket.
	Window time.Duration
}

// ErrInvalidPlan is what the errors about a plan's fields are.
var ErrInvalidPlan = errors.New("invalid plan")

// PlanError is one thing wrong with a plan. It is an [ErrInvalidPlan].
type PlanError struct {
	Field string // as files spell it: "name", "kind", "capacity", "tokens_per_second", "window"
	Value any    // what was said
	Fix   string // what to say instead
}

// Error names the field, the value and the fix.
func (e *PlanError) Error() string { return fmt.Sprintf("%s is %v: %s", e.Field, e.Value, e.Fix) }

// Is reports whether target is ErrInvalidPlan.
func (e *PlanError) Is(target error) bool { return target == ErrInvalidPlan }

// Settle is p with its defaults filled in, or the first thing wrong with it, which is a
// [*PlanError]. Repositories expect plans that are settled; a registry has no others.
func (p Plan) Settle() (Plan, error) {
	if p.Kind == "" {
		p.Kind = KindTokenBucket
	}
	switch {
	case !validName(p.Name):
		return p, &PlanError{"name", fmt.Sprintf("%q", p.Name), "use 1 to 64 letters, digits, '.', '_' and '-'"}
	case !slices.Contains(Kinds(), p.Kind):
		return p, &PlanError{"kind", fmt.Sprintf("%q", p.Kind), `use "token-bucket", "fixed-window" or "sliding-window"`}
	case p.Capacity < 1 || p.Capacity > MaxCapacity:
		return p, &PlanError{"capacity", p.Capacity, fmt.Sprintf("use 1 to %d", MaxCapacity)}
	case p.Kind == KindTokenBucket:
		return p, p.checkBucket()
	}
	return p, p.checkWindow()
}

func (p Plan) checkBucket() error {
	switch rate := p.TokensPerSecond; {
	case !(rate >= minRate && rate <= maxRate): // so that it is true of no number, too
		return &PlanError{"tokens_per_second", rate, "use 1e-9 to 1e9"}
	case p.Window != 0:
		return &PlanError{"window", p.Window, "leave it out: a token bucket has none"}
	}
	return nil
}

func (p Plan) checkWindow() error {
	switch {
	case p.Window < minWindow || p.Window > maxWindow:
		return &PlanError{"window", p.Window, fmt.Sprintf("use %v to %v", minWindow, maxWindow)}
	case p.Window%time.Microsecond != 0:
		return &PlanError{"window", p.Window, "use whole microseconds"}
	case p.TokensPerSecond != 0:
		return &PlanError{"tokens_per_second", p.TokensPerSecond, "leave it out: a window has none"}
	}
	return nil
}

func validName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// Period is how long a plan remembers: the time in which an empty bucket fills, the
// length of a fixed window, or two lengths of a sliding one. After it nothing that was
// used counts any more. It is at most a hundred years, in whole microseconds.
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

// TTL is how long a store has to keep what it knows of a key after it was last charged:
// the Period, and at least a second.
func (p Plan) TTL() time.Duration { return max(minTTL, p.Period()) }

// PerWindow is the plan as so many tokens in so long a time. Of a bucket the time is the one
// in which it fills.
func (p Plan) PerWindow() (tokens int64, window time.Duration) {
	if p.Window != 0 {
		return p.Capacity, p.Window
	}
	return p.Capacity, p.Period()
}
