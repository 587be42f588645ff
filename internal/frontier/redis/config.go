package redis

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/ratelimit"
)

const (
	// defaultLease is how long the hosts of a dead process wait. A third of it is long enough for a renewal behind a
	// slow command.
	defaultLease = 15 * time.Second

	// defaultPartitions spread over a dozen masters, and their commands fit into one pipeline.
	defaultPartitions = 64
	maxPartitions     = 1024

	// defaultLinger is how long calls wait to be sent together with the links of more pages.
	defaultLinger = 10 * time.Millisecond

	// DefaultGiveUp is how long a command is repeated to a silent server before the store fails. It is longer than a
	// failover, a restart or an operator's lunch.
	DefaultGiveUp = 15 * time.Minute

	// closeLeast is how long Close waits at least: the time of a server's restart.
	closeLeast = 10 * time.Second

	// defaultMaxPending is the number of pending calls from which on the store is not Ready: about 8 MB of URLs of
	// usual length.
	defaultMaxPending = 20_000

	// defaultKnown is how many fingerprints are cached: 8 MB.
	defaultKnown = 1 << 20

	// tripTimeout is the timeout of one pipeline. A script takes some milliseconds at most.
	tripTimeout = 5 * time.Second
)

// Config says which job a process joins, and how it works on it. Redis.InitAddress and Job are required.
type Config struct {
	Redis rueidis.ClientOption // how the servers are reached; retries and client-side caching are always off
	Job   string               // the name of the crawl: 1 to 64 letters, digits, dots, hyphens and underscores
	Join  bool                 // if set, the job must exist, or the error is [ErrNoJob]; if not, it is made if need be
	// Worker is the name of this process, for people. Empty means the name of the machine and the number of the
	// process.
	Worker string
	// Terms are what all processes must agree on, by the names of their options. The first process stores them; for a
	// process with others, [Open] fails with a [*frontier.TermsError]. Nil agrees only with a job without terms.
	Terms map[string]string
	// MaxPagesPerHost bounds the pages of a host in a new job: those queued or visited, without sitemaps and without
	// those that were refused. Zero means no bound.
	MaxPagesPerHost int
	MaxPages        int64 // bounds the pages of all processes together; see [Store.Pages]. Zero means no bound
	// Budget, if set, returns which budget of its host a URL belongs to, from 1, and the size of that budget; zero
	// means none. It must be the same in all processes, and safe for concurrent use.
	Budget func(url string) (budget, most int)
	// Tell, if set, fills in Use, Busiest and Leased. Open and goroutines of the store call it.
	Tell func(*WorkerInfo)
	// Sync, if set, syncs the sinks before the store reports to the job that URLs are done. It is called each tenth of
	// a second and when other processes depend on it, on a goroutine of the store; its error fails the store. If it is
	// nil, a power cut may lose records of done URLs.
	Sync  func() error
	Lease time.Duration // how long a process without heartbeats keeps its hosts; zero means 15 s
	// Seeding says that this process brings seeds. Until it calls Seeded, or dies, no other process finds the job
	// complete.
	Seeding bool
	// Remember, if set, returns a host's memory for its next holder, and the gap between requests to it. It must be
	// safe for concurrent use.
	Remember func(host string) (m ratelimit.HostMemory, gap time.Duration, ok bool)
	// Recall, if set, is called with a host's memory before the frontier gets the host. It must be safe for concurrent
	// use.
	Recall func(ratelimit.HostMemory)
	// OnSeed, if set, is called with each seed of the job in order: by Open, and for later seeds within a third of
	// Lease by a goroutine of the store.
	OnSeed func(url string, hops uint8)
	// OnOrder, if set, is called when what operators want has changed, and at first if that is not Running without
	// bounds: by Open, and later within a third of Lease by a goroutine of the store.
	OnOrder func(Order)
	Log     *slog.Logger // nil means that nothing is logged
	Clock   clock.Clock  // times leases, lingering and retries; nil means the system's clock

	// For tests; zero means what the constants say.
	partitions, maxPending, known int
	key                           uint64
	linger, giveUp                time.Duration
	now                           func() int64 // in milliseconds, in place of the server's clock; nil: that
}

var jobName = lazy.Regexp(`^[A-Za-z0-9._-]{1,64}$`)

// settle fills in the defaults, or returns what is wrong.
func (c *Config) settle() error {
	c.partitions = cmp.Or(c.partitions, defaultPartitions)
	c.Lease = cmp.Or(c.Lease, defaultLease)
	c.linger = cmp.Or(c.linger, defaultLinger)
	c.giveUp = cmp.Or(c.giveUp, DefaultGiveUp)
	c.maxPending = cmp.Or(c.maxPending, defaultMaxPending)
	c.known = cmp.Or(c.known, defaultKnown)
	if c.Worker == "" {
		name, err := os.Hostname()
		if err != nil {
			name = "unknown"
		}
		c.Worker = name + "-" + strconv.Itoa(os.Getpid())
	}
	c.Terms = maps.Clone(c.Terms)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Clock = cmp.Or(c.Clock, clock.System())
	return settleAddress(&c.Redis, c.Job)
}

// settleAddress checks the address and the name of a job, and switches off the client's own retries and cache.
func settleAddress(o *rueidis.ClientOption, job string) error {
	if len(o.InitAddress) == 0 {
		return errors.New("redis: Redis.InitAddress is empty: give the address of a server, or of some of a cluster")
	}
	if !jobName().MatchString(job) {
		return fmt.Errorf("redis: Job = %q: want 1 to 64 letters, digits, dots, hyphens and underscores", job)
	}
	o.InitAddress = slices.Clone(o.InitAddress)
	o.DisableRetry, o.DisableCache = true, true
	o.Dialer.Timeout = cmp.Or(o.Dialer.Timeout, tripTimeout)
	o.ConnWriteTimeout = cmp.Or(o.ConnWriteTimeout, tripTimeout)
	return nil
}

func differences(there, here map[string]string) (diffs []frontier.Diff) {
	all := maps.Clone(there)
	maps.Copy(all, here)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if there[name] != here[name] {
			diffs = append(diffs, frontier.Diff{Term: name, Job: there[name], Here: here[name]})
		}
	}
	return diffs
}
