package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/redistest"
)

// A crawl by TLS, with a password from a file, says nowhere what the password is.
func TestFleetSecrets(t *testing.T) {
	t.Parallel()
	site, secure, dir := serveSite(t, 1), redistest.NewTLS(t), t.TempDir()
	const secret = "hunter2-p@ss/w#1"
	redistest.Redis.Start(t, append(secure.Args, "--requirepass", secret)...)
	file, config := filepath.Join(dir, "secret"), filepath.Join(dir, "crawl.yaml")
	require.NoError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil,
		"fleet:\n  redis: rediss://%s\n  job: j\n  worker: w\n  ca_file: %s\n  password_file: %s\n", secure.Addr, secure.CAFile, file), 0o600))
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("crawl", args...)
		cmd.Env = append(os.Environ(), "GORACE="+race, "CRAWL_FLEET_REDIS=rediss://:${SECRET}@"+secure.Addr, "CRAWL_FLEET_JOB=j", "CRAWL_FLEET_CA_FILE="+secure.CAFile, "SECRET="+secret)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		_ = cmd.Run() // what it says tells
		return said.String()
	}
	said := run("--config", config, "--warc", dir+"/warc", "-o", dir+"/", "--set", "output.events="+dir+"/events", "--stats", dir+"/stats", "-v",
		"--contact", "a@b.test", "--rate", "50", "--max-rate", "50", "-d", "0", site.URLs()[0])
	require.Contains(t, said, "done: 1 page")
	status := run("fleet", "status") // by a variable, which the file of the settings does not know
	require.Contains(t, status, "j: complete")
	said += status + run("config", "--config", config)
	said += run("fleet", "status", "--redis-passfile", config) // a wrong one
	require.Contains(t, said, "is not one line with a password")
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path != file {
			var text []byte
			text, err = os.ReadFile(path)
			said += string(text)
		}
		return err
	}))
	for _, form := range []string{secret, "hunter2", "p%40ss"} {
		require.NotContains(t, said, form)
	}
}

// A server that does not let a user count rates is told of at once: nothing would be asked for.
func TestFleetMayNotCountRates(t *testing.T) {
	t.Parallel()
	srv := redistest.Redis.Start(t)
	srv.Do(t, "ACL", "SETUSER", "norates", "on", ">hunter2", "~crawl:*", "+@all")
	cmd := exec.Command("crawl", "--redis", "redis://norates:hunter2@"+srv.Addr, "--job", "j", "--global-rate", "5", "--contact", "a@b.test", "http://127.0.0.1:1/")
	said, err := cmd.CombinedOutput()
	require.ErrorContains(t, err, "exit status 3", "%s", said)
	require.Contains(t, string(said), "ACL SETUSER it ~crawl:* ~rate_limiter:* ")
	require.NotContains(t, string(said), "hunter2")
}

// The master is killed while two processes crawl: Sentinels name another, and all goes on.
func TestFleetFailover(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 6)
	host, port, err := net.SplitHostPort(f.redis.Addr)
	require.NoError(t, err)
	f.redis.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	replica := redistest.Redis.Start(t, "--replicaof", host+" "+port)
	redistest.Eventually(t, replica, []string{"INFO", "replication"}, "master_link_status:up")
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil,
		"sentinel monitor crawl %s %s 1\nsentinel down-after-milliseconds crawl 500\nsentinel failover-timeout crawl 2000\n", host, port), 0o600))
	sentinel := redistest.Redis.Start(t, conf, "--sentinel")
	redistest.Eventually(t, sentinel, []string{"INFO", "sentinel"}, "slaves=1")
	f.args[1] = "redis://" + sentinel.Addr + "?master_set=crawl"
	require.True(t, strings.HasPrefix(f.args[0], "--redis"))
	procs := []*fleetProcess{f.start(""), f.start("")}
	f.served(int64(f.site.Report().Total.URLs) / 3)
	f.redis.Stop()
	f.finish(procs...)
	f.redis.Addr = replica.Addr // for what is asked of it
	f.require()
}
