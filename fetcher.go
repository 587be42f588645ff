package crawl

import (
	"context"
	"net/http"
)

// Fetcher answers requests in place of the network: from an archive, by a browser, from memory in a test. All requests
// of a crawl with [Options.Fetcher] go to it, also those for robots.txt and sitemaps. Package crawltest has a test that
// every Fetcher must pass.
//
// An [http.RoundTripper] in [Options.Transport] does the same by the rules of net/http. Both replace only the network:
// they get each request as options and hooks made it, with cookies and credentials, once it has a permit of its host.
// Their responses are decoded, cut and timed like those of the network.
type Fetcher interface {
	// Fetch answers one request. It is called by several goroutines at the same time. It must return soon after the
	// context ends, which is how time limits and the end of a crawl stop it.
	//
	// The request belongs to Fetch. Its URL is absolute, and its Header has everything that the crawl sends, also
	// Accept-Encoding.
	//
	// A response needs a StatusCode, and usually a Header and a Body, which the crawl closes. No status is an error: an
	// archive answers 404 for a page that it does not have. A redirect is a response too, and Fetch must not follow it,
	// because its target has its own host, robots.txt and permit. ContentLength may be zero.
	//
	// After a network error (a timeout, io.ErrUnexpectedEOF, a [net.OpError] and the like) the page is requested again.
	// After any other error it fails at once, with the class "protocol". A panic is an error.
	Fetch(ctx context.Context, req *http.Request) (*http.Response, error)
}

// fetching is the transport of a Fetcher.
type fetching struct{ Fetcher }

// RoundTrip implements [http.RoundTripper].
func (f fetching) RoundTrip(r *http.Request) (*http.Response, error) { return f.Fetch(r.Context(), r) }
