package simulate

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tableFlags choose what TestTable runs. Without any it runs a few short scenarios.
type tableFlags struct {
	strategies, scenarios string
	seeds, random         int
	dynamics              bool
}

// flags are the test binary's, as the testing package's own are.
var flags = func() *tableFlags {
	f := &tableFlags{}
	flag.StringVar(&f.strategies, "strategies", "aimd,oracle", "columns of the table")
	flag.StringVar(&f.scenarios, "scenarios", "", "patterns of its rows; none: a few, shortened")
	flag.IntVar(&f.seeds, "seeds", 1, "runs of each")
	flag.IntVar(&f.random, "random", 0, "rows drawn by Random")
	flag.BoolVar(&f.dynamics, "dynamics", false, "show the first minute and the dynamics as well")
	return f
}()

func (f *tableFlags) rows(t *testing.T) []Scenario {
	t.Helper()
	var scs []Scenario
	for pattern := range strings.SplitSeq(f.scenarios, ",") {
		if pattern == "" {
			continue
		}
		found, err := Select(Scenarios(), pattern)
		require.NoError(t, err)
		scs = append(scs, found...)
	}
	for seed := range f.random {
		scs = append(scs, Random(uint64(seed)+1))
	}
	if len(scs) > 0 {
		return scs
	}
	for _, name := range []string{"S1a", "S2d", "S7", "S13a"} {
		found, err := Select(Scenarios(), name)
		require.NoError(t, err)
		found[0].Duration = 7 * time.Minute
		scs = append(scs, found...)
	}
	return scs
}

func TestTable(t *testing.T) {
	scs, cols := flags.rows(t), Strategies(strings.Split(flags.strategies, ",")...)
	begin := time.Now()
	rows, err := compare(scs, cols, flags.seeds)
	require.NoError(t, err)
	var sent int
	for _, row := range rows {
		for i, runs := range row.Runs {
			for _, r := range runs {
				sent += r.First.Sent + r.Steady.Sent
				require.Zero(t, r.InsideRetryAfter, "%s under %s, seed %d", r.Scenario, r.Strategy, r.Seed)
				require.Positive(t, r.First.Sent, "%s under %s, seed %d", r.Scenario, r.Strategy, r.Seed)
				if flags.dynamics {
					t.Logf("%s %s seed %d: %v", row.Scenario.Name, cols[i].Name, r.Seed, r)
				}
			}
		}
	}
	t.Logf("%d requests in %v\n%s", sent, time.Since(begin).Round(time.Millisecond), table(rows, cols))
}
