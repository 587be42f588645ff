package redis

import (
	"context"
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
	// loadMost bounds the URLs of one answer, and so what a script moves at a time.
	loadMost = 256
	// fpMask leaves 63 bits of a fingerprint: the server's intsets have signed numbers.
	fpMask = 1<<63 - 1
)

// Store is the part of one process in the frontier of a job. It is made by [Open] and must be closed.
type Store struct {
	frontier.Progress // a call is stored when it is sent
	cfg               Config
	job               *job
	worker            string // the id of this process
	link              link
	left              frontier.Left
	elapsed           time.Duration // of the job, when the store was opened

	inbox inbox
	known known
	sending
	running
	counts counts
	pages  *allowance // nil: the job has no bound of them

	seeding atomic.Bool // seeds of this process may come yet
	unruled atomic.Bool // why a URL could not be asked for was told
	slotted atomic.Bool // it has asked for slots
	hearing

	mu     sync.Mutex // guards what follows
	parts  []*part
	hosts  map[string]*held
	loaded int // URLs that were handed out and are not done
	turned turned
	news   frontier.Update
	told   bool // that there are news is among the answers
	standing
}

// sending is what the writer alone uses.
type sending struct {
	request   int64        // of scripts that want a number
	hints     map[int]bool // partitions in which a host may be ready
	unsettled unsettled
}

// running is what a store runs in the background.
type running struct {
	life  context.Context
	end   context.CancelFunc
	work  sync.WaitGroup
	wake  chan struct{} // holds one, for the watch: a session has begun
	stir  chan struct{} // holds one, for keep: there is something to tell the others
	close func() error
}

var (
	_ frontier.Storage   = (*Store)(nil)
	_ frontier.Ownership = (*Store)(nil)
)

// Open makes or joins the job, and starts. The error is a [*TermsError] or [ErrNoJob], names the wrong field of cfg,
// or says what is wrong with the server.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	client, err := dial(cfg.Redis)
	if err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg, worker: strconv.FormatUint(rand.Uint64(), 36), known: newKnown(cfg.KnownFPs),
		inbox:   inbox{wake: make(chan struct{}, 1), done: make(chan struct{})},
		running: running{wake: make(chan struct{}, 1), stir: make(chan struct{}, 1)}, sending: sending{hints: make(map[int]bool)},
		hosts: make(map[string]*held), turned: turned{hosts: make(map[string][]uint64)},
		link:     link{Client: client, clk: cfg.Clock, giveUp: cfg.GiveUp},
		standing: standing{control: Running, judged: make(chan struct{}, 1)},
	}
	s.Begin(cfg.MaxPending)
	s.seeding.Store(cfg.Seeding)
	s.life, s.end = context.WithCancel(context.Background())
	s.close = sync.OnceValue(s.shut)
	if err := s.joinSoon(ctx); err != nil {
		s.end()
		client.Close()
		return nil, err
	}
	if s.bounds.Pages != nil || cfg.MaxPages > 0 { // or the job may be bounded later
		plan := cfg.MaxPages
		if s.bounds.Pages != nil {
			plan = *s.bounds.Pages
		}
		s.pages = newAllowance(plan)
		s.work.Go(s.draw)
	}
	s.work.Go(s.write)
	s.work.Go(s.keep)
	s.work.Go(s.watch)
	return s, nil
}

// dial connects.
func dial(o rueidis.ClientOption) (rueidis.Client, error) {
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("redis: connect to %s: %w", strings.Join(o.InitAddress, ", "), explain(err, o.TLSConfig != nil))
	}
	return client, nil
}

// joinSoon joins, and in a cluster with a silent node retries until ctx ends, for a failover. A silent single server
// is an error at once.
func (s *Store) joinSoon(ctx context.Context) error {
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		err := s.join(ctx)
		if err == nil || s.link.Mode() != rueidis.ClientModeCluster || !heals(err) || clock.Sleep(ctx, s.cfg.Clock, pause) != nil {
			return err
		}
	}
}

// join reads what the job is, and lets it be known that this process is there.
func (s *Store) join(ctx context.Context) (err error) {
	if err := inspect(ctx, s.link.Client); err != nil {
		return err
	}
	if s.job, err = makeJob(ctx, &s.link, &s.cfg); err != nil {
		return err
	}
	s.parts = nil
	for p := range s.job.partitions {
		s.parts = append(s.parts, &part{index: p, key: counters(s.job.name, p), hosts: make(map[string]*held)})
	}
	t, err := tallyOf(ctx, s.link.Client, s.job)
	if err != nil {
		return err
	}
	s.left = frontier.Left{Queued: t.added - t.done, Known: t.added}
	s.whole = Whole{At: s.cfg.Clock.Now(), Known: t.added, Done: t.done, Queued: max(0, t.added-t.done)}
	now, err := serverTime(ctx, s.link.Client, s.cfg.now)
	if err != nil {
		return err
	}
	s.elapsed = max(0, now.Sub(s.job.created))
	return s.beat(ctx)
}

// Key is the key of the fingerprints of the job.
func (s *Store) Key() uint64 { return s.job.key }

// Left is what the job had when the store was opened; its IDs are the store's.
func (s *Store) Left() frontier.Left { return s.left }

// Elapsed is how long ago the job was begun, by the server's clock, when the store was opened.
func (s *Store) Elapsed() time.Duration { return s.elapsed }

// Known reports whether a URL of that fingerprint is surely in the job. If not, it may be all the same.
func (s *Store) Known(fp uint64) bool { return s.known.has(fp) }

// Put has the job decide about a URL: one that is new is queued, whosever its host is.
func (s *Store) Put(host string, it *frontier.Item, fp uint64, _ bool) {
	s.known.add(fp)
	o := op{kind: opPut, host: host, text: encode(host, it), fp: fp, n: int64(it.Rank), budget: s.budgetOf(it)}
	if it.Kind == frontier.Page && !it.Seed && frontier.IsUsual(it.URL) {
		o.also = frontier.AsPage(fp)
	}
	if it.Seed {
		o.seed, o.hops = it.URL.String(), it.Hops
	}
	s.tell(o)
}

// budgetOf is the budget of a URL and its bound, as the script takes them: a seed has none, and counts even so.
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

// Spent stores the tries of a URL that was loaded.
func (s *Store) Spent(host string, it *frontier.Item) {
	if h := s.asked(host, 0); h != nil {
		s.tell(op{kind: opSpent, held: h, id: it.ID, text: encode(h.name, it)})
	}
}

// Done stores that a URL that was loaded is not queued any more, and whether it was refused.
func (s *Store) Done(host string, it *frontier.Item, v frontier.Visit) {
	h := s.asked(host, 1)
	if h == nil {
		return
	}
	if v.Absent { // before it is done: a page may be found by it
		s.tell(op{kind: opPut, host: h.name, none: true})
	}
	s.tell(op{kind: opDone, held: h, id: it.ID, refused: v.Refused})
}

// asked notes that a URL of a host was asked for, and that so many are done; nil if the host is not ours.
func (s *Store) asked(host string, done int) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[host]
	if h == nil {
		return nil
	}
	done = min(done, h.loaded)
	h.loaded, s.loaded = h.loaded-done, s.loaded-done
	h.used, h.last = true, s.cfg.Clock.Now()
	return h
}

// Seeded says that this process brings no more seeds than it has put.
func (s *Store) Seeded() {
	if s.seeding.Load() {
		s.tell(op{kind: opSeeded})
	}
}

// Load asks for the next URLs of a host of ours, which come by Answers; the place is of no account.
func (s *Store) Load(host string, _ frontier.Place, n int) {
	s.tell(op{kind: opLoad, host: host, held: s.find(host), n: int64(min(n, loadMost))})
}

// Activate asks for hosts that belong to nobody.
func (s *Store) Activate(n int) { s.tell(op{kind: opRouse, n: int64(n)}) }

// Deactivate gives a host back, not to be asked before an instant.
func (s *Store) Deactivate(host string, notBefore time.Time) {
	s.mu.Lock()
	h := s.hosts[host]
	if h != nil {
		s.dropLocked(h)
	}
	s.mu.Unlock()
	if h != nil {
		s.counts.given.Add(1)
		wait := max(0, notBefore.Sub(s.cfg.Clock.Now()))
		s.tell(op{kind: opGive, held: h, n: int64((wait + time.Millisecond - 1) / time.Millisecond), text: s.memory(h)})
	}
}

// Learned stores what the limiter knows of a host.
func (s *Store) Learned(host string) {
	if h := s.find(host); h != nil {
		s.learned(h)
	}
}

func (s *Store) learned(h *held) {
	if text := s.memory(h); text != "" {
		s.tell(op{kind: opLearned, held: h, text: text})
	}
}

// find is a host of ours.
func (s *Store) find(host string) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hosts[host]
}

// dropLocked forgets a host.
func (s *Store) dropLocked(h *held) {
	if s.hosts[h.name] == h {
		s.loaded -= h.loaded
		delete(s.hosts, h.name)
		delete(h.part.hosts, h.name)
		s.readmitLocked(h.name)
	}
}

// margin is how long before the end of a session nothing is asked any more.
func (s *Store) margin() time.Duration { return s.cfg.Lease / 4 }

// Until is when the host ceases to be ours if its lease is not renewed; zero if it is not.
func (s *Store) Until(host string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[host]
	if h == nil || h.part.until.IsZero() {
		return time.Time{}
	}
	return h.part.until.Add(-s.margin())
}

// errLost ends a host's context. To the fetch, the request was cancelled.
var errLost = fmt.Errorf("the lease of the host has ended: %w", context.Canceled)

// nobodys is the context of hosts that are not ours.
var nobodys = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errLost)
	return ctx
}()

// Held is a context that ends when the host may no longer be ours, to cancel its requests.
func (s *Store) Held(host string) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hosts[host]; h != nil && h.part.ctx != nil {
		return h.part.ctx
	}
	return nobodys
}

// Commit does nothing: calls are sent in order, outcomes after [Config.Sync]; positions are not kept.
func (s *Store) Commit([]frontier.Position) {}

// Owned is nil: the files of a process are its own, whoever has its hosts.
func (s *Store) Owned() error { return nil }

// fail ends the work of the store. Only the first reason counts.
func (s *Store) fail(err error) {
	if s.Fail(fmt.Errorf("job %s: %w", s.job.name, err)) {
		s.end()
	}
}

// Opening is what the job has of a named host and port, as [Store.Open] was told, or empty.
func (s *Store) Opening(ctx context.Context, host string) (addrs string, err error) {
	c := s.link.Client
	addrs, err = c.Do(ctx, c.B().Hget().Key(jobKey(s.job.name, "openings")).Field(host).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return "", fmt.Errorf("redis: read what seeds have opened: %w", err)
	}
	return addrs, nil
}

// Open notes what a host and a port that the user named have opened, unless another process has before.
func (s *Store) Open(ctx context.Context, host, addrs string) error {
	c := s.link.Client
	if err := c.Do(ctx, c.B().Hsetnx().Key(jobKey(s.job.name, "openings")).Field(host).Value(addrs).Build()).Error(); err != nil {
		return fmt.Errorf("redis: keep what seeds have opened: %w", err)
	}
	return nil
}

// seedsMost bounds the seeds that are read at a time.
const seedsMost = 1000

type seed struct {
	url  string
	hops uint8
	at   int64
}

// seedsBehind reads some of the seeds of the job.
func (s *Store) seedsBehind(ctx context.Context, last int64) ([]seed, error) {
	c := s.link.Client
	found, err := c.Do(ctx, c.B().Zrangebyscore().Key(jobKey(s.job.name, "seeds")).
		Min("("+decimal(last)).Max("+inf").Withscores().Limit(0, seedsMost).Build()).AsZScores()
	if err != nil {
		return nil, fmt.Errorf("redis: read the seeds: %w", err)
	}
	seeds := make([]seed, len(found))
	for i, z := range found {
		seeds[i] = seed{z.Member, uint8(int64(z.Score) & 255), int64(z.Score)}
	}
	return seeds, nil
}

// Close sends what was told, gives all hosts back and stops the store. A silent server costs a lease, and 10 s at
// least, after which the sessions have ended. The frontier must not call any more. The error is that of Err, the same
// in further calls.
func (s *Store) Close() error { return s.close() }

// patience is how long Close waits for the server, also with short leases, to store what was found.
func (s *Store) patience() time.Duration { return max(s.cfg.Lease, closeLeast) }

func (s *Store) shut() error {
	patience := s.cfg.Clock.NewTimer(s.patience())
	defer patience.Stop()
	s.inbox.close()
	select {
	case <-s.inbox.done: // the writer has sent what it had, or seen that it cannot
	case <-patience.C(): // it may be at a batch that was told before
		s.fail(fmt.Errorf("redis: %w: the server has not taken within %v what it was told last; that is not stored, and others fetch it again", context.DeadlineExceeded, s.patience()))
		<-s.inbox.done
	}
	s.end()
	s.work.Wait()
	s.link.Close()
	return s.Err()
}

// counts are the counters of [Statistics].
type counts struct {
	added, duplicates, refused, dropped, done, stale, lost, given, acquired, heartbeats, setbacks, syncs, rtt atomic.Int64

	oom atomic.Bool
}

// Statistics is what a Store has counted since it was opened.
type Statistics struct {
	Worker     string        `json:"worker"`
	Trips      int64         `json:"trips"`      // pipelines sent
	Commands   int64         `json:"commands"`   // scripts in them
	Bytes      int64         `json:"bytes"`      // of their arguments
	Retries    int64         `json:"retries"`    // commands sent again, as no answer came
	Reloads    int64         `json:"reloads"`    // of scripts that a server did not know
	Added      int64         `json:"added"`      // URLs that were new
	Duplicates int64         `json:"duplicates"` // URLs that turned out to be known
	Refused    int64         `json:"refused"`    // URLs beyond the bound of their host
	Dropped    int64         `json:"dropped"`    // URLs for which the server had no memory
	Done       int64         `json:"done"`       // URLs
	Stale      int64         `json:"stale"`      // hosts of which a write came too late
	Lost       int64         `json:"lost"`       // hosts whose lease ended
	Given      int64         `json:"given"`      // hosts given back
	Acquired   int64         `json:"acquired"`   // hosts
	Hosts      int           `json:"hosts"`      // that this process has
	Loaded     int           `json:"loaded"`     // URLs handed out to it and not done
	Pending    int64         `json:"pending"`    // calls that wait to be sent
	LastTrip   time.Duration `json:"last_trip"`  // how long the last batch took
	Full       bool          `json:"full"`       // the server has no memory left for new URLs
	Heartbeats int64         `json:"heartbeats"` // answered
	Setbacks   int64         `json:"setbacks"`   // times the server had lost what it had acknowledged
	Syncs      int64         `json:"syncs"`      // of the sinks
}

// Statistics is what was counted so far.
func (s *Store) Statistics() Statistics {
	s.mu.Lock()
	hosts, loaded := len(s.hosts), s.loaded
	s.mu.Unlock()
	c, l := &s.counts, &s.link
	pending, _ := s.Pending()
	return Statistics{
		Worker: s.cfg.Worker, Trips: l.trips.Load(), Commands: l.commands.Load(), Bytes: l.bytes.Load(),
		Retries: l.retries.Load(), Reloads: l.reloads.Load(), Added: c.added.Load(), Duplicates: c.duplicates.Load(),
		Refused: c.refused.Load(), Dropped: c.dropped.Load(), Done: c.done.Load(), Stale: c.stale.Load(),
		Lost: c.lost.Load(), Given: c.given.Load(), Acquired: c.acquired.Load(), Hosts: hosts, Loaded: loaded, Pending: pending,
		LastTrip: time.Duration(c.rtt.Load()), Full: c.oom.Load(), Heartbeats: c.heartbeats.Load(),
		Setbacks: c.setbacks.Load(), Syncs: c.syncs.Load(),
	}
}
