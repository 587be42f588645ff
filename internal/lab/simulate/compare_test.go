package simulate

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

// steadyHost admits everything in short runs with few requests.
func steadyHost(name string) Scenario {
	sc := mine(name)
	sc.Duration, sc.MaxRPS = 2*time.Minute, 10
	return sc
}

func TestComparisonTellsOfEveryRun(t *testing.T) {
	var mu sync.Mutex
	var told []int
	_, err := Comparison{
		Scenarios: []Scenario{steadyHost("A"), steadyHost("B")}, Configs: Strategies(aimd, Oracle), Seeds: 2,
		OnRun: func(done, total int) {
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, 8, total)
			told = append(told, done)
		},
	}.Run(t.Context())
	require.NoError(t, err)
	slices.Sort(told)
	require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8}, told)
}

// tripwire cancels a context at the first request.
type tripwire struct {
	Server
	end func()
}

func (s tripwire) Serve(now clock.Instant) Answer {
	s.end()
	return s.Server.Serve(now)
}

// The end of the context ends the current run, and the rows have the runs before it.
func TestComparisonEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var before sync.WaitGroup
	before.Add(2)
	last := steadyHost("last")
	last.New = func(rnd *rand.Rand) Server {
		before.Wait() // runs of other goroutines
		return tripwire{&pages{rnd: rnd}, cancel}
	}
	never := steadyHost("never")
	rows, err := Comparison{
		Scenarios: []Scenario{steadyHost("A"), last, never}, Configs: Strategies(aimd), Seeds: 2,
		OnRun: func(int, int) { before.Done() },
	}.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, rows, 3)
	require.Len(t, rows[0].Runs[0], 2)
	require.Empty(t, rows[1].Runs[0])
	require.Empty(t, rows[2].Runs[0])
	first, steady := Cells(rows[1].Runs[0])
	require.Equal(t, "- -", first+" "+steady)
}

// No run begins after the context has ended.
func TestComparisonBeginsNothingAfterItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sc := steadyHost("A")
	sc.New = func(*rand.Rand) Server {
		t.Error("a server was made")
		return &pages{rnd: source()}
	}
	rows, err := Comparison{Scenarios: []Scenario{sc}, Configs: Strategies(aimd)}.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, rows[0].Runs[0])
}

// A context that ends after all runs changes nothing.
func TestComparisonThatWasDoneIsWhole(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	rows, err := Comparison{
		Scenarios: []Scenario{steadyHost("A")}, Configs: Strategies(aimd),
		OnRun: func(int, int) { cancel() },
	}.Run(ctx)
	require.NoError(t, err)
	require.Len(t, rows[0].Runs[0], 1)
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var seconds int
	r, err := Simulation{
		Scenario: steadyHost("A"), Config: steady(10), Seed: 1,
		OnSecond: func(Second) {
			if seconds++; seconds == 30 {
				cancel()
			}
		},
	}.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, r)
	require.LessOrEqual(t, seconds, 31, "it is noticed within a second of the run")
}

func TestCellsAndMeans(t *testing.T) {
	run := func(first, steady Span) Result { return Result{First: first, Steady: steady} }
	quick := run(Span{Sent: 40, Admitted: 30, Refused: 10, Capacity: 60}, Span{Sent: 100, Admitted: 90, Refused: 2, Failed: 8, Capacity: 100})
	slow := run(Span{Sent: 10, Admitted: 10, Capacity: 10}, Span{Sent: 1, Admitted: 0, Refused: 1, Capacity: 1})
	first, steady := Cells([]Result{quick, quick})
	require.Equal(t, "50/25", first)
	require.Equal(t, "90/2.0+8.0", steady)
	rows := []Row{{Runs: [][]Result{{quick, quick}, nil}}, {Runs: [][]Result{{slow}, nil}}, {Runs: [][]Result{nil, nil}}}
	first, steady = Means(rows, 0)
	require.Equal(t, "75/12", first, "the mean of hosts, however much each was asked for")
	require.Equal(t, "45/51", steady)
	first, steady = Means(rows, 1)
	require.Equal(t, "- -", first+" "+steady)
}
