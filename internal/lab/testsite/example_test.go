package testsite_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/treadlight/crawl/internal/lab/testsite"
)

// A site from a file, asked twice by an impatient client.
func Example() {
	cfg, err := testsite.Parse([]byte(`
hosts:
  - name: limited
    pages: 20
    limit: {requests: 1, window: 1h}
    refusal: {retry_after: seconds, wait: 10m}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	site, err := testsite.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := site.Listen(); err != nil { // from here on the URLs are final
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- site.Run(ctx) }()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 2 {
		resp, err := client.Get(site.URLs()[0])
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode, resp.Header["Retry-After"])
	}
	stop()
	fmt.Println(<-ended, site.Report().Hosts[0].Refusals)
	// Output:
	// 200 []
	// 429 [600]
	// <nil> 1
}
