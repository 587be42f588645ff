//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

// Interrupted before anything is done, both ways to run end alike, with what there is and the exit code.
func TestSimulateInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	simulated := func(args ...string) (out, errs string) {
		var stdout, stderr bytes.Buffer
		code := run(ctx, append([]string{"simulate", "S1a"}, args...), cli.Streams{Out: &stdout, Err: &stderr})
		require.Equal(t, cli.CodeInterrupted, code)
		return stdout.String(), stderr.String()
	}
	out, errs := simulated()
	require.Empty(t, out)
	require.Contains(t, errs, "interrupted: 0 of 3 runs done\n")
	out, errs = simulated("--trace")
	require.Equal(t, "S1a under steer, seed 1: nginx 10/s, burst 20, 429\n\n", out)
	require.Contains(t, errs, "interrupted: the run was 0.0s long and would have been 15m00s\n")
	out, _ = simulated("--trace", "--format", "json")
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
