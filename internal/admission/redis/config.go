package redis

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

const (
	// DefaultDeadline is above what a trip takes to another continent. Within a data centre it
	// takes half a millisecond.
	DefaultDeadline = admission.DefaultDeadline

	// lostAfter is the breaker's default: so many failures in a row, each of a question asked
	// after the one before was found late.
	lostAfter = 3

	// DefaultKeys is how many keys are remembered: some ten megabytes when all of them are.
	DefaultKeys = 1 << 14

	// openFor is the breaker's default: one question a second costs a server that comes
	// up again nothing, and a second of fallback more does not matter.
	openFor = time.Second

	// maxLease is so long that a client sees its tokens come late. It also keeps what a
	// lease may overdraw, rate·L, in proportion to capacities.
	maxLease = 10 * time.Second

	// serverTimeout is for connecting, and for a connection on which nothing is answered. Both
	// are well above the deadline: giving up a decision does not mean giving up the connection.
	serverTimeout = time.Second
)

// Config is how Redis is reached and how hard it is tried.
type Config struct {
	// Redis is how the servers are reached: TLS, user, addresses. InitAddress has a
	// server, or some of a cluster, or sentinels if Sentinel.MasterSet is set. Zero
	// InitAddress is an error. Retries and client-side caching are off and pipelining is on whatever it says,
	// zero Dialer.Timeout and ConnWriteTimeout mean a second, and zero PipelineMultiplex one
	// connection to a server.
	Redis rueidis.ClientOption
	// Deadline is how long a decision may take once there is a connection, unless its context
	// ends before. Zero means DefaultDeadline.
	Deadline time.Duration
	// Breaker says when to stop asking and to try again; errors count over ten seconds.
	// Zero means its package's defaults, but three failures in a row, and one probe a second,
	// the first success of which closes.
	Breaker breaker.Config
	// Keys is how many keys are remembered here, for denials and leases. Of others nothing
	// is, and each decision is a trip. Below zero nothing is remembered of any, which does
	// not go with leases. Zero means DefaultKeys.
	Keys int
	// Lease is how long tokens may be held before they are used, up to 10s; 50 to 200 ms
	// are usual. Zero means that there are no leases.
	Lease time.Duration
	// Instances is how many processes share the plans, for the size of leases. Zero means 1.
	Instances int
	// Clock is for the breaker, denials and leases, and no part of a decision; deadlines
	// are the system's. Zero means the system's.
	Clock clock.Clock
}

// settle fills the defaults in, or returns what is wrong.
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
	setDefault(&c.Deadline, DefaultDeadline)
	setDefault(&c.Keys, DefaultKeys)
	setDefault(&c.Instances, 1)
	setDefault(&c.Breaker.OpenFor, openFor)
	setDefault(&c.Breaker.Probes, 1)
	setDefault(&c.Breaker.Consecutive, lostAfter)
	if err := c.Breaker.Validate(); err != nil {
		return fmt.Errorf("redis: Breaker: %w", err)
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	c.settleClient()
	return nil
}

// settleClient takes from the client what is ours: to retry, and to remember.
func (c *Config) settleClient() {
	o := &c.Redis
	o.InitAddress = slices.Clone(o.InitAddress) // which the client may shuffle
	o.DisableRetry, o.DisableCache = true, true
	// Else the second question waits for the answer of the first, which is far from here.
	o.AlwaysPipelining = true
	setDefault(&o.Dialer.Timeout, serverTimeout)
	setDefault(&o.ConnWriteTimeout, serverTimeout)
	// One connection, which is there when the first decision comes: the client makes further ones
	// within the first questions that go through them, in three more trips.
	setDefault(&o.PipelineMultiplex, -1)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
