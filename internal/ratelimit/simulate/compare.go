package simulate

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// Named is a configuration with the name of its column.
type Named struct {
	Name   string
	Config ratelimit.Config
}

// Strategies are the configurations under which the named strategies are compared;
// [Clairvoyant] may be one of them.
func Strategies(names ...string) []Named {
	named := make([]Named, len(names))
	for i, name := range names {
		named[i] = Named{Name: name, Config: Config(name)}
	}
	return named
}

// Row is a scenario under every configuration.
type Row struct {
	Scenario Scenario
	Runs     [][]Result // per configuration, in the order given, and per seed, from 1 on
}

// Compare runs every scenario under every configuration with the seeds 1 to seeds, at
// least one, on as many goroutines as there are processors; it waits for them. Rows
// are in the order of scs. It fails with the first error, by that order.
func Compare(scs []Scenario, cfgs []Named, seeds int) ([]Row, error) {
	seeds = max(seeds, 1)
	rows := make([]Row, len(scs))
	type job struct{ row, col, seed int }
	var jobs []job
	for i, sc := range scs {
		rows[i] = Row{Scenario: sc, Runs: make([][]Result, len(cfgs))}
		for c := range cfgs {
			rows[i].Runs[c] = make([]Result, seeds)
			for s := range seeds {
				jobs = append(jobs, job{i, c, s})
			}
		}
	}
	errs := make([]error, len(jobs))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		workers.Go(func() {
			for i := range next {
				j := jobs[i]
				rows[j.row].Runs[j.col][j.seed], errs[i] = Run(scs[j.row], cfgs[j.col].Config, uint64(j.seed)+1)
			}
		})
	}
	for i := range jobs {
		next <- i
	}
	close(next)
	workers.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		j := jobs[i]
		return nil, fmt.Errorf("simulate %s under %s: %w", scs[j.row].Name, cfgs[j.col].Name, errs[i])
	}
	return rows, nil
}

// Table shows rows as plain text: for each configuration the utilisation and the
// share refused, in percent, from the second minute on, over all seeds. What failed
// comes after a plus, bans after an x. A queue, which refuses nothing, shows the p95
// in seconds after an @.
func Table(rows []Row, cfgs []Named) string {
	var b, cells strings.Builder
	cells.WriteString("scenario")
	for _, c := range cfgs {
		cells.WriteString("\t" + c.Name)
	}
	cells.WriteString("\t\n")
	for _, row := range rows {
		cells.WriteString(row.Scenario.Name)
		for _, runs := range row.Runs {
			cells.WriteString("\t" + cell(runs))
		}
		cells.WriteString("\t" + row.Scenario.Doc + "\n")
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = io.WriteString(w, cells.String()) // a strings.Builder takes everything
	_ = w.Flush()
	return b.String()
}

// cell sums up the runs of one scenario under one configuration.
func cell(runs []Result) string {
	var all Span
	var bans int
	var p95 time.Duration
	for _, r := range runs {
		all.add(r.Steady)
		bans += r.Bans
		p95 = max(p95, r.P95)
	}
	text := percent(all.Utilisation()) + "/" + percent(all.RefusedShare())
	if all.Failed > 0 {
		text += "+" + percent(all.FailedShare())
	}
	if bans > 0 {
		text += fmt.Sprintf(" x%.3g", float64(bans)/float64(len(runs)))
	}
	// Below a third of a second a page has waited for nobody: every far host's pages
	// take as long.
	if p95 > time.Second/3 {
		text += fmt.Sprintf(" @%.2f", p95.Seconds())
	}
	return text
}

// percent keeps two digits of what is small and no fraction of what is not.
func percent(share float64) string {
	switch p := 100 * share; {
	case p == 0:
		return "0"
	case p < 1:
		return strings.TrimPrefix(fmt.Sprintf("%.2f", p), "0")
	case p < 10:
		return fmt.Sprintf("%.1f", p)
	default:
		return fmt.Sprintf("%.0f", p)
	}
}
