package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/examples/internal/check"
)

func TestOutput(t *testing.T) {
	polite, err := crawl.NewPoliteness(check.Fast)
	if err != nil {
		t.Fatal(err)
	}
	defer polite.Close()
	s := &service{polite: polite, crawls: map[string]*crawl.Crawler{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /crawls", s.start)
	mux.HandleFunc("/crawls", s.one)
	api := httptest.NewServer(mux)
	defer api.Close()
	check.Output(t, "service", check.Pages(check.Books), func(ctx context.Context, out io.Writer, base string) error {
		ask := func(method string) (status int, snap crawl.Snapshot) {
			req, err := http.NewRequestWithContext(ctx, method, api.URL+"/crawls?seed="+url.QueryEscape(base), http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			_ = json.NewDecoder(res.Body).Decode(&snap)
			return res.StatusCode, snap
		}
		status, _ := ask("POST")
		again, _ := ask("POST")
		_, snap := ask("GET")
		for begun := time.Now(); snap.State == "running" && time.Since(begun) < time.Minute; _, snap = ask("GET") {
			time.Sleep(time.Millisecond) // a watcher's
		}
		_, err := fmt.Fprintf(out, "POST %d\nPOST again %d\nGET %s, %d pages\n", status, again, snap.State, snap.Pages)
		ask("DELETE")
		gone, _ := ask("GET")
		_, _ = fmt.Fprintf(out, "DELETE, then GET %d\n", gone)
		return err
	})
}
