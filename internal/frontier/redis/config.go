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
	// defaultLease is how long the hosts of a process that has died stay unasked. A third of it is ample for a
	// renewal that waits behind a slow command, or a pause of the process.
	defaultLease = 15 * time.Second
	minLease     = 300 * time.Millisecond
	maxLease     = 10 * time.Minute

	// defaultPartitions spreads well over a dozen masters, and to ask all of them is one pipeline of some
	// milliseconds.
	defaultPartitions = 64
	maxPartitions     = 1024

	// defaultLinger joins the links of many pages in one trip.
	defaultLinger = 10 * time.Millisecond

	// DefaultGiveUp outlasts a failover, a restart and an operator's lunch.
	DefaultGiveUp = 15 * time.Minute

	// closeLeast is what Close waits for a server at least: a restart takes that long, and whoever stops a process
	// gives it more, as systemd and Kubernetes do.
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
	// Redis is how the servers are reached: addresses, TLS, user, Sentinel.MasterSet. Retries and client-side caching
	// are off whatever it says.
	Redis rueidis.ClientOption
	// Job is the name of the crawl: 1 to 64 letters, digits, dots, hyphens and underscores.
	Job string
	// Join says that the job must be there already, or the error is [ErrNoJob]. False makes one.
	Join bool
	// Worker is what people call this process. Zero means the machine's name and the process's number.
	Worker string
	// Terms are what all processes must agree on, such as the scope, by the names of their options. The first process
	// stores them, and [Open] fails with a [*TermsError] for one whose are others. Nil agrees with a job that has
	// none.
	Terms map[string]string
	// Partitions is how many a job that is made gets, 1 to 1024; a job keeps its own. Zero means 64.
	Partitions int
	// Key is that of the fingerprints of a job that is made. Zero means one drawn at random.
	Key uint64
	// MaxPagesPerHost bounds the pages of one host, in a job that is made: those that are queued or visited, but for
	// those that were refused when their turn came. Sitemaps do not count. Zero means no bound.
	MaxPagesPerHost int
	// MaxPages bounds the pages that all processes of the job ask for, together; see [Store.Pages]. Zero means no
	// bound.
	MaxPages int64
	// Budget, if set, tells of which budget of its host a URL is, from 1, and how many URLs a host has of it. Zero is
	// of none. It must be the same for all processes, and may be called from any goroutine.
	Budget func(url string) (budget, most int)
	// Tell, if set, fills in what the process alone knows of itself, for [Status]: Use, Busiest and Leased. It is
	// called by Open and by goroutines of the store.
	Tell func(*WorkerInfo)
	// Sync, if set, has the disk take what was written to the sinks. It is called by a goroutine of the store before
	// the job is told that URLs are done, each tenth of a second and when others may depend on that; its error is the
	// store's. Zero means that after a power cut records may be missing of URLs that the job has as done.
	Sync func() error
	// Lease is how long a process that is not heard of keeps its hosts, 300 ms to 10 minutes. Zero means 15 s.
	Lease time.Duration
	// Linger is how long what was told may wait to be sent together with more. Zero means 10 ms.
	Linger time.Duration
	// GiveUp is for how long a command is sent again to a server that does not answer, before the store fails. Zero
	// means 15 minutes.
	GiveUp time.Duration
	// MaxPending is how many calls may wait to be sent until Room says so. Zero means 20,000.
	MaxPending int
	// Seeding says that this process brings seeds. Until Seeded is called, or it dies, no other finds the job
	// complete. False means it brings none.
	Seeding bool
	// KnownFPs is how many fingerprints of URLs are remembered here to spare the trip, 8 bytes each, rounded up to a
	// power of two. Zero means 1,048,576.
	KnownFPs int
	// Remember, if set, tells what the limiter knows of a host, for its next holder, and the least time between two
	// requests at its pace. It may be called from any goroutine.
	Remember func(host string) (m ratelimit.HostMemory, gap time.Duration, ok bool)
	// Recall, if set, is called with what the holder before knew of a host, before the frontier hears of the host. It
	// may be called from any goroutine.
	Recall func(ratelimit.HostMemory)
	// OnSeed, if set, is called with each seed of the job, in the order in which they were added: those that are
	// there when the store is opened by Open itself, later ones within a third of Lease, by a goroutine of the store.
	OnSeed func(url string, hops uint8)
	// OnBounds, if set, is called when an operator has changed bounds of the job (see [Fleet.Set]): by Open if that
	// was before, else within a third of Lease by a goroutine of the store.
	OnBounds func(Bounds)
	// OnControl, if set, is called when the job's control is another than Running, by Open or a goroutine of the
	// store, and whenever it changes.
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
