package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/admit"
	"github.com/treadlight/crawl/examples/internal/check"
)

func TestOutput(t *testing.T) {
	limits, err := admit.New(admit.Config{
		Plans: []admit.Plan{{Name: "two", Kind: "sliding-window", Capacity: 2, Window: time.Second}},
		Rules: []admit.Rule{{Name: "all", Path: "/**", Plans: []string{"two"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer limits.Close()
	notes := map[string]Note{}
	api := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	api.HandleFunc("PUT /notes/{id}", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		notes[r.PathValue("id")] = Note{string(text)}
		answer(w, Note{})
	})
	api.HandleFunc("GET /notes/{id}", func(w http.ResponseWriter, r *http.Request) { answer(w, notes[r.PathValue("id")]) })
	api.HandleFunc("GET /notes", func(w http.ResponseWriter, _ *http.Request) { answer(w, []Note{notes["1"]}) })
	api.HandleFunc("DELETE /notes/{id}", func(w http.ResponseWriter, r *http.Request) {
		delete(notes, r.PathValue("id"))
		answer(w, true)
	})
	client, err := crawl.NewClient(crawl.ClientConfig{AllowPrivate: true, Politeness: crawl.PolitenessOptions{InitialRPS: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	check.Output(t, "api", limits.Handler(api), func(_ context.Context, out io.Writer, base string) error {
		return run(out, API{client, base})
	})
	if n := limits.Statistics().Denied; n > 2 {
		t.Errorf("%d of 4 requests were denied", n)
	}
}
