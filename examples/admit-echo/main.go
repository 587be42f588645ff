// Command admit-echo has limits in front of an API on echo.
package main

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/treadlight/crawl/admit"
)

func api(a *admit.Limiter) http.Handler {
	e := echo.New()
	e.Use(echo.WrapMiddleware(a.Handler)) // all the adapter that it takes
	e.GET("/healthz", func(c echo.Context) error { return c.String(http.StatusOK, "well") })
	e.GET("/notes/:id", func(c echo.Context) error { return c.String(http.StatusOK, "note "+c.Param("id")) })
	return e
}

func limits() (*admit.Limiter, error) {
	return admit.New(admit.Config{
		Plans:     []admit.Plan{{Name: "api", Capacity: 2, TokensPerSecond: 1}},
		Rules:     []admit.Rule{{Name: "api", Path: "/**", Key: "user", Plans: []string{"api"}}},
		Principal: func(r *http.Request) string { return r.Header.Get("X-User") }, // of your authentication
		Exclude:   []string{"/healthz"},
	})
}

func main() {
	a, err := limits()
	if err == nil {
		defer a.Close()
		err = http.ListenAndServe("localhost:8080", api(a))
	}
	fmt.Println("error:", err)
}
