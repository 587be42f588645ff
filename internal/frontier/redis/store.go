package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
)

const (
	// urgent is the number of calls from which on they are sent without waiting for more.
	urgent = 1024
	// loadMost bounds the URLs of one answer, and so how many a script moves at a time.
	loadMost = 256
	// fpMask selects 63 bits of a fingerprint, because the server's intsets hold signed numbers.
	fpMask = 1<<63 - 1
)

// process is what all parts of a store share.
type process struct {
	frontier.Calls[op] // a call counts as stored when it is sent
	cfg                Config
	job                *job   // as it was when the store was opened
	worker             string // ID of this process
	link               link
	ended              chan struct{} // closed when the writer has ended
	counts             counts
	life               context.Context // ends when the store stops working
	end                context.CancelFunc
	work               sync.WaitGroup // the goroutines of the store
}

type counts struct {
	added, duplicates, refused, dropped, done, stale, lost, given, acquired, heartbeats, setbacks, rtt atomic.Int64

	oom atomic.Bool
}

// args returns the arguments that all scripts begin with, followed by more.
func (p *process) args(more ...string) []string {
	return append([]string{timeArg(p.cfg.now), p.job.id}, more...)
}

func (p *process) key(what string) string { return jobKey(p.job.name, what) }

func (p *process) tell(o op) { p.Add(o.kind >= opDraw, o) }

// fail ends the work of the store. Only the first error counts.
func (p *process) fail(err error) {
	if p.Fail(fmt.Errorf("job %s: %w", p.job.name, err)) {
		p.end()
	}
}

// wait waits for d, or until early receives. It reports whether the store is still working.
func (p *process) wait(d time.Duration, early <-chan struct{}) bool {
	timer := p.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-early:
	case <-p.life.Done():
	}
	return p.life.Err() == nil
}

// Store is one process's part of the frontier of a job. Make it with [Open]; it must be closed.
type Store struct {
	*process
	*seen   // which URLs are known
	*leases // the hosts of this process
	*member // the job as a whole
	writer  writer
	left    frontier.Left
	elapsed time.Duration // age of the job when the store was opened
	close   func() error
}

var _ frontier.Storage = (*Store)(nil)

// Open makes or joins the job, and starts the goroutines of the store. The error is a [*frontier.TermsError] or
// [ErrNoJob], names the wrong field of cfg, or says what is wrong with the server.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	client, err := dial(cfg.Redis)
	if err != nil {
		return nil, err
	}
	p := &process{
		cfg: cfg, worker: strconv.FormatUint(rand.Uint64(), 36), link: link{Client: client, clk: cfg.Clock, giveUp: cfg.giveUp},
		ended: make(chan struct{}),
	}
	p.Begin(cfg.Clock, cfg.linger, cfg.maxPending, urgent)
	p.life, p.end = context.WithCancel(context.Background())
	s := &Store{process: p, seen: newSeen(p), leases: &leases{process: p, hosts: make(map[string]*held)}}
	s.member = newMember(p, s.leases)
	s.writer = writer{process: p, seen: s.seen, leases: s.leases, member: s.member, hints: make(map[int]bool)}
	s.close = sync.OnceValue(s.shut)
	if err := s.joinSoon(ctx); err != nil {
		s.end()
		client.Close()
		return nil, err
	}
	for _, run := range []func(){s.writer.run, s.keep, s.watch} {
		s.work.Go(run)
	}
	return s, nil
}

func dial(o rueidis.ClientOption) (rueidis.Client, error) {
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("redis: connect to %s: %w", strings.Join(o.InitAddress, ", "), explain(err, o.TLSConfig != nil))
	}
	return client, nil
}

// joinSoon joins the job. In a cluster with a silent node it retries until ctx ends, to outlast a failover. A silent
// single server is an error at once.
func (s *Store) joinSoon(ctx context.Context) error {
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		err := s.join(ctx)
		if err == nil || s.link.Mode() != rueidis.ClientModeCluster || !heals(err) || clock.Sleep(ctx, s.cfg.Clock, pause) != nil {
			return err
		}
	}
}

// join reads the state of the job, and announces this process.
func (s *Store) join(ctx context.Context) (err error) {
	if err := inspect(ctx, s.link.Client); err != nil {
		return err
	}
	if s.job, err = makeJob(ctx, &s.link, &s.cfg); err != nil {
		return err
	}
	s.parts, s.marks = nil, make([]mark, s.job.partitions)
	for p := range s.job.partitions {
		s.parts = append(s.parts, &part{index: p, key: counters(s.job.name, p), hosts: make(map[string]*held)})
	}
	t, err := tallyOf(ctx, s.link.Client, s.job)
	if err != nil {
		return err
	}
	s.left = frontier.Left{Queued: t.added - t.done, Known: t.added, Shared: true}
	s.whole = whole{at: s.cfg.Clock.Now(), tally: t, processes: 1}
	if err := s.beat(ctx); err != nil {
		return err
	}
	s.elapsed = max(0, s.serverNow.Sub(s.job.created))
	return nil
}

// Key returns the key of the fingerprints of the job.
func (s *Store) Key() uint64 { return s.job.key }

// Left returns what the job had when the store was opened, without LastID: the store assigns the IDs.
func (s *Store) Left() frontier.Left { return s.left }

// Elapsed returns how long before the opening of the store the job was made, by the server's clock.
func (s *Store) Elapsed() time.Duration { return s.elapsed }

// Put adds a URL to the job, which decides whether it is new; a new URL is queued, whichever process holds its host.
func (s *Store) Put(host string, it *frontier.Item, fp uint64, _ bool) {
	s.add(fp)
	o := op{kind: opPut, host: host, text: encode(host, it), fp: fp, n: int64(it.Rank), budget: s.budgetOf(it)}
	if it.Seed {
		o.seed, o.hops = it.URL.String(), it.Hops
	}
	s.tell(o)
}

// budgetOf returns the budget of a URL and its bound, as the script takes them. A seed counts in its budget but is not
// bounded by it.
func (s *Store) budgetOf(it *frontier.Item) string {
	if s.cfg.Budget == nil || it.Kind != frontier.Page {
		return ""
	}
	budget, most := s.cfg.Budget(it.URL.String())
	if budget == 0 {
		return ""
	}
	if it.Seed {
		most = 0
	}
	return decimal(budget) + ":" + decimal(most)
}

// Spent stores the tries of a loaded URL, and what the limiter knows of its host.
func (s *Store) Spent(host string, it *frontier.Item) {
	if h := s.asked(host, 0); h != nil {
		s.learned(h)
		s.tell(op{kind: opSpent, held: h, id: it.ID, text: encode(h.name, it)})
	}
}

// Done stores that a loaded URL is no longer queued, and whether it was refused.
func (s *Store) Done(host string, it *frontier.Item, v frontier.Visit) {
	if h := s.asked(host, 1); h != nil {
		s.tell(op{kind: opDone, held: h, id: it.ID, refused: v.Refused})
	}
}

// Load requests the next URLs of a host that this process holds; Answers delivers them. It ignores the place.
func (s *Store) Load(host string, _ frontier.Place, n int) {
	s.tell(op{kind: opLoad, host: host, held: s.find(host), n: int64(min(n, loadMost))})
}

// Activate requests hosts that belong to nobody.
func (s *Store) Activate(n int) { s.tell(op{kind: opActivate, n: int64(n)}) }

// Deactivate gives a host back, not to be acquired before an instant.
func (s *Store) Deactivate(host string, notBefore time.Time) {
	if h := s.find(host); h != nil && s.give(h) {
		s.counts.given.Add(1)
		wait := max(0, notBefore.Sub(s.cfg.Clock.Now()))
		s.tell(op{kind: opDeactivate, held: h, n: int64((wait + time.Millisecond - 1) / time.Millisecond), text: s.memory(h)})
	}
}

// Commit does nothing: calls are sent in order, outcomes after [Config.Sync], and positions are not kept.
func (s *Store) Commit([]frontier.Position) {}

// Owned returns nil: the files of a process are its own, whichever process holds its hosts.
func (s *Store) Owned() error { return nil }

// Opening returns what [Store.SetOpening] stored for a host and port, or an empty string.
func (s *Store) Opening(ctx context.Context, host string) (addrs string, err error) {
	c := s.link.Client
	addrs, err = c.Do(ctx, c.B().Hget().Key(s.key("openings")).Field(host).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return "", fmt.Errorf("redis: read what seeds have opened: %w", err)
	}
	return addrs, nil
}

// SetOpening stores the allowed private addresses of a host and port that the user named, unless another process has
// stored some before.
func (s *Store) SetOpening(ctx context.Context, host, addrs string) error {
	c := s.link.Client
	if err := c.Do(ctx, c.B().Hsetnx().Key(s.key("openings")).Field(host).Value(addrs).Build()).Error(); err != nil {
		return fmt.Errorf("redis: keep what seeds have opened: %w", err)
	}
	return nil
}

// Close sends the pending calls, gives all hosts back and stops the store. If the server is silent, Close waits for a
// lease, and at least 10 s, after which the sessions have ended. The frontier must not call the store any more. The
// error is that of Err; further calls return the same.
func (s *Store) Close() error { return s.close() }

// patience returns how long Close waits for the server to store what was found; with short leases it is closeLeast.
func (p *process) patience() time.Duration { return max(p.cfg.Lease, closeLeast) }

func (s *Store) shut() error {
	patience := s.cfg.Clock.NewTimer(s.patience())
	defer patience.Stop()
	s.NoMore()
	select {
	case <-s.ended: // the writer has sent all calls, or failed
	case <-patience.C(): // the writer may still be sending an earlier batch
		s.fail(fmt.Errorf("redis: %w: the server has not taken within %v what it was told last; that is not stored, and others fetch it again", context.DeadlineExceeded, s.patience()))
		<-s.ended
	}
	s.end()
	s.work.Wait()
	s.link.Close()
	return s.Err()
}

// firstBeat is when a process sends its second heartbeat, which reports the hosts that it has acquired by then.
const firstBeat = time.Second

// keep renews the sessions and sends heartbeats, until the store is closed.
func (s *Store) keep() {
	period := s.cfg.Lease / 3
	for wait := min(period, firstBeat); ; {
		if !s.wait(wait, s.stir) {
			return
		}
		for _, h := range s.used() {
			s.learned(h)
		}
		err := s.renew(s.life)
		if err == nil {
			err = s.beat(s.life)
		}
		if err == nil {
			s.checkSoon()
			s.survey(s.life)
		}
		wait = period
		if errors.Is(err, ErrNoJob) {
			s.fail(err)
		} else if err != nil {
			wait = period / 4
		}
	}
}

// Figures returns the figures of this process and its job, without a request. A call makes the next heartbeat read
// those of the job. It is safe for concurrent use.
func (s *Store) Figures() frontier.JobFigures {
	c, now := &s.counts, s.cfg.Clock.Now()
	f := frontier.JobFigures{
		Job: s.job.name, Worker: s.cfg.Worker, LeaseSeconds: s.cfg.Lease.Seconds(),
		TripSeconds: time.Duration(c.rtt.Load()).Seconds(), Commands: s.link.commands.Load(), Repeated: s.link.retries.Load(),
		Acquired: c.acquired.Load(), Given: c.given.Load(), Lost: c.lost.Load(), Dropped: c.dropped.Load(), Full: c.oom.Load(),
	}
	f.Pending, _ = s.Pending()
	f.Hosts, f.Loaded = s.leases.size()
	s.member.stand(&f, now)
	return f
}
