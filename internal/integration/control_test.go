package integration_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/realserver"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// How long to crawl each server, and how. Beyond a minute it is a measurement: one row
// of a table per server, for example with
//
//	go test -v -run '^TestControl$' -control.time 240s -timeout 40m . | grep '|'
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
		crawlFor(t, *controlTime, server, k.Name, k.Available)
		server.Stop()
		hits := server.Hits()
		if *controlTrace != "" {
			writeHits(t, filepath.Join(*controlTrace, k.Name+".log"), hits)
		}
		judge(t, k, hits)
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
		cfg.OnEvent = func(e ratelimit.Event) { assert.NoError(t, lines.Encode(e)) } // of one host: one at a time
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

// judge logs the figures of a crawl and holds it to the bar. The most that can be had is what the rule says.
func judge(t *testing.T, k realserver.Kind, hits []realserver.Hit) {
	t.Helper()
	require.NotEmpty(t, hits)
	begin := hits[0].At
	end := begin.Add(*controlTime)
	mid := begin.Add(min(searching, *controlTime))
	row := fmt.Sprintf("| %s | %s | %.4g |", k.Name, k.Rule, k.Available)
	row += " " + figures(realserver.Measure(hits, begin, mid, k.Available), k.Available) + " |"
	if mid.Before(end) {
		row += " " + figures(realserver.Measure(hits, mid, end, k.Available), k.Available) + " |"
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
