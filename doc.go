// Package crawl is Treadlight: a concurrent web crawler that learns how fast each host
// may be asked, stays just under it, and obeys every Retry-After and robots.txt.
//
// Two calls make a crawl:
//
//	c, err := crawl.New(crawl.Options{})
//	...
//	for page, err := range c.Crawl(ctx, "https://example.com/") {
//		...
//	}
//
// [Crawler.Run] does the same with handlers ([Options.Router], [Options.OnPage]) or sinks ([Options.Sinks]) in place of
// the loop. A [Page] has what came and what is in it: its fields, its text, elements by selectors; it may follow links.
// A [Crawler] is one crawl; any number of them may run in one process, and they share nothing.
//
// # Nouns
//
// A seed is a URL the user names; the scope says which of the links found from there belong to the crawl. A URL is
// canonical: one spelling for each resource. The frontier holds the URLs not yet visited, in one queue per host. The
// limiter holds what has been learned of each host: the rate it tolerates, its latency, its pauses, and what it has
// asked of us. A record is what is written of a visited URL: every URL that entered the frontier and was not left over
// at the end has one. An [Event] is a change of a host's rate, with its cause.
//
// # Politeness
//
// A strategy decides how fast a host may be asked. The default, steer, searches until a host refuses, measures what it
// admits and stays just below; the setting ratelimit.strategy names the others. Retry-After, Crawl-delay, Request-rate
// and the caps of the settings hold over any of them but off. Hosts at one address that are limited as one are paced as one.
//
// Why a host's rate is what it is stands in [Crawler.Snapshot] as a sentence, and [Options.OnEvent] is told of each
// change. What was learned goes on to later crawls through a file, if the settings name one (ratelimit.remember).
//
// # Crawls that survive
//
// A crawl with a state ([Options.StateDir], or [Options.State]) is kept on disk as it goes: URLs, what became of
// them, the rates of hosts and the settings. Whatever ends it, the machine's power included, [OpenState] gets what it
// takes to go on: what was recorded is not fetched again, nothing that was found is lost, and a sink that is [record.Durable]
// and is cut back to its [State.Position] has no record twice. Without a state a crawl is in memory and ends with the
// process. [OpenAgain] begins a new round over a crawl that is done, which asks of every page whether it has changed.
// [OpenArchive] keeps the exchanges themselves, as WARC.
//
// # Seen and steered
//
// [Listen] opens an HTTP endpoint that tells how a crawl goes, to people as a dashboard, to Prometheus and as a stream
// of events, and takes orders: pause, resume, stop, more seeds, another scope, a host to be left alone or asked more
// slowly. [Crawler] has the same as methods. [Explain] tells what a crawl would make of a URL, and why.
//
// # Beside crawls
//
// [Client] is an http.Client with the same politeness, for programs that ask for URLs of their own. [Admit] is the
// other side: it limits who may come in to an http.Handler, with counts in memory, in a SQLite file or in Redis.
//
// What they are made of has packages of its own, for programs of any kind: limit has the six
// limiters of caps, resilience the policies (binder those of a JSON document), transport
// puts both around an http.RoundTripper. [NewPoliteness] is the engine that learns, for crawls, clients and a program's
// own requests together.
//
// # What a program links
//
// This package links no database. A program that needs one imports a package for its effect, and the error without it
// names that: sqlite for a state, PolitenessOptions.Remember and the counts of Admit in a file; redis for a fleet and
// those counts in Redis; console for Listen; traces for Options.Traces.
//
// # What it does not do
//
// It runs no JavaScript, and sends no form but by GET.
package crawl
