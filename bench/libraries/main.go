// Command libraries sets our limiters and policies beside well-known Go libraries and
// prints ratios.
//
// Every case of a group runs in each round, in turn, so that a busy machine slows all of
// them alike; a figure is the best of its rounds, and the ratio is that of the best ones.
// The yardstick of most groups is x/time's Allow, which is what most programs would use.
//
//	go run ./libraries                  # everything, some two minutes
//	go run ./libraries -groups breaker  # one group
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// candidate is one way to do what its group is about.
type candidate struct {
	name string
	ours bool
	goal float64 // most that its ratio may be; zero means that none was set
	run  func(b *testing.B)
}

// group is what is comparable. The first candidate is the yardstick.
type group struct {
	name, what string
	candidates []candidate
}

// result is the best of a candidate's rounds.
type result struct {
	ns     float64
	allocs int64
}

func main() {
	testing.Init()
	rounds := flag.Int("rounds", 5, "how often each candidate runs; the best counts")
	cell := flag.String("time", "200ms", "how long each run takes")
	only := flag.String("groups", "", "names of groups, by comma; empty means all")
	procs := flag.String("procs", "1,2", "values of GOMAXPROCS, by comma")
	flag.Parse()
	if err := flag.Set("test.benchtime", *cell); err != nil {
		fmt.Fprintln(os.Stderr, "libraries: -time:", err)
		os.Exit(2)
	}
	var cpus []int
	for text := range strings.SplitSeq(*procs, ",") {
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "libraries: -procs: %q is no number of processors\n", text)
			os.Exit(2)
		}
		cpus = append(cpus, n)
	}
	wanted := strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	for _, g := range groups() {
		if len(wanted) > 0 && !slices.Contains(wanted, g.name) {
			continue
		}
		fmt.Printf("\n%s: %s\n", g.name, g.what)
		table(g, cpus, *rounds)
	}
}

// table runs a group and prints it.
func table(g group, cpus []int, rounds int) {
	columns := make([][]result, len(cpus))
	for i, n := range cpus {
		was := runtime.GOMAXPROCS(n)
		columns[i] = measure(g.candidates, rounds)
		runtime.GOMAXPROCS(was)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\t")
	for _, n := range cpus {
		fmt.Fprintf(w, "%d procs\tratio\t", n)
	}
	fmt.Fprintln(w, "allocs\tgoal\t")
	for i, c := range g.candidates {
		fmt.Fprintf(w, "%s\t", c.name)
		met := true
		for _, column := range columns {
			ratio := column[i].ns / column[0].ns
			met = met && (c.goal == 0 || ratio <= c.goal)
			fmt.Fprintf(w, "%.1f ns\t%.2f\t", column[i].ns, ratio)
		}
		fmt.Fprintf(w, "%d\t%s\t\n", columns[0][i].allocs, verdict(c.goal, met))
	}
	_ = w.Flush() // standard output: nobody is left to be told
}

func verdict(goal float64, met bool) string {
	switch {
	case goal == 0:
		return ""
	case met:
		return fmt.Sprintf("<= %.2f", goal)
	}
	return fmt.Sprintf("<= %.2f missed", goal)
}

// measure runs the candidates in turn, round after round.
func measure(candidates []candidate, rounds int) []result {
	best := make([]result, len(candidates))
	for range rounds {
		for i, c := range candidates {
			r := testing.Benchmark(c.run)
			ns := float64(r.T.Nanoseconds()) / float64(max(r.N, 1))
			if best[i].ns == 0 || ns < best[i].ns {
				best[i] = result{ns, r.AllocsPerOp()}
			}
		}
	}
	return best
}
