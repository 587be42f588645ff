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
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
)

const (
	// defaultLease is how long a dead process's hosts rest. A third of it covers a renewal behind a slow command.
	defaultLease = 15 * time.Second
	minLease     = 300 * time.Millisecond
	maxLease     = 10 * time.Minute

	// defaultPartitions spread over a dozen masters, and fit into one pipeline.
	defaultPartitions = 64
	maxPartitions     = 1024

	// defaultLinger joins the links of many pages in one trip.
	defaultLinger = 10 * time.Millisecond

	// DefaultGiveUp outlasts a failover, a restart and an operator's lunch.
	DefaultGiveUp = 15 * time.Minute

	// closeLeast is the least wait of Close, the time of a server's restart.
	closeLeast = 10 * time.Second

	// defaultMaxPending is about 8 MB of URLs of usual length.
	defaultMaxPending = 20_000

	// defaultKnown is 8 MB of fingerprints.
	defaultKnown = 1 << 20

	// tripTimeout is for one pipeline. A script takes some milliseconds at most.
	tripTimeout = 5 * time.Second
)

// Config says which job, and how it is worked on. Redis.InitAddress and Job are required.
type Config struct {
	// Redis is how the servers are reached. Retries and client-side caching are always off.
	Redis rueidis.ClientOption
	// Job is the name of the crawl: 1 to 64 letters, digits, dots, hyphens and underscores.
	Job string
	// Join says that the job must be there already, or the error is [ErrNoJob]. False makes one.
	Join bool
	// Worker is what people call this process. Zero means the machine's name and the process's number.
	Worker string
	// Terms are what all processes must agree on, by the names of their options. The first process stores them; [Open]
	// fails with a [*TermsError] for others. Nil agrees with none.
	Terms map[string]string
	// Partitions is how many a job that is made gets, 1 to 1024; a job keeps its own. Zero means 64.
	Partitions int
	// Key is that of the fingerprints of a job that is made. Zero means one drawn at random.
	Key uint64
	// MaxPagesPerHost bounds the pages of a host in a new job, queued or visited but not refused, without sitemaps.
	// Zero: no bound.
	MaxPagesPerHost int
	// MaxPages bounds the pages of all processes together; see [Store.Pages]. Zero: no bound.
	MaxPages int64
	// Budget, if set, returns the budget of its host that a URL belongs to, from 1, and its size; zero: none. The same
	// in all processes, and safe for concurrent use.
	Budget func(url string) (budget, most int)
	// Tell, if set, fills in Use, Busiest and Leased of a [Status], called by Open and goroutines of the store.
	Tell func(*WorkerInfo)
	// Sync, if set, syncs the sinks before the job is told that URLs are done, each tenth of a second and when others
	// depend on it, on a goroutine of the store; its error is the store's. If nil, a power cut may lose records of
	// done URLs.
	Sync func() error
	// Lease is how long a process that is not heard of keeps its hosts, 300 ms to 10 minutes. Zero means 15 s.
	Lease time.Duration
	// Linger is how long what was told may wait to be sent together with more. Zero means 10 ms.
	Linger time.Duration
	// GiveUp is how long a command is repeated to a silent server before the store fails. Zero: 15 minutes.
	GiveUp time.Duration
	// MaxPending is how many calls may wait to be sent until Room says so. Zero means 20,000.
	MaxPending int
	// Seeding says that this process brings seeds: no other finds the job complete until Seeded, or its death.
	Seeding bool
	// KnownFPs is how many fingerprints are cached, 8 bytes each, rounded up to a power of two. Zero: 1,048,576.
	KnownFPs int
	// Remember, if set, returns a host's memory for its next holder, and the gap between requests. Safe for concurrent
	// use.
	Remember func(host string) (m ratelimit.HostMemory, gap time.Duration, ok bool)
	// Recall, if set, takes a host's memory before the frontier hears of the host. Safe for concurrent use.
	Recall func(ratelimit.HostMemory)
	// OnSeed, if set, is called with each seed in order: by Open, and later within a third of Lease by a goroutine of
	// the store.
	OnSeed func(url string, hops uint8)
	// OnBounds, if set, is called with bounds changed by an operator (see [Fleet.Set]): by Open, and later within a
	// third of Lease by a goroutine of the store.
	OnBounds func(Bounds)
	// OnControl, if set, is called by Open or a goroutine of the store when the control changes, or is not Running at
	// first.
	OnControl func(Control)
	Log       *slog.Logger // zero means nobody is told
	Clock     clock.Clock  // times leases, lingers and retries; zero means the system's

	now func() int64 // milliseconds, in place of the server's, for tests; nil for none
}

var jobName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`) })

// settle fills the defaults in, or returns what is wrong.
func (c *Config) settle() error {
	for _, f := range []struct {
		name        string
		value       int64
		least, most int64
	}{
		{"Partitions", int64(c.Partitions), 0, maxPartitions},
		{"MaxPagesPerHost", int64(c.MaxPagesPerHost), 0, 1 << 31},
		{"MaxPages", c.MaxPages, 0, 1 << 50},
		{"Linger", int64(c.Linger), 0, int64(time.Minute)},
		{"GiveUp", int64(c.GiveUp), 0, int64(24 * time.Hour)},
		{"MaxPending", int64(c.MaxPending), 0, 1 << 24},
		{"KnownFPs", int64(c.KnownFPs), 0, 1 << 30},
	} {
		if f.value < f.least || f.value > f.most {
			return fmt.Errorf("redis: %s = %d: want %d to %d", f.name, f.value, f.least, f.most)
		}
	}
	if c.Lease != 0 && (c.Lease < minLease || c.Lease > maxLease) {
		return fmt.Errorf("redis: Lease = %v: want %v to %v", c.Lease, minLease, maxLease)
	}
	for term := range c.Terms {
		if term == "" {
			return errors.New("redis: a name in Terms is empty: want that of an option")
		}
	}
	c.Partitions = cmp.Or(c.Partitions, defaultPartitions)
	c.Lease = cmp.Or(c.Lease, defaultLease)
	c.Linger = cmp.Or(c.Linger, defaultLinger)
	c.GiveUp = cmp.Or(c.GiveUp, DefaultGiveUp)
	c.MaxPending = cmp.Or(c.MaxPending, defaultMaxPending)
	c.KnownFPs = cmp.Or(c.KnownFPs, defaultKnown)
	if c.Worker == "" {
		name, err := os.Hostname()
		if err != nil {
			name = "unknown"
		}
		c.Worker = name + "-" + strconv.Itoa(os.Getpid())
	}
	c.Terms = maps.Clone(c.Terms)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
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

// Diff is a term on which a process and its job do not agree. Empty: one of them has none.
type Diff struct{ Term, Job, Here string }

// TermsError is what [Open] returns to a process whose terms are not the job's.
type TermsError struct {
	Job   string
	Diffs []Diff // by their terms
}

// Error names the terms and both values.
func (e *TermsError) Error() string {
	parts := make([]string, len(e.Diffs))
	for i, d := range e.Diffs {
		parts[i] = fmt.Sprintf("%s is %q there and %q here", d.Term, d.Job, d.Here)
	}
	return fmt.Sprintf("job %s is another crawl: %s: give the same, or name another job", e.Job, strings.Join(parts, ", "))
}

// differences are the terms of which there and here are not the same.
func differences(there, here map[string]string) (diffs []Diff) {
	names := slices.Collect(maps.Keys(there))
	for name := range here {
		if _, ok := there[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if there[name] != here[name] {
			diffs = append(diffs, Diff{name, there[name], here[name]})
		}
	}
	return diffs
}
