package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/examples/internal/check"
)

// server starts a Redis of the test's own.
func server(t *testing.T) (addr string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server: ", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = l.Close()
	cmd := exec.CommandContext(t.Context(), path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	for begun := time.Now(); time.Since(begun) < 30*time.Second; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return addr
		}
	}
	t.Fatal("redis-server does not answer")
	return ""
}

func TestOutput(t *testing.T) {
	pace = check.Fast
	addr := server(t)
	check.Output(t, "redis", check.Pages(check.Books), func(ctx context.Context, out io.Writer, base string) error {
		if err := run(ctx, addr, base); err != nil {
			return err
		}
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
		if err != nil {
			return err
		}
		defer client.Close()
		entries, err := client.Do(ctx, client.B().Xrange().Key("pages").Start("-").End("+").Build()).AsXRange()
		for _, e := range entries {
			_, _ = fmt.Fprintln(out, e.FieldValues["url"])
		}
		return err
	})
}
