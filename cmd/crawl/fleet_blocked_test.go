package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

// One process has a host that refuses, and nothing else, while another works for some seconds
// and finds a third host at last. Neither ends before all is asked for that may be, and then
// both for the same reason.
func TestFleetIsBlockedAsAWhole(t *testing.T) {
	t.Parallel()
	const chain, late = 25, 5
	var asked, pages atomic.Int64
	serve := func(ip string, h func(w http.ResponseWriter, page int)) string {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", ip+":0")
		require.NoError(t, err)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			page, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
			if err != nil {
				http.NotFound(w, r) // a robots.txt
				return
			}
			w.Header().Set("Content-Type", "text/html")
			h(w, page)
		}))
		require.NoError(t, s.Listener.Close())
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
		return s.URL
	}
	shut := serve("127.0.71.1", func(w http.ResponseWriter, _ int) {
		asked.Add(1)
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	last := serve("127.0.71.2", func(w http.ResponseWriter, page int) {
		pages.Add(1)
		if page < late-1 {
			_, _ = fmt.Fprintf(w, `<a href="/%d">x</a>`, page+1)
		}
	})
	slow := serve("127.0.71.3", func(w http.ResponseWriter, page int) {
		pages.Add(1)
		time.Sleep(100 * time.Millisecond)
		next := fmt.Sprintf("/%d", page+1)
		if page == chain-1 {
			next = last + "/0"
		}
		_, _ = fmt.Fprintf(w, `<a href="%s">x</a>`, next)
	})

	srv, dir := redistest.Redis.Start(t), t.TempDir()
	type process struct {
		*exec.Cmd
		said bytes.Buffer
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*redistest.Patience)
	defer cancel()
	start := func(name, seed string) *process {
		p := &process{Cmd: exec.CommandContext(ctx, "crawl", //nolint:gosec // of the test
			"--redis", "redis://"+srv.Addr, "--job", "j", "--set", "fleet.lease=1s", "--set", "fleet.worker="+name, "-o", dir+"/", "--scope", "any", "-d", "100", "--allow-private",
			"--contact", "a@b.test", "--rate", "50", "--max-rate", "50", "--no-sitemaps", "--set", "max_blocked=1s", "--progress", "none", seed)}
		p.Stderr, p.Env = &p.said, append(os.Environ(), "GORACE="+race)
		require.NoError(t, p.Start())
		return p
	}
	first := start("w1", shut+"/0")
	require.Eventually(t, func() bool { return asked.Load() > 0 }, redistest.Patience, 5*time.Millisecond)
	second := start("w2", slow+"/0")

	reasons := make(map[string]bool)
	for _, p := range []*process{first, second} {
		_ = p.Wait() // by its code
		require.Equal(t, cli.CodeBlocked, p.ProcessState.ExitCode(), &p.said)
		require.EqualValues(t, chain+late, pages.Load(), "%s ended before the others had nothing to do", &p.said)
		reason := regexp.MustCompile(`only blocked hosts remain: the first may be asked again at .*`).FindString(p.said.String())
		require.NotEmpty(t, reason, &p.said)
		reasons[reason] = true
	}
	require.Len(t, reasons, 1)
	require.EqualValues(t, 1, asked.Load(), "nor is who refuses asked by another")
}
