package crawl

import (
	"context"
	"io"
	"net/http"
)

// Fetcher answers requests in place of the network: from an archive, by a browser, out of a test. [Options.Fetcher] has all
// requests of a crawl go to it, those for robots.txt and sitemaps too; package crawltest has what a Fetcher must do as a test.
//
// An [http.RoundTripper], which [Options.Transport] takes, is the same with the rules of net/http. Either stands below the
// crawl's own bounds and habits: it gets what options and hooks have made of a request, cookies and credentials included,
// once for each permit of the host's pace; and its response is decoded, cut and timed like one of the network.
type Fetcher interface {
	// Fetch answers one request. It is called by several goroutines at a time. The context is that of the request: Fetch must
	// return soon after it ends, as bounds of time and the end of a crawl end it.
	//
	// The request is Fetch's own. Its URL is absolute, its Header has what the crawl sends, Accept-Encoding included.
	//
	// A response needs a StatusCode, and mostly a Header and a Body, which the crawl closes. Whatever the status, it is no
	// error; 404 is what an archive has of a page that it has not. A redirect is a response too: Fetch must not follow it, as
	// its target has a host, a robots.txt and a turn of its own. ContentLength may be left at zero.
	//
	// An error has the page asked for again if it is one of the network: a timeout, io.ErrUnexpectedEOF, a [net.OpError] and the
	// like. With any other the page fails at once, with the class "protocol". A panic is an error.
	Fetch(ctx context.Context, req *http.Request) (*http.Response, error)
}

type transportOf struct {
	o    *Options
	name string
	send func(*http.Request) (*http.Response, error)
}

// RoundTrip implements [http.RoundTripper].
func (t transportOf) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	err = t.o.guard(t.name, func() (err error) {
		resp, err = t.send(r) //nolint:bodyclose // whoever asked for it closes it
		return err
	})
	if resp != nil && resp.Body != nil && resp.Body != http.NoBody {
		resp.Body = guardedBody{resp.Body, t}
	}
	return resp, err
}

// guardedBody is a body whose panics are errors.
type guardedBody struct {
	io.ReadCloser
	t transportOf
}

func (b guardedBody) Read(p []byte) (n int, err error) {
	err = b.t.o.guard(b.t.name, func() (err error) {
		n, err = b.ReadCloser.Read(p)
		return err
	})
	return max(0, min(n, len(p))), err
}
