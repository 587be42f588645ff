// Command admit-echo has limits in front of an API on echo.
package main

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/treadlight/crawl"
)

func api(a *crawl.Admission) http.Handler {
	e := echo.New()
	e.Use(echo.WrapMiddleware(a.Handler)) // all the adapter that it takes
	e.GET("/healthz", func(c echo.Context) error { return c.String(http.StatusOK, "well") })
	e.GET("/notes/:id", func(c echo.Context) error { return c.String(http.StatusOK, "note "+c.Param("id")) })
	return e
}

func limits() (*crawl.Admission, error) {
	return crawl.Admit(crawl.AdmitConfig{
		Plans:     []crawl.AdmitPlan{{Name: "api", Capacity: 2, TokensPerSecond: 1}},
		Rules:     []crawl.AdmitRule{{Name: "api", Path: "/**", Key: "user", Plans: []string{"api"}}},
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
