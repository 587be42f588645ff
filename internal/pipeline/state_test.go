package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/frontiertest"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/record"
)

// journal keeps a [State] in memory: what it is told becomes durable some time later, batch by
// batch, and a crash loses the rest. Its answers are late too.
type journal struct {
	*frontiertest.Naive                             // with all that was told
	ops                 []func(*frontiertest.Naive) // that
	left                frontier.Left
	slow                time.Duration // what it takes at most; zero means 50 ms

	answers chan frontier.Answer
	pending []frontier.Answer

	mu      sync.Mutex // guards what follows
	rnd     *rand.Rand
	sealed  int // of ops
	durable int
	at      [][]frontier.Position // of the sinks, with sealed
	ends    []int
	room    chan struct{}
	failed  chan struct{}
	err     error
}

func newJournal(seed uint64) *journal {
	return &journal{
		Naive: frontiertest.NewNaive(), rnd: rand.New(rand.NewPCG(seed, 3)),
		answers: make(chan frontier.Answer, 1000), failed: make(chan struct{}),
	}
}

func (j *journal) state() *State {
	return &State{Store: j, Left: j.left}
}

func (j *journal) Owned() error { return nil }

func (j *journal) tell(op func(*frontiertest.Naive)) {
	op(j.Naive)
	j.ops = append(j.ops, op)
}

func (j *journal) Put(host string, it *frontier.Item, fp uint64, dormant bool) {
	item := *it
	j.tell(func(s *frontiertest.Naive) { s.Put(host, &item, fp, dormant) })
}

func (j *journal) Spent(host string, it *frontier.Item) {
	item := *it
	j.tell(func(s *frontiertest.Naive) { s.Spent(host, &item) })
}

func (j *journal) Done(host string, it *frontier.Item, v frontier.Visit) {
	item := *it
	j.tell(func(s *frontiertest.Naive) { s.Done(host, &item, v) })
}

func (j *journal) Load(host string, behind frontier.Place, n int) {
	j.Naive.Load(host, behind, n)
	j.answer()
}

func (j *journal) Activate(n int) {
	j.Naive.Activate(n)
	j.answer()
}

func (j *journal) answer() {
	a, _ := j.Answer() // there is one
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending = append(j.pending, a)
	if len(j.pending) == 1 {
		j.deliver()
	}
}

func (j *journal) deliver() {
	time.AfterFunc(j.while(), func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.answers <- j.pending[0]
		if j.pending = j.pending[1:]; len(j.pending) > 0 {
			j.deliver()
		}
	})
}

func (j *journal) while() time.Duration {
	return time.Duration(j.rnd.Int64N(int64(cmp.Or(j.slow, 50*time.Millisecond))))
}

func (j *journal) Answers() <-chan frontier.Answer { return j.answers }

func (j *journal) Commit(positions []frontier.Position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sealed = len(j.ops)
	j.ends, j.at = append(j.ends, j.sealed), append(j.at, positions)
	if j.room == nil && len(j.ops) > j.durable {
		j.room = make(chan struct{})
		time.AfterFunc(j.while(), j.commit)
	}
}

func (j *journal) commit() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.durable = j.sealed
	close(j.room)
	j.room = nil
}

func (j *journal) Room() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.sealed-j.durable < 20 {
		return nil
	}
	return j.room
}

func (j *journal) fail(err error) {
	j.err = err
	close(j.failed)
}

func (j *journal) Failed() <-chan struct{} { return j.failed }
func (j *journal) Err() error              { return j.err }

func (j *journal) reopen() (next *journal, records int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	next = newJournal(j.rnd.Uint64())
	next.slow = j.slow
	next.ops = j.ops[:j.durable:j.durable]
	for _, op := range next.ops {
		op(next.Naive)
	}
	next.sealed, next.durable = j.durable, j.durable
	for i, end := range j.ends {
		if end <= j.durable {
			next.ends, next.at = append(next.ends, end), append(next.at, j.at[i])
			for _, p := range j.at[i] {
				records = p.Records
			}
		}
	}
	next.left = next.Reopen()
	return next, records
}

type durableSink struct{ memorySink }

func (s *durableSink) Mark() record.Position {
	return record.Position{Path: "records", Records: int64(len(s.records))}
}
func (*durableSink) Sync() error { return nil }

// A crawl that crashes at random instants, and goes on from what was durable then with the
// sink cut back to where it was, ends with the records of one that never did.
func TestCrashesLoseNothing(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), bubble(func(t *testing.T) { crashWorld(t, seed) }))
	}
}

func crashWorld(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	hosts := map[string]http.Handler{}
	const perHost = 30
	nh := 1 + rnd.IntN(5)
	var flaky sync.Map
	for i := range nh {
		hosts[fmt.Sprintf("h%d.test", i)] = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" || r.URL.Path == "/sitemap.xml" {
				http.NotFound(rw, r)
				return
			}
			if _, again := flaky.LoadOrStore(r.Host+r.URL.Path, true); !again && len(r.URL.Path)%2 == 0 {
				rw.WriteHeader(http.StatusBadGateway) // the first time
				return
			}
			html(rw, links(perHost)+fmt.Sprintf("<a href=http://h%d.test/><a href=/sitemap.xml>", (i+1)%nh))
		})
	}
	net := fetchtest.Serve(t, hosts)
	out, state := &durableSink{}, newJournal(seed)
	resident, most := 1+rnd.IntN(40), 1+rnd.IntN(nh)
	for run := 0; ; run++ {
		require.Less(t, run, 2000, "it never ends")
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext, Timeout: 10 * time.Second})
		w.State, w.Sinks = state.state(), []record.Sink{out}
		w.Sitemaps = Sitemaps{Enabled: true} // of which there are none: the links to there are broken
		w.Concurrency, w.Resident, w.MaxHosts = 1+rnd.IntN(8), resident, most
		w.limits.InitialRPS, w.limits.MaxRPS = 20, 20
		for i := range nh { // what a resumed crawl knows from its settings
			w.Scope.AddSeed(parse(t, fmt.Sprintf("http://h%d.test/", i)))
		}
		p := w.build(t)
		limit := time.Duration(rnd.Int64N(int64(8 * time.Second)))
		if rnd.IntN(4) == 0 {
			limit = time.Hour // a whole one, and perhaps the first
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := w.run(ctx, t, p, "http://h0.test/")
		cancel()
		w.client.Close()
		synctest.Wait()
		if err == nil {
			requireEnd(t, p, EndDone)
			require.Len(t, out.byURL(t), nh*(perHost+2))
			for _, u := range state.URLs {
				require.True(t, u.Done, u.URL)
			}
			return
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var kept int64
		state, kept = state.reopen()
		out.records = out.records[:kept]
	}
}

func parse(t *testing.T, s string) canonical.URL {
	t.Helper()
	u, err := canonical.Parse(s)
	require.NoError(t, err)
	return u
}

// However a crawl is ended, with a state that stalls for up to a minute at a time, it ends,
// leaves nothing running, and goes on from there.
func TestEndsWithAStateThatStalls(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), bubble(func(t *testing.T) { stallWorld(t, seed) }))
	}
}

// What a failure cost a URL is durable when nothing else happens for an hour.
func TestTriesAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := served(t, map[string]http.Handler{"h.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.WriteHeader(map[bool]int{true: http.StatusNotFound, false: http.StatusBadGateway}[r.URL.Path == "/robots.txt"])
		})})
		state := newJournal(1)
		w.State, w.Backoff.Base, w.Backoff.Max = state.state(), 100*time.Hour, 100*time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, w.run(ctx, t, w.build(t), "http://h.test/"), context.DeadlineExceeded)
		synctest.Wait()
		next, _ := state.reopen()
		require.EqualValues(t, 1, next.URLs[1].Attempt)
	})
}

func stallWorld(t *testing.T, seed uint64) {
	const perHost, nh = 20, 3
	rnd := rand.New(rand.NewPCG(seed, 5))
	hosts := map[string]http.Handler{}
	for i := range nh {
		hosts[fmt.Sprintf("h%d.test", i)] = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				http.Redirect(rw, r, fmt.Sprintf("http://h%d.test/rules", (i+2)%nh), http.StatusMovedPermanently)
				return
			}
			html(rw, links(perHost)+fmt.Sprintf("<a href=http://h%d.test/>", (i+1)%nh))
		})
	}
	net := fetchtest.Serve(t, hosts)
	state, outs := newJournal(seed), []*durableSink{{}, {}}
	state.slow = time.Minute
	for run := 0; ; run++ {
		require.Less(t, run, 500, "it never ends")
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext, Timeout: 10 * time.Second})
		w.State, w.Sinks = state.state(), []record.Sink{outs[0], outs[1]}
		w.Concurrency, w.Resident, w.MaxHosts = 1+rnd.IntN(8), 1+rnd.IntN(10), 1+rnd.IntN(nh)
		w.limits.InitialRPS, w.limits.MaxRPS = 20, 20
		for i := range nh {
			w.Scope.AddSeed(parse(t, fmt.Sprintf("http://h%d.test/", i)))
		}
		p := w.build(t)
		ctx, cancel := context.WithCancel(t.Context())
		full := errors.New("disk full")
		end := []func(){
			p.Stop, cancel, func() { state.fail(full) }, func() { outs[rnd.IntN(2)].breakOff(full) }, func() {},
			func() { p.Pause(); time.AfterFunc(time.Minute, func() { p.Unpause() }) },
		}[rnd.IntN(6)]
		timer := time.AfterFunc(time.Duration(rnd.Int64N(int64(10*time.Minute))), end)
		err := w.run(ctx, t, p, "http://h0.test/")
		timer.Stop()
		cancel()
		w.client.Close()
		synctest.Wait()
		if how, _ := p.End(); err == nil && how == EndDone {
			for _, out := range outs {
				require.Len(t, out.byURL(t), nh*(perHost+1))
			}
			return
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			require.ErrorIs(t, err, full)
		}
		time.Sleep(2 * time.Minute) // what the state was told is durable then, or never is
		var kept int64
		state, kept = state.reopen()
		for _, out := range outs {
			out.records, out.fail = out.records[:kept], nil
		}
	}
}
