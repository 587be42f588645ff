package crawl_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// needServer fails in CI, and skips loudly elsewhere, because something real that the
// test is about is not installed.
func needServer(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing: `make test` installs it on Debian and Ubuntu", what)
	}
	t.Skipf("SKIPPED, NOT PASSED: %s is missing; `make servers` installs it on Debian and Ubuntu", what)
}

// documentation is the directory of a Debian documentation package.
func documentation(t testing.TB, dirs ...string) string {
	t.Helper()
	for _, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return real
		}
	}
	needServer(t, "the documentation in "+dirs[0])
	return ""
}

func pythonDocs(t testing.TB) string {
	return documentation(t, "/usr/share/doc/python3-doc/html", "/usr/share/doc/python3/html")
}

func boostDocs(t testing.TB) string {
	return documentation(t, "/usr/share/doc/libboost-doc/doc")
}

// nginx serves a directory on loopback and keeps an access log.
type nginx struct {
	url string
	dir string // of its configuration and logs
	cmd *exec.Cmd
}

// startNginx serves root; limit goes into the http block, location into the location.
func startNginx(t testing.TB, root, limit, location string) *nginx {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx" // Debian keeps it out of an ordinary user's path
		if _, err := os.Stat(path); err != nil {
			needServer(t, "nginx")
		}
	}
	n := &nginx{dir: t.TempDir()}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	require.NoError(t, ln.Close())
	n.url = "http://" + addr
	conf := fmt.Sprintf(`
worker_processes 1;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
daemon off;
events { worker_connections 512; }
http {
  types { text/html html htm; text/plain txt; text/css css; application/javascript js; image/png png; image/svg+xml svg; }
  default_type application/octet-stream;
  log_format t '$msec $request_time $status $request'; # $request_uri is empty when nginx refuses it
  access_log %[1]s/access.log t;
  client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  keepalive_requests 100000;
  %[2]s
  server {
    listen %[3]s;
    location / { root %[4]s; absolute_redirect on; %[5]s }
    location @limited { internal; add_header Retry-After 1 always; return 429 "slow down\n"; }
  }
}`, n.dir, limit, addr, root, location)
	file := filepath.Join(n.dir, "nginx.conf")
	require.NoError(t, os.WriteFile(file, []byte(conf), 0o600))
	n.cmd = exec.Command(path, "-p", n.dir, "-c", file)
	n.cmd.Stderr = os.Stderr
	require.NoError(t, n.cmd.Start())
	t.Cleanup(func() {
		_ = n.cmd.Process.Signal(os.Interrupt)
		_ = n.cmd.Wait()
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}, 10*time.Second, 10*time.Millisecond, "nginx does not listen")
	return n
}

// hit is one line of the access log. A request arrived at end - took.
type hit struct {
	end, took time.Duration // since the Unix epoch; to the millisecond
	status    int
	uri       string
}

func (h hit) arrived() time.Duration { return h.end - h.took }

func (n *nginx) hits(t *testing.T) []hit {
	t.Helper()
	f, err := os.Open(filepath.Join(n.dir, "access.log"))
	require.NoError(t, err)
	defer f.Close()
	var hits []hit
	for lines := bufio.NewScanner(f); lines.Scan(); {
		f := strings.Fields(lines.Text())
		require.Len(t, f, 6, lines.Text())
		end, err := strconv.ParseFloat(f[0], 64)
		require.NoError(t, err)
		took, err := strconv.ParseFloat(f[1], 64)
		require.NoError(t, err)
		status, err := strconv.Atoi(f[2])
		require.NoError(t, err)
		require.Equal(t, "GET", f[3])
		hits = append(hits, hit{time.Duration(end * 1e9), time.Duration(took * 1e9), status, f[4]})
	}
	return hits
}
