package memory

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
)

// DefaultMaxKeys is how many keys are known at a time. A key of one plan takes some 250
// bytes with its text and the table's free places, so this is 63 megabytes when it is full,
// and 17 to 67 more for sketches when more come than it holds.
const DefaultMaxKeys = 1 << 18

const (
	// maxShards are so many that processors seldom meet at one, and keysPerShard so few
	// keys that a further shard does not pay.
	maxShards    = 256
	keysPerShard = 256

	// overflowWait is what a key is told for which there is no place. When there will be
	// one depends on others; a second is what clients round a shorter wait up to.
	overflowWait = time.Second
)

// Overflow is what becomes of a key for which there is no place.
type Overflow uint8

// The overflows.
const (
	// OverflowSketch counts them in a sketch: each has an account of its own that may have a
	// little too much charged to it, and never too little.
	OverflowSketch Overflow = iota
	// OverflowDeny refuses them with ReasonTooManyKeys.
	OverflowDeny
)

// Config is a repository's bound.
type Config struct {
	// MaxKeys is how many keys are known exactly at a time: of more, those who have used the
	// largest share of a plan. They are spread over shards by a
	// hash, and a shard may be full when a few hundredths of them are missing yet; up to
	// 511 keys there is one shard. Zero means DefaultMaxKeys.
	MaxKeys int
	// Overflow is what becomes of the others while none can be forgotten. Zero means OverflowSketch.
	Overflow Overflow
	// Clock is where the time comes from. Zero means the system's.
	Clock clock.Clock
}

// Repository is an [admission.Repository] in this process. Make it by [New].
type Repository struct {
	cfg    Config // never changes after New
	seed   maphash.Seed
	begun  time.Time        // from which the clock's cheap reading counts
	origin admission.Micros // begun
	shift  uint             // of a hash, to the index of its shard
	shards []shard
	closed atomic.Bool
}

var _ admission.Repository = (*Repository)(nil)

// New returns a Repository without keys. Its errors name the field and the fix.
func New(cfg Config) (*Repository, error) {
	if cfg.MaxKeys < 0 {
		return nil, fmt.Errorf("MaxKeys is %d: set it to 1 or more, or leave it out for the default", cfg.MaxKeys)
	}
	if cfg.Overflow > OverflowDeny {
		return nil, fmt.Errorf("Overflow is %d: set it to OverflowSketch or OverflowDeny", cfg.Overflow)
	}
	if cfg.MaxKeys == 0 {
		cfg.MaxKeys = DefaultMaxKeys
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	r := &Repository{cfg: cfg, seed: maphash.MakeSeed(), begun: cfg.Clock.Now()}
	r.origin = admission.MicrosOf(r.begun)
	r.split()
	return r, nil
}

// split makes the shards: a power of two, whose bounds add up to MaxKeys.
func (r *Repository) split() {
	width := bits.Len(uint(min(maxShards, r.cfg.MaxKeys/keysPerShard)))
	if width > 0 {
		width-- // to the power of two below
	}
	r.shift = uint(64 - width)
	r.shards = make([]shard, 1<<width)
	for i := range r.shards {
		r.shards[i].max, r.shards[i].seed = r.cfg.MaxKeys>>width, r.seed
		r.shards[i].deny = r.cfg.Overflow == OverflowDeny
		if i < r.cfg.MaxKeys&(1<<width-1) {
			r.shards[i].max++
		}
	}
}

// Immediate marks a repository that never waits, so that it needs no deadline.
func (r *Repository) Immediate() {}

func (r *Repository) now() admission.Micros {
	return r.origin + admission.Micros(r.cfg.Clock.Since(r.begun).Microseconds())
}

// Take decides as [admission.Repository] says. The time is read before the lock is
// taken: a state that another wrote meanwhile is some microseconds ahead of it, which
// grants nothing twice.
func (r *Repository) Take(ctx context.Context, key string, plans []admission.Plan, tokens int64) (res admission.Result, err error) {
	if err := ctx.Err(); err != nil {
		return res, err
	}
	hash := maphash.String(r.seed, key)
	now := r.now()
	sh := &r.shards[hash>>r.shift]
	sh.mu.Lock()
	ok := sh.takeLocked(hash, key, plans, now, tokens, &res)
	sh.mu.Unlock()
	if !ok {
		err = r.takeElse(plans, &res)
	}
	return res, err
}

// takeElse decides for a key that its shard did not take.
func (r *Repository) takeElse(plans []admission.Plan, res *admission.Result) error {
	if r.closed.Load() {
		return admission.ErrClosed
	}
	*res = admission.Result{
		Limit: plans[0].Capacity, Plan: plans[0].Name,
		Reason: admission.ReasonTooManyKeys, Wait: overflowWait,
	}
	return nil
}

// Remove forgets what key has used under plans. It does not reach what sketches have of it.
func (r *Repository) Remove(ctx context.Context, key string, plans []admission.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	hash := maphash.String(r.seed, key)
	sh := &r.shards[hash>>r.shift]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed {
		return admission.ErrClosed
	}
	if i := sh.table.find(hash, key); i >= 0 && sh.table.slots[i].drop(plans) {
		sh.table.remove(i)
	}
	return nil
}

// RemoveWhere forgets all keys of which match is true, and says how many. match is called
// with no lock held; keys that come meanwhile may be missed.
func (r *Repository) RemoveWhere(match func(key string) bool) int {
	removed := 0
	for i := range r.shards {
		sh := &r.shards[i]
		for _, key := range sh.keys() {
			if match(key) && sh.remove(maphash.String(r.seed, key), key) {
				removed++
			}
		}
	}
	return removed
}

// Keys is of all keys, of whatever plans: those of others are few.
func (r *Repository) Keys(ctx context.Context, _ []admission.Plan, yield func(key string) bool) error {
	if r.closed.Load() {
		return admission.ErrClosed
	}
	for i := range r.shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, key := range r.shards[i].keys() {
			if !yield(key) {
				return nil
			}
		}
	}
	return nil
}

// Len is how many keys are known.
func (r *Repository) Len() int {
	n := 0
	for i := range r.shards {
		n += r.shards[i].len()
	}
	return n
}

// Close forgets everything.
func (r *Repository) Close() error {
	r.closed.Store(true)
	for i := range r.shards {
		r.shards[i].close()
	}
	return nil
}
