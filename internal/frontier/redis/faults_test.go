//go:build unix

package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

// realTime has a job go by the clocks of the computer and the server.
func realTime(r *rig) *rig {
	r.cfg.Clock, r.cfg.now = clock.System(), nil
	return r
}

// Without memory new URLs are refused and told of, and what is queued is visited. With
// memory again they are taken: nothing of a refused one stays behind.
func TestNoMemory(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, program redistest.Program) {
		server := program.Start(t)
		r := realTime(rigOn(t, server.Addr))
		a := r.open()
		put(t, a, "http://a.test/1", "http://a.test/2")
		activate(t, a, 1)
		server.Do(t, "CONFIG", "SET", "maxmemory", "1")
		put(t, a, "http://a.test/3", "http://b.test/1")
		flush(t, a)
		st := a.Figures()
		require.EqualValues(t, 2, st.Dropped)
		require.True(t, st.Full)
		require.False(t, a.Known(item(t, "http://a.test/3").URL.Fingerprint(7)), "it is not")
		urls, got := load(t, a, "a.test", 9)
		require.Equal(t, []string{"http://a.test/1", "http://a.test/2"}, urls)
		visit(a, &got.Items[0])
		a.Spent(got.Items[1].URL.Host(), &got.Items[1])
		a.Deactivate("a.test", time.Time{})
		flush(t, a)
		require.EqualValues(t, 1, a.counts.done.Load())
		server.Do(t, "CONFIG", "SET", "maxmemory", "0")
		put(t, a, "http://a.test/3", "http://b.test/1")
		flush(t, a)
		require.False(t, a.counts.oom.Load())
		require.ElementsMatch(t, []string{"a.test", "b.test"}, names(activate(t, a, 9)))
		urls, _ = load(t, a, "a.test", 9)
		require.Equal(t, []string{"http://a.test/2", "http://a.test/3"}, urls)
	})
}

// A server that is killed and has an append-only file comes back with all that it has
// acknowledged; who waits for it goes on where they were.
func TestServerRestarts(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, program redistest.Program) {
		server := program.Start(t, "--appendonly", "yes", "--appendfsync", "always")
		r := realTime(rigOn(t, server.Addr))
		a := r.open()
		got := own(t, a, 1, "http://a.test/1", "http://a.test/2")
		server.Stop()
		visit(a, &got.Items[0])
		put(t, a, "http://b.test/1")
		a.Load("a.test", frontier.Place{}, 9)
		require.Eventually(t, func() bool { return a.link.retries.Load() > 0 }, redistest.Patience, time.Millisecond)
		server.Restart(t)
		answer, _ := next(t, a)
		require.Len(t, answer.Items, 1)
		require.Equal(t, "http://a.test/2", answer.Items[0].URL.String())
		require.EqualValues(t, 1, a.counts.done.Load())
		require.NoError(t, a.Close())
		st := r.status()
		require.EqualValues(t, 3, st.Known)
		require.EqualValues(t, 1, st.Done)
		require.EqualValues(t, 2, st.Ready+st.Waiting)
	})
}

// A server that has lost the job ends the store; nothing is made up in its place.
func TestServerLosesAll(t *testing.T) {
	server := redistest.Redis.Start(t)
	r := realTime(rigOn(t, server.Addr))
	a := r.open()
	put(t, a, "http://a.test/1")
	flush(t, a)
	server.Do(t, "FLUSHALL")
	put(t, a, "http://a.test/2")
	<-a.Failed()
	require.ErrorIs(t, a.Err(), ErrNoJob)
	require.ErrorContains(t, a.Err(), r.cfg.Job)
	n, err := server.Do(t, "DBSIZE").ToInt64()
	require.NoError(t, err)
	require.Zero(t, n)
}

// While a server stands still the hosts are given up in time, and what is told waits within
// its bound; then it goes on, and nothing is lost.
func TestServerStandsStill(t *testing.T) {
	server := redistest.Redis.Start(t)
	r := rigOn(t, server.Addr)
	r.cfg.maxPending = 4
	a := r.open()
	got := own(t, a, 1, "http://a.test/1", "http://a.test/2")
	held := tenureOf(a, "a.test")
	server.Signal(t, syscall.SIGSTOP)
	defer func() { server.Signal(t, syscall.SIGCONT) }()
	put(t, a, "http://b.test/1", "http://b.test/2", "http://b.test/3", "http://b.test/4", "http://b.test/5")
	require.NotNil(t, a.Room(), "the crawl is to wait")
	r.clk.Advance(r.cfg.Lease*3/4 - time.Millisecond)
	require.NoError(t, held.Err())
	require.Eventually(t, func() bool {
		r.clk.Advance(time.Millisecond)
		return held.Err() != nil
	}, redistest.Patience, time.Millisecond)
	require.Nil(t, tenureOf(a, "a.test"))
	visit(a, &got.Items[0]) // too late
	server.Signal(t, syscall.SIGCONT)
	require.Eventually(t, func() bool {
		r.clk.Advance(time.Millisecond) // for a trip that is repeated
		return a.Ready()
	}, redistest.Patience, time.Millisecond)
	var hosts []string
	require.Eventually(t, func() bool {
		r.clk.Advance(time.Second)
		hosts = append(hosts, names(activate(t, a, 9))...)
		return slices.Contains(hosts, "a.test") && slices.Contains(hosts, "b.test")
	}, redistest.Patience, 10*time.Millisecond)
	require.NoError(t, a.Err())
	st := r.status()
	require.EqualValues(t, 7, st.Known)
	require.Zero(t, st.Done)
	require.GreaterOrEqual(t, st.Reclaimed, int64(1))
}

// After GiveUp without an answer the store fails, and says what to do.
func TestGiveUp(t *testing.T) {
	server := redistest.Redis.Start(t)
	r := realTime(rigOn(t, server.Addr))
	r.cfg.giveUp, r.cfg.Lease = 50*time.Millisecond, 300*time.Millisecond
	a := r.open()
	server.Stop()
	a.Activate(1)
	<-a.Failed()
	require.ErrorContains(t, a.Err(), "not answered within 50ms")
	require.ErrorContains(t, a.Err(), "see that the server is there")
	require.Error(t, a.Close())
}

// In a cluster each script stays in one slot, whichever master that is at.
func TestCluster(t *testing.T) {
	masters, replica := redistest.Redis.Cluster(t)
	r := rigOn(t, masters[0].Addr)
	for _, s := range append(slices.Clone(masters), replica) {
		s.Do(t, append([]string{"ACL", "SETUSER", "least", "on", ">hunter2"}, strings.Fields(Least+" "+LeastInCluster)...)...)
		s.Do(t, append([]string{"ACL", "SETUSER", "less", "on", ">hunter2"}, strings.Fields(Least)...)...)
	}
	// By itself such a user knows of one node, and is told so where others have the keys.
	r.cfg.Redis.Username, r.cfg.Redis.Password = "less", "hunter2"
	for i := range 2 {
		cfg := r.cfg
		cfg.Job = jobAt(t, masters, int64(1+i))
		_, err := Open(t.Context(), cfg)
		require.ErrorContains(t, err, "(in a cluster at each node, and with +cluster|slots +cluster|nodes)")
		_, err = Dial(t.Context(), cfg.Redis, cfg.Job)
		require.ErrorContains(t, err, "and with +cluster|slots")
	}
	r.cfg.Redis.Username = "least"
	r.cfg.partitions, r.cfg.Lease = 16, 10*time.Minute
	w := newWorld(r, 120)
	w.begin()
	w.begin()
	w.seed()
	w.run(func(step int) {
		if step == 30 {
			for _, m := range masters {
				m.Do(t, "SCRIPT", "FLUSH")
			}
		}
	})
	for u, n := range w.visits {
		require.Equal(t, 1, n, u)
	}
	w.isWhole()
	for i, m := range masters {
		n, err := m.Do(t, "DBSIZE").ToInt64()
		require.NoError(t, err)
		require.NotZero(t, n, "master %d has nothing", i)
	}
	f := r.dial()
	for _, wk := range w.workers {
		require.NoError(t, wk.store.Close())
	}
	_, err := f.Purge(t.Context())
	require.NoError(t, err)
	for _, m := range masters {
		n, err := m.Do(t, "DBSIZE").ToInt64()
		require.NoError(t, err)
		require.Zero(t, n)
	}
	masterAway(t, masters, r.cfg.Redis)
}

func jobAt(t *testing.T, masters []*redistest.Server, master int64) string {
	t.Helper()
	for i := 0; ; i++ {
		name := fmt.Sprintf("away-%d", i)
		slot, err := masters[0].Do(t, "CLUSTER", "KEYSLOT", jobKey(name, "job")).ToInt64()
		require.NoError(t, err)
		if slot/(16384/3+1) == master {
			return name
		}
	}
}

// masterAway stops a master that nobody takes the place of: of a job whose own keys are with
// another, operators are told all but what was with it; of others, which master it is.
func masterAway(t *testing.T, masters []*redistest.Server, user rueidis.ClientOption) {
	r := realTime(rigOn(t, masters[0].Addr))
	r.cfg.partitions, r.cfg.Redis = 12, user
	dead, gone := masters[1], jobAt(t, masters, 1)
	r.cfg.Job = jobAt(t, masters, 2)
	s := r.open()
	for i := range 40 {
		put(t, s, fmt.Sprintf("http://h%d.test/", i))
	}
	require.NoError(t, s.Close())
	f := r.dial()
	whole := statusOf(t, f)
	require.Zero(t, whole.Unread)
	require.EqualValues(t, 40, whole.Known)

	dead.Stop()
	st := statusOf(t, f)
	require.Equal(t, []string{dead.Addr}, st.Away)
	require.Positive(t, st.Unread)
	require.Less(t, st.Unread, 12)
	require.Positive(t, st.Known)
	require.Less(t, st.Known, whole.Known)
	require.False(t, st.Complete)
	_, err := Dial(t.Context(), r.cfg.Redis, gone)
	require.ErrorContains(t, err, "of the cluster the master "+dead.Addr+" is away")
}

// Whoever is left tells which masters have slots and are away: by what those say of them, or as they do not answer.
func TestAwayOf(t *testing.T) {
	const nodes = `07c3 127.0.0.1:1@11,a.test myself,master - 0 1 1 connected 0-5460
67ed 127.0.0.1:2@12 master - 0 1 2 connected 5461-10922
292f 127.0.0.1:3@13 master,fail - 1 1 3 connected 10923-16383
6ec2 127.0.0.1:4@14 slave,fail 67ed 0 1 3 connected
824f 127.0.0.1:5@15 master,fail? - 0 1 0 disconnected
e7d1 :0@0 master,noaddr - 0 1 4 disconnected
`
	require.Equal(t, []string{"127.0.0.1:3"}, awayOf(nodes, nil))
	require.Equal(t, []string{"127.0.0.1:2", "127.0.0.1:3"}, awayOf(nodes, map[string]bool{"127.0.0.1:2": true, "127.0.0.1:4": true}))
	require.Empty(t, awayOf("", map[string]bool{"127.0.0.1:2": true}))
}

// The set of fingerprints grows by cutting buckets in two, finds all of them, and none of
// its buckets is stored otherwise than as an intset.
func TestSeenSet(t *testing.T) {
	r := newRig(t)
	server := redistest.Redis.Shared(t)
	a := r.open(func(c *Config) { c.known = 1 })
	const n = 5_000
	for range 2 { // what is known is known
		for i := range n {
			it := item(t, fmt.Sprintf("http://a.test/%d", i))
			a.Put("a.test", it, it.URL.Fingerprint(7), true)
		}
		flush(t, a)
	}
	require.NoError(t, a.Err())
	require.EqualValues(t, n, a.counts.added.Load())
	require.EqualValues(t, n, a.counts.duplicates.Load())
	keys, err := server.Do(t, "KEYS", root(r.cfg.Job, 0)+"s:*").AsStrSlice()
	require.NoError(t, err)
	require.Greater(t, len(keys), n/416)
	bytes := int64(0)
	for _, key := range keys {
		encoding, err := server.Do(t, "OBJECT", "ENCODING", key).ToString()
		require.NoError(t, err)
		require.Equal(t, "intset", encoding)
		size, err := server.Do(t, "MEMORY", "USAGE", key).ToInt64()
		require.NoError(t, err)
		bytes += size
	}
	per := float64(bytes) / n
	t.Logf("%.1f bytes for a fingerprint in %d buckets", per, len(keys))
	require.Less(t, per, 10.0)
}

// Every script may be run again, as when its reply was lost: what is stored is the same.
func TestScriptsAreIdempotent(t *testing.T) {
	r := newRig(t)
	server := redistest.Redis.Shared(t)
	a := r.open(func(c *Config) { c.MaxPagesPerHost = 9 })
	got := own(t, a, 2, "http://a.test/1", "http://a.test/2", "http://b.test/1")
	flush(t, a)
	h := a.find("a.test")
	seq := decimal(a.writer.seq(got.Items[0].ID))
	token := decimal(h.token)
	it := item(t, "http://c.test/1")
	for _, tc := range []struct {
		script *script
		args   []string
	}{
		{scriptAdd, a.args(h.session, a.worker, "1000", "c.test", "77", "3", "1:9", encode("c.test", it), "a.test", "78", "0", "", encode("a.test", it))},
		{scriptAcquire, a.args(h.session, "12000", "9", "1001", "1")},
		{scriptLoad, a.args(h.session, "a.test", token, "1", "1002")},
		{scriptDone, a.args(h.session, "s", "a.test", token, seq, encode("a.test", it), "m", "a.test", token, "0", "0.5 1 2 3 4 5", "d", "a.test", token, seq, "")},
		{scriptDone, a.args(h.session, "r", "a.test", token, decimal(a.writer.seq(got.Items[1].ID)), "")},
		{scriptRenew, a.args(h.session, "12000")},
		{scriptRelease, a.args(h.session, "0", "a.test", token, "1500", "2 0 0 0 0 500")},
		{scriptRelease, a.args(h.session, "1")},
	} {
		var replies [2]string
		var states [2]map[string]string
		for i := range 2 {
			c := &call{script: tc.script, keys: []string{counters(r.cfg.Job, 0)}, args: tc.args}
			reply, err := a.link.one(t.Context(), c)
			require.NoError(t, err, tc.script.name)
			replies[i], states[i] = render(reply), dump(t, server, r.cfg.Job)
		}
		require.Equal(t, states[0], states[1], tc.script.name)
		if tc.script == scriptAcquire || tc.script == scriptLoad {
			require.Equal(t, replies[0], replies[1], tc.script.name)
		}
	}
}

func render(reply []message) string {
	var b strings.Builder
	for _, m := range reply {
		if m.IsArray() {
			fmt.Fprintf(&b, "[%s] ", render(list(m)))
		} else {
			fmt.Fprintf(&b, "%q:%d ", text(m), number(m))
		}
	}
	return b.String()
}

func dump(t *testing.T, server *redistest.Server, job string) map[string]string {
	t.Helper()
	keys, err := server.Do(t, "KEYS", root(job, 0)+"*").AsStrSlice()
	require.NoError(t, err)
	all := map[string]string{}
	for _, key := range keys {
		value, err := server.Do(t, "DUMP", key).ToString()
		require.NoError(t, err)
		all[key] = value
	}
	return all
}

// The control of a job comes to its processes.
func TestControl(t *testing.T) {
	r := newRig(t)
	var heard atomic.Value
	r.open(func(c *Config) { c.OnOrder = func(o Order) { heard.Store(o.Control) } })
	f := r.dial()
	require.NoError(t, f.SetControl(t.Context(), Draining))
	require.Eventually(t, func() bool {
		r.clk.Advance(time.Second)
		return heard.Load() == Draining
	}, redistest.Patience, time.Millisecond)
	late := Control("")
	r.open(func(c *Config) { c.OnOrder = func(o Order) { late = o.Control } })
	require.Equal(t, Draining, late, "before Open has returned")
}

// A store that is closed while the server is away does not keep its process, whether it has begun to send or not.
func TestCloseWithoutServer(t *testing.T) {
	for _, begun := range []bool{false, true} {
		server := redistest.Redis.Start(t)
		r := rigOn(t, server.Addr)
		r.cfg.Lease = 300 * time.Millisecond
		a := r.open()
		put(t, a, "http://a.test/1")
		activate(t, a, 1)
		server.Stop()
		if begun {
			put(t, a, "http://a.test/2")
			require.Eventually(t, func() bool {
				r.clk.Advance(time.Millisecond)
				return a.link.retries.Load() > 0
			}, redistest.Patience, time.Millisecond)
		}
		closing, closed := r.clk.Now(), make(chan error, 1)
		go func() { closed <- a.Close() }()
		require.Eventually(t, func() bool {
			r.clk.Advance(100 * time.Millisecond)
			return len(closed) > 0
		}, redistest.Patience, time.Millisecond)
		require.GreaterOrEqual(t, r.clk.Since(closing), closeLeast)
		err := <-closed
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, strings.HasPrefix(err.Error(), "job "+r.cfg.Job), err)
	}
}

// A server that comes back when the lease is over, but not the patience, is told all the same what was found.
func TestCloseAwaitsServer(t *testing.T) {
	server := redistest.Redis.Start(t)
	r := rigOn(t, server.Addr)
	r.cfg.Lease = 300 * time.Millisecond
	a := r.open()
	put(t, a, "http://a.test/1")
	activate(t, a, 1)
	server.Signal(t, syscall.SIGSTOP)
	put(t, a, "http://b.test/1")
	closed := make(chan error, 1)
	go func() { closed <- a.Close() }()
	require.Eventually(t, func() bool { // its patience has begun
		return !a.Add(false)
	}, redistest.Patience, time.Millisecond)
	r.clk.Advance(closeLeast - time.Millisecond)
	server.Signal(t, syscall.SIGCONT)
	require.NoError(t, <-closed)
	require.EqualValues(t, 2, r.status().Known)
}
