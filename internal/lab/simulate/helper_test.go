package simulate

import (
	"context"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// Run is a run that nothing watches.
func Run(sc Scenario, cfg ratelimit.Config, seed uint64) (Result, error) {
	return Simulation{Scenario: sc, Config: cfg, Seed: seed}.Run(context.Background())
}

// flat is a capacity that does not change.
func flat(rps float64) func(time.Duration) float64 { return always(rps).at }

// nginx is a distant host with a bucket that has no room for a burst.
func nginx(name string, rps float64) Scenario {
	return (&spec{Name: name, Limit: limit{Kind: "leaky", Rate: always(rps)}}).scenario()
}

// compare is a comparison with the seeds 1 to seeds.
func compare(scs []Scenario, cfgs []Named, seeds int) ([]Row, error) {
	return Comparison{Scenarios: scs, Configs: cfgs, Seeds: seeds}.Run(context.Background())
}

// table is the cells of rows after the first minute as plain text.
func table(rows []Row, cfgs []Named) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := []string{"scenario"}
	for _, c := range cfgs {
		line = append(line, c.Name)
	}
	_, _ = w.Write([]byte(strings.Join(line, "\t") + "\t\n")) // a strings.Builder takes everything
	for _, row := range rows {
		line = []string{row.Scenario.Name}
		for _, runs := range row.Runs {
			_, steady := Cells(runs)
			line = append(line, steady)
		}
		_, _ = w.Write([]byte(strings.Join(append(line, row.Scenario.Doc), "\t") + "\n"))
	}
	_ = w.Flush()
	return b.String()
}
