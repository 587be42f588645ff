package redis

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// answersRoom is more than a frontier has questions out (256 loads and a rouse), and one
// place for news.
const answersRoom = 512

// loadMost bounds the URLs of one answer, and so what a script moves at a time.
const loadMost = 256

// fpMask leaves 63 bits of a fingerprint: the server's intsets have signed numbers.
const fpMask = 1<<63 - 1

// ErrClosed is what calls return that come after Close.
var ErrClosed = errors.New("the frontier of the job is closed")

// Store is the part of one process in the frontier of a job. It is made by [Open] and must
// be closed.
type Store struct {
	cfg    Config
	job    *job
	worker string // the id of this process
	link   link
	left   frontier.Left

	known    known
	inbox    inbox
	answers  chan frontier.Answer
	room     chan struct{} // holds one
	pending  atomic.Int64  // calls that are not sent yet
	failed   chan struct{}
	failOnce sync.Once
	err      error // set before failed is closed

	life   context.Context // of what runs in the background
	end    context.CancelFunc
	work   sync.WaitGroup
	wake   chan struct{} // holds one, for the watch: a session has begun
	stir   chan struct{} // holds one, for keep: there is something to tell the others
	close  func() error
	counts counts

	seeding atomic.Bool // seeds of this process may come yet
	unruled atomic.Bool // why a URL could not be asked for was told

	request   int64        // of scripts that want a number; the writer's alone
	hints     map[int]bool // partitions in which a host may be ready; the writer's alone
	unsettled unsettled

	beating sync.Mutex // held while this process is heard of; taken before mu
	parted  bool       // the others were told that it has gone; guarded by beating

	mu       sync.Mutex // guards what follows
	parts    []*part
	hosts    map[string]*held
	handed   map[int64]*held // URLs that were loaded, by their IDs
	turned   turned
	news     frontier.Update
	told     bool // that there are news is among the answers
	lastSeed int64
	changes  int64  // of bounds, that were heard of; the heartbeat's alone
	bounds   Bounds // that operators have set; the heartbeat's alone
	control  Control
	heardAt  time.Time // when the server answered a heartbeat last
	looked   time.Time // when somebody wanted to know of the whole job; zero: never
	whole    Whole
	idleness frontier.Idleness // as the frontier told last
	idleTold bool              // the others were told that there is nothing to do here
	verdict  string            // why the job is at its end; empty: it is not

	unvisited  string // why nothing could be asked for, as of when the job was found complete
	unanswered bool   // no host has answered, likewise

	judged  chan struct{} // holds one: the verdict may be another
	pages   *allowance    // nil: the job has no bound of them
	slotted atomic.Bool   // it has asked for slots
	elapsed time.Duration // of the job, when the store was opened
}

// part is a partition, and the session that this process has in it.
type part struct {
	index   int
	key     string // of its counters
	epoch   int    // of sessions, from 1
	session string
	until   time.Time // by our clock; zero: there is none
	hosts   map[string]*held
	acked   int64           // the number of this process that the partition has; zero: none yet
	ackedAt time.Time       // when that was acknowledged
	ctx     context.Context // ends with the session
	cancel  context.CancelCauseFunc
}

// held is a host of this process.
type held struct {
	name    string
	part    *part
	session string
	token   int64
	ids     map[int64]struct{} // of its URLs that were loaded
	used    bool               // since what is known of it was stored
	last    time.Time          // when a request to it was over; zero: none was
}

var (
	_ frontier.Storage   = (*Store)(nil)
	_ frontier.Ownership = (*Store)(nil)
)

// Open makes the job, or joins it, and starts the work of this process in it. It takes some
// trips. The error is a [*TermsError] or [ErrNoJob], names the field of cfg that is wrong, or
// says what is wrong with the server.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	client, err := dial(cfg.Redis)
	if err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg, worker: strconv.FormatUint(rand.Uint64(), 36),
		known: newKnown(cfg.KnownFPs), inbox: inbox{wake: make(chan struct{}, 1)},
		answers: make(chan frontier.Answer, answersRoom), room: make(chan struct{}, 1),
		failed: make(chan struct{}), wake: make(chan struct{}, 1), stir: make(chan struct{}, 1), judged: make(chan struct{}, 1),
		hints: make(map[int]bool), hosts: make(map[string]*held), handed: make(map[int64]*held),
		turned:  turned{hosts: make(map[string][]uint64)},
		control: Running,
	}
	s.seeding.Store(cfg.Seeding)
	s.link = link{Client: client, clk: cfg.Clock, giveUp: cfg.GiveUp}
	s.life, s.end = context.WithCancel(context.Background())
	s.close = sync.OnceValue(s.shut)
	if err := s.joinSoon(ctx); err != nil {
		s.end()
		client.Close()
		return nil, err
	}
	if plan := s.plan(); plan > 0 || s.bounds.Pages != nil { // or the job may be bounded later
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

// joinSoon joins, and in a cluster of which a node does not answer tries again until ctx ends: a
// replica may be about to take its place. A single server that does not answer is an error at once,
// as its address may be wrong.
func (s *Store) joinSoon(ctx context.Context) error {
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		err := s.join(ctx)
		if err == nil || s.link.Mode() != rueidis.ClientModeCluster || !heals(err) {
			return err
		}
		if clock.Sleep(ctx, s.cfg.Clock, pause) != nil {
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
	if err := s.measure(ctx); err != nil {
		return err
	}
	return s.beat(ctx)
}

// Key is the key of the fingerprints of the job.
func (s *Store) Key() uint64 { return s.job.key }

// Worker is what people call this process.
func (s *Store) Worker() string { return s.cfg.Worker }

// Left is what the job had when the store was opened; its IDs are the store's.
func (s *Store) Left() frontier.Left { return s.left }

// Known reports whether a URL of that fingerprint is surely in the job. If not, it may be
// all the same.
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

// budgetOf is the budget of a URL and its bound, as the script takes them: a seed has none, and
// counts even so.
func (s *Store) budgetOf(it *frontier.Item) string {
	if s.cfg.Budget == nil || it.Kind != frontier.Page {
		return ""
	}
	budget, most := s.cfg.Budget(it.URL.String())
	switch {
	case budget == 0:
		return ""
	case it.Seed:
		most = 0
	}
	return strconv.Itoa(budget) + ":" + strconv.Itoa(most)
}

// Spent stores the tries of a URL that was loaded.
func (s *Store) Spent(it *frontier.Item) {
	s.mu.Lock()
	h := s.handed[it.ID]
	if h != nil {
		h.used, h.last = true, s.cfg.Clock.Now()
	}
	s.mu.Unlock()
	if h != nil {
		s.tell(op{kind: opSpent, held: h, id: it.ID, text: encode(h.name, it)})
	}
}

// Done stores that a URL that was loaded is not queued any more, and whether it was refused.
func (s *Store) Done(id int64, v frontier.Visit) {
	s.mu.Lock()
	h := s.handed[id]
	if h != nil {
		delete(s.handed, id)
		delete(h.ids, id)
		h.used, h.last = true, s.cfg.Clock.Now()
	}
	s.mu.Unlock()
	if h != nil {
		if v.Absent { // before it is done: a page may be found by it
			s.tell(op{kind: opPut, host: h.name, none: true})
		}
		s.tell(op{kind: opDone, held: h, id: id, refused: v.Refused})
	}
}

// Seeded says that this process brings no more seeds than it has put.
func (s *Store) Seeded() {
	if s.seeding.Load() {
		s.tell(op{kind: opSeeded})
	}
}

// Load asks for the next URLs of a host of ours, which come by Answers; the place is of no
// account.
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
		if text := s.memory(h); text != "" {
			s.tell(op{kind: opLearned, held: h, text: text})
		}
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
	for id := range h.ids {
		delete(s.handed, id)
	}
	if s.hosts[h.name] == h {
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

// errLost is why the context of a host has ended. To whoever asks, the request was cancelled,
// which says nothing of the host.
var errLost = fmt.Errorf("the lease of the host has ended: %w", context.Canceled)

// nobodys is the context of hosts that are not ours.
var nobodys = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errLost)
	return ctx
}()

// Held ends when the host is not ours any more, or may not be: what is under way for it is
// to be given up. Of a host that was given back it has ended.
func (s *Store) Held(host string) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hosts[host]; h != nil && h.part.ctx != nil {
		return h.part.ctx
	}
	return nobodys
}

// Answers is where answers come, in the order of their questions, and news.
func (s *Store) Answers() <-chan frontier.Answer { return s.answers }

// Commit does nothing: what was told is sent in its order, soon, what is done after
// [Config.Sync]; and positions are not kept.
func (s *Store) Commit([]frontier.Position) {}

// Ready reports whether the store takes more in. It is advice, and no call is refused.
func (s *Store) Ready() bool { return s.pending.Load() < int64(s.cfg.MaxPending) }

// Room is nil while the store is Ready; otherwise it receives when it may be so again.
func (s *Store) Room() <-chan struct{} {
	if s.Ready() {
		return nil
	}
	return s.room
}

// Failed is closed when the store has failed, for good. What the job has stays.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Owned is nil: the files of a process are its own, whoever has its hosts.
func (s *Store) Owned() error { return nil }

// Err is why the store has failed; nil if it has not.
func (s *Store) Err() error {
	select {
	case <-s.failed:
		return s.err
	default:
		return nil
	}
}

// fail ends the work of the store. Only the first reason counts.
func (s *Store) fail(err error) {
	s.failOnce.Do(func() {
		s.err = fmt.Errorf("job %s: %w", s.job.name, err)
		close(s.failed)
		s.end()
	})
}

// Seeds are those of the job so far: URL and hops. An error is the last.
func (s *Store) Seeds() iter.Seq2[frontier.Item, error] {
	return func(yield func(frontier.Item, error) bool) {
		for last := int64(0); ; {
			seeds, err := s.seedsBehind(s.life, last)
			if err != nil {
				yield(frontier.Item{}, err)
				return
			}
			for _, seed := range seeds {
				u, err := canonical.Parse(seed.url)
				if err != nil {
					err = fmt.Errorf("redis: a seed of job %s: %w", s.job.name, err)
				}
				if !yield(frontier.Item{URL: u, Found: frontier.Found{Seed: true, Hops: seed.hops}}, err) || err != nil {
					return
				}
				last = seed.at
			}
			if len(seeds) < seedsMost {
				return
			}
		}
	}
}

// Close sends what was told, gives all hosts back at once, and ends what the store runs. If
// the server does not answer it takes a lease, and 10 s at least: the sessions have ended then.
// The frontier must not call any more. The error is that of Err, if there is one. Further
// calls return the same.
func (s *Store) Close() error { return s.close() }

// patience is how long Close waits for the server. Short leases are no reason to be short of
// it: what was found is stored without a lease, and a process that ends has no other time to
// wait for a server that is slow, or comes back.
func (s *Store) patience() time.Duration { return max(s.cfg.Lease, closeLeast) }

func (s *Store) shut() error {
	patience := s.cfg.Clock.NewTimer(s.patience())
	defer patience.Stop()
	s.inbox.close()
	select {
	case <-s.inbox.ended(): // the writer has sent what it had, or seen that it cannot
	case <-patience.C(): // it may be at a batch that was told before
		s.fail(fmt.Errorf("redis: %w: the server has not taken within %v what it was told last; that is not stored, and others fetch it again", context.DeadlineExceeded, s.patience()))
		<-s.inbox.ended()
	}
	s.end()
	s.work.Wait()
	s.link.Close()
	return s.Err()
}
