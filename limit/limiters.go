package limit

import (
	"context"

	"github.com/treadlight/crawl/internal/ratelimit/classic"
)

// DefaultMaxKeys is how many keys a Keyed has a limiter for.
const DefaultMaxKeys = classic.DefaultMaxKeys

// DefaultQueueLimit is how many callers may wait for one limiter.
const DefaultQueueLimit = classic.DefaultQueueLimit

// Never is the wait for what time alone will not bring: more permits than the limiter ever
// has, a slot that only a Release can free, anything of a closed limiter, or an instant
// more than 292 years away.
const Never = classic.Never

// What a caller may branch on.
var (
	// ErrLimited means not now: there was no room, or there will be none in the time the
	// caller has. Asking again after Error.RetryAfter is worth it.
	ErrLimited = classic.ErrLimited
	// ErrQueueFull means that as many callers wait as may. It is also ErrLimited.
	ErrQueueFull = classic.ErrQueueFull
	// ErrTooManyKeys means that a [Keyed] has no place for one more key. It is also ErrLimited.
	ErrTooManyKeys = classic.ErrTooManyKeys
	// ErrClosed means that the limiter has been closed.
	ErrClosed = classic.ErrClosed
	// ErrExceedsCapacity means a weight for which there is never room.
	ErrExceedsCapacity = classic.ErrExceedsCapacity
	// ErrInvalidWeight means a weight below 1.
	ErrInvalidWeight = classic.ErrInvalidWeight
)

// Composite is several limits at once: a permit of it is one of each member, all taken in
// one step or none.
type Composite = classic.Composite

// All makes one limiter of several, which must be of this package, all different, and go by
// the same clock.
func All(limiters ...Weighted) (*Composite, error) {
	return classic.All(limiters...)
}

// Concurrency bounds how many permits are out at a time.
type Concurrency = classic.Concurrency

// NewConcurrency returns a limiter with all its permits in.
func NewConcurrency(cfg ConcurrencyConfig, opts ...Option) (*Concurrency, error) {
	return classic.NewConcurrency(cfg, opts...)
}

// ConcurrencyConfig bounds how much goes on at a time.
type ConcurrencyConfig = classic.ConcurrencyConfig

// FixedWindow grants so many permits in each window.
type FixedWindow = classic.FixedWindow

// NewFixedWindow returns a limiter whose first window begins now.
func NewFixedWindow(cfg WindowConfig, opts ...Option) (*FixedWindow, error) {
	return classic.NewFixedWindow(cfg, opts...)
}

// Keyed is a limiter per key, for no more than so many keys.
type Keyed[K comparable] = classic.Keyed[K]

// NewKeyed returns a Keyed without keys.
func NewKeyed[K comparable](cfg KeyedConfig[K], opts ...Option) (*Keyed[K], error) {
	return classic.NewKeyed[K](cfg, opts...)
}

// KeyedConfig says what each key gets and how many keys there may be.
type KeyedConfig[K comparable] = classic.KeyedConfig[K]

// Kind names an algorithm, as configurations and errors spell it.
type Kind = classic.Kind

// The six kinds.
const (
	KindTokenBucket      = classic.KindTokenBucket
	KindFixedWindow      = classic.KindFixedWindow
	KindSlidingWindow    = classic.KindSlidingWindow
	KindSlidingWindowLog = classic.KindSlidingWindowLog
	KindLeakyBucket      = classic.KindLeakyBucket
	KindConcurrency      = classic.KindConcurrency
)

// Kinds is all kinds, in the order of the package's table.
func Kinds() []Kind {
	return classic.Kinds()
}

// LeakyBucket paces: two grants are never closer than the interval, which is Per/Permits,
// however long nothing was asked for.
type LeakyBucket = classic.LeakyBucket

// NewLeakyBucket returns a limiter that can grant now.
func NewLeakyBucket(cfg LeakyBucketConfig, opts ...Option) (*LeakyBucket, error) {
	return classic.NewLeakyBucket(cfg, opts...)
}

// LeakyBucketConfig is a pace.
type LeakyBucketConfig = classic.LeakyBucketConfig

// Error is a refusal for now: it is [ErrLimited], and tells when to ask again.
type Error = classic.LimitError

// Limiter is what all limiters of the package are, for callers who ask for one permit at a
// time.
type Limiter = classic.Limiter

// Option is a setting that all limiters have.
type Option = classic.Option

// WithName sets the name by which errors call the limiter.
func WithName(name string) Option {
	return classic.WithName(name)
}

// WithQueueLimit sets how many callers may wait at a time.
func WithQueueLimit(n int) Option {
	return classic.WithQueueLimit(n)
}

// Overflow is what becomes of a key for which there is no place.
type Overflow = classic.Overflow

// The overflows.
const (
	OverflowShare = classic.OverflowShare // all such keys share one limiter: slower for each of them, a way round for none
	OverflowDeny  = classic.OverflowDeny  // they are refused with ErrTooManyKeys
)

// Pinned is the limiter of a key of a Keyed, held in its place: for those who come back to
// one key so often that finding it each time would cost more than the limiter, and for
// permits that are to be given back to the limiter they came from.
type Pinned[K comparable] = classic.Pinned[K]

// Refill is how the tokens of a bucket come in.
type Refill = classic.Refill

// The refills.
const (
	RefillContinuous = classic.RefillContinuous // one by one, spread over the period
	RefillInterval   = classic.RefillInterval   // all at once, at the end of each whole period since the start
)

// SlidingWindow is the sliding-window counter.
type SlidingWindow = classic.SlidingWindow

// NewSlidingWindow returns a limiter whose first window begins now, after an empty one.
func NewSlidingWindow(cfg WindowConfig, opts ...Option) (*SlidingWindow, error) {
	return classic.NewSlidingWindow(cfg, opts...)
}

// SlidingWindowLog remembers every grant of the last window and so keeps the bound exactly:
// in no window, wherever it begins, are there more than Permits.
type SlidingWindowLog = classic.SlidingWindowLog

// NewSlidingWindowLog returns a limiter that has granted nothing.
func NewSlidingWindowLog(cfg WindowConfig, opts ...Option) (*SlidingWindowLog, error) {
	return classic.NewSlidingWindowLog(cfg, opts...)
}

// Spec describes a limiter of any kind, as a configuration does.
type Spec = classic.Spec

// Statistics is what a limiter has done and how it stands.
type Statistics = classic.Statistics

// TokenBucket grants as long as it has tokens, which come in at a rate and are kept up to
// the burst: in any span it grants at most Burst and what came in meanwhile.
type TokenBucket = classic.TokenBucket

// NewTokenBucket returns a bucket that is full, unless cfg says otherwise.
func NewTokenBucket(cfg TokenBucketConfig, opts ...Option) (*TokenBucket, error) {
	return classic.NewTokenBucket(cfg, opts...)
}

// TokenBucketConfig is a rate with a burst.
type TokenBucketConfig = classic.TokenBucketConfig

// Weighted is a Limiter for requests that cost several permits, taken together or not at
// all.
type Weighted = classic.Weighted

// New builds the limiter that s describes.
func New(s Spec, opts ...Option) (Weighted, error) {
	return classic.New(s, opts...)
}

// WindowConfig is a number of permits in a window of time.
type WindowConfig = classic.WindowConfig

// AcquireRelease acquires a permit of l and returns the function that gives it back.
func AcquireRelease(ctx context.Context, l Limiter) (release func(), err error) {
	return classic.AcquireRelease(ctx, l)
}
