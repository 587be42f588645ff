package limit

import (
	"context"

	"github.com/treadlight/crawl/internal/ratelimit/classic"
)

// Bounds, and the wait that never ends.
const (
	DefaultMaxKeys    = classic.DefaultMaxKeys    // how many keys a Keyed has a limiter for
	DefaultQueueLimit = classic.DefaultQueueLimit // how many callers may wait for one limiter
	// Never is the wait for what time alone will not bring: more permits than the limiter ever
	// has, a slot that only a Release can free, anything of a closed limiter, or an instant
	// more than 292 years away.
	Never = classic.Never
)

// What a caller may branch on.
var (
	// ErrLimited means not now: there was no room, or there will be none in the time the
	// caller has. Asking again after Error.RetryAfter is worth it.
	ErrLimited         = classic.ErrLimited
	ErrQueueFull       = classic.ErrQueueFull       // as many callers wait as may; also ErrLimited
	ErrTooManyKeys     = classic.ErrTooManyKeys     // a [Keyed] has no place for one more key; also ErrLimited
	ErrClosed          = classic.ErrClosed          // the limiter has been closed
	ErrExceedsCapacity = classic.ErrExceedsCapacity // a weight for which there is never room
	ErrInvalidWeight   = classic.ErrInvalidWeight   // a weight below 1
)

// The limiters.
type (
	// TokenBucket grants as long as it has tokens, which come in at a rate and are kept up to
	// the burst: in any span it grants at most Burst and what came in meanwhile.
	TokenBucket = classic.TokenBucket
	// FixedWindow grants so many permits in each window.
	FixedWindow = classic.FixedWindow
	// SlidingWindow is the sliding-window counter.
	SlidingWindow = classic.SlidingWindow
	// SlidingWindowLog remembers every grant of the last window and so keeps the bound exactly:
	// in no window, wherever it begins, are there more than Permits.
	SlidingWindowLog = classic.SlidingWindowLog
	// LeakyBucket paces: two grants are never closer than the interval, which is Per/Permits,
	// however long nothing was asked for.
	LeakyBucket = classic.LeakyBucket
	// Concurrency bounds how many permits are out at a time.
	Concurrency = classic.Concurrency
	// Composite is several limits at once: a permit of it is one of each member, all taken in
	// one step or none.
	Composite = classic.Composite
	// Keyed is a limiter per key, for no more than so many keys.
	Keyed[K comparable] = classic.Keyed[K]
	// Pinned is the limiter of a key of a Keyed, held in its place: for those who come back to
	// one key so often that finding it each time would cost more than the limiter, and for
	// permits that are to be given back to the limiter they came from.
	Pinned[K comparable] = classic.Pinned[K]
)

// What they are made of, and what they are to their callers.
type (
	// TokenBucketConfig is a rate with a burst.
	TokenBucketConfig = classic.TokenBucketConfig
	// WindowConfig is a number of permits in a window of time.
	WindowConfig = classic.WindowConfig
	// LeakyBucketConfig is a pace.
	LeakyBucketConfig = classic.LeakyBucketConfig
	// ConcurrencyConfig says how much goes on at a time.
	ConcurrencyConfig = classic.ConcurrencyConfig
	// KeyedConfig says what each key gets and how many keys there may be.
	KeyedConfig[K comparable] = classic.KeyedConfig[K]
	// Spec is a limiter of any kind, as a configuration describes it.
	Spec = classic.Spec
	// Kind is an algorithm, as configurations and errors spell it.
	Kind = classic.Kind
	// Option is a setting that all limiters have.
	Option = classic.Option
	// Overflow is what becomes of a key for which there is no place.
	Overflow = classic.Overflow
	// Refill is how the tokens of a bucket come in.
	Refill = classic.Refill
	// Limiter is any of them, for callers who ask for one permit at a time.
	Limiter = classic.Limiter
	// Weighted is any of them, for requests that cost several permits, taken together or not at all.
	Weighted = classic.Weighted
	// Statistics is what a limiter has done and how it stands.
	Statistics = classic.Statistics
	// Error is a refusal for now: it is [ErrLimited], and tells when to ask again.
	Error = classic.LimitError
)

// The six kinds.
const (
	KindTokenBucket      = classic.KindTokenBucket
	KindFixedWindow      = classic.KindFixedWindow
	KindSlidingWindow    = classic.KindSlidingWindow
	KindSlidingWindowLog = classic.KindSlidingWindowLog
	KindLeakyBucket      = classic.KindLeakyBucket
	KindConcurrency      = classic.KindConcurrency
)

// The overflows, and the refills.
const (
	OverflowShare    = classic.OverflowShare    // all such keys share one limiter: slower for each of them, a way round for none
	OverflowDeny     = classic.OverflowDeny     // they are refused with ErrTooManyKeys
	RefillContinuous = classic.RefillContinuous // one by one, spread over the period
	RefillInterval   = classic.RefillInterval   // all at once, at the end of each whole period since the start
)

// Kinds is all kinds, in the order of the package's table.
func Kinds() []Kind { return classic.Kinds() }

// New builds the limiter that s describes.
func New(s Spec, opts ...Option) (Weighted, error) { return classic.New(s, opts...) }

// NewTokenBucket returns a bucket that is full, unless cfg says otherwise.
func NewTokenBucket(cfg TokenBucketConfig, opts ...Option) (*TokenBucket, error) {
	return classic.NewTokenBucket(cfg, opts...)
}

// NewFixedWindow returns a limiter whose first window begins now.
func NewFixedWindow(cfg WindowConfig, opts ...Option) (*FixedWindow, error) {
	return classic.NewFixedWindow(cfg, opts...)
}

// NewSlidingWindow returns a limiter whose first window begins now, after an empty one.
func NewSlidingWindow(cfg WindowConfig, opts ...Option) (*SlidingWindow, error) {
	return classic.NewSlidingWindow(cfg, opts...)
}

// NewSlidingWindowLog returns a limiter that has granted nothing.
func NewSlidingWindowLog(cfg WindowConfig, opts ...Option) (*SlidingWindowLog, error) {
	return classic.NewSlidingWindowLog(cfg, opts...)
}

// NewLeakyBucket returns a limiter that can grant now.
func NewLeakyBucket(cfg LeakyBucketConfig, opts ...Option) (*LeakyBucket, error) {
	return classic.NewLeakyBucket(cfg, opts...)
}

// NewConcurrency returns a limiter with all its permits in.
func NewConcurrency(cfg ConcurrencyConfig, opts ...Option) (*Concurrency, error) {
	return classic.NewConcurrency(cfg, opts...)
}

// NewKeyed returns a Keyed without keys.
func NewKeyed[K comparable](cfg KeyedConfig[K], opts ...Option) (*Keyed[K], error) {
	return classic.NewKeyed(cfg, opts...)
}

// All makes one limiter of several, which must be of this package, all different, and go by
// the same clock.
func All(limiters ...Weighted) (*Composite, error) { return classic.All(limiters...) }

// AcquireRelease acquires a permit of l and returns the function that gives it back.
func AcquireRelease(ctx context.Context, l Limiter) (release func(), err error) {
	return classic.AcquireRelease(ctx, l)
}

// WithName sets the name by which errors call the limiter.
func WithName(name string) Option { return classic.WithName(name) }

// WithQueueLimit sets how many callers may wait at a time.
func WithQueueLimit(n int) Option { return classic.WithQueueLimit(n) }
