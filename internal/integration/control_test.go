package integration_test

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/realserver"
)

// How long to crawl each server, and how. Beyond a minute it is a measurement: one row
// of a table per server, for example with
//
//	go test -v -run '^TestControl$' -control.time 240s -timeout 40m . | grep '|'
//
// What could be had is then found beside it, see [possible]: that takes a minute and a half at least.
var (
	controlTime     = flag.Duration("control.time", 30*time.Second, "how long TestControl crawls each server")
	controlTrace    = flag.String("control.trace", "", "directory for what changed the rate in TestControl and why, a file of JSON lines for each server, and for the servers' logs; empty means none")
	controlStrategy = flag.String("control.strategy", "", "how the rate moves in TestControl; empty means the default")
)

// searching is the time a strategy has to find a limit; what comes after it is how it
// lives with the limit, and is judged apart.
const searching = time.Minute

// TestControl crawls real servers with hidden limits. Their own logs tell how much of what they had to give was taken,
// what they refused, and that nobody asked while told to wait.
func TestControl(t *testing.T) {
	t.Parallel() // it mostly waits
	if *controlTime > searching {
		t.Log("| server | its rule | possible/s | first minute: used/s, % of possible / refused % (refused, blocks, inside) | after it |")
	}
	var beside sync.WaitGroup
	var alone []realserver.Kind
	for _, k := range realserver.Kinds() {
		if k.Fast && *controlTime > searching {
			alone = append(alone, k) // beside the others it would measure the processors
			continue
		}
		// Not t.Parallel, which runs as many at a time as there are processors: these
		// wait for the clock nearly all of the time.
		beside.Go(func() { control(t, k) })
	}
	beside.Wait()
	for _, k := range alone {
		control(t, k)
	}
}

func control(t *testing.T, k realserver.Kind) {
	t.Run(k.Name, func(t *testing.T) {
		server := k.Start(t)
		most := k.Available
		var beside sync.WaitGroup
		defer beside.Wait() // also if the crawl fails
		if *controlTime > searching {
			own := k.Start(t)
			beside.Go(func() { most = possible(t, k, own, *controlTime) })
		}
		crawlFor(t, *controlTime, server, k.Name, k.Available)
		server.Stop()
		hits := server.Hits()
		if *controlTrace != "" {
			writeHits(t, filepath.Join(*controlTrace, k.Name+".log"), hits)
		}
		beside.Wait()
		judge(t, k, hits, most)
	})
}

// crawlFor crawls a server for that long with more to ask for than it will answer.
func crawlFor(t *testing.T, d time.Duration, server *realserver.Server, name string, available float64) {
	t.Helper()
	cfg := assembly.DefaultConfig()
	if d < searching {
		cfg.RateLimit.InitialRPS = min(5, available) // so that half a minute is enough to meet the limit
	}
	cfg.RateLimit.MaxRPS = 500 // out of the way: the limit is to be found, not known
	if *controlStrategy != "" {
		cfg.RateLimit.Strategy = *controlStrategy
	}
	cfg.Robots.Enabled = false
	cfg.MaxTime = d
	if *controlTrace != "" {
		require.NoError(t, os.MkdirAll(*controlTrace, 0o755))
		f, err := os.Create(filepath.Join(*controlTrace, name+".jsonl"))
		require.NoError(t, err)
		defer f.Close()
		lines := json.NewEncoder(f)
		cfg.OnEvent = func(e crawl.Event) { assert.NoError(t, lines.Encode(e)) } // of one host: one at a time
	}
	c := newOver(t, cfg, cfg.Dial)
	plenty := 1000 + 2*int(available*d.Seconds()) // twice what can be had; bursts come on top
	require.NoError(t, c.RunSeq(t.Context(), func(yield func(string) bool) {
		for n := range plenty {
			if !yield(server.Page(n)) {
				return
			}
		}
	}))
	require.Equal(t, "limit", c.Snapshot().State.String(), "there was not enough to ask for")
}

// writeHits writes a line for each request: seconds since the first, and the status.
func writeHits(t *testing.T, path string, hits []realserver.Hit) {
	t.Helper()
	var b strings.Builder
	for _, h := range hits {
		fmt.Fprintf(&b, "%.4f %d\n", h.At.Sub(hits[0].At).Seconds(), h.Status)
	}
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
}

// bar is what a crawl of a server has to clear, however short: it tells a strategy that lives with the limit from one
// that has lost its way. What a good one reaches is in the table of the long form.
type bar struct{ used, refused float64 }

// usual is the bar of every server that has none of its own. It tells a crawl that goes on from one that hangs, and no
// more: where many programs want two processors, latencies are the machine's own, and the crawl slows down for them.
// How much is used is in the table of the long form, and held in virtual time by TestRealisticLimiters.
var usual = bar{used: 0.05, refused: 0.1}

// bars are the others.
var bars = map[string]bar{
	// Sixty requests in all: each refusal weighs more than a percent.
	"nginx-2": {used: 0.4, refused: 0.2},
	// Half a minute is short for a search that far up.
	"nginx-200": {used: 0.004, refused: 0.1},
	// One lockout, found out by being in it, takes a third of half a minute or more.
	"mod_evasive": {used: 0.03, refused: 0.2},
	// Every answer says "Retry-After: 10", good ones too: to obey is one request in 10 s.
	"flask-limiter": {used: 0.004, refused: 0.1},
}

// judge logs the figures of a crawl and holds it to the bar. The most that can be had is what
// the prober found, or what the rule says of a crawl too short for it.
func judge(t *testing.T, k realserver.Kind, hits []realserver.Hit, most float64) {
	t.Helper()
	require.NotEmpty(t, hits)
	begin := hits[0].At
	end := begin.Add(*controlTime)
	mid := begin.Add(min(searching, *controlTime))
	row := fmt.Sprintf("| %s | %s | %.4g |", k.Name, k.Rule, most)
	if most == 0 { // the prober was refused at whatever it tried: the machine is too busy
		most = k.Available
		row = fmt.Sprintf("| %s | %s | %.4g by the rule, none was borne |", k.Name, k.Rule, most)
	}
	row += " " + figures(realserver.Measure(hits, begin, mid, most), most) + " |"
	if mid.Before(end) {
		row += " " + figures(realserver.Measure(hits, mid, end, most), most) + " |"
	}
	t.Log(row)

	all := realserver.Measure(hits, begin, end, k.Available)
	require.Zero(t, all.Inside, "requests while a Retry-After ran")
	if *controlStrategy != "" {
		return // to be looked at, not held to what the default is held to
	}
	want, special := bars[k.Name]
	if !special {
		want = usual
	}
	// A few requests in all make the first refusals, which find the limit, a large share.
	require.LessOrEqual(t, float64(all.Refused), 3+want.refused*float64(all.Requests), "refused")
	require.GreaterOrEqual(t, all.Used, want.used, "used of what was available")
}

// figures is a cell of the table: used/s, % of what is possible / refused % (refused, blocks, inside a Retry-After).
func figures(f realserver.Figures, most float64) string {
	return fmt.Sprintf("%.4g, %.1f / %.2f (%d, %d, %d)", f.Used*most, 100*f.Used, 100*f.RefusedShare(), f.Refused, f.Blocks, f.Inside)
}

// The prober finds what a server has to give by trying: it asks a server of its own beside the crawl's at a steady
// rate, sees whether that is borne, and halves what is left between the highest rate that was and the lowest that was
// not. It need not be polite, and it is told when a server has enough of it; what it shows is how much a client can
// have that knows the rate and has the same timers.
const (
	// settling is how long a rate is asked for before it is judged: longer than any window
	// here, so that nothing is left of what came before.
	settling = 12 * time.Second
	// judging is how long it is judged: two of the longest windows.
	judging = 22 * time.Second
	// bearable is the share of refusals at which a rate is still borne.
	bearable = 0.005
	// coming is how many requests it lets wait for their answers, more than any queue here holds.
	coming = 64
)

// prober asks a server of one kind.
type prober struct {
	kind   realserver.Kind
	server *realserver.Server
	client *http.Client
	asked  int

	mu      sync.Mutex // guards what follows
	refused int
	till    time.Time // told, or known, to be refused until then
}

// possible is the most requests per second that a client can have of a server of the kind,
// to a few thousandths, if it has four minutes to find it. If it bore none that was tried, that
// is zero. What counts is what was admitted: on a busy machine, fewer than were meant to go out;
// and no more than the rule gives for ever, which a queue takes for as long as is judged.
func possible(t *testing.T, k realserver.Kind, server *realserver.Server, within time.Duration) float64 {
	c := &prober{kind: k, server: server, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: coming}}}
	defer c.server.Stop()
	defer c.client.CloseIdleConnections()
	end := time.Now().Add(within)
	const atOnce = 2 * time.Second // to empty a bucket
	longest := atOnce + settling + judging
	lo, hi, most := 0.0, 1.03*k.Available, 0.0
	for r := 0.985 * k.Available; time.Until(end) > longest; {
		if had, borne := c.bears(t, r); borne {
			lo, most = r, max(most, had)
		} else {
			hi = r
		}
		if r = (lo + hi) / 2; lo == 0 {
			r = 0.93 * hi
		}
	}
	return min(most, k.Available)
}

// bears reports whether the server bears to be asked at that rate by who has used up
// whatever it had saved for them, and how many per second it then admitted.
func (c *prober) bears(t *testing.T, rate float64) (had float64, borne bool) {
	c.ask(t, 2*float64(c.kind.AtOnce)+10*c.kind.Nominal, 2*time.Second, true)
	c.ask(t, rate, settling, false)
	asked, refused := c.ask(t, rate, judging, false)
	return float64(asked-refused) / judging.Seconds(), float64(refused) <= bearable*float64(asked)
}

// ask asks at that rate for so long, or until the first refusal, and says how often and how often it was refused.
// While the server refuses for certain it waits, and for as long more goes on.
func (c *prober) ask(t *testing.T, rate float64, d time.Duration, once bool) (asked, refused int) {
	ctx, cancel := context.WithTimeout(t.Context(), d+time.Minute)
	defer cancel()
	var out sync.WaitGroup
	_, before := c.told()
	gap := time.Duration(float64(time.Second) / rate)
	slots := make(chan struct{}, min(coming, cmp.Or(c.kind.InFlight, coming)))
	end := time.Now().Add(d)
	for next := time.Now(); next.Before(end) && ctx.Err() == nil; { // blocks that are renewed might go on for ever
		till, now := c.told()
		if once && now > before {
			break
		}
		if wait := time.Until(till); wait > 0 {
			next, end = till, end.Add(wait)
		}
		time.Sleep(time.Until(next))
		next = later(next, time.Now().Add(-time.Millisecond)).Add(gap) // as much as the crawl's pacing makes up
		slots <- struct{}{}
		next = later(next, time.Now()) // of one that had to wait for a place
		url := c.server.Page(c.asked)
		c.asked++
		asked++
		out.Go(func() {
			defer func() { <-slots }()
			c.get(ctx, t, url)
		})
	}
	out.Wait()
	_, after := c.told()
	return asked, after - before
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (c *prober) told() (till time.Time, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.till, c.refused
}

// get asks for one page. Who locks out does so for ten seconds from the last request on.
func (c *prober) get(ctx context.Context, t *testing.T, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if !assert.NoError(t, err) {
		return
	}
	resp, err := c.client.Do(req)
	if !assert.NoError(t, err) {
		return
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // zero without one
	if resp.StatusCode == http.StatusForbidden {
		seconds = 11
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused++
	c.till = later(c.till, time.Now().Add(time.Duration(seconds)*time.Second))
}
