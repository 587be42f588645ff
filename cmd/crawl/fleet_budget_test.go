package main

import (
	"bytes"
	"flag"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/redistest"
)

var fleetPages = flag.Int("fleet.pages", 0, "pages of TestFleetBudgets, which then asks that nine tenths of the plan are used; 0 = 90 pages, and no speed is asked for")

// arrivals is how many requests had come, and when.
type arrivals struct {
	at []time.Duration
	n  []int64
}

// most is how many more came in any span than rate brings in it.
func (a *arrivals) most(rate float64) (worst float64) {
	low := 0.0
	for i := range a.at {
		level := float64(a.n[i]) - rate*a.at[i].Seconds()
		low = min(low, level)
		worst = max(worst, level-low)
	}
	return worst
}

// What bounds a crawl bounds all of its processes together, by the server's own count: the
// rate over all hosts, what is in flight, and the pages, though one of them is killed and comes back.
func TestFleetBudgets(t *testing.T) {
	t.Parallel()
	plan, hosts := 90, 4
	if *fleetPages > 0 {
		plan, hosts = *fleetPages, *fleetPages/20
	}
	const rate, flight = 30, 3
	f := newFleet(t, hosts)
	f.args = append([]string{
		"--global-rate", strconv.Itoa(rate), "--set", "ratelimit.global_concurrency=" + strconv.Itoa(flight), "--max-pages", strconv.Itoa(plan),
	}, f.args...)
	var seen arrivals
	begun := time.Now()
	look := func() int64 {
		n := f.site.Report().Total.Requests
		seen.at, seen.n = append(seen.at, time.Since(begun)), append(seen.n, n)
		return n
	}
	until := func(n int) {
		for deadline := time.Now().Add(redistest.Patience); look() < int64(n); time.Sleep(10 * time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "%d requests never come", n)
		}
	}
	a, b := f.start(""), f.start("")
	until(plan / 4)
	f.kill(a)
	until(plan / 2)
	a = f.start(a.name)
	status, err := exec.Command("crawl", "fleet", "status", "--job", "e2e", "--redis", "redis://"+f.redis.Addr).Output()
	require.NoError(t, err)
	for _, want := range []string{" of " + strconv.Itoa(plan) + "\n", " a second of 30\n", "ratelimit.global_concurrency: "} {
		require.Contains(t, string(status), want)
	}
	other := exec.Command("crawl", append([]string{"--set", "fleet.worker=other", "--global-rate", "31"}, f.args[2:]...)...)
	var said bytes.Buffer
	other.Stderr = &said
	require.Error(t, other.Run())
	require.Contains(t, said.String(), "ratelimit.global_rps: 30 there, 31 here")
	for _, p := range []*fleetProcess{a, b} {
		for deadline := time.Now().Add(3 * redistest.Patience); len(p.done) == 0; time.Sleep(10 * time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "%s does not end", p.name)
			look()
		}
		require.NoError(t, <-p.done, "%s: %s", p.name, &p.err)
	}

	report := f.site.Report().Total
	pages := report.Distinct + report.Duplicates
	lost := 2*(plan/64+1) + flight
	t.Logf("%d requests in %v, at most %.1f more in any span than %d/s; %d of %d pages, %d of them twice",
		report.Requests, (seen.at[len(seen.at)-1] - seen.at[slices.IndexFunc(seen.n, func(n int64) bool { return n > 0 })]).Round(time.Millisecond),
		seen.most(rate), rate, pages, plan, report.Duplicates)
	require.LessOrEqual(t, pages, int64(plan))
	require.GreaterOrEqual(t, pages, int64(plan-lost), "what a process that is killed takes with it")
	// A quarter of a second at once, and what is up to half a second old; beside that what was on
	// its way for up to a second, on a machine that does much else.
	require.LessOrEqual(t, seen.most(rate), float64(rate)*(0.75+1)+1)
	st := f.status()
	require.EqualValues(t, plan, st.Budgets[0].Used)
	if *fleetPages > 0 {
		first, last := seen.at[slices.IndexFunc(seen.n, func(n int64) bool { return n > 0 })], seen.at[slices.Index(seen.n, report.Requests)]
		require.GreaterOrEqual(t, float64(report.Requests), 0.9*rate*(last-first).Seconds())
	}
}
