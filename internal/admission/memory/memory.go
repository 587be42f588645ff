// Package memory keeps what keys have used of plans in this process.
//
// A key and all its plans are in one slot of one shard, so that a decision over several plans takes one lock. The
// number of keys is bounded. A key may be forgotten once nothing it used counts any longer: then a new one would decide
// the same. Each new key examines a few others for that; there is no goroutine. A decision about a known key allocates
// nothing.
//
// If there are more keys with usage that counts than places, the keys that have used the smallest share of their plans
// are counted in a sketch, a table of counters that several keys may share. So a flood of keys that are used once or
// twice takes no place from a client that is known, and a new client after the flood is not charged with what the flood
// has used, except for one in a thousand or so with plans that admit very few requests.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/store/keytable"
)

// DefaultMaxKeys is how many keys are kept at a time by default. A key of one plan takes some 250 bytes with its text
// and the table's free places, so a full table takes 63 megabytes, and sketches take 17 to 67 more if more keys come
// than it holds.
const DefaultMaxKeys = 1 << 18

const (
	// sweepStep is how many slots each new key examines for one that may be forgotten: with more than one, the sweep
	// goes round faster than keys are added. sweepFull is how many it examines if there is no place, and evictSample
	// how many then to find a key that has used less than the new one.
	sweepStep   = 4
	sweepFull   = 256
	evictSample = 64

	// keepFor is how long a key that may be forgotten stays while there is place. Most clients that come back do so
	// within a minute; their keys need not be made again.
	keepFor = admission.Micros(60e6)

	// usualPlans is the number of plans up to which a decision allocates nothing.
	usualPlans = 8
)

// Config configures a [Repository].
type Config struct {
	// MaxKeys is how many keys are counted exactly at a time; if there are more, those that have used the largest share
	// of a plan. Keys are spread over shards by a hash, and a shard may be full while the whole lacks a few hundredths
	// of MaxKeys; up to 511 keys there is one shard. Zero means DefaultMaxKeys.
	MaxKeys int
	// Clock gives the time. Nil means the system clock.
	Clock clock.Clock
}

// Repository is an [admission.Repository] in this process. Make it by [New].
type Repository struct {
	clk    clock.Clock
	seed   maphash.Seed
	begun  time.Time        // the clock's readings count from here
	origin admission.Micros // begun in Micros
	shift  uint             // shifts a hash to the index of its shard
	shards []shard
}

var _ admission.Repository = (*Repository)(nil)

type shard struct {
	mu       sync.Mutex // guards what follows but max and seed
	table    keytable.Table[string, accounts]
	sketches []*sketch // count the keys without a place; empty until there are some
	closed   bool
	max      int // number of keys that have places
	seed     maphash.Seed
	_        [64]byte // keeps the locks of two shards in different cache lines
}

// New returns a Repository without keys. Its errors name the field and the fix.
func New(cfg Config) (*Repository, error) {
	if cfg.MaxKeys < 0 {
		return nil, fmt.Errorf("MaxKeys is %d: set it to 1 or more, or leave it out for the default", cfg.MaxKeys)
	}
	cfg.MaxKeys = cmp.Or(cfg.MaxKeys, DefaultMaxKeys)
	cfg.Clock = cmp.Or(cfg.Clock, clock.System())
	r := &Repository{clk: cfg.Clock, seed: maphash.MakeSeed(), begun: cfg.Clock.Now()}
	r.origin = admission.MicrosOf(r.begun)
	n, shift := keytable.Shards(cfg.MaxKeys)
	r.shards, r.shift = make([]shard, n), shift
	for i := range r.shards {
		r.shards[i].max, r.shards[i].seed = (cfg.MaxKeys+i)/n, r.seed
	}
	return r, nil
}

// hashOf returns a hash with a seed of this process, so that clients cannot choose the shards of their keys.
func hashOf(seed maphash.Seed, text string) uint64 { return max(1, maphash.String(seed, text)) }

// Immediate tells the Admitter to set no deadline, because the repository never waits.
func (r *Repository) Immediate() {}

// Take decides as [admission.Repository] says. It reads the time before it takes the lock: a state that another call
// wrote meanwhile may be some microseconds ahead, which grants nothing twice.
func (r *Repository) Take(ctx context.Context, key string, plans []admission.Plan, tokens int64) (res admission.Result, err error) {
	if err := ctx.Err(); err != nil {
		return res, err
	}
	hash := hashOf(r.seed, key)
	now := r.origin + admission.Micros(r.clk.Since(r.begun).Microseconds())
	sh := &r.shards[hash>>r.shift]
	sh.mu.Lock()
	at := sh.table.Find(hash, key)
	switch {
	case at >= 0:
		sh.table.At(at).Value.take(plans, now, tokens, &res)
	case sh.closed:
		err = admission.ErrClosed
	default:
		sh.takeNewLocked(hash, key, plans, now, tokens, &res)
	}
	sh.mu.Unlock()
	return res, err
}

// Remove forgets what key has used under plans, except for what sketches have counted of it.
func (r *Repository) Remove(ctx context.Context, key string, plans []admission.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	hash := hashOf(r.seed, key)
	sh := &r.shards[hash>>r.shift]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed {
		return admission.ErrClosed
	}
	if i := sh.table.Find(hash, key); i >= 0 && sh.table.At(i).Value.drop(plans) {
		sh.table.Remove(i)
	}
	return nil
}

// Keys yields all keys, whatever plans they have used: keys of other plans only are few.
func (r *Repository) Keys(ctx context.Context, _ []admission.Plan, yield func(key string) bool) error {
	for i := range r.shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		sh := &r.shards[i]
		sh.mu.Lock()
		closed := sh.closed
		keys := make([]string, 0, sh.table.Len())
		for _, slot := range sh.table.All() {
			keys = append(keys, slot.Key)
		}
		sh.mu.Unlock()
		if closed {
			return admission.ErrClosed
		}
		for _, key := range keys {
			if !yield(key) {
				return nil
			}
		}
	}
	return nil
}

// Close forgets everything.
func (r *Repository) Close() error {
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		sh.closed, sh.table, sh.sketches = true, keytable.Table[string, accounts]{}, nil
		sh.mu.Unlock()
	}
	return nil
}

// takeNewLocked decides for a key that is not known. The key gets a place only if it is charged. It begins with what
// the sketches have counted: that may include the use of other keys, and is not less than its own.
func (s *shard) takeNewLocked(hash uint64, key string, plans []admission.Plan, now admission.Micros, n int64, res *admission.Result) {
	var fresh accounts
	if len(s.sketches) > 0 {
		s.recallLocked(&fresh, hash, plans, now)
	}
	fresh.takeAll(plans, now, n, res)
	switch {
	case !res.Allowed || n == 0:
	case s.makeRoomLocked(now) || s.evictLocked(fresh.weight(now), now):
		s.table.Insert(hash, strings.Clone(key), fresh) // a copy: key may be part of a whole header
	default:
		s.spillLocked(hash, &fresh, now)
	}
}

// makeRoomLocked examines some slots and reports whether there is room for one more key.
func (s *shard) makeRoomLocked(now admission.Micros) bool {
	over := func(slot *keytable.Slot[string, accounts]) bool { return slot.Value.over(now) }
	s.table.Sweep(sweepStep, false, func(slot *keytable.Slot[string, accounts]) bool { return slot.Value.over(now - keepFor) })
	return s.table.Len() < s.max || s.table.Sweep(sweepFull, false, over) > 0
}

// evictLocked removes a key from the table: of a sample, the one that has used the smallest share of its plans, if that
// is smaller than the given share. It adds what the key has used to the sketches. So clients that send many requests
// have exact accounts, and those of a flood with many keys do not.
func (s *shard) evictLocked(share uint16, now admission.Micros) bool {
	least, at := share, -1
	for i, slot := range s.table.Ahead(evictSample) {
		if w := slot.Value.weight(now); w < least {
			least, at = w, i
		}
	}
	if at < 0 {
		return false
	}
	slot := s.table.At(at)
	s.spillLocked(slot.Hash, &slot.Value, now)
	s.table.Remove(at)
	return true
}

func (s *shard) spillLocked(hash uint64, key *accounts, now admission.Micros) {
	key.each(func(a *account) bool {
		if now < a.until {
			s.sketchOf(a.class, now).raise(hash^hashOf(s.seed, a.plan), a.share)
		}
		return true
	})
}

// recallLocked sets the accounts of a new key to what the sketches have counted.
func (s *shard) recallLocked(key *accounts, hash uint64, plans []admission.Plan, now admission.Micros) {
	for i := range plans {
		p := &plans[i]
		used := int64(s.sketchOf(classOf(p), now).share(hash^hashOf(s.seed, p.Name))) * p.Capacity / wholePlan
		if used > 0 {
			a := account{plan: p.Name, window: p.Window != 0, class: classOf(p), state: p.Fresh(now)}
			var r admission.Result
			p.Charge(&a.state, now, used, &r)
			a.charged(now, &r)
			key.set(&a, now)
		}
	}
}

type account struct {
	plan   string // name of the plan; "" if there is no account
	window bool   // state is that of a window; for a plan of another kind it means nothing
	class  uint8  // class of the sketch to which it goes
	share  uint16 // share of the plan that was used after the last charge
	state  admission.State
	until  admission.Micros // when nothing in state counts any longer
}

func (a *account) charged(now admission.Micros, res *admission.Result) {
	a.until, a.share = math.MaxInt64, shareOf(res)
	if res.Reset != admission.Never {
		a.until = now + admission.Micros(res.Reset/time.Microsecond)
	}
}

type accounts struct {
	first account
	more  []account
}

// each calls do with the accounts until do returns false, and reports whether it never did.
func (s *accounts) each(do func(*account) bool) bool {
	if !do(&s.first) {
		return false
	}
	for i := range s.more {
		if !do(&s.more[i]) {
			return false
		}
	}
	return true
}

func (s *accounts) over(now admission.Micros) bool {
	return now >= s.first.until && (len(s.more) == 0 || s.each(func(a *account) bool { return now >= a.until }))
}

// weight returns the largest share of a plan that the key has used, which is what it would gain by being forgotten.
func (s *accounts) weight(now admission.Micros) (most uint16) {
	s.each(func(a *account) bool {
		if now < a.until {
			most = max(most, a.share)
		}
		return true
	})
	return most
}

func (s *accounts) find(plan string) *account {
	if s.first.plan == plan {
		return &s.first
	}
	for i := range s.more {
		if s.more[i].plan == plan {
			return &s.more[i]
		}
	}
	return nil
}

// take charges n tokens to all plans or to none. It is fast for the usual case, one plan that is known.
func (s *accounts) take(plans []admission.Plan, now admission.Micros, n int64, res *admission.Result) {
	a := &s.first
	if len(plans) != 1 || a.plan != plans[0].Name || a.window != (plans[0].Window != 0) {
		s.takeAll(plans, now, n, res)
		return
	}
	plans[0].Charge(&a.state, now, n, res)
	if res.Allowed && n > 0 {
		a.charged(now, res)
	}
}

// takeAll charges n tokens to all plans or to none, and sets res to the Result of the tightest plan.
func (s *accounts) takeAll(plans []admission.Plan, now admission.Micros, n int64, res *admission.Result) {
	var room [usualPlans]account
	next := room[:0]
	*res = admission.Result{Allowed: true}
	for i := range plans {
		p := &plans[i]
		a := account{plan: p.Name, window: p.Window != 0, class: classOf(p)}
		if known := s.find(p.Name); known != nil && known.window == a.window {
			a.state = known.state
		} else {
			a.state = p.Fresh(now)
		}
		var r admission.Result
		p.Charge(&a.state, now, n, &r)
		a.charged(now, &r)
		next = append(next, a)
		if i == 0 || r.Tighter(res) {
			*res = r
		}
	}
	if res.Allowed && n > 0 {
		for i := range next {
			s.set(&next[i], now)
		}
	}
}

// set stores an account in place of the one of the same plan, or of one of which nothing counts any longer, or else
// after all others. So a key has no more accounts than plans that still count for it.
func (s *accounts) set(a *account, now admission.Micros) {
	old := s.find(a.plan)
	if s.first.plan == "" {
		old = &s.first
	}
	for i := 0; old == nil && i < len(s.more); i++ {
		if s.more[i].until <= now-keepFor {
			old = &s.more[i]
		}
	}
	if old != nil {
		*old = *a
		return
	}
	s.more = append(s.more, *a)
}

// drop removes the accounts of plans and reports whether none is left.
func (s *accounts) drop(plans []admission.Plan) bool {
	all := slices.DeleteFunc(append([]account{s.first}, s.more...), func(a account) bool {
		return slices.ContainsFunc(plans, func(p admission.Plan) bool { return p.Name == a.plan })
	})
	if len(all) == 0 {
		return true
	}
	s.first, s.more = all[0], all[1:]
	return false
}
