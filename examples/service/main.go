// Command service is an HTTP API that starts, watches and stops crawls: POST, GET and DELETE /crawls?seed=URL.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"sync"

	"github.com/treadlight/crawl"
)

// service has one politeness for all crawls: two of one host ask it no faster than one.
type service struct {
	polite *crawl.Politeness
	mu     sync.Mutex
	crawls map[string]*crawl.Crawler // by their seeds: one for each, and a hundred at most
}

func (s *service) start(w http.ResponseWriter, r *http.Request) {
	seed := r.FormValue("seed")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.crawls[seed] != nil || len(s.crawls) >= 100 {
		http.Error(w, "it is being crawled, or there are a hundred", http.StatusConflict)
		return
	}
	c, err := crawl.New(crawl.Options{Shared: s.polite, MaxPages: 1000})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.crawls[seed] = c
	go c.Run(context.WithoutCancel(r.Context()), seed) // its Snapshot says how it ends
}

func (s *service) one(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.crawls[r.FormValue("seed")]
	switch {
	case c == nil:
		http.NotFound(w, r)
	case r.Method == http.MethodDelete:
		c.Stop()
		delete(s.crawls, r.FormValue("seed"))
	default:
		_ = json.NewEncoder(w).Encode(c.Snapshot())
	}
}

func main() {
	polite, err := crawl.NewPoliteness(crawl.PolitenessOptions{})
	s := &service{polite: polite, crawls: map[string]*crawl.Crawler{}}
	http.HandleFunc("POST /crawls", s.start)
	http.HandleFunc("/crawls", s.one)
	log.Fatal(err, http.ListenAndServe("localhost:8080", nil))
}
