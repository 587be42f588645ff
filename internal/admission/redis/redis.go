// Package redis keeps what keys have used of plans in Redis or Valkey, so that many processes share one count: a single
// server, one behind Sentinel, or a cluster.
//
// A decision is one script, take.lua, and one trip. It reads the server's clock, checks all plans, and writes only if
// all of them allow. It replies with what it has found, of which the pure functions of package admission make the
// Result. The two decide the same to the last bit, and a reply on which they do not agree is an error.
//
// The key is rate_limiter:<plan>:{<key>}. The braces are a cluster's hash tag: all plans of a key are in one slot.
// Braces within the key are escaped, and %. The value is a hash with v, the version "1", and big-endian fields of eight
// bytes: of a bucket t, its tokens (a double), and ts, the microsecond they were right (an integer); of a window ts,
// when it began, c and p, the tokens taken in it and in the one before. It expires after [admission.Plan.TTL].
//
// # When Redis does not answer
//
// Each decision has a deadline of its own, which begins when there is a connection. A late decision fails with
// context.DeadlineExceeded, and may have been charged. Nothing is sent twice, but for a script the server did not know.
// What an error means, and when to ask again, is the [admission.Admitter]'s to say: of a cluster for each sixteenth of
// the slots, so that a node that is down takes no others with it ([Repository.Part]).
//
// # Fewer trips
//
// Those who ask for one token of a key while others do go together, when the question under way has been answered, or
// after a sixteenth of the deadline. The tokens go to those who came first.
//
// What a denial told is remembered for a minute at most. Others only ever take, so while the remembered state denies,
// Redis would too. Only a Remove by another process is seen late.
//
// Leases ([Config.Lease]) are tokens charged before they are needed and given out here without a trip. A token may be
// used up to the length L of a lease after it was charged: over any time W all processes together admit capacity +
// rate·(W+L) of a bucket. A fixed window admits not one more, since no lease reaches into the next; of a sliding one the
// rate is capacity by length. What is not used when a lease is over is lost to the client, so a lease is as large as the
// use of the one before, or what that would have needed, and never larger than rate·L and capacity/(2·processes). Where
// that is below two there are none.
//
// All of it is safe for concurrent use. [New] starts nothing and does not need Redis to be there; goroutines are begun
// by questions, and [Repository.Close] waits for them.
package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
)

const (
	// DefaultDeadline is above what a trip takes to another continent.
	DefaultDeadline = admission.DefaultDeadline

	// DefaultKeys is how many keys are remembered: some ten megabytes when all of them are.
	DefaultKeys = 1 << 14

	// maxLease is so long that a client sees its tokens come late. It keeps what a lease may overdraw in proportion.
	maxLease = 10 * time.Second

	// serverTimeout is for connecting, and for a connection on which nothing is answered: well above the deadline, as
	// giving up a decision does not mean giving up the connection.
	serverTimeout = time.Second

	// scanStep is how many keys a server looks at in a step of a scan: some tenths of a millisecond.
	scanStep = 1000
)

// Config is how Redis is reached and how hard it is tried.
type Config struct {
	// Redis is how the servers are reached: TLS, user, addresses. InitAddress has a server, or some of a
	// cluster, or sentinels if Sentinel.MasterSet is set. Zero InitAddress is an error. Retries and
	// client-side caching are off and pipelining is on whatever it says, zero Dialer.Timeout and
	// ConnWriteTimeout mean a second, and zero PipelineMultiplex one connection to a server.
	Redis rueidis.ClientOption
	// Deadline is how long a decision may take once there is a connection, unless its context ends
	// before. Zero means DefaultDeadline.
	Deadline time.Duration
	// Keys is how many keys are remembered here, for denials and leases. Below zero nothing is
	// remembered of any, which does not go with leases. Zero means DefaultKeys.
	Keys int
	// Lease is how long tokens may be held before they are used, up to 10s; 50 to 200 ms are usual. Zero
	// means that there are no leases.
	Lease time.Duration
	// Instances is how many processes share the plans, for the size of leases. Zero means 1.
	Instances int
	// Clock is for denials and leases, and no part of a decision; deadlines are the
	// system's. Zero means the system's.
	Clock clock.Clock
}

func (c *Config) settle() error {
	switch {
	case len(c.Redis.InitAddress) == 0:
		return errors.New("redis: Redis.InitAddress is empty: give the address of a server, or of some of a cluster")
	case c.Deadline < 0:
		return fmt.Errorf("redis: Deadline is %v: set it to more than 0, or leave it out for the default", c.Deadline)
	case c.Lease < 0 || c.Lease > maxLease:
		return fmt.Errorf("redis: Lease is %v: set it to at most %v, or leave it out for none", c.Lease, maxLease)
	case c.Lease > 0 && c.Keys < 0:
		return fmt.Errorf("redis: Lease is %v and Keys %d: leases are remembered by key, so set Keys to 1 or more", c.Lease, c.Keys)
	case c.Instances < 0:
		return fmt.Errorf("redis: Instances is %d: set it to 1 or more, or leave it out for 1", c.Instances)
	}
	c.Deadline, c.Keys, c.Instances = cmp.Or(c.Deadline, DefaultDeadline), cmp.Or(c.Keys, DefaultKeys), cmp.Or(c.Instances, 1)
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	o := &c.Redis
	o.InitAddress = slices.Clone(o.InitAddress) // which the client may shuffle
	o.DisableRetry, o.DisableCache = true, true
	// Else the second question waits for the answer of the first, which is far from here.
	o.AlwaysPipelining = true
	o.Dialer.Timeout = cmp.Or(o.Dialer.Timeout, serverTimeout)
	o.ConnWriteTimeout = cmp.Or(o.ConnWriteTimeout, serverTimeout)
	// One connection, which is there when the first decision comes: the client makes further ones
	// within the first questions that go through them, in three more trips.
	o.PipelineMultiplex = cmp.Or(o.PipelineMultiplex, -1)
	return nil
}

// Repository is an [admission.Repository] in Redis. Make it by [New].
type Repository struct {
	cfg   Config // never changes after New
	begun time.Time
	now   func() admission.Micros // the time of decisions; only tests have another than the server's
	local local
	gates [gates]gate
	link  link
	name  string // what servers call the script

	trips, reloads, failures, denials, leased atomic.Uint64 // see Statistics
}

var _ admission.Repository = (*Repository)(nil)

// Statistics is what a Repository has counted since it was made.
type Statistics struct {
	Trips    uint64 `json:"trips"`    // commands sent, those of probes and those sent again included
	Reloads  uint64 `json:"reloads"`  // of these, those sent again with their text, as the server did not know them
	Failures uint64 `json:"failures"` // questions that were not answered
	Denials  uint64 `json:"denials"`  // denials decided by what was remembered
	Leased   uint64 `json:"leased"`   // decisions charged to a lease
}

func init() { admission.Redis.Register(open) }

func open(cfg admission.RedisConfig) (admission.Repository, error) {
	option, err := rueidis.ParseURL(cfg.URL)
	if err != nil {
		return nil, errors.New("it is no URL of Redis") // what is wrong with it may be the password
	}
	r, err := New(Config{Redis: option, Deadline: cfg.Deadline, Lease: cfg.Lease, Instances: cfg.Instances})
	if err != nil {
		return nil, err
	}
	r.Connect()
	return r, nil
}

// New returns a Repository. It does not connect; [Repository.Connect] and [Repository.Ping] do, and the
// first decision. Its errors name the field and the fix.
func New(cfg Config) (*Repository, error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	r := &Repository{
		cfg: cfg, begun: cfg.Clock.Now(), name: scriptName(), now: func() admission.Micros { return serverTime },
	}
	for i := range r.gates {
		r.gates[i].heard.Store(silent)
		r.gates[i].places = make(chan struct{}, inFlightEach)
	}
	r.gates[0].places = make(chan struct{}, inFlight)
	r.local.init(cfg.Keys)
	r.link.init(cfg.Redis)
	return r, nil
}

// Immediate marks a repository that has a deadline of its own, and one that begins when there is a connection.
func (r *Repository) Immediate() {}

// Connect has a connection made in the background, so that the first decision need not wait for it.
func (r *Repository) Connect() { r.link.dialing() }

// Part is the part of a cluster a key is in, of so many that can be out of reach by themselves; without
// a cluster it is always the same.
func (r *Repository) Part(key string) (part, of int) { return r.gateIndex(storeKey("", key)), gates }

// instant is the local time, for all that is no part of a decision.
func (r *Repository) instant() clock.Instant { return clock.Instant(r.cfg.Clock.Since(r.begun)) }

// Take decides as [admission.Repository] says, within the deadline, once there is a connection, for which it waits as
// long as connecting may take. A caller that gives up before may be let go only at the deadline. An error after the
// question was sent wraps [admission.ErrUndecided] or context.DeadlineExceeded; it is not sent again.
func (r *Repository) Take(ctx context.Context, key string, plans []admission.Plan, tokens int64) (res admission.Result, err error) {
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("redis: %w", ctx.Err())
	case r.link.closed.Load():
		err = admission.ErrClosed
	case len(plans) == 0:
		res.Allowed = true
	default:
		res, err = r.takeHere(ctx, key, plans, tokens)
	}
	return res, err
}

// Remove forgets what key has used under plans, here and in Redis.
func (r *Repository) Remove(ctx context.Context, key string, plans []admission.Plan) error {
	c, err := r.link.connected(ctx)
	if err == nil && len(plans) > 0 {
		ctx, cancel := context.WithTimeout(ctx, r.cfg.Deadline)
		defer cancel()
		keys := make([]string, len(plans)) // which are in one slot
		for i := range plans {
			keys[i] = storeKey(plans[i].Name, key)
		}
		err = r.do(ctx, c, r.gateOf(keys[0]), c.B().Del().Key(keys...).Build()).Error()
		r.local.forget(key) // after it is gone there, lest it be learned again
	}
	if err != nil {
		return fmt.Errorf("redis: remove: %w", err)
	}
	return nil
}

// Keys scans all servers of a cluster. It takes as long as ctx allows.
func (r *Repository) Keys(ctx context.Context, plans []admission.Plan, yield func(key string) bool) error {
	c, err := r.link.connected(ctx)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	for _, node := range c.Nodes() {
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			step, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(storePrefix+"*").Count(scanStep).Build()).AsScanEntry()
			if err != nil {
				return fmt.Errorf("redis: scan: %w", err)
			}
			for _, name := range step.Elements {
				plan, key, ok := keyOf(name)
				asked := slices.ContainsFunc(plans, func(p admission.Plan) bool { return p.Name == plan })
				if ok && asked && !yield(key) {
					return nil
				}
			}
			cursor = step.Cursor
		}
	}
	return nil
}

// Ping connects, and asks the server a question that charges nothing and is the script's, so that a
// server is refused that cannot run it. It waits as long as
// ctx allows; that ctx was cancelled may be seen a second later.
func (r *Repository) Ping(ctx context.Context) error {
	plan := admission.Plan{Name: "ping", Kind: admission.KindTokenBucket, Capacity: 1, TokensPerSecond: 1}
	c, err := r.link.connected(ctx)
	if err == nil {
		_, err = r.run(ctx, c, &r.gates[0], ask(serverTime, "", []admission.Plan{plan}, 0, 0))
	}
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// Statistics is what was counted so far.
func (r *Repository) Statistics() Statistics {
	return Statistics{
		Trips: r.trips.Load(), Reloads: r.reloads.Load(), Failures: r.failures.Load(),
		Denials: r.denials.Load(), Leased: r.leased.Load(),
	}
}

// Close gives the connections back and waits for what is under way, which fails: some deadlines, or the
// time limit of connecting if that is it. Leases are lost.
func (r *Repository) Close() error {
	r.link.close()
	return nil
}
