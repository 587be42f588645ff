package main

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// fleet runs `crawl fleet` on the job.
func (f *fleetTest) fleet(args ...string) string {
	f.t.Helper()
	out, err := exec.Command("crawl", append(append([]string{"fleet"}, args...), "--job", "e2e", "--redis", "redis://"+f.redis.Addr)...).CombinedOutput()
	require.NoError(f.t, err, string(out))
	return string(out)
}

// A job that has ended by its bound says so and what to do, and by that it goes on: its processes
// are begun as before, and what was visited is not asked for again.
func TestFleetSet(t *testing.T) {
	t.Parallel()
	f := &fleetTest{t: t, dir: t.TempDir(), redis: redistest.Redis.Start(t), apart: func(int) time.Duration { return 0 }}
	f.serve(testsite.Uniform(2, 40, 0))
	f.args = append([]string{
		"--redis", "redis://" + f.redis.Addr, "--job", "e2e", "-o", f.dir + "/", "-q", "--contact", "a@b.test",
		"--rate", "200", "--max-rate", "200", "--no-sitemaps", "--no-robots", "--max-pages", "30", "--set", "fleet.lease=1s",
	}, f.site.URLs()...)
	both := func() {
		for _, p := range []*fleetProcess{f.start("w1"), f.start("w2")} {
			require.NoError(t, <-p.done, &p.err)
		}
	}
	both()
	require.EqualValues(t, 30, f.site.Report().Total.Requests)
	said := f.fleet("status")
	require.Contains(t, said, "e2e: ended: max_pages, begun ")
	require.Contains(t, said, "to go on: crawl fleet set --job e2e --max-pages N, and begin its processes again")
	require.Equal(t, "e2e: max_pages is 50, was 30\nto go on: begin its processes again, by the same commands\n", f.fleet("set", "--max-pages", "50"))
	both()
	require.EqualValues(t, 50, f.site.Report().Total.Requests)
	f.fleet("set", "--max-pages", "0", "--max-time", "1h")
	both()
	require.EqualValues(t, 80, f.site.Report().Total.Requests)
	require.Zero(t, f.site.Report().Total.Duplicates)
	said = f.fleet("status")
	require.Contains(t, said, "e2e: complete, begun ")
	require.NotContains(t, said, "max_pages")
}

// A process hears while it crawls that the job's time is to be over, or its pages.
func TestFleetSetWhileItCrawls(t *testing.T) {
	t.Parallel()
	f := &fleetTest{t: t, dir: t.TempDir(), redis: redistest.Redis.Start(t), apart: func(int) time.Duration { return 0 }}
	f.serve(testsite.Uniform(2, 200, 0))
	f.args = append([]string{
		"--redis", "redis://" + f.redis.Addr, "--job", "e2e", "-o", f.dir + "/", "-q", "--contact", "a@b.test",
		"--rate", "10", "--max-rate", "10", "--no-sitemaps", "--no-robots", "--set", "fleet.lease=1s",
	}, f.site.URLs()...)
	p := f.start("w1")
	f.served(3)
	out, err := exec.Command("crawl", "fleet", "set", "--max-pages", "5", "--job", "e2e", "--redis", "redis://"+f.redis.Addr).CombinedOutput()
	require.ErrorContains(t, err, "exit status 2")
	require.Contains(t, string(out), "--max-pages: the job e2e has no max_pages")
	f.fleet("set", "--max-time", "2s")
	require.ErrorContains(t, <-p.done, "exit status 10", &p.err)
	require.Contains(t, f.fleet("status"), "e2e: ended: max_time, begun ")
}

// A flag that would have no effect is refused, and nothing is done.
func TestFleetFlagsOfAnother(t *testing.T) {
	for said, args := range map[string][]string{
		"--json is for 'fleet status', and not for 'fleet set'":                      {"set", "--max-pages", "5", "--json"},
		"--json is for 'fleet status', and not for 'fleet drain'":                    {"drain", "--json"},
		"--yes is for 'fleet purge', and not for 'fleet set', which asks nothing":    {"set", "--max-pages", "5", "--yes"},
		"--yes is for 'fleet purge', and not for 'fleet status', which asks nothing": {"status", "--yes"},
	} {
		out, err := exec.Command("crawl", append([]string{"fleet", "--job", "e2e", "--redis", "redis://127.0.0.1:1"}, args...)...).CombinedOutput()
		require.ErrorContains(t, err, "exit status 2")
		require.Contains(t, string(out), said)
	}
}
