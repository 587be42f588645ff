package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/treadlight/crawl/examples/internal/check"
)

func TestMain(m *testing.M) {
	pace = check.Fast
	if seed := os.Getenv("SEED"); seed != "" { // the program, to be killed
		dir := os.Getenv("DIR")
		fmt.Println(run(context.Background(), filepath.Join(dir, "state"), filepath.Join(dir, "books.jsonl"), seed))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestOutput(t *testing.T) {
	dir := t.TempDir()
	var first atomic.Bool
	arrived := make(chan struct{})
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/catalogue/ulysses" && !first.Swap(true) {
			close(arrived)
			<-r.Context().Done()
			return
		}
		check.Pages(check.Books).ServeHTTP(w, r)
	})
	check.Output(t, "resume", site, func(ctx context.Context, out io.Writer, base string) error {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), "SEED="+base, "DIR="+dir)
		if err := cmd.Start(); err != nil {
			return err
		}
		<-arrived
		if err := cmd.Process.Kill(); err != nil {
			return err
		}
		_ = cmd.Wait()
		before, _ := os.ReadFile(filepath.Join(dir, "books.jsonl"))
		if n := strings.Count(string(before), "\n"); n > 2 {
			t.Errorf("%d books before the end", n)
		}
		if err := run(ctx, filepath.Join(dir, "state"), filepath.Join(dir, "books.jsonl"), base); err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, "books.jsonl"))
		_, _ = out.Write(text)
		return err
	})
}
