package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
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
	// Runs are the results per configuration, in the order given, and per seed, from
	// the first on. Those of a comparison that was ended early may lack some.
	Runs [][]Result
}

// Comparison is every scenario under every configuration, once per seed.
type Comparison struct {
	Scenarios []Scenario // the rows
	Configs   []Named    // the columns
	Seeds     int        // runs of each, the seeds counting up; zero means 1
	Seed      uint64     // of the first of them; zero means 1
	// OnRun, if set, is told of every run that is over, by several goroutines at once:
	// how many are, and how many there are in all. Nil means nobody is.
	OnRun func(done, total int)
}

// Compare runs a [Comparison] with the seeds 1 to seeds to its end.
func Compare(scs []Scenario, cfgs []Named, seeds int) ([]Row, error) {
	return Comparison{Scenarios: scs, Configs: cfgs, Seeds: seeds}.Run(context.Background())
}

// job is one run of a comparison, and what came of it.
type job struct {
	row, col int
	seed     uint64
	result   Result
	err      error
	done     bool
}

func (c *Comparison) jobs() []job {
	var jobs []job
	for row := range c.Scenarios {
		for col := range c.Configs {
			for s := range max(c.Seeds, 1) {
				jobs = append(jobs, job{row: row, col: col, seed: max(c.Seed, 1) + uint64(s)})
			}
		}
	}
	return jobs
}

// Run makes the runs on as many goroutines as there are processors and waits for
// them. Rows are in the order of the scenarios. It fails with the first error, by that
// order. When ctx ends, so do the runs under way: the rows then have what was done
// before, and the error is that of ctx. A Comparison may be run any number of times.
func (c Comparison) Run(ctx context.Context) ([]Row, error) {
	jobs := c.jobs()
	var next, done atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(jobs)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				c.do(ctx, &jobs[i])
				if n := done.Add(1); jobs[i].done && c.OnRun != nil {
					c.OnRun(int(n), len(jobs))
				}
			}
		})
	}
	workers.Wait()
	return c.gather(jobs, ctx.Err())
}

func (c *Comparison) do(ctx context.Context, j *job) {
	s := Simulation{Scenario: c.Scenarios[j.row], Config: c.Configs[j.col].Config, Seed: j.seed}
	j.result, j.err = s.RunContext(ctx)
	j.done = j.err == nil
}

// gather makes rows of what was done. ended is why the rest was not.
func (c *Comparison) gather(jobs []job, ended error) ([]Row, error) {
	rows := make([]Row, len(c.Scenarios))
	for i, sc := range c.Scenarios {
		rows[i] = Row{Scenario: sc, Runs: make([][]Result, len(c.Configs))}
	}
	missing := false
	for i := range jobs {
		j := &jobs[i]
		if j.err != nil && !errors.Is(j.err, ended) {
			return nil, fmt.Errorf("simulate %s under %s: %w", c.Scenarios[j.row].Name, c.Configs[j.col].Name, j.err)
		}
		if !j.done {
			missing = true
			continue
		}
		runs := &rows[j.row].Runs[j.col]
		*runs = append(*runs, j.result)
	}
	if missing {
		return rows, ended
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
			_, steady := Cells(runs)
			cells.WriteString("\t" + steady)
		}
		cells.WriteString("\t" + row.Scenario.Doc + "\n")
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = io.WriteString(w, cells.String()) // a strings.Builder takes everything
	_ = w.Flush()
	return b.String()
}

// Cells sums up the runs of one scenario under one configuration as [Table] does, for
// the first minute and for what follows it. Bans and the p95 are told with the latter.
// Both are "-" if there are no runs.
func Cells(runs []Result) (first, steady string) {
	if len(runs) == 0 {
		return "-", "-"
	}
	var search, rest Span
	var bans int
	var p95 time.Duration
	for _, r := range runs {
		search.add(r.First)
		rest.add(r.Steady)
		bans += r.Bans
		p95 = max(p95, r.P95)
	}
	first, steady = shares(search), shares(rest)
	if bans > 0 {
		steady += fmt.Sprintf(" x%.3g", float64(bans)/float64(len(runs)))
	}
	// Below a third of a second a page has waited for nobody: every far host's pages
	// take as long.
	if p95 > time.Second/3 {
		steady += fmt.Sprintf(" @%.2f", p95.Seconds())
	}
	return first, steady
}

// Means are, in the form of [Cells], the means over the rows of the shares of one
// configuration. A host that could be asked a thousand times a second weighs as much
// as one that could be asked once.
func Means(rows []Row, config int) (first, steady string) {
	var sum [4]float64
	var n float64
	for _, row := range rows {
		var search, rest Span
		for _, r := range row.Runs[config] {
			search.add(r.First)
			rest.add(r.Steady)
		}
		if len(row.Runs[config]) == 0 {
			continue
		}
		n++
		for i, v := range []float64{search.Utilisation(), search.RefusedShare(), rest.Utilisation(), rest.RefusedShare()} {
			sum[i] += v
		}
	}
	if n == 0 {
		return "-", "-"
	}
	return percent(sum[0]/n) + "/" + percent(sum[1]/n), percent(sum[2]/n) + "/" + percent(sum[3]/n)
}

// shares is the part of a cell that both have.
func shares(s Span) string {
	text := percent(s.Utilisation()) + "/" + percent(s.RefusedShare())
	if s.Failed > 0 {
		text += "+" + percent(s.FailedShare())
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
