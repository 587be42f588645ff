package redis

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
)

const (
	// defaultLease is how long a dead process's hosts rest. A third of it covers a renewal behind a slow command.
	defaultLease = 15 * time.Second

	// defaultPartitions spread over a dozen masters, and fit into one pipeline.
	defaultPartitions = 64
	maxPartitions     = 1024

	// defaultLinger is how long what was told waits to be sent together with the links of more pages.
	defaultLinger = 10 * time.Millisecond

	// DefaultGiveUp is how long a command is repeated to a silent server before the store fails. It outlasts a
	// failover, a restart and an operator's lunch.
	DefaultGiveUp = 15 * time.Minute

	// closeLeast is the least wait of Close, the time of a server's restart.
	closeLeast = 10 * time.Second

	// defaultMaxPending is how many calls may wait to be sent until Room says so: about 8 MB of URLs of usual length.
	defaultMaxPending = 20_000

	// defaultKnown is how many fingerprints are cached: 8 MB.
	defaultKnown = 1 << 20

	// tripTimeout is for one pipeline. A script takes some milliseconds at most.
	tripTimeout = 5 * time.Second
)

// Config says which job, and how it is worked on. Redis.InitAddress and Job are required.
type Config struct {
	Redis rueidis.ClientOption // how the servers are reached; retries and client-side caching are always off
	Job   string               // the name of the crawl: 1 to 64 letters, digits, dots, hyphens and underscores
	Join  bool                 // says that the job must be there already, or the error is [ErrNoJob]; false makes one
	// Worker is what people call this process. Zero means the machine's name and the process's number.
	Worker string
	// Terms are what all processes must agree on, by the names of their options. The first process stores them; [Open]
	// fails with a [*frontier.TermsError] for others. Nil agrees with none.
	Terms map[string]string
	// MaxPagesPerHost bounds the pages of a host in a new job, queued or visited but not refused, without sitemaps.
	// Zero: no bound.
	MaxPagesPerHost int
	MaxPages        int64 // bounds the pages of all processes together; see [Store.Pages]; zero: no bound
	// Budget, if set, returns the budget of its host that a URL belongs to, from 1, and its size; zero: none. The same
	// in all processes, and safe for concurrent use.
	Budget func(url string) (budget, most int)
	// Tell, if set, fills in Use, Busiest and Leased of a [Status], called by Open and goroutines of the store.
	Tell func(*WorkerInfo)
	// Sync, if set, syncs the sinks before the job is told that URLs are done, each tenth of a second and when others
	// depend on it, on a goroutine of the store; its error is the store's. If nil, a power cut may lose records of
	// done URLs.
	Sync  func() error
	Lease time.Duration // how long a process that is not heard of keeps its hosts; zero means 15 s
	// Seeding says that this process brings seeds: no other finds the job complete until Seeded, or its death.
	Seeding bool
	// Remember, if set, returns a host's memory for its next holder, and the gap between requests. Safe for concurrent
	// use.
	Remember func(host string) (m ratelimit.HostMemory, gap time.Duration, ok bool)
	// Recall, if set, takes a host's memory before the frontier hears of the host. Safe for concurrent use.
	Recall func(ratelimit.HostMemory)
	// OnSeed, if set, is called with each seed in order: by Open, and later within a third of Lease by a goroutine of
	// the store.
	OnSeed func(url string, hops uint8)
	// OnOrder, if set, is called with what operators want when it changes, or is not Running without bounds at first:
	// by Open, and later within a third of Lease by a goroutine of the store.
	OnOrder func(Order)
	Log     *slog.Logger // zero means nobody is told
	Clock   clock.Clock  // times leases, lingers and retries; zero means the system's

	// For tests; zero means what the constants say.
	partitions, maxPending, known int
	key                           uint64
	linger, giveUp                time.Duration
	now                           func() int64 // milliseconds, in place of the server's; nil for none
}

var jobName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`) })

// settle fills the defaults in, or returns what is wrong.
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
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	return settleAddress(&c.Redis, c.Job)
}

// settleAddress checks where a job is, and takes from the client what is ours: to retry, and to remember.
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
