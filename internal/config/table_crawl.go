package config

import "github.com/treadlight/crawl/internal/web/canonical"

// crawlFields are the size and the edges of a crawl, and whose pages it may see.
var crawlFields = []field{
	// Beyond ten thousand, a process runs into its limit of open files before it gains
	// anything.
	{
		path: "concurrency", kind: kindInt, unit: "fetches", def: "64", min: "1", max: "10000",
		flag: "concurrency", short: "c",
		doc: "fetches in flight over all hosts; one that has waited a second for its answer does not count, up to four times as many in all",
	},
	// About what a browser opens to a host, and enough for a slow host to be asked at
	// its rate: eight answers of a second each are eight a second.
	{
		path: "per_host_max", kind: kindInt, unit: "fetches", def: "8", min: "1", max: "1000",
		flag: "per-host-max",
		doc:  "fetches in flight at one host",
	},
	// Minus one and not zero is "no limit", because zero has a use: fetch the seeds.
	{
		path: "depth", kind: kindInt, unit: "links", def: "-1", min: "-1", max: "1000000",
		flag: "depth", short: "d",
		doc: "links a page may be away from a seed; 0 = seeds only, -1 = no limit", example: "3",
	},
	{
		path: "max_pages", kind: kindInt, unit: "pages", def: "0", min: "1", max: "1000000000000",
		zero: "no limit", flag: "max-pages",
		doc: "end the crawl after that many pages, those of earlier runs and of all processes of a fleet included; 0 = no limit", example: "10000",
	},
	{
		path: "max_pages_per_host", kind: kindInt, unit: "pages", def: "0", min: "1", max: "1000000000",
		zero: "no limit", flag: "max-pages-per-host",
		doc: "pages taken from one host at most; 0 = no limit", example: "500",
	},
	// A year is longer than any crawl; a larger number is a slip of units.
	{
		path: "max_time", kind: kindDuration, def: "0", min: "1s", max: "8760h",
		zero: "no limit", flag: "max-time",
		doc: "end the crawl, or this run of it, after that long; of a fleet, since its job was made; 0 = no limit", example: "2h",
	},
	// Most pages under way come within two seconds, and whoever has ended a crawl waits no
	// longer. What is cut off is visited by the resume.
	{
		path: "grace", kind: kindDuration, def: "2s", min: "1s", max: "24h",
		zero: "as long as it takes", flag: "grace",
		doc: "when --max-time is over or the crawl is asked to stop, go on that long with what is under way; 0 = as long as it takes",
	},
	// Five minutes outlast the usual Retry-After of a minute or two; a host that is gone
	// for longer should not keep the whole crawl.
	{
		path: "max_blocked", kind: kindDuration, def: "5m", min: "1s", max: "168h",
		zero: "stopping at once", flag: "max-blocked",
		doc: "go on waiting that long when only blocked hosts remain; 0 = stop at once",
	},
	{
		path: "seeds.file", kind: kindList, flag: "input-file", short: "i",
		doc: "file with one seed URL per line, repeatable, - = standard input; an empty name takes back those before it; empty = none", example: "seeds.txt",
		check: printable,
	},
	// host is the only mode that cannot surprise: it never leaves the sites one named.
	{
		path: "scope.mode", kind: kindChoice, def: "host", enum: []string{"host", "domain", "prefix", "any"},
		flag: "scope",
		doc:  "links to follow: same host, same registrable domain, below the seed's path, any",
	},
	{
		path: "scope.include", kind: kindList, flag: "include",
		doc: "regular expression a URL must match, one of them if repeated; seeds need not; empty = every URL does", example: `^https://example\.com/docs/`,
		check: expression,
	},
	{
		path: "scope.exclude", kind: kindList, flag: "exclude",
		doc: "regular expression a URL, a seed too, must not match, repeatable; empty = none", example: `\.pdf$`,
		check: expression,
	},
	// A text and not a group, so that it fits into a flag.
	{
		path: "scope.scores", kind: kindList, flag: "score",
		doc: `points for URLs that match, "POINTS REGEXP", repeatable: of a host's URLs those with more go first; empty = none`, example: `10 ^https://example\.com/news/`,
		check: score,
	},
	// A text for the same reason.
	{
		path: "scope.budgets", kind: kindList, flag: "budget",
		doc: `pages taken at most of URLs that match, "N REGEXP" of each host, "N/crawl REGEXP" of all together, repeatable: the first match counts; empty = no limit`, example: `500 ^https://[^/]+/calendar/`,
		check: budget,
	},
	// None by default: each of them can merge what some server tells apart.
	{
		path: "scope.canonical", kind: kindList, flag: "canonical",
		doc: "take URLs that differ in this alone for one, repeatable: sessions, slashes, tracking, empty-query, index, sort; see crawl explain; empty = none", example: "tracking",
		check: canonical.CheckRule,
	},
	{
		path: "scope.drop_params", kind: kindList, flag: "drop-param",
		doc: "parameter to take out of every URL, * = any text, repeatable; empty = none", example: "ref",
		check: canonical.CheckDrop,
	},
	{
		path: "scope.resources", kind: kindBool, def: "false", flag: "resources",
		doc: "follow images, scripts and styles too",
	},
	// Off, because each form is a question that nobody has asked.
	{
		path: "scope.forms", kind: kindBool, def: "false", flag: "forms",
		doc: "follow forms sent by GET, with the values they begin with",
	},
	// Above what pages written for people hold. Lists of all files of a large directory have
	// more, and so have traps; whoever raises it has that many in memory for each page that is
	// being read.
	{
		path: "scope.max_links", kind: kindInt, unit: "links", def: "10000", min: "1", max: "10000000",
		doc: "links taken from one page at most; those behind are dropped",
	},
	// RFC 9309 is what a crawler owes; leaving it needs the user's word.
	{
		path: "robots.enabled", kind: kindBool, def: "true", flag: "robots",
		doc:    "ask every host for robots.txt and obey it",
		unless: "do not ask for robots.txt; for your own servers",
	},
	// An hour is more likely a mistake in units than a wish, and a minute leaves 1440
	// pages a day.
	{
		path: "robots.max_crawl_delay", kind: kindDuration, def: "60s", min: "1ms", max: "24h",
		zero: "ignoring Crawl-delay", flag: "max-crawl-delay",
		doc: "longest Crawl-delay honoured, longer ones count as this long; 0 = ignore Crawl-delay",
	},
	// What rel=nofollow and its like ask for is what RFC 9309 is to the server.
	{
		path: "robots.follow_nofollow", kind: kindBool, def: "false", flag: "follow-nofollow",
		doc: "follow links that pages ask crawlers not to follow",
	},
}

// fetchFields are how a page is asked for.
var fetchFields = []field{
	{
		path: "fetch.user_agent", kind: kindText, flag: "user-agent", short: "U",
		doc: "User-Agent to send; empty = Treadlight/VERSION (+CONTACT)", example: "ExampleBot/1.0 (+https://example.com/bot)",
		check: headerText,
	},
	{
		path: "fetch.contact", kind: kindText, flag: "contact",
		doc: "URL or mail address for the operators of the sites; empty = none, with a warning", example: "https://example.com/bot",
		check: contact,
	},
	// Redacted wherever it is shown: this is where credentials are put.
	{
		path: "fetch.headers", kind: kindList, flag: "header", short: "H",
		doc: `header for every request, "Name: value", repeatable; empty = none`, example: "Accept-Language: en",
		check: header, redact: redactHeader,
	},
	// It bounds all others; they may be longer without harm.
	{
		path: "fetch.timeout", kind: kindDuration, def: "30s", min: "100ms", max: "1h", flag: "timeout",
		doc: "longest fetch, from the lookup of the name to the last byte",
	},
	// Three SYN retransmissions, after 1, 3 and 7 s (RFC 6298), fit into ten seconds.
	{
		path: "fetch.connect_timeout", kind: kindDuration, def: "10s", min: "10ms", max: "1h",
		doc: "longest lookup of the name with the connection",
	},
	// Servers that compute a page slowly do it before the headers.
	{
		path: "fetch.header_timeout", kind: kindDuration, def: "20s", min: "10ms", max: "1h",
		doc: "longest wait for the headers once the request is sent",
	},
	// A silence, not a total: a large page on a slow line is still a page.
	{
		path: "fetch.body_timeout", kind: kindDuration, def: "15s", min: "10ms", max: "1h",
		doc: "longest silence within a body",
	},
	// Room for long pages: what is larger is seldom a page, and holds no links.
	{
		path: "fetch.max_body", kind: kindSize, def: "10MiB", min: "1KiB", max: "4GiB", flag: "max-body",
		doc: "bytes of a body that are kept, after decoding",
	},
	// RFC 9110 section 15.4 leaves the limit to the client; loops are found by any.
	{
		path: "fetch.max_redirects", kind: kindInt, unit: "redirects", def: "10", min: "0", max: "50",
		flag: "max-redirects",
		doc:  "redirects followed in a row; 0 = none",
	},
	// Off, because over HTTP/2 all fetches of a host share one connection and one fate,
	// which hides from the limiter which of them was slow.
	{
		path: "fetch.http2", kind: kindBool, def: "false", flag: "http2",
		doc: "offer HTTP/2 to servers",
	},
	{
		path: "fetch.insecure", kind: kindBool, def: "false", flag: "insecure", short: "k",
		doc: "accept any TLS certificate",
	},
	// A link must not make the crawler a way into the network it runs in.
	{
		path: "fetch.allow_private", kind: kindBool, def: "false", flag: "allow-private",
		doc: "connect to all private and loopback addresses, not only to those that the seeds named when the crawl began; to link-local ones, and those of cloud metadata, only a seed or --resolve leads that names the address itself",
	},
}
