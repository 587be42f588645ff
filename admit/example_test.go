package admit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/treadlight/crawl/admit"
)

// New limits any net/http service. Here each address may come twice, and then once
// in an hour.
func ExampleNew() {
	limits, err := admit.New(admit.Config{
		Plans: []admit.Plan{{Name: "visitors", Capacity: 2, TokensPerSecond: 1.0 / 3600}},
		Rules: []admit.Rule{{Name: "pages", Path: "/**", Key: "ip", Plans: []string{"visitors"}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limits.Close()
	service := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	server := httptest.NewServer(limits.Handler(service))
	defer server.Close()

	for range 3 {
		res, err := server.Client().Get(server.URL)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Header.Get("X-RateLimit-Remaining"), "left:", res.Status)
		if err := res.Body.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 1 left: 200 OK
	// 0 left: 200 OK
	// 0 left: 429 Too Many Requests
}
