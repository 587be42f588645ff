// Command admit-chi has limits in front of an API on chi, or on any router whose middleware is that of net/http.
package main

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/treadlight/crawl/admit"
)

// limits are a request in a second and two at once for each user, and none for what watches the service.
func limits() (*admit.Limiter, error) {
	return admit.New(admit.Config{
		Plans:     []admit.Plan{{Name: "api", Capacity: 2, TokensPerSecond: 1}},
		Rules:     []admit.Rule{{Name: "api", Path: "/**", Key: "user", Plans: []string{"api"}}},
		Principal: func(r *http.Request) string { return r.Header.Get("X-User") }, // of your authentication
		Exempt:    func(r *http.Request) bool { return r.URL.Path == "/healthz" },
	})
}

func api(a *admit.Limiter) http.Handler {
	r := chi.NewRouter()
	r.Use(a.Handler)
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "well") })
	r.Get("/notes/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "note", chi.URLParam(r, "id")) })
	r.Get("/statistics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "%+v\n", a.Statistics()) })
	return r
}

func main() {
	a, err := limits()
	if err == nil {
		defer a.Close()
		err = http.ListenAndServe("localhost:8080", api(a))
	}
	fmt.Println("error:", err)
}
