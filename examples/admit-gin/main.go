// Command admit-gin has limits in front of an API on gin.
package main

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/treadlight/crawl/admit"
)

// limited is the adapter: gin goes on with the request if the limits let it in.
func limited(a *admit.Limiter) gin.HandlerFunc {
	return func(c *gin.Context) {
		in := false
		a.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			in, c.Request = true, r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		if !in {
			c.Abort()
		}
	}
}

func api(a *admit.Limiter) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(limited(a))
	r.GET("/healthz", func(c *gin.Context) { c.String(http.StatusOK, "well") })
	r.GET("/notes/:id", func(c *gin.Context) { c.String(http.StatusOK, "note "+c.Param("id")) })
	return r
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
