// Package redis keeps what keys have used of plans in Redis or Valkey, so that many processes share one count: a single
// server, one behind Sentinel, or a cluster.
//
// A decision takes one script, take.lua, and one trip to the server. The script reads the server's clock, checks all
// plans, and writes only if all of them allow. It replies with the states that it found, from which the pure functions
// of package admission compute the Result. Both decide the same to the last bit; a reply on which they do not agree is
// an error.
//
// The key is rate_limiter:<plan>:{<key>}. The braces are a cluster's hash tag: all plans of a key are in one slot.
// Braces and % within the key are escaped. The value is a hash with v, the version "1", and big-endian fields of eight
// bytes. A bucket has t, its tokens (a double), and ts, the microsecond for which they are right (an integer). A window
// has ts, when it began, and c and p, the tokens taken in it and in the one before. The value expires after
// [admission.Plan.TTL].
//
// # When Redis does not answer
//
// Each decision has a deadline of its own, which begins when there is a connection. A late decision fails with
// context.DeadlineExceeded, and may have been charged. Nothing is sent twice, except for a script that the server did
// not know. The [admission.Admitter] decides what an error means and when to try again; in a cluster it does so for
// each sixteenth of the slots, so that a node that is down affects no others ([Repository.Part]).
//
// # Fewer trips
//
// If callers want one token of a key while a command about it is in flight, one further command is sent for all of
// them: when the reply has come, or after a sixteenth of the deadline.
//
// A denial is remembered for a minute at most. Other processes only take tokens, so while the remembered state denies,
// Redis would deny too. Only a Remove by another process is noticed late.
//
// Leases ([Config.Lease]) are tokens that are charged before they are needed, and granted here without a trip. A token
// may be used up to the length L of a lease after it was charged: over any time W, all processes together admit
// capacity + rate·(W+L) of a bucket. A fixed window never admits more than its capacity, since no lease reaches into
// the next window; for a sliding one the rate is capacity by length. What is not used when a lease ends is lost to the
// client. So a lease is as large as the use of the one before, or as what that would have needed, and never larger than
// rate·L and capacity/(2·processes). If that is less than two, there are no leases.
//
// All of it is safe for concurrent use. [New] starts nothing and does not need Redis to be running; decisions start
// goroutines, and [Repository.Close] waits for them.
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
	"github.com/treadlight/crawl/internal/clock/lifetime"
)

const (
	// DefaultDeadline is longer than a trip to another continent takes.
	DefaultDeadline = admission.DefaultDeadline

	// DefaultKeys is how many keys are remembered by default; all of them take some ten megabytes.
	DefaultKeys = 1 << 14

	// maxLease is so long that a client notices its tokens coming late. The bound keeps what leases may overdraw in
	// proportion.
	maxLease = 10 * time.Second

	// serverTimeout is the timeout for connecting, and for a connection on which nothing is answered. It is well above
	// the deadline, because giving up a decision does not mean giving up the connection.
	serverTimeout = time.Second

	// scanStep is how many keys a server examines in a step of a scan, which takes some tenths of a millisecond.
	scanStep = 1000
)

// Config configures how Redis is reached, and how many trips are saved.
type Config struct {
	// Redis says how the servers are reached: TLS, user, addresses. InitAddress has a server, some servers of a
	// cluster, or sentinels if Sentinel.MasterSet is set; an empty InitAddress is an error. Retries and client-side
	// caching are always off, and pipelining is always on. Zero Dialer.Timeout and ConnWriteTimeout mean a second, and
	// zero PipelineMultiplex means one connection to each server.
	Redis rueidis.ClientOption
	// Deadline is how long a decision may take once there is a connection, unless its context ends before. Zero means
	// DefaultDeadline.
	Deadline time.Duration
	// Keys is how many keys are remembered here, for denials and leases. A negative number means none, which is an
	// error together with leases. Zero means DefaultKeys.
	Keys int
	// Lease is how long tokens may be held before they are used, up to 10s; 50 to 200 ms are usual. Zero means that
	// there are no leases.
	Lease time.Duration
	// Instances is how many processes share the plans, for the size of leases. Zero means 1.
	Instances int
	// Clock gives the time for remembered denials and leases. Decisions do not use it, and deadlines use the system
	// clock. Nil means the system clock.
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
	c.Clock = cmp.Or(c.Clock, clock.System())
	o := &c.Redis
	o.InitAddress = slices.Clone(o.InitAddress) // the client may shuffle the slice
	o.DisableRetry, o.DisableCache = true, true
	// Otherwise the second command waits for the reply to the first, and the server is far away.
	o.AlwaysPipelining = true
	o.Dialer.Timeout = cmp.Or(o.Dialer.Timeout, serverTimeout)
	o.ConnWriteTimeout = cmp.Or(o.ConnWriteTimeout, serverTimeout)
	// One connection, which exists when the first decision comes: the client makes further ones within the first
	// commands that use them, at the cost of three more trips.
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
	name  string // the server's name of the script

	trips, reloads, failures, denials, leased atomic.Uint64 // see Statistics
}

var _ admission.Repository = (*Repository)(nil)

// Statistics has the counts of a [Repository] since it was made.
type Statistics struct {
	Trips    uint64 `json:"trips"`    // commands sent, including probes and those sent again
	Reloads  uint64 `json:"reloads"`  // of these, those sent again with the script's text, because the server did not know it
	Failures uint64 `json:"failures"` // commands without a reply
	Denials  uint64 `json:"denials"`  // denials decided by what was remembered
	Leased   uint64 `json:"leased"`   // decisions charged to a lease
}

func init() { admission.Redis.Register(open) }

func open(cfg admission.RedisConfig) (admission.Repository, error) {
	option, err := rueidis.ParseURL(cfg.URL)
	if err != nil {
		return nil, errors.New("it is no URL of Redis") // no cause, which may quote the password
	}
	r, err := New(Config{Redis: option, Deadline: cfg.Deadline, Lease: cfg.Lease, Instances: cfg.Instances})
	if err != nil {
		return nil, err
	}
	r.Connect()
	return r, nil
}

// New returns a Repository. It does not connect; [Repository.Connect], [Repository.Ping] and the first decision do. Its
// errors name the field and the fix.
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
	r.link.option, r.link.life = cfg.Redis, lifetime.New()
	return r, nil
}

// Immediate tells the Admitter to set no deadline: the repository has its own, which begins when there is a connection.
func (r *Repository) Immediate() {}

// Connect starts to connect in the background, so that the first decision need not wait for a connection.
func (r *Repository) Connect() { r.link.dial() }

// Part returns the number of the part of a cluster that a key is in, and how many parts there are; each may be out of
// reach by itself. Without a cluster all keys are in the same part.
func (r *Repository) Part(key string) (part, of int) { return r.gateIndex(storeKey("", key)), gates }

// instant returns the local time, which is used for everything but decisions.
func (r *Repository) instant() clock.Instant { return clock.Instant(r.cfg.Clock.Since(r.begun)) }

// Take decides as [admission.Repository] says, within the deadline, which begins once there is a connection. It waits
// for a connection as long as connecting may take. If its context ends before, Take may return only at the deadline. An
// error after the command was sent wraps [admission.ErrUndecided] or context.DeadlineExceeded; the command is not sent
// again.
func (r *Repository) Take(ctx context.Context, key string, plans []admission.Plan, tokens int64) (res admission.Result, err error) {
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("redis: %w", ctx.Err())
	case r.link.life.Over():
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
		keys := make([]string, len(plans)) // all in one slot
		for i := range plans {
			keys[i] = storeKey(plans[i].Name, key)
		}
		err = r.do(ctx, c, r.gateOf(keys[0]), c.B().Del().Key(keys...).Build()).Error()
		r.local.forget(key) // after it is removed there, or it could be remembered again
	}
	if err != nil {
		return fmt.Errorf("redis: remove: %w", err)
	}
	return nil
}

// Keys scans all servers of a cluster, for as long as ctx allows.
func (r *Repository) Keys(ctx context.Context, plans []admission.Plan, yield func(key string) bool) error {
	c, err := r.link.connected(ctx)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	for _, node := range c.Nodes() {
		names := rueidis.NewScanner(func(cursor uint64) (rueidis.ScanEntry, error) {
			return node.Do(ctx, node.B().Scan().Cursor(cursor).Match(storePrefix+"*").Count(scanStep).Build()).AsScanEntry()
		})
		for name := range names.Iter() {
			plan, key, ok := keyOf(name)
			asked := slices.ContainsFunc(plans, func(p admission.Plan) bool { return p.Name == plan })
			if ok && asked && !yield(key) {
				return nil
			}
		}
		if err := names.Err(); err != nil {
			return fmt.Errorf("redis: scan: %w", err)
		}
	}
	return nil
}

// Ping connects and runs the script so that it charges nothing, to fail if the server cannot run it. It waits as long
// as ctx allows; the cancellation of ctx may be noticed a second late.
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

// Statistics returns the counts so far.
func (r *Repository) Statistics() Statistics {
	return Statistics{
		Trips: r.trips.Load(), Reloads: r.reloads.Load(), Failures: r.failures.Load(),
		Denials: r.denials.Load(), Leased: r.leased.Load(),
	}
}

// Close closes the connections and waits for commands in flight, which fail. That takes some deadlines, or the time
// limit of connecting if a connection is being made. Leases are lost.
func (r *Repository) Close() error {
	r.link.close()
	return nil
}
