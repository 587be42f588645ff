//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

var soak = flag.Duration("soak", 20*time.Second, "how long TestSoak crawls; from half an hour on it says whether memory stays flat")

// soakHosts has a hundred hosts with whatever goes wrong at hosts. Each has more pages than a request per second reads.
const soakHosts = `
hosts:
  - {name: well, count: 40, pages: %[1]d, redirects: 20, missing: 20, media: 20, cross_links: 2, host_links: 1, latency: {typical: 30ms, dist: lognormal, spread: 0.4}}
  - {name: slow, count: 10, pages: %[1]d, latency: {typical: 800ms, dist: lognormal, spread: 0.5}}
  - {name: told, count: 15, pages: %[1]d, limits: [{kind: leaky-bucket, rate: 0.7, burst: 3}], refusal: {status: 429, retry_after: seconds, wait: 3s}}
  - {name: silent, count: 10, pages: %[1]d, limits: [{kind: fixed-window, requests: 20, window: 30s}], refusal: {status: 503}}
  - {name: banning, count: 5, pages: %[1]d, limits: [{kind: leaky-bucket, rate: 0.7, burst: 3}], ban: {after: 3, within: 10s, for: 20s}}
  - {name: flaky, count: 10, pages: %[1]d, flaky: {probability: 0.1, kinds: [500, 502, 503, 504, reset]}}
  - {name: away, count: 10, pages: %[1]d, outages: [%[2]s]}
`

// sampled is what one look at a process found.
type sampled struct{ memory, goroutines, files float64 }

// look returns the resident memory of a process in MB, its goroutines and its open files; false if the process does not
// listen yet or any more.
func look(t *testing.T, pid int, metrics string) (s sampled, listens bool) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	files, failed := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil || failed != nil {
		return s, false
	}
	resp, err := http.Get(metrics) // last, so that the process lived when it was looked at
	if err != nil {
		return s, false
	}
	defer resp.Body.Close()
	number := func(pattern, text string) float64 {
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		require.NotNil(t, m, "%s in %s", pattern, text)
		n, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		return n
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return s, false
	}
	return sampled{number(`VmRSS:\s+(\d+) kB`, string(status)) / 1024, number(`(?m)^go_goroutines (\d+)`, string(text)), float64(len(files))}, true
}

// mean of some samples.
func mean(all []sampled) (m sampled) {
	n := float64(len(all))
	for _, s := range all {
		m.memory, m.goroutines, m.files = m.memory+s.memory/n, m.goroutines+s.goroutines/n, m.files+s.files/n
	}
	return m
}

// A crawl of a hundred hosts, half of which are slow, refuse, ban, fail or go away, has each page that was served in
// its records, once. Long ones (-soak 2h) must not need more memory, goroutines or files in their last quarter than in
// their second.
func TestSoak(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("NOT RUN: there is no /proc here")
	}
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	var outages []string
	for i, mode := range []string{"refuse", "hang", "reset", "close-listener"} {
		outages = append(outages, fmt.Sprintf("{mode: %s, after: %v, for: %v}", mode, *soak*time.Duration(1+2*i)/10, *soak/20))
	}
	scenario := fmt.Sprintf(soakHosts, 50+int(1.1*soak.Seconds()), strings.Join(outages, ", "))
	require.NoError(t, os.WriteFile(path("hosts.yaml"), []byte(scenario), 0o600))

	site := exec.Command("crawl", "testsite", "--scenario", path("hosts.yaml"), "--report", path("report.json"))
	urls, err := site.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, site.Start())
	t.Cleanup(func() { _ = site.Process.Kill() })
	var seeds []string
	for lines := bufio.NewScanner(urls); len(seeds) < 100 && lines.Scan(); {
		seeds = append(seeds, lines.Text())
	}
	require.Len(t, seeds, 100)

	address := "127.0.0.1:" + freePort(t)
	var log strings.Builder
	crawl := exec.Command("crawl", append([]string{
		"-q", "--max-rate", "1", "--max-time", soak.String(), "--state", path("state"), "--listen", address,
		"-o", path("out.jsonl"),
	}, seeds...)...)
	crawl.Stderr = &log
	require.NoError(t, crawl.Start())
	t.Cleanup(func() { _ = crawl.Process.Kill() })
	var samples []sampled
	ended := make(chan error, 1)
	go func() { ended <- crawl.Wait() }()
	every := time.NewTicker(max(*soak/240, 250*time.Millisecond))
	defer every.Stop()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-every.C:
			if s, listens := look(t, crawl.Process.Pid, "http://"+address+"/metrics"); listens {
				samples = append(samples, s)
			}
		}
	}
	require.Equal(t, cli.CodeLimit, crawl.ProcessState.ExitCode(), log.String())
	require.NoError(t, site.Process.Signal(syscall.SIGTERM))
	require.NoError(t, site.Wait())

	var report testsite.Report
	text := readFile(t, path("report.json"))
	require.NoError(t, json.Unmarshal(text, &report))
	text = readFile(t, path("out.jsonl"))
	count := map[string]int64{}
	seen := map[string]bool{}
	for _, r := range recordsIn(t, "jsonl", text) {
		require.False(t, seen[r.URL], "%s has two records", r.URL)
		seen[r.URL] = true
		if r.Status == http.StatusOK {
			u, err := url.Parse(r.URL)
			require.NoError(t, err)
			count["http://"+u.Host]++
		}
	}
	for _, h := range report.Hosts {
		require.Positive(t, h.Distinct, h.Name)
		require.Equal(t, h.Distinct, count[h.URL], "pages of %s: served, recorded", h.Name)
	}
	require.Greater(t, len(samples), 10)
	second, last := mean(samples[len(samples)/4:len(samples)/2]), mean(samples[len(samples)*3/4:])
	t.Logf("%d requests, %d pages served and recorded, %d again; %d samples; second quarter %+.1f, last %+.1f",
		report.Total.Requests, report.Total.Distinct, report.Total.Duplicates, len(samples), second, last)
	if *soak >= 30*time.Minute {
		require.Less(t, last.memory, 1.1*second.memory)
		require.Less(t, last.goroutines, second.goroutines+10)
		require.Less(t, last.files, second.files+10)
	}
}
