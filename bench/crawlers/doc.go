// Package crawlers sets our crawl beside crawlers that people run, on real servers with
// limits that none of them is told.
//
// It is a test, because the servers of [realserver] live and end with one: TestLimiters
// lets each client crawl every server of a list for the same time, each on a server started
// afresh. Clients are our crawl with its strategies, and Scrapy, Crawlee, colly and wget2. The
// server's own log is the witness: no client says how it did.
//
// Between client and server is a relay that delays what passes, because AutoThrottle
// goes by latency and nobody's host is a microsecond away. Without flags the test is a
// few seconds long and shows that the comparison works, not what comes of it; `make
// compare` is the long form, and README.md has its figures.
//
// [realserver]: https://pkg.go.dev/github.com/treadlight/crawl/internal/lab/realserver
package crawlers
