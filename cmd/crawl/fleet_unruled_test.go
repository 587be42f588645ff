package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

// One process has the host whose robots.txt cannot be had, and another a host that answers, or
// none that does: that nothing could be asked for is so of all of them or of none.
func TestFleetIsUnruledAsAWhole(t *testing.T) {
	t.Parallel()
	srv := redistest.Redis.Start(t)
	for name, c := range map[string]struct {
		robots int // status of that of the other host
		code   int
	}{
		"neither": {http.StatusServiceUnavailable, cli.CodeBlocked},
		"one":     {http.StatusNotFound, 0},
	} {
		t.Run(name, func(t *testing.T) {
			asked, came := make(chan struct{}), make(chan struct{})
			var once, first sync.Once
			serve := func(ip string, status int, before func()) string {
				l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", ip+":0")
				require.NoError(t, err)
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					before()
					if r.URL.Path == "/robots.txt" {
						w.WriteHeader(status)
					}
				}))
				require.NoError(t, s.Listener.Close())
				s.Listener = l
				s.Start()
				t.Cleanup(s.Close)
				return s.URL
			}
			shut := serve("127.0.72.1", http.StatusServiceUnavailable, func() { once.Do(func() { close(asked) }) })
			other := serve("127.0.72.2", c.robots, func() {
				first.Do(func() { close(came) })
				select { // the job is not done before both were asked
				case <-asked:
				case <-t.Context().Done():
				}
			})
			f := &fleetTest{t: t, redis: srv}
			t.Cleanup(f.reap)
			f.args = []string{
				"--redis", "redis://" + srv.Addr, "--job", "unruled-" + name, "--set", "fleet.lease=2s", "-o", t.TempDir() + "/", "-q", "--allow-private",
				"--contact", "a@b.test", "--no-sitemaps", "--retries", "0", "--scope", "any", "-d", "0",
			}
			begin := func(seed string) *fleetProcess {
				args := f.args
				f.args = append(slices.Clip(args), seed+"/")
				defer func() { f.args = args }()
				return f.start("")
			}
			procs := []*fleetProcess{begin(other)}
			<-came
			for _, p := range append(procs, begin(shut)) {
				<-p.done
				require.Equal(t, c.code, p.cmd.ProcessState.ExitCode(), &p.err)
				if c.code != 0 {
					require.Contains(t, p.err.String(), "robots.txt cannot be had: status 503")
				}
			}
			out, err := exec.Command("crawl", "fleet", "status", "--job", "unruled-"+name, "--redis", "redis://"+srv.Addr).CombinedOutput()
			require.NoError(t, err, string(out))
			if c.code != 0 {
				require.Contains(t, string(out), "complete, begun ")
				require.Contains(t, string(out), "nothing could be asked for: http://127.0.72.")
			} else {
				require.NotContains(t, string(out), "nothing could be asked for")
			}
		})
	}
}
