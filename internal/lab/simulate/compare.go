package simulate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// Named is a configuration and the name of its column.
type Named struct {
	Name   string
	Config ratelimit.Config
}

// Strategies returns the configurations under which the named strategies are compared. [Oracle] may be one of the
// names.
func Strategies(names ...string) []Named {
	named := make([]Named, len(names))
	for i, name := range names {
		named[i] = Named{Name: name, Config: Config(name)}
	}
	return named
}

// Row is the results of one scenario under every configuration.
type Row struct {
	Scenario Scenario
	// Runs are the results, per configuration in the given order, and per seed from the first on. If the comparison was
	// ended early, some may be missing.
	Runs [][]Result
}

// Comparison is every scenario under every configuration, once per seed.
type Comparison struct {
	Scenarios []Scenario // the rows
	Configs   []Named    // the columns
	Seeds     int        // runs of each, with one seed after another; zero means 1
	Seed      uint64     // the first seed; zero means 1
	// OnRun is called after every run, by several goroutines at once, with how many runs are done and how many there
	// are. Nil means that nothing is called.
	OnRun func(done, total int)
}

// Run makes the runs on as many goroutines as there are processors, and waits for them. Rows are in the order of the
// scenarios. It fails with the first error in that order. When ctx ends, so do the runs in progress: the rows then have
// the runs that were done, and the error is that of ctx.
func (c Comparison) Run(ctx context.Context) ([]Row, error) {
	seeds, each := max(c.Seeds, 1), len(c.Configs)*max(c.Seeds, 1)
	total := len(c.Scenarios) * each
	results, errs := make([]Result, total), make([]error, total)
	var done atomic.Int64
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range total {
		g.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] != nil {
				return nil
			}
			s := Simulation{Scenario: c.Scenarios[i/each], Config: c.Configs[i%each/seeds].Config, Seed: max(c.Seed, 1) + uint64(i%seeds)}
			results[i], errs[i] = s.Run(ctx)
			if n := done.Add(1); errs[i] == nil && c.OnRun != nil {
				c.OnRun(int(n), total)
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs, in order
	rows := make([]Row, len(c.Scenarios))
	for i, sc := range c.Scenarios {
		rows[i] = Row{Scenario: sc, Runs: make([][]Result, len(c.Configs))}
	}
	var ended error
	for i, err := range errs {
		runs := &rows[i/each].Runs[i%each/seeds]
		switch {
		case err == nil:
			*runs = append(*runs, results[i])
		case errors.Is(err, ctx.Err()):
			ended = err
		default:
			return nil, fmt.Errorf("simulate %s under %s: %w", c.Scenarios[i/each].Name, c.Configs[i%each/seeds].Name, err)
		}
	}
	return rows, ended
}

// Cells sums up the runs of one scenario under one configuration, for the first minute and for the rest. Each has the
// utilisation and the refused share in percent, and after a plus the share that failed. The second also has bans per
// run after an x, and the p95 in seconds after an @. Both are "-" if there are no runs.
func Cells(runs []Result) (first, steady string) {
	if len(runs) == 0 {
		return "-", "-"
	}
	var bans int
	var p95 time.Duration
	for _, r := range runs {
		bans += r.Bans
		p95 = max(p95, r.P95)
	}
	search, rest := sums(runs)
	first, steady = shares(search), shares(rest)
	if bans > 0 {
		steady += fmt.Sprintf(" x%.3g", float64(bans)/float64(len(runs)))
	}
	// Below a third of a second a page has not waited: the pages of every distant host take as long.
	if p95 > time.Second/3 {
		steady += fmt.Sprintf(" @%.2f", p95.Seconds())
	}
	return first, steady
}

func sums(runs []Result) (first, steady Span) {
	for _, r := range runs {
		first.add(r.First)
		steady.add(r.Steady)
	}
	return first, steady
}

// Means returns, in the form of [Cells], the means over the rows of the shares of one configuration. Every host has the
// same weight.
func Means(rows []Row, config int) (first, steady string) {
	var sum [4]float64
	var n float64
	for _, row := range rows {
		if len(row.Runs[config]) == 0 {
			continue
		}
		n++
		search, rest := sums(row.Runs[config])
		for i, v := range []float64{search.Utilisation(), search.RefusedShare(), rest.Utilisation(), rest.RefusedShare()} {
			sum[i] += v
		}
	}
	if n == 0 {
		return "-", "-"
	}
	return percent(sum[0]/n) + "/" + percent(sum[1]/n), percent(sum[2]/n) + "/" + percent(sum[3]/n)
}

func shares(s Span) string {
	text := percent(s.Utilisation()) + "/" + percent(s.RefusedShare())
	if s.Failed > 0 {
		text += "+" + percent(s.FailedShare())
	}
	return text
}

// percent returns a share in percent, with two digits if it is small and without a fraction if it is large.
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
