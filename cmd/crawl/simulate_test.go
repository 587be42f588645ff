package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/simulate"
	"github.com/treadlight/crawl/internal/clock"

	lab "github.com/treadlight/crawl/internal/lab/simulate"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// patient is a host of the tests' own, which admits everything.
type patient struct{}

func (patient) Serve(clock.Instant) lab.Answer { return lab.Answer{Status: http.StatusOK} }

func (patient) Next(now clock.Instant) clock.Instant { return now }

func patientHost(name string) lab.Scenario {
	return lab.Scenario{
		Name: name, Doc: "admits everything, " + name, Duration: 2 * time.Minute,
		Capacity: func(time.Duration) float64 { return 10 },
		New:      func(*rand.Rand) lab.Server { return patient{} },
	}
}

// runSimulate runs the verb with two hosts of the tests' own.
func runSimulate(ctx context.Context, t *testing.T, args ...string) (out, errs string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := simulateAmong(cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Env: nil}, []lab.Scenario{patientHost("mine"), patientHost("yours")})
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
	require.Equal(t, cli.CodeUsage, cli.CodeOf(err))
}

// Interrupted before anything was done, both ways to run end alike: what there is, and the exit code.
func TestSimulateInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, errs, err := runSimulate(ctx, t)
	require.Equal(t, cli.CodeInterrupted, cli.CodeOf(err))
	require.Empty(t, out)
	require.Contains(t, errs, "interrupted: 0 of 6 runs done\n")

	out, errs, err = runSimulate(ctx, t, "mine", "--trace")
	require.Equal(t, cli.CodeInterrupted, cli.CodeOf(err))
	require.Equal(t, "mine under steer, seed 1: admits everything, mine\n\n", out)
	require.Equal(t, "interrupted: the run was 0.0s long and would have been 2m00s\n", errs)

	out, _, err = runSimulate(ctx, t, "mine", "--trace", "--format", "json")
	require.Equal(t, cli.CodeInterrupted, cli.CodeOf(err))
	var doc struct {
		Interrupted bool
		Result      *struct{}
		Moments     []struct{}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.True(t, doc.Interrupted)
	require.Nil(t, doc.Result)
	require.NotNil(t, doc.Moments, "null would be no list")
}

// The default comes first, the bound last, and all can be run.
func TestStrategiesThatCanBeNamed(t *testing.T) {
	names := simulate.Strategies()
	require.Equal(t, ratelimit.DefaultConfig().Strategy, names[0])
	require.Equal(t, lab.Oracle, names[len(names)-1])
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(names))), len(names))
	out, _, err := runSimulate(t.Context(), t, "mine", "--max-rate", "20", "--strategy", strings.Join(names, ","))
	require.NoError(t, err)
	for _, name := range names {
		require.Contains(t, out, name+" 1st min")
	}
}
