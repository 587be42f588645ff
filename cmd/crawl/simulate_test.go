package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/lab/simulate"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// patient is a host of the tests' own, which admits everything.
type patient struct{}

func (patient) Serve(clock.Instant) simulate.Answer  { return simulate.Answer{Status: http.StatusOK} }
func (patient) Next(now clock.Instant) clock.Instant { return now }

func patientHost(name string) simulate.Scenario {
	return simulate.Scenario{
		Name: name, Doc: "admits everything, " + name, Duration: 2 * time.Minute,
		Capacity: func(time.Duration) float64 { return 10 },
		New:      func(*rand.Rand) simulate.Server { return patient{} },
	}
}

// runSimulate runs the verb with two hosts of the tests' own.
func runSimulate(ctx context.Context, t *testing.T, args ...string) (out, errs string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := simulateCommand(streams{strings.NewReader(""), &stdout, &stderr, nil}, []simulate.Scenario{patientHost("mine"), patientHost("yours")})
	cmd.SetArgs(append([]string{}, args...)) // of nil it would take those of the test's own process
	cmd.SetErr(io.Discard)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

// Every given scenario is in the list, the table and the completion.
func TestScenariosOfOthers(t *testing.T) {
	out, _, err := runSimulate(t.Context(), t, "--list")
	require.NoError(t, err)
	require.Equal(t, ""+
		"scenario  runs for  the host\n"+
		"mine         2m00s  admits everything, mine\n"+
		"yours        2m00s  admits everything, yours\n", out)
	out, errs, err := runSimulate(t.Context(), t, "--strategy", "oracle", "--max-rate", "10", "--seeds", "2")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^mine +100/0 +100/0 +admits everything, mine$`, out)
	require.Regexp(t, `(?m)^mean +100/0 +100/0 `, out)
	require.Regexp(t, `^4 runs, 8m00s at the hosts and 4,80\d requests, in `, errs)
	_, _, err = runSimulate(t.Context(), t, "your")
	require.ErrorContains(t, err, `no scenario matches "your"; near it: yours; --list has all`)
	require.Equal(t, exitUsage, code(err))
}

// Interrupted before anything was done, both ways to run end alike: what there is, and
// the exit code.
func TestSimulateInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, errs, err := runSimulate(ctx, t)
	require.Equal(t, exitInterrupted, code(err))
	require.Empty(t, out)
	require.Contains(t, errs, "interrupted: 0 of 6 runs done\n")

	out, errs, err = runSimulate(ctx, t, "mine", "--trace")
	require.Equal(t, exitInterrupted, code(err))
	require.Equal(t, "mine under steer, seed 1: admits everything, mine\n\n", out)
	require.Equal(t, "interrupted: the run was 0.0s long and would have been 2m00s\n", errs)

	out, _, err = runSimulate(ctx, t, "mine", "--trace", "--format", "json")
	require.Equal(t, exitInterrupted, code(err))
	var doc traceJSON
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.True(t, doc.Interrupted)
	require.Nil(t, doc.Result)
	require.NotNil(t, doc.Moments, "null would be no list")
}

// A comparison that was stopped shows the rows in which there is something.
func TestTableOfWhatIsDone(t *testing.T) {
	done := simulate.Result{Steady: simulate.Span{Sent: 10, Admitted: 10, Capacity: 10}, First: simulate.Span{Sent: 4, Admitted: 2, Refused: 2, Capacity: 4}}
	rows := []simulate.Row{
		{Scenario: patientHost("mine"), Runs: [][]simulate.Result{{done}, nil}},
		{Scenario: patientHost("yours"), Runs: [][]simulate.Result{nil, nil}},
	}
	cfgs := simulate.Strategies("steer", "oracle")
	var b bytes.Buffer
	o := simulation{streams: streams{out: &b}}
	require.NoError(t, o.writeTable(rows, cfgs, true))
	table, _, _ := strings.Cut(b.String(), "\n\n")
	require.Equal(t, ""+
		"scenario  steer 1st min  then   oracle 1st min  then  the host\n"+
		"mine      50/50          100/0  -               -     admits everything, mine", table)
	b.Reset()
	require.NoError(t, o.writeTableJSON(rows, cfgs, true))
	var doc tableJSON
	require.NoError(t, json.Unmarshal(b.Bytes(), &doc))
	require.True(t, doc.Interrupted)
	require.Len(t, doc.Scenarios, 2)
	require.Len(t, doc.Scenarios[0].Runs, 1)
	require.Empty(t, doc.Scenarios[1].Runs)
}

// One line twice a second at most, whoever calls.
func TestRunsAreShownNowAndThen(t *testing.T) {
	var b bytes.Buffer
	term := newTerminal(&b, nil, "tty")
	clk := clocktest.NewFake(time.Unix(0, 0))
	show := showRuns(term, clk)
	show(1, 2000)
	require.Empty(t, b.String())
	clk.Advance(statusEvery)
	show(1200, 2000)
	show(1201, 2000)
	require.Equal(t, clearLine+"simulating  1,200 of 2,000 runs", b.String())
	require.Nil(t, showRuns(newTerminal(&b, nil, "auto"), clk), "nobody to show it to")
}

// second is one second of a made-up run.
func second(i int, capacity, rate float64, refused int, state breaker.State) simulate.Second {
	return simulate.Second{
		At: time.Duration(i) * time.Second, Capacity: capacity,
		Span: simulate.Span{Sent: 10, Admitted: 10 - refused, Refused: refused, Capacity: capacity},
		Plan: ratelimit.DomainSnapshot{FillRate: rate, State: state},
	}
}

// ends are the ends of the moments into which seconds are thinned.
func ends(every time.Duration, seconds []simulate.Second) []int {
	var to []int
	t := thinner{every: every, tell: func(m moment) { to = append(to, int(m.to/time.Second)) }}
	for i := range seconds {
		t.add(&seconds[i])
	}
	t.flush()
	return to
}

func TestTraceTellsWhatChanges(t *testing.T) {
	const closed, open = breaker.Closed, breaker.Open
	steady := func(i int) simulate.Second { return second(i, 10, 10, 0, closed) }
	for name, c := range map[string]struct {
		at    func(i int) simulate.Second
		every time.Duration
		want  []int
	}{
		"nothing":    {steady, 0, []int{1, 61, 121, 150}},
		"every 50 s": {steady, 50 * time.Second, []int{50, 100, 150}},
		"the rate, by a fifth and by more": {func(i int) simulate.Second {
			switch {
			case i < 10:
				return steady(i)
			case i < 20:
				return second(i, 10, 12, 0, closed)
			}
			return second(i, 10, 12.1, 0, closed)
		}, 0, []int{1, 21, 81, 141, 150}},
		"the circuit": {func(i int) simulate.Second {
			if i == 20 {
				return second(i, 10, 10, 0, open)
			}
			return steady(i)
		}, 0, []int{1, 21, 22, 82, 142, 150}},
		"what holds the next request": {func(i int) simulate.Second {
			s := steady(i)
			if i >= 70 {
				s.Plan.LimitedBy = ratelimit.LimitRetryAfter
			}
			return s
		}, 0, []int{1, 61, 71, 131, 150}},
		"trouble within a short line waits for its end": {func(i int) simulate.Second {
			if i == 62 {
				return second(i, 10, 10, 1, closed)
			}
			return steady(i)
		}, 0, []int{1, 61, 66, 126, 150}},
		"the host, at once at any time": {func(i int) simulate.Second {
			if i == 100 || i == 101 {
				return second(i, float64(i), 10, 0, closed)
			}
			return steady(i)
		}, 0, []int{1, 61, 101, 102, 103, 150}},
		"refusals begin and go on": {func(i int) simulate.Second {
			return second(i, 10, 10, min(1, i/10), closed)
		}, 0, []int{1, 11, 71, 131, 150}},
		"a swing after the search": {func(i int) simulate.Second {
			if i < 100 {
				return steady(i)
			}
			return second(i, 10, 100+float64(i%2)*900, 0, closed)
		}, 0, []int{1, 61, 101, 106, 111, 116, 121, 126, 131, 136, 141, 146, 150}},
	} {
		var seconds []simulate.Second
		for i := range 150 {
			seconds = append(seconds, c.at(i))
		}
		require.Equal(t, c.want, ends(c.every, seconds), name)
	}
}

// However a run is thinned, no second is lost and none told twice.
func TestTraceLosesNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, every := range []time.Duration{0, time.Second, 7 * time.Second} {
		var told []moment
		lines := thinner{every: every, tell: func(m moment) { told = append(told, m) }}
		var want, got simulate.Span
		const length = 1000
		for i := range length {
			s := second(i, float64(1+rnd.IntN(2)*rnd.IntN(2)), math.Exp(rnd.NormFloat64()/9), rnd.IntN(2)*rnd.IntN(3), breaker.State(rnd.IntN(20)/19))
			want.Admitted += s.Admitted
			want.Refused += s.Refused
			lines.add(&s)
		}
		lines.flush()
		lines.flush() // tells nothing twice
		at := time.Duration(0)
		for _, m := range told {
			require.Equal(t, at, m.from)
			require.Greater(t, m.to, m.from)
			at = m.to
			got.Admitted += m.Admitted
			got.Refused += m.Refused
		}
		require.Equal(t, length*time.Second, at)
		require.Equal(t, want, got)
		if every == time.Second {
			require.Len(t, told, length)
		}
	}
}

func TestNearScenarios(t *testing.T) {
	o := simulation{all: simulate.Scenarios()}
	for pattern, want := range map[string]string{
		"S1":      "; near it: S1a, S1b, S1c, S1d, S1e", // five are enough
		"s7":      "; near it: S7, S7b, S7c, S7d",
		"S7z":     "; near it: S7, S7b, S7c, S7d",
		"nowhere": "",
	} {
		require.Equal(t, want, o.nearScenarios(pattern), pattern)
	}
}

// The default comes first, the bound last, and all can be run.
func TestStrategiesThatCanBeNamed(t *testing.T) {
	names := strategies()
	require.Equal(t, ratelimit.DefaultConfig().Strategy, names[0])
	require.Equal(t, simulate.Oracle, names[len(names)-1])
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(names))), len(names))
	out, _, err := runSimulate(t.Context(), t, "mine", "--max-rate", "20", "--strategy", strings.Join(names, ","))
	require.NoError(t, err)
	for _, name := range names {
		require.Contains(t, out, name+" 1st min")
	}
}

func TestPerSecond(t *testing.T) {
	for rps, want := range map[float64]string{0: "0", 0.25: "0.25", 9.994: "9.99", 9.996: "10.0", 99.96: "100", 12.34: "12.3", 1234.5: "1234"} {
		require.Equal(t, want, perSecond(rps))
	}
}
