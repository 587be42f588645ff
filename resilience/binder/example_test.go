package binder_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/resilience/binder"
	"github.com/treadlight/crawl/transport"
)

// Named clients, each built once of its document: a factory asks for what a name means, and
// the binder builds the chain.
func Example() {
	var asked atomic.Int32
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"name": "widget"}`)
	}))
	defer site.Close()
	documents := map[string]string{
		"catalogue": `{"Resilience": {
			"Retry": {"MaxRetries": 2, "Backoff": {"Type": "constant", "BaseMs": 1}},
			"Timeout": {"Seconds": 5}}}`,
	}
	factory, err := transport.NewFactory(transport.FactoryConfig{
		Configure: func(name string) (transport.ClientConfig, error) {
			document, err := binder.Load([]byte(documents[name]))
			return transport.ClientConfig{
				BaseURL: site.URL,
				Chain: func(base http.RoundTripper) (http.RoundTripper, error) {
					return binder.BindHTTP(document, base, binder.HTTPOptions{Deps: binder.Deps{Name: name}})
				},
			}, err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer factory.Close()

	client, err := factory.Client("catalogue")
	if err != nil {
		log.Fatal(err)
	}
	var item struct{ Name string }
	if err := client.GetJSON(context.Background(), "/items/1", &item); err != nil {
		log.Fatal(err)
	}
	fmt.Println(item.Name, "after", asked.Load(), "requests")
	_, err = factory.Client("basket")
	fmt.Println(err)
	// Output:
	// widget after 3 requests
	// client "basket": the document is empty; write {} for no policy at all
}

// A mistake in a document is told with its path, its line and what to write instead.
func ExampleLoad() {
	_, err := binder.Load([]byte(`{
		"Retry": {"MaxRetry": 3},
		"Timeout": {"Seconds": "10"}
	}`))
	fmt.Println(err)
	// Output:
	// Retry.MaxRetry: is not a setting; did you mean MaxRetries? [line 2]
	// Timeout.Seconds: 10 is a text; give a number of seconds from 0.001 to 86400 [line 3]
}

// Policies are for calls of any type, not only for HTTP.
func ExampleBind() {
	document, err := binder.Load([]byte(`{"Retry": {"Backoff": {"Type": "none"}}, "CircuitBreaker": {"CircuitName": "db"}}`))
	if err != nil {
		log.Fatal(err)
	}
	policies, err := binder.Bind(document, binder.Options[string]{})
	if err != nil {
		log.Fatal(err)
	}
	defer policies.Close()
	row, err := policies.Execute(context.Background(), func(ctx context.Context) (string, error) {
		return fmt.Sprint("read at attempt ", resilience.AttemptFrom(ctx)), nil
	})
	fmt.Println(row, err)
	// Output:
	// read at attempt 1 <nil>
}
