package pipeline

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/record"
)

type slowSink struct {
	durableSink
	pause time.Duration
}

func (s *slowSink) Write(rec *record.Record) error {
	time.Sleep(s.pause)
	return s.durableSink.Write(rec)
}

// busyWorld is a crawl in which something takes very long until calm is set: what, is for a
// case of the test to say, by changing the world or by the page /busy of busy.test.
type busyWorld struct {
	*world
	out   *slowSink
	calm  atomic.Bool
	dial  dialFunc
	serve func(rw http.ResponseWriter, r *http.Request) bool // reports whether it answered; nil: never

	mu    sync.Mutex // guards what follows
	asked map[string]bool
}

func (b *busyWorld) pending(r *http.Request) bool {
	if !b.calm.Load() {
		<-r.Context().Done()
	}
	return false
}

const busyPages = 40

func (b *busyWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/robots.txt" {
		b.mu.Lock()
		b.asked["http://"+r.Host+r.URL.Path] = true
		b.mu.Unlock()
	}
	if b.serve != nil && !b.calm.Load() && b.serve(rw, r) {
		return
	}
	switch r.URL.Path {
	case "/robots.txt":
		_, _ = fmt.Fprint(rw, "User-agent: *\nAllow: /\nSitemap: http://"+r.Host+"/list.xml\n")
	case "/list.xml":
		_, _ = fmt.Fprintf(rw, "<urlset><url><loc>http://%s/listed</loc></url></urlset>", r.Host)
	case "/":
		html(rw, "<a href=/busy>"+links(busyPages))
	default:
		html(rw, "x")
	}
}

func at(path string, do func(*busyWorld, http.ResponseWriter, *http.Request) bool) func(*busyWorld) {
	return func(b *busyWorld) {
		b.serve = func(rw http.ResponseWriter, r *http.Request) bool {
			return r.Host == "busy.test" && r.URL.Path == path && do(b, rw, r)
		}
	}
}

func never(b *busyWorld, _ http.ResponseWriter, r *http.Request) bool { return b.pending(r) }

func trickle(_ *busyWorld, rw http.ResponseWriter, r *http.Request) bool {
	for range 600 {
		if _, err := rw.Write([]byte("x")); err != nil {
			return true
		}
		_ = http.NewResponseController(rw).Flush()
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
		}
	}
	return true
}

var busy = map[string]func(*busyWorld){
	"a page that is not answered":       at("/busy", never),
	"a body that trickles":              at("/busy", trickle),
	"a robots.txt that is not answered": at("/robots.txt", never),
	"a robots.txt that trickles":        at("/robots.txt", trickle),
	"a sitemap that trickles":           at("/list.xml", trickle),
	"a failure to be repeated in an hour": at("/busy", func(_ *busyWorld, rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusBadGateway)
		return true
	}),
	"a connection that is not made": func(b *busyWorld) {
		dial := b.dial
		b.dial = func(ctx context.Context, n, addr string) (net.Conn, error) {
			if addr == "busy.test:80" && !b.calm.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, n, addr)
		}
	},
	"a handler that waits for its context": func(b *busyWorld) {
		b.Handle = func(ctx context.Context, _ *Page) error {
			if b.calm.Load() {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
	},
	"pages that wait for a handler that cannot be interrupted": func(b *busyWorld) {
		b.Handle = func(context.Context, *Page) error {
			if !b.calm.Load() {
				time.Sleep(400 * time.Millisecond)
			}
			return nil
		}
	},
	"records that wait for a slow sink": func(b *busyWorld) { b.out.pause = 400 * time.Millisecond },
	"nothing":                           func(*busyWorld) {},
}

// A crawl whose time is over, or that is stopped, ends within Grace, whatever it is busy with,
// and the next run visits what is left and nothing else.
func TestEndsWithinGrace(t *testing.T) {
	for name, set := range busy {
		for _, end := range []string{"max_time", "stop"} {
			t.Run(name+"/"+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { endsWithinGrace(t, set, end) })
			})
		}
	}
}

const busyGrace = 2 * time.Second

func newBusyWorld(t *testing.T) *busyWorld {
	b := &busyWorld{out: &slowSink{}, asked: map[string]bool{}}
	b.dial = fetchtest.Serve(t, map[string]http.Handler{"busy.test": b, "other.test": b}).DialContext
	return b
}

func (b *busyWorld) prepare(t *testing.T, set func(*busyWorld), state *State) *Pipeline {
	b.world = newWorldOn(t, fetch.Config{DialContext: func(ctx context.Context, n, addr string) (net.Conn, error) { return b.dial(ctx, n, addr) }})
	b.State, b.Sinks, b.Sitemaps = state, []record.Sink{b.out}, Sitemaps{Enabled: true}
	b.Grace, b.Backoff.Base, b.Backoff.Max = busyGrace, time.Hour, time.Hour
	b.limits.InitialRPS, b.limits.MaxRPS = 15, 15
	set(b)
	if b.calm.Load() {
		b.out.pause = 0
	}
	for _, host := range []string{"busy.test", "other.test"} {
		b.Scope.AddSeed(parse(t, "http://"+host+"/"))
	}
	return b.build(t)
}

func (b *busyWorld) ends(t *testing.T, p *Pipeline, end string) time.Duration {
	const after = 2500 * time.Millisecond
	want := EndInterrupted
	if end == "max_time" {
		p.cfg.MaxTime, want = after, EndLimit
	} else {
		time.AfterFunc(after, p.Stop)
	}
	began := time.Now()
	require.NoError(t, b.run(t.Context(), t, p, "http://busy.test/", "http://other.test/"))
	took := time.Since(began)
	require.GreaterOrEqual(t, took, after)
	require.LessOrEqual(t, took, after+busyGrace)
	requireEnd(t, p, want)
	return took
}

func endsWithinGrace(t *testing.T, set func(*busyWorld), end string) {
	b, state := newBusyWorld(t), newJournal(1)
	p := b.prepare(t, set, state.state())
	took := b.ends(t, p, end)
	select {
	case <-p.Stopping():
	default:
		t.Error("Stopping is open")
	}
	b.client.Close()
	synctest.Wait()
	time.Sleep(time.Second) // what was told is durable then

	state, kept := state.reopen()
	require.Len(t, b.out.records, int(kept), "records of which the state does not know")
	require.Equal(t, state.left.Queued, p.Snapshot().Frontier.Queued, "the summary counts what is left")
	first := len(b.out.records)
	b.calm.Store(true)
	p = b.prepare(t, set, state.state())
	p.cfg.MaxTime = 0
	require.NoError(t, b.run(t.Context(), t, p, "http://busy.test/", "http://other.test/"))
	requireEnd(t, p, EndDone)
	require.Len(t, b.out.byURL(t), 2*(busyPages+4), "pages, each once")
	for _, rec := range b.out.records {
		require.Equal(t, 200, rec.Status, rec.URL)
	}
	t.Logf("ended after %v with %d records, then %d", took, first, len(b.out.records)-first)
	b.client.Close()
}

// Without a state nobody goes on with such a crawl: each URL that was asked for has a record
// then, and the crawl ends within Grace all the same. What a slow sink does not take in time is lost.
func TestURLsCutOffHaveRecords(t *testing.T) {
	for name, set := range busy {
		for _, end := range []string{"max_time", "stop"} {
			t.Run(name+"/"+end, bubble(func(t *testing.T) {
				b := newBusyWorld(t)
				p := b.prepare(t, set, nil)
				took := b.ends(t, p, end)
				b.client.Close()
				synctest.Wait()
				records, cut := b.out.byURL(t), 0
				for _, rec := range records {
					if rec.Error != nil && rec.Error.Class == outcome.Canceled.String() {
						require.Contains(t, rec.Error.Message, "the crawl ended before")
						cut++
					}
				}
				t.Logf("ended after %v with %d records, %d of URLs that were cut off", took, len(records), cut)
				if name == "nothing" { // what is under way is finished
					require.Zero(t, cut)
					require.Less(t, took, 3500*time.Millisecond)
					require.Zero(t, p.Snapshot().Frontier.Leased)
				}
				if b.out.pause == 0 {
					require.ElementsMatch(t, slices.Collect(maps.Keys(b.asked)), slices.Collect(maps.Keys(records)))
				} else {
					require.Subset(t, slices.Collect(maps.Keys(b.asked)), slices.Collect(maps.Keys(records)))
				}
				require.EqualValues(t, len(records), p.Snapshot().Records)
			}))
		}
	}
}

type dice struct {
	mu  sync.Mutex // guards rnd
	rnd *rand.Rand
}

func (d *dice) chance(p float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rnd.Float64() < p
}

func (d *dice) dur(most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rnd.Int64N(int64(most) + 1))
}

func (d *dice) fail(rw http.ResponseWriter, r *http.Request) {
	switch d.dur(5) {
	case 0:
		panic(http.ErrAbortHandler)
	case 1:
		rw.WriteHeader(http.StatusServiceUnavailable)
	case 2:
		rw.Header().Set("Retry-After", "2")
		rw.WriteHeader(http.StatusTooManyRequests)
	case 3:
		rw.WriteHeader(http.StatusGatewayTimeout)
	case 4:
		rw.WriteHeader(http.StatusTooManyRequests)
	default:
		select {
		case <-time.After(20 * time.Second):
		case <-r.Context().Done():
		}
	}
}

func randomHost(d *dice, bad float64, slow time.Duration, seeds []string, i int) http.Handler {
	next := func(n int) string { return seeds[(i+n)%len(seeds)] }
	rules := func(rw http.ResponseWriter, r *http.Request) {
		switch d.dur(3) {
		case 0:
			http.Redirect(rw, r, seeds[d.dur(time.Duration(len(seeds)-1))]+"rules", http.StatusFound)
		case 1:
			rw.WriteHeader(http.StatusNotFound)
		case 2:
			_, _ = rw.Write([]byte("User-agent: *\nDisallow: /9\nCrawl-delay: 1\n"))
		case 3:
			http.Redirect(rw, r, "/rules", http.StatusFound)
		}
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(d.dur(slow))
		switch path := r.URL.Path; {
		case d.chance(bad):
			d.fail(rw, r)
		case path == "/robots.txt":
			rules(rw, r)
		case path == "/":
			html(rw, links(15)+fmt.Sprintf("<a href=%sx><a href=%sr>", next(1), next(1)))
		case path == "/r":
			http.Redirect(rw, r, next(2)+"y", http.StatusFound)
		default:
			html(rw, "x")
		}
	})
}

// Random worlds: every URL reachable is recorded exactly once, and the crawl ends.
func TestRandomWorlds(t *testing.T) {
	worlds := uint64(100)
	if racetest.Sample(t) {
		worlds = 25
	}
	for seed := range worlds {
		t.Run(fmt.Sprint(seed), bubble(func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			dice := &dice{rnd: rnd}
			dur := dice.dur
			seeds := make([]string, 1+rnd.IntN(6))
			for i := range seeds {
				port := ""
				if rnd.IntN(4) == 0 {
					port = ":81"
				}
				seeds[i] = fmt.Sprintf("http://h%d.test%s/", i, port)
			}
			hosts := map[string]http.Handler{}
			bad := rnd.Float64() * 0.4
			slow := time.Duration(rnd.IntN(3000)) * time.Millisecond
			for i, s := range seeds {
				name := strings.TrimSuffix(strings.TrimPrefix(s, "http://"), "/")
				hosts[name] = randomHost(dice, bad, slow, seeds, i)
			}
			net := fetchtest.Serve(t, hosts)
			w := newWorldOn(t, fetch.Config{DialContext: net.DialContext, Timeout: 10 * time.Second})
			var err error
			w.Robots, err = robots.New(robots.Config{Agent: "Treadlight", TTL: time.Second + dur(30*time.Second), MaxOrigins: 1 + int(dur(8))})
			require.NoError(t, err)
			w.Concurrency, w.PerHost, w.Processors = 1+rnd.IntN(12), 1+rnd.IntN(4), 1+rnd.IntN(3)
			w.limits.InitialRPS, w.limits.MaxDomains, w.limits.Shards = 5, 1+rnd.IntN(20), 1
			w.MaxHosts = len(seeds) // exactly
			w.MaxBlocked = 24 * time.Hour
			if rnd.IntN(3) == 0 {
				w.Handle = func(context.Context, *Page) error { time.Sleep(dur(2 * time.Second)); return nil }
			}
			p := w.build(t)
			mode := rnd.IntN(6)
			ctx, cancel := context.WithTimeout(t.Context(), 2000*time.Hour)
			defer cancel()
			switch when := dur(30 * time.Second); mode {
			case 0:
				time.AfterFunc(when, p.Stop)
			case 1:
				time.AfterFunc(when, cancel)
			case 2:
				time.AfterFunc(when, func() { w.out.mu.Lock(); w.out.fail = errFull; w.out.mu.Unlock() })
			}
			var looks sync.WaitGroup
			looks.Go(func() {
				for range 50 {
					_ = p.Snapshot()
					time.Sleep(dur(3 * time.Second))
				}
			})
			err = w.run(ctx, t, p, seeds...)
			looks.Wait()
			require.NotErrorIs(t, err, context.DeadlineExceeded, "it hangs: %+v", p.Snapshot())
			m := w.out.byURL(t)
			if mode > 2 {
				require.NoError(t, err)
				s := p.Snapshot()
				if s.State == EndDone {
					require.EqualValues(t, s.Frontier.Known, len(m))
				}
				require.Zero(t, s.Frontier.Leased)
			}
		}))
	}
}
