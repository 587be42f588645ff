package simulate

import (
	"flag"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// renew says to write the table again, after an intended change of the strategy.
var renew = flag.Bool("thresholds", false, "write testdata/thresholds.yaml as measured")

const thresholdsFile = "testdata/thresholds.yaml"

// measured is the result of the strategy in a scenario, over the seeds 1 and 2: shares in percent, from the second
// minute on, and times in seconds, of which infinity means never.
type measured struct {
	Name          string
	Used, Refused float64 // means
	P95           float64 `yaml:",omitempty"` // the longer one; for queues only
	Reaction      float64 `yaml:",omitempty"` // the longer one; zero if the capacity does not drop
	Recovery      float64 `yaml:",omitempty"` // the longer one
	Bans          int     `yaml:",omitempty"` // the sum of both
	Merged        float64 `yaml:",omitempty"` // the longer time until several hosts were paced as one; zero for one host
	Most          int     // sent within 100 ms, the larger one
	Even          float64 `yaml:",omitempty"` // the lower evenness of several hosts' shares; zero for one host
}

// How far a run may fall short of the table. A change of the strategy that matters moves a row by more.
const (
	usedSlack     = 2    // percentage points
	refusedFactor = 1.5  // and
	refusedSlack  = 0.05 // percentage points
	p95Factor     = 1.25
	dynamicSlack  = 10 // seconds
	mostSlack     = 2
	mergedSlack   = 30 // seconds
	evenSlack     = 0.05
	mostRetries   = 3.0 // the retries per URL that failed once: the fourth failure gives up
	leastSuccess  = 90  // percentage of sent requests that must succeed
)

// raced returns the scenarios for the race detector: slow hosts, one of each kind, since requests cost time.
func raced() []string {
	return []string{"S1a", "S2a", "S2d", "S3a", "S5", "S6b", "S11a", "S13a", "S14a", "S15a", "S16a", "S18c"}
}

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

func measure(name string, rs []Result) measured {
	m := measured{Name: name}
	later := func(seconds *float64, d time.Duration) {
		if *seconds = max(*seconds, d.Seconds()); d == Never {
			*seconds = math.Inf(1)
		}
	}
	for _, r := range rs {
		m.Used += 100 * r.Steady.Utilisation() / float64(len(rs))
		m.Refused += 100 * r.Steady.RefusedShare() / float64(len(rs))
		later(&m.Reaction, r.Reaction)
		later(&m.Recovery, r.Recovery)
		later(&m.Merged, r.Merged)
		m.Bans += r.Bans
		m.Most = max(m.Most, r.MaxIn100ms)
		if r.Evenness > 0 && (m.Even == 0 || r.Evenness < m.Even) {
			m.Even = r.Evenness
		}
		if strings.HasPrefix(name, "S4") {
			later(&m.P95, r.P95)
		}
	}
	return m
}

func writeThresholds(t *testing.T, results map[string][]Result) {
	t.Helper()
	var list []yaml.Node
	for _, sc := range Scenarios() {
		m := measure(sc.Name, results[sc.Name])
		for f, digits := range map[*float64]float64{&m.Used: 10, &m.Even: 100, &m.Refused: 1000, &m.P95: 1000, &m.Reaction: 1000, &m.Recovery: 1000, &m.Merged: 1000} {
			*f = math.Round(*f*digits) / digits
		}
		var n yaml.Node
		require.NoError(t, n.Encode(m))
		n.Style = yaml.FlowStyle
		list = append(list, n)
	}
	text, err := yaml.Marshal(list)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(thresholdsFile, text, 0o600))
}

// Every built-in scenario is handled as well as the table says.
func TestThresholds(t *testing.T) {
	results := runs(t)
	if *renew {
		writeThresholds(t, results)
		return
	}
	apart := map[string]bool{}
	for _, sc := range Scenarios() {
		apart[sc.Name] = sc.Apart > 0 && sc.Apart == sc.Hosts
	}
	var table []measured
	text, err := os.ReadFile(thresholdsFile)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &table))
	require.Len(t, table, len(Scenarios()), "a row for every scenario")
	for _, want := range table {
		rs, ok := results[want.Name]
		if !ok {
			require.True(t, racetest.Enabled, want.Name)
			continue
		}
		t.Run(want.Name, func(t *testing.T) {
			want.hold(t, measure(want.Name, rs))
			for _, r := range rs {
				decent(t, r)
				if apart[want.Name] {
					require.Equal(t, Never, r.Merged, "hosts with a limit each are not taken for one")
				}
			}
		})
	}
}

func (m measured) hold(t *testing.T, now measured) {
	t.Helper()
	require.GreaterOrEqual(t, now.Used, m.Used-usedSlack, "percent used")
	require.LessOrEqual(t, now.Refused, refusedFactor*m.Refused+refusedSlack, "percent refused")
	require.LessOrEqual(t, now.P95, p95Factor*m.P95, "p95")
	require.LessOrEqual(t, now.Reaction, m.Reaction+dynamicSlack, "reaction")
	require.LessOrEqual(t, now.Recovery, m.Recovery+dynamicSlack, "recovery")
	require.LessOrEqual(t, now.Bans, m.Bans, "bans")
	require.LessOrEqual(t, now.Most, m.Most+mostSlack, "requests in 100 ms")
	require.LessOrEqual(t, now.Merged, m.Merged+mergedSlack, "until the hosts are paced as one")
	require.GreaterOrEqual(t, now.Even, m.Even-evenSlack, "evenness")
}

// decent checks what holds for every run.
func decent(t *testing.T, r Result) {
	t.Helper()
	all := r.First
	all.add(r.Steady)
	require.Zero(t, r.InsideRetryAfter, "requests inside a Retry-After")
	if all.Failed >= 10 { // with two URLs it is chance
		require.Less(t, r.RetriesPerFailure, mostRetries, "retries per failure")
	}
	require.Greater(t, 100*share(float64(all.Admitted), float64(all.Sent)), float64(leastSuccess), "percent of success")
}
