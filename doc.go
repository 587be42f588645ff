// Package crawl is Treadlight: a concurrent web crawler that learns how fast each host may be asked, stays just under
// it, and obeys every Retry-After and robots.txt.
//
// Two calls make a crawl:
//
//	c, err := crawl.New(crawl.Options{})
//	...
//	for page, err := range c.Crawl(ctx, "https://example.com/") {
//		...
//	}
//
// [Options] say what it does: the zero value is a good default, and a settings file of the command becomes Options by
// [Load]. [Crawler.Run] is a crawl without a loop: [Options.Router] gives pages to handlers by the patterns of their
// URLs, [Options.OnPage] has all of them, and [Options.Sinks] have their records, such as a file of [Records]. A [Page]
// has what came and what is in it: its fields, its text, elements by selectors. [Page.Follow] adds links, with what they
// are to be asked for by, and [Page.Emit] writes items of the program's types, each once.
//
// # Nouns
//
// A seed is a URL the user names; the scope says which of the links found from there belong to the crawl. A URL is
// canonical: one spelling for each resource. The frontier holds the URLs not yet visited, in one queue per host. A
// record is what is written of a visited URL: every URL that entered the frontier and was not left over at the end has
// one. An [Event] is a change of a host's rate, with its cause.
//
// # Of the program's own
//
// Hooks see and change what goes out and comes in: [Options.OnRequest], OnResponse, OnError, OnSkip and OnEvent.
// [Options.Bodies] take large files as they come. A [Fetcher] or an http.RoundTripper answers in place of the network,
// an [Extractor] reads pages of other types. Package crawltest has what these must do as tests, and a site and a clock
// to test crawlers with.
//
// # Politeness
//
// The strategy steer searches until a host refuses, measures what it admits and stays just below;
// [PolitenessOptions] names the others. Why a host's rate is what it is stands in [Crawler.Snapshot] as a sentence. A
// [Politeness] is what several crawls, clients and a program's own requests share: one state per host. [Client] is an
// http.Client with it. [Admit] is the other side: it limits who may come in to an http.Handler.
//
// # Crawls that survive
//
// A crawl with [Options.StateDir] is kept on disk as it goes. Whatever ends it, the machine's power included,
// [OpenState] gets what it takes to go on: what was recorded is not fetched again, nothing that was found is lost, and a
// sink that is [record.Durable] and is cut back to its [State.Position] has no record twice. [OpenAgain] begins a new
// round over a crawl that is done, which asks of every page whether it has changed. [OpenArchive] keeps the exchanges
// themselves, as WARC. [Listen] shows a crawl to people and Prometheus by HTTP, and takes orders; [Crawler] has the same
// as methods.
//
// # What a program links
//
// This package links no database. A program that needs one imports a package for its effect, and the error without it
// names that: sqlite for a state, PolitenessOptions.Remember and the counts of Admit in a file; redis for a fleet and
// those counts in Redis; console for Listen; traces for Options.Traces. The packages limit, resilience and transport
// are what the politeness is made of, for programs of any kind.
//
// It runs no JavaScript, and sends no form but by GET unless a program follows one.
package crawl
