package simulate

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// show prints the table below as it is measured now: how to change it after a change of
// the strategy that was meant to change it.
var show = flag.Bool("thresholds", false, "print the table of thresholds as measured, with -v")

// measured is what the strategy does at a scenario, over the seeds 1 and 2: shares in
// percent, of all from the second minute on.
type measured struct {
	name          string
	used, refused float64       // means
	p95           time.Duration // the longer one; of queues only, zero for others
	reaction      time.Duration // the longer one; zero if the capacity does not drop
	recovery      time.Duration // the longer one; Never if 90 % of it is not reached again
	bans          int           // of both
	most          int           // sent within 100 ms, the larger one
	merged        time.Duration // the longer one until several hosts were paced as one; zero for one host; Never
	even          float64       // how even several hosts' shares were, the lower one; zero for one host
}

// What a run may fall short of the table. A change of the strategy that is worth its
// while moves a row by more.
const (
	usedSlack     = 2    // percentage points
	refusedFactor = 1.5  // and
	refusedSlack  = 0.05 // percentage points
	p95Factor     = 1.25
	dynamicSlack  = 10 * time.Second
	mostSlack     = 2
	mergedSlack   = 30 * time.Second
	evenSlack     = 0.05
	// mostRetries is the retries per URL that failed once: the fourth failure gives up.
	mostRetries = 3.0
	// leastSuccess is the percentage of all that is sent which must be what was asked for.
	leastSuccess = 90
)

// raced are the scenarios for the race detector: slow hosts, one of each kind, since it
// is requests that cost time.
func raced() []string {
	return []string{"S1a", "S2a", "S2d", "S3a", "S5", "S6b", "S11a", "S13a", "S14a", "S15a", "S16a", "S18c"}
}

// runs are the results of a scenario by name, of the seeds 1 and 2.
func runs(t *testing.T) map[string][]Result {
	t.Helper()
	scs := Scenarios()
	if racetest.Sample(t) {
		var err error
		scs, err = Select(Scenarios(), raced()...)
		require.NoError(t, err)
	}
	rows, err := compare(scs, Strategies(control.NameSteer), 2)
	require.NoError(t, err)
	results := make(map[string][]Result, len(rows))
	for _, row := range rows {
		results[row.Scenario.Name] = row.Runs[0]
	}
	return results
}

// measure sums up the results of a scenario.
func measure(name string, rs []Result) measured {
	m := measured{name: name}
	for _, r := range rs {
		m.used += 100 * r.Steady.Utilisation() / float64(len(rs))
		m.refused += 100 * r.Steady.RefusedShare() / float64(len(rs))
		m.reaction, m.recovery = max(m.reaction, r.Reaction), max(m.recovery, r.Recovery)
		m.bans += r.Bans
		m.most = max(m.most, r.MaxIn100ms)
		m.merged = max(m.merged, r.Merged)
		if r.Evenness > 0 && (m.even == 0 || r.Evenness < m.even) {
			m.even = r.Evenness
		}
		if strings.HasPrefix(name, "S4") {
			m.p95 = max(m.p95, r.P95)
		}
	}
	return m
}

// String is the row in Go.
func (m measured) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "{name: %q, used: %.1f, refused: %.3f", m.name, m.used, m.refused)
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"p95", m.p95}, {"reaction", m.reaction}, {"recovery", m.recovery}, {"merged", m.merged}} {
		switch f.d {
		case 0:
		case Never:
			fmt.Fprintf(&b, ", %s: Never", f.name)
		default:
			fmt.Fprintf(&b, ", %s: %d * time.Millisecond", f.name, f.d.Round(time.Millisecond)/time.Millisecond)
		}
	}
	if m.bans > 0 {
		fmt.Fprintf(&b, ", bans: %d", m.bans)
	}
	fmt.Fprintf(&b, ", most: %d", m.most)
	if m.even > 0 {
		fmt.Fprintf(&b, ", even: %.2f", m.even)
	}
	b.WriteString("},")
	return b.String()
}

// Every built-in scenario is handled as well as the table says it was.
func TestThresholds(t *testing.T) {
	results := runs(t)
	if *show {
		for _, sc := range Scenarios() {
			fmt.Println("\t\t" + measure(sc.Name, results[sc.Name]).String())
		}
		return
	}
	apart := map[string]bool{}
	for _, sc := range Scenarios() {
		apart[sc.Name] = sc.Apart > 0 && sc.Apart == sc.Hosts
	}
	table := thresholds()
	require.Len(t, table, len(Scenarios()), "a row for every scenario")
	for _, want := range table {
		rs, ok := results[want.name]
		if !ok {
			require.True(t, racetest.Enabled, want.name)
			continue
		}
		t.Run(want.name, func(t *testing.T) {
			want.hold(t, measure(want.name, rs))
			for _, r := range rs {
				decent(t, r)
				if apart[want.name] {
					require.Equal(t, Never, r.Merged, "hosts with a limit each are not taken for one")
				}
			}
		})
	}
}

// hold checks that what was measured now is not worse.
func (m measured) hold(t *testing.T, now measured) {
	t.Helper()
	require.GreaterOrEqual(t, now.used, m.used-usedSlack, "percent used")
	require.LessOrEqual(t, now.refused, refusedFactor*m.refused+refusedSlack, "percent refused")
	require.LessOrEqual(t, float64(now.p95), p95Factor*float64(m.p95), "p95")
	require.LessOrEqual(t, now.reaction-dynamicSlack, m.reaction, "reaction")
	require.LessOrEqual(t, now.recovery-dynamicSlack, m.recovery, "recovery")
	require.LessOrEqual(t, now.bans, m.bans, "bans")
	require.LessOrEqual(t, now.most, m.most+mostSlack, "requests in 100 ms")
	require.LessOrEqual(t, now.merged-mergedSlack, m.merged, "until the hosts are paced as one")
	require.GreaterOrEqual(t, now.even, m.even-evenSlack, "evenness")
}

// decent checks what holds of every run.
func decent(t *testing.T, r Result) {
	t.Helper()
	all := r.First
	all.add(r.Steady)
	require.Zero(t, r.InsideRetryAfter, "requests inside a Retry-After")
	require.Less(t, r.RetriesPerFailure, mostRetries, "retries per failure")
	require.Greater(t, 100*share(float64(all.Admitted), float64(all.Sent)), float64(leastSuccess), "percent of success")
}

// thresholds is the table, as -v -args -thresholds prints it.
func thresholds() []measured {
	return []measured{
		{name: "S1a", used: 100.0, refused: 0.285, most: 4},
		{name: "S1b", used: 99.7, refused: 0.345, most: 4},
		{name: "S1c", used: 98.3, refused: 0.035, most: 16},
		{name: "S1d", used: 98.0, refused: 0.484, most: 2},
		{name: "S1e", used: 95.2, refused: 0.000, most: 4},
		{name: "S2a", used: 96.0, refused: 0.210, most: 7},
		{name: "S2b", used: 97.8, refused: 0.032, most: 30},
		{name: "S2c", used: 96.4, refused: 0.127, most: 31},
		{name: "S2d", used: 100.0, refused: 0.000, most: 9},
		{name: "S3a", used: 97.0, refused: 0.282, most: 5},
		{name: "S3b", used: 98.0, refused: 0.082, most: 30},
		{name: "S4a", used: 94.5, refused: 0.000, p95: 490 * time.Millisecond, most: 35},
		{name: "S4b", used: 86.9, refused: 0.000, p95: 611 * time.Millisecond, most: 9},
		{name: "S5", used: 99.9, refused: 0.178, most: 4},
		{name: "S5b", used: 98.1, refused: 0.242, most: 1},
		{name: "S5c", used: 90.3, refused: 0.026, most: 4},
		{name: "S6a", used: 97.4, refused: 0.127, reaction: 1000 * time.Millisecond, recovery: 23000 * time.Millisecond, most: 16},
		{name: "S6b", used: 98.5, refused: 0.632, reaction: 6000 * time.Millisecond, recovery: 27000 * time.Millisecond, most: 4},
		{name: "S6c", used: 94.2, refused: 0.000, reaction: 1000 * time.Millisecond, recovery: 17000 * time.Millisecond, most: 36},
		{name: "S8a", used: 100.0, refused: 0.000, most: 20},
		{name: "S8b", used: 99.6, refused: 0.000, most: 11},
		{name: "S9a", used: 99.0, refused: 0.000, most: 20},
		{name: "S9b", used: 94.5, refused: 0.000, most: 5},
		{name: "S10", used: 97.9, refused: 0.006, most: 135},
		{name: "S12a", used: 77.3, refused: 0.361, most: 4},
		{name: "S12b", used: 31.2, refused: 0.063, most: 16},
		{name: "S7", used: 96.8, refused: 0.032, reaction: 2000 * time.Millisecond, recovery: 15000 * time.Millisecond, most: 16},
		{name: "S7b", used: 96.3, refused: 0.032, reaction: 1000 * time.Millisecond, recovery: 18000 * time.Millisecond, most: 16},
		{name: "S7c", used: 97.0, refused: 0.032, reaction: 2000 * time.Millisecond, recovery: 14000 * time.Millisecond, most: 16},
		{name: "S7d", used: 73.6, refused: 0.011, reaction: 1000 * time.Millisecond, recovery: 80000 * time.Millisecond, most: 16},
		{name: "S11a", used: 100.0, refused: 0.291, most: 4},
		{name: "S11b", used: 85.4, refused: 0.049, bans: 2, most: 4},
		{name: "S13a", used: 99.8, refused: 0.149, most: 4},
		{name: "S13b", used: 97.1, refused: 0.184, most: 4},
		{name: "S13c", used: 99.7, refused: 0.357, most: 1},
		{name: "S14a", used: 96.3, refused: 0.006, most: 10},
		{name: "S14b", used: 95.5, refused: 0.030, most: 6},
		{name: "S14c", used: 95.9, refused: 0.007, most: 26},
		{name: "S14d", used: 95.6, refused: 0.001, most: 143},
		{name: "S15a", used: 97.0, refused: 0.000, bans: 2, most: 3},
		{name: "S15b", used: 97.0, refused: 0.000, bans: 2, most: 14},
		{name: "S15c", used: 77.9, refused: 0.015, bans: 2, most: 3},
		{name: "S15d", used: 97.0, refused: 0.000, bans: 2, most: 1},
		{name: "S16a", used: 98.6, refused: 0.424, most: 10},
		{name: "S16b", used: 95.0, refused: 0.482, most: 6},
		{name: "S16c", used: 97.8, refused: 0.140, most: 32},
		{name: "S16d", used: 96.5, refused: 0.063, most: 144},
		{name: "S16e", used: 98.6, refused: 0.329, most: 10},
		{name: "S17a", used: 95.6, refused: 0.310, most: 2},
		{name: "S17b", used: 75.1, refused: 0.316, most: 2},
		{name: "S17c", used: 88.7, refused: 0.054, most: 6},
		{name: "S17d", used: 35.6, refused: 0.226, most: 4},
		{name: "S18a", used: 96.6, refused: 0.592, most: 1},
		{name: "S18b", used: 97.3, refused: 0.587, most: 1},
		{name: "S18c", used: 97.7, refused: 0.293, most: 1},
		{name: "S18d", used: 94.3, refused: 0.726, most: 1},
		{name: "S18e", used: 97.9, refused: 0.351, most: 1},
		{name: "S18f", used: 98.0, refused: 0.293, most: 1},
		{name: "S18g", used: 93.9, refused: 0.518, most: 1},
		{name: "S18h", used: 97.4, refused: 0.294, most: 1},
		{name: "S18i", used: 95.7, refused: 0.538, most: 1},
		{name: "S19", used: 99.6, refused: 0.006, most: 3},
		{name: "S20a", used: 92.7, refused: 0.163, most: 4},
		{name: "S20b", used: 88.8, refused: 0.164, most: 5},
		{name: "S20c", used: 77.6, refused: 0.015, most: 34},
		{name: "S20d", used: 83.0, refused: 0.201, most: 4},
		{name: "S21a", used: 94.6, refused: 0.251, most: 12},
		{name: "S21b", used: 93.8, refused: 0.222, most: 12},
		{name: "S21c", used: 97.0, refused: 0.000, most: 5},
		{name: "S21d", used: 96.0, refused: 0.000, most: 1},
		{name: "S21e", used: 96.7, refused: 0.018, most: 3},
		{name: "S21f", used: 82.5, refused: 0.000, most: 2},
		{name: "S21g", used: 83.0, refused: 0.000, most: 20},
		{name: "S22a", used: 95.2, refused: 0.243, most: 5},
		{name: "S22b", used: 96.6, refused: 0.368, most: 4},
		{name: "S22c", used: 96.1, refused: 0.068, most: 29},
		{name: "S22d", used: 97.2, refused: 0.060, most: 30},
		{name: "S22e", used: 93.3, refused: 0.508, most: 3},
		{name: "S22f", used: 97.1, refused: 0.196, most: 15},
		{name: "S22g", used: 97.5, refused: 0.171, most: 15},
		{name: "S22h", used: 82.7, refused: 0.476, most: 30},
		{name: "S22i", used: 81.2, refused: 2.044, most: 6},
		{name: "S22j", used: 82.3, refused: 0.034, most: 30},
		{name: "S22k", used: 95.0, refused: 0.225, most: 5},
		{name: "S22l", used: 97.6, refused: 0.237, most: 5},
		{name: "S23a", used: 100.0, refused: 0.309, merged: 29740 * time.Millisecond, most: 5, even: 1.00},
		{name: "S23b", used: 99.6, refused: 0.340, merged: 197845 * time.Millisecond, most: 4, even: 1.00},
		{name: "S23c", used: 100.0, refused: 0.149, merged: 18539 * time.Millisecond, most: 20, even: 1.00},
		{name: "S23d", used: 99.7, refused: 0.069, merged: 21727 * time.Millisecond, most: 100, even: 1.00},
		{name: "S23e", used: 99.6, refused: 0.167, merged: 73840 * time.Millisecond, most: 5, even: 0.99},
		{name: "S23f", used: 99.9, refused: 0.409, merged: Never, most: 7, even: 0.54},
		{name: "S23g", used: 94.4, refused: 0.358, merged: 160365 * time.Millisecond, most: 8, even: 1.00},
		{name: "S23h", used: 97.1, refused: 0.226, merged: Never, most: 31, even: 1.00},
		{name: "S23i", used: 99.8, refused: 0.352, merged: Never, most: 37, even: 1.00},
		{name: "S23j", used: 96.8, refused: 0.298, merged: Never, most: 25, even: 1.00},
		{name: "S23k", used: 95.7, refused: 0.043, merged: Never, most: 148, even: 1.00},
		{name: "S23l", used: 99.4, refused: 0.290, merged: Never, most: 7, even: 1.00},
		{name: "S23m", used: 98.0, refused: 0.000, merged: Never, most: 11, even: 1.00},
	}
}
