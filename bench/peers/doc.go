// Package peers sets what a crawl costs beside crawlers that people run: pages per
// second of processor time, on a real documentation on this machine.
//
// It is a test, because the server of [realserver] lives and ends with one: TestPeers
// lets one contender after another crawl the same site, each in a process of its own and
// on an nginx started for it, with 16 requests in flight, robots.txt obeyed and nothing
// kept. The order moves on by one from round to round, so that a busy machine slows all
// of them alike. `make bench-speed` is the long form and README.md has its figures;
// without flags one round on a small site shows that the comparison works.
//
// # Who
//
// Our crawl in several forms; two loops over the list of URLs that the crawl asks for,
// which are what HTTP and a tokenizer cost at least (see contender); colly as a library;
// wget2, HTTrack and Scrapy as Debian has them, Crawlee from npm. Another one is one entry in contenders.
// One that is not installed is named in the table as missing.
//
// # How it is counted
//
// Pages are the different URLs of HTML that the server's log says were answered with
// 200, whoever asked: no contender says how it did, and one that sees less of the site
// shows it. Processor time and memory are of the whole tree of processes, as package
// process has them.
//
// A ratio is of two contenders in the same round; the table has the median over the
// rounds, and the least and the most. On a machine that does other work as well the
// ratios can be compared from run to run, the figures less.
//
// # After kill -9
//
// TestResume kills contenders in the middle of a crawl, starts them again, and compares what the server counted with
// the records that are left. docs/benchmarks.md has its figures, and speed over TLS.
//
// [realserver]: https://pkg.go.dev/github.com/treadlight/crawl/internal/lab/realserver
package peers
