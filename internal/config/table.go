package config

import (
	"strconv"

	"github.com/treadlight/crawl/internal/fetch/resolve"
	"github.com/treadlight/crawl/internal/observe/endpoint"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/records/chunk"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/records/sink/warc"
	"github.com/treadlight/crawl/internal/web/canonical"
	pagefields "github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/items"
	"github.com/treadlight/crawl/internal/web/scripts"
)

var crawlFields = []field{
	// With more than ten thousand, a process reaches its limit of open files before it gains anything.
	{
		path: "concurrency", kind: kindInt, unit: "fetches", def: "64", min: "1", max: "10000", flag: "concurrency", short: "c",
		doc: "requests in flight over all hosts; those that wait longer than a second for an answer do not count, up to four times the number in all",
	},
	// About as many as a browser opens to a host, and enough for the rate of a slow host: eight responses of a second
	// each are eight per second.
	{path: "per_host_max", kind: kindInt, unit: "fetches", def: "8", min: "1", max: "1000", was: "per-host-max", doc: "requests in flight at one host"},
	// Minus one and not zero means "no limit", because zero has a use: fetch only the seeds.
	{
		path: "depth", kind: kindInt, unit: "links", def: "-1", min: "-1", max: "1000000", flag: "depth", short: "d", agreed: always,
		doc: "most links between a seed and a page; 0 = seeds only, -1 = no limit", example: "3",
	},
	{
		path: "max_pages", kind: kindInt, unit: "pages", def: "0", min: "1", max: "1000000000000", zero: "no limit", flag: "max-pages", agreed: ifSet,
		doc: "end the crawl after so many pages, counting earlier runs and all processes of a fleet; 0 = no limit", example: "10000",
	},
	{
		path: "max_pages_per_host", kind: kindInt, unit: "pages", def: "0", min: "1", max: "1000000000", zero: "no limit", flag: "max-pages-per-host", agreed: always,
		doc: "most pages of one host; 0 = no limit", example: "500",
	},
	// A year is longer than any crawl; a larger number is a mistake in units.
	{
		path: "max_time", kind: kindDuration, def: "0", min: "1s", max: "8760h", zero: "no limit", flag: "max-time", agreed: ifSet,
		doc: "end this run of the crawl after so long; of a fleet, so long after its job was created; 0 = no limit", example: "2h",
	},
	// Most pages in flight arrive within two seconds, and whoever has stopped a crawl does not wait longer. A resumed
	// crawl visits what is canceled.
	{
		path: "grace", kind: kindDuration, def: "2s", min: "1s", max: "24h", zero: "as long as it takes", was: "grace",
		doc: "how long requests under way may go on when max_time is over or the crawl is asked to stop; 0 = as long as they take",
	},
	// Five minutes are longer than the usual Retry-After of a minute or two; a host that is gone for longer should not
	// delay the end of the crawl.
	{
		path: "max_blocked", kind: kindDuration, def: "5m", min: "1s", max: "168h", zero: "stopping at once", was: "max-blocked",
		doc: "how long to wait when only blocked hosts are left; 0 = stop at once",
	},
	{
		path: "seeds.file", kind: kindList, arg: "file", flag: "input-file", short: "i",
		doc: "file with one seed URL per line, repeatable, - = standard input; an empty name drops those before it; empty = none", example: "seeds.txt", check: printable,
	},
	// host is the only mode without surprises: it never leaves the sites that the user named.
	{
		path: "scope.mode", kind: kindChoice, def: "host", enum: []string{"host", "domain", "prefix", "any"}, flag: "scope", agreed: always,
		doc: "links to follow: same host, same registrable domain, below the seed's path, any",
	},
	{
		path: "scope.include", kind: kindList, arg: "regexp", flag: "include", agreed: always,
		doc: "follow only URLs that match this regular expression, or one of them if repeated; pages that do not match are not searched for links; seeds need not match; empty = all URLs", example: `^https://example\.com/docs/`, check: parses(expression),
	},
	{
		path: "scope.exclude", kind: kindList, arg: "regexp", flag: "exclude", agreed: always,
		doc: "leave out URLs, seeds too, that match this regular expression, repeatable; empty = none", example: `\.pdf$`, check: parses(expression),
	},
	// A text and not a group, so that it fits into a flag.
	{
		path: "scope.scores", kind: kindList, was: "score", agreed: always,
		doc: `points for URLs that match, "POINTS REGEXP", repeatable: the URLs of a host with the most points go first; empty = none`, example: `10 ^https://example\.com/news/`, check: parses(ParseScore),
	},
	// A text, so that it fits into a flag.
	{
		path: "scope.budgets", kind: kindList, was: "budget", agreed: always,
		doc: `most pages with URLs that match, "N REGEXP" per host, "N/crawl REGEXP" in all, repeatable: the first match counts; empty = no limit`, example: `500 ^https://[^/]+/calendar/`, check: parses(ParseBudget),
	},
	// None by default: each of them can merge URLs that some server distinguishes.
	{
		path: "scope.canonical", kind: kindList, arg: "word", flag: "canonical", agreed: always,
		doc: "treat URLs as one that differ only in this, repeatable: sessions, slashes, tracking, empty-query, index, sort, drop:NAME for a parameter (* in it = any text); see crawl explain; empty = none", example: "tracking", check: canonical.CheckRule,
	},
	{path: "scope.resources", kind: kindBool, def: "false", flag: "resources", agreed: always, doc: "follow images, scripts and styles too; with scope.forms also what scripts, comments, texts and headers name"},
	// Off, because submitting a form is a request that nobody has asked for.
	{path: "scope.forms", kind: kindBool, def: "false", was: "forms", agreed: always, doc: "follow forms sent by GET, with their initial values, and press the buttons of rendered pages"},
	// Every crawler should obey RFC 9309; ignoring it needs a decision of the user.
	{path: "robots.enabled", kind: kindBool, def: "true", flag: "robots", agreed: always, doc: "request robots.txt of every host and obey it", unless: "do not request robots.txt; for your own servers"},
	// An hour is more likely a mistake in units than a wish, and a minute leaves 1440 pages a day.
	{
		path: "robots.max_crawl_delay", kind: kindDuration, def: "60s", min: "1ms", max: "24h", zero: "ignoring Crawl-delay", was: "max-crawl-delay",
		doc: "longest Crawl-delay that is obeyed, longer ones are cut to it; 0 = ignore Crawl-delay",
	},
	// For a page, rel=nofollow and the like are what RFC 9309 is for the server.
	{path: "robots.follow_nofollow", kind: kindBool, def: "false", was: "follow-nofollow", agreed: always, doc: "follow links that pages ask crawlers not to follow"},
}

var trapFields = []field{
	// On by default: an endless calendar costs its server more than anyone else.
	{
		path: "traps.enabled", kind: kindBool, def: "true", flag: "traps", agreed: always,
		doc: "skip URL traps: endless calendars, filter combinations and the like, whose pages have nothing new", unless: "follow URL traps too",
	},
	{path: "traps.report", kind: kindBool, def: "false", agreed: always, doc: "report URL traps and follow them all the same"},
	// A trap is endless, so it can be detected late; most sites have fewer pages, and are visited completely.
	{
		path: "traps.after", kind: kindInt, unit: "pages", def: "1000", min: "1", max: "1000000000", zero: "the first page on", agreed: always,
		doc: "pages of a host before its pages and dates in URLs are judged; 0 = from the first",
	},
	// Off by default: a fingerprint costs as much as the links, see docs/explanation/links-and-traps.md.
	{
		path: "duplicates.find", kind: kindChoice, def: "off", enum: []string{"off", "exact", "near"}, flag: "duplicates",
		doc: "mark pages that repeat an earlier one: with the same bytes, or also with nearly the same text",
	},
}

var sitemapFields = []field{
	// Sites publish sitemaps for crawlers, and pages to which nothing links are only found there.
	{
		path: "sitemaps.enabled", kind: kindBool, def: "true", flag: "sitemaps", agreed: always,
		doc: "request the sitemaps that robots.txt names, or else /sitemap.xml; none with depth 0", unless: "do not request sitemaps",
	},
	// A feed is how a site announces what is new.
	{path: "sitemaps.feeds", kind: kindBool, def: "true", was: "feeds", agreed: always, doc: "read the RSS and Atom feeds that pages name, and follow their links"},
}

var fetchFields = []field{
	{
		path: "fetch.user_agent", kind: kindText, flag: "user-agent", short: "U",
		doc: "User-Agent to send; empty = Treadlight/VERSION (+CONTACT)", example: "ExampleBot/1.0 (+https://example.com/bot)", check: headerText,
	},
	{path: "fetch.contact", kind: kindText, flag: "contact", doc: "URL or mail address for the operators of the sites; empty = none, with a warning", example: "https://example.com/bot", check: contact},
	// Redacted wherever it is shown, as credentials are put here.
	{
		path: "fetch.headers", kind: kindList, arg: "header", flag: "header", short: "H",
		doc: `header for every request, "Name: value", repeatable; empty = none`, example: "Accept-Language: en", check: header, redact: redactHeader,
	},
	// It bounds all other timeouts; they may be longer without harm.
	{path: "fetch.timeout", kind: kindDuration, def: "30s", min: "100ms", max: "1h", flag: "timeout", doc: "longest request, from the lookup of the name to the last byte"},
	// Enough for long pages: what is larger is rarely a page, and contains no links.
	{path: "fetch.max_body", kind: kindSize, def: "10MiB", min: "1KiB", max: "4GiB", was: "max-body", doc: "most bytes that are kept of a body, after decoding"},
	// RFC 9110 section 15.4 leaves the limit to the client; any limit ends loops.
	{path: "fetch.max_redirects", kind: kindInt, unit: "redirects", def: "10", min: "0", max: "50", was: "max-redirects", agreed: always, doc: "redirects followed in a row; 0 = none"},
	// Off, because over HTTP/2 all requests of a host share one connection and its problems, which hides from the
	// limiter which of them was slow.
	{path: "fetch.http2", kind: kindBool, def: "false", was: "http2", doc: "offer HTTP/2 to servers"},
	{path: "fetch.insecure", kind: kindBool, def: "false", flag: "insecure", short: "k", doc: "accept any TLS certificate"},
	// A link must not make the crawler an entrance to the network in which it runs.
	{
		path: "fetch.allow_private", kind: kindBool, def: "false", flag: "allow-private",
		doc: "connect to all private and loopback addresses, not only to those of hosts that the first seeds named; a link-local or cloud metadata address is used only if a seed or --resolve names the address itself",
	},
	// Decided when the headers have come, which saves bandwidth, also that of the site.
	{
		path: "fetch.accept_types", kind: kindList, was: "accept-type",
		doc: `media type whose bodies are read, such as text/*, or with ! before it one that is not read, repeatable; empty = all`, example: "!video/*", check: mediaPattern,
	},
	{
		path: "fetch.skip_larger", kind: kindSize, def: "0", min: "1", max: "1TiB", zero: "any size", was: "skip-larger",
		doc: "skip bodies with a longer Content-Length; 0 = skip none, and cut at max_body", example: "50MiB",
	},
	{path: "fetch.conditional", kind: kindBool, def: "true", was: "conditional", doc: "in later rounds, request a page only if it has changed (If-None-Match, If-Modified-Since); false = request every page whole"},
}

var accessFields = []field{
	{
		path: "access.auth", kind: kindList, arg: "login", flag: "auth",
		doc: "credentials for a host, \"HOST=user:password\" or \"HOST=bearer TOKEN\", ${NAME} for a variable of the environment, repeatable; empty = none", example: "docs.example.com=bearer ${DOCS_TOKEN}", check: authItem, redact: redactAuthItem,
		words: []wordFlag{{"login", LoginWord, "file", "log in by a form first, as this file says: page, user and password, and what proves success"}},
	},
	{path: "access.netrc", kind: kindText, arg: "file", was: "netrc", doc: "netrc file with credentials for hosts; empty = none", example: "/home/me/.netrc", check: noStream},
	// Off, as a session changes what a site shows, and a page should not depend on which page was fetched before.
	{path: "access.cookies", kind: kindBool, def: "false", was: "cookies", doc: "keep cookies and send them back, in this run only"},
	{
		path: "access.cookie_file", kind: kindText, arg: "file", flag: "cookie-file",
		doc: "file cookies.txt of a browser to start with; turns cookies on; empty = none", example: "cookies.txt", check: noStream,
	},
	{
		path: "access.proxy", kind: kindText, arg: "url", flag: "proxy",
		doc: "proxy for all hosts, http://, https:// or socks5://, or env to use HTTP_PROXY and the like; the check of private addresses then covers only names that resolve on this machine; direct or empty = none", example: "http://proxy.example.com:3128", check: proxy, redact: redactProxy,
	},
	{
		path: "access.cert", kind: kindText, arg: "file", was: "cert",
		doc: "PEM file of the client certificate, for servers that ask for one and that seeds name; empty = none", example: "client.pem", check: noStream,
	},
	{path: "access.key", kind: kindText, arg: "file", was: "key", doc: "PEM file of its key; empty = in the file of the certificate", example: "client.key", check: noStream},
	{path: "access.ca_file", kind: kindText, arg: "file", was: "ca-file", doc: "PEM file of certificate authorities that are trusted beside the system's; empty = none", example: "ca.pem", check: noStream},
	{
		path: "access.resolve", kind: kindList, arg: "addr", flag: "resolve",
		doc: "addresses of a host, \"HOST:PORT:ADDRESS[,ADDRESS]\", * for every host or port, repeatable; empty = ask name servers", example: "example.com:443:192.0.2.7", check: parses(resolve.ParseStatic),
	},
	{path: "access.family", kind: kindChoice, def: "any", enum: []string{"any", "ipv4", "ipv6"}, doc: "IP version of connections"},
	{path: "access.dns_server", kind: kindText, was: "dns-server", doc: "IP address of a name server, with a port unless it is 53; empty = those of the system", example: "192.0.2.53", check: parses(resolve.ParseServer)},
}

func formatNames() (names []string) {
	for _, s := range sink.Formats() {
		names = append(names, string(s.Format))
	}
	return names
}

var renderFields = []field{
	// Never by default: a page takes a browser a second, and its host several requests.
	{
		path: "render.mode", kind: kindChoice, def: "never", enum: []string{"never", "auto", "always"}, flag: "render",
		doc: "render pages in Chromium before they are read: never, pages that seem empty without scripts, always",
	},
	{
		path: "render.browser", kind: kindText, arg: "program", flag: "browser",
		doc: "path of Chromium, or the URL of a running one, ws://HOST:PORT; empty = where it is usually installed", example: "/opt/chromium/chrome", check: browserProgram, redact: redactBrowser,
	},
	{
		path: "render.steps", kind: kindList, arg: "step", flag: "step", most: 20,
		doc: "what to do on each rendered page, repeatable: click:SELECTOR, more:SELECTOR (click again and again), scroll (to the end, while it grows), wait:SELECTOR, wait:DURATION, pdf (print it, beside the picture); empty = nothing", example: "click:#more",
		check: func(s string) error { _, err := scripts.ParseStep(s); return err },
	},
	{path: "render.screenshot", kind: kindText, arg: "dir", flag: "screenshot", doc: "directory for a picture (PNG) of each rendered page, named in its record; empty = none", example: "pictures", check: noStream},
	// Each browser takes 200 to 500 MB; two of them keep a machine with two cores busy.
	{path: "render.browsers", kind: kindInt, unit: "browsers", def: "2", min: "1", max: "64", doc: "browsers at a time, each with one page"},
}

var extractFields = []field{
	{
		path: fieldsPath, kind: kindList, most: pagefields.MaxRules, arg: "rule", flag: "field",
		doc: "rule that extracts a value from pages, or from the item before it, NAME=css:SELECTOR, css:SELECTOR@ATTRIBUTE, xpath:EXPRESSION, json:PATH, re:REGEXP or page for its URL, repeatable; empty = none", example: "price:number=css:.price", check: checkRule,
		words: []wordFlag{
			{"item", items.ItemWord, "rule", "a record for each such element in place of one for each page: css:SELECTOR, xpath:EXPRESSION, json:PATH, schema:TYPE or page, with url~REGEXP for some pages only, repeatable"},
			{"next", items.NextWord, "rule", "links to follow in place of all: css:SELECTOR and the like, or param:NAME for the next number in the URL, repeatable"},
		},
	},
	// A third of the specification of HTML on one page, which is among the largest that exist. The bound of the steps
	// for a page follows from it.
	{path: "extract.max_elements", kind: kindInt, unit: "elements", def: "100000", min: "1000", max: "10000000", doc: "most elements of a page that are read; the record of a longer page says truncated"},
	// The steps that max_elements allows take about a second.
	{path: "extract.max_time", kind: kindDuration, def: "2s", min: "10ms", max: "1h", doc: "longest time to read one page; the record of a page that takes longer says truncated"},
}

var outFields = []field{
	{
		path: "output.path", kind: kindText, def: "-", arg: "file", flag: "output", short: "o",
		kept: "its records go on in the file they are in, and one that was moved is to be moved back",
		doc:  "file for the records, - = standard output; its ending sets the format: " + sink.EndingList(", ") + ", each with .gz to compress it; a directory (with a slash, or existing) also holds the state of the crawl", example: "pages.jsonl", check: fileName,
	},
	// One JSON object per line can be cut anywhere and still be read.
	{
		path: "output.format", kind: kindChoice, def: "jsonl", enum: formatNames(), flag: "format",
		kept: "its records go on in the file they are in",
		doc:  "format of records, if the output's ending does not set it; warc = only archives: one without an index if the output ends in .warc or .warc.gz, otherwise several with indexes in that directory",
	},
	// What common embedding models accept.
	{
		path: "output.chunk", kind: kindInt, unit: "tokens", def: strconv.Itoa(chunk.DefaultTokens), min: strconv.Itoa(chunk.MinTokens), max: "1000000", flag: "chunk", agreed: always,
		doc: "most tokens of a chunk of --format markdown; a token is about four letters",
	},
	// Neither text nor body by default: they are most of the data of a crawl. The digest shows whether a body has
	// changed.
	{
		path: "output.record", kind: kindList, enum: recordParts, flag: "record", arg: "words",
		doc: "what records also contain: text, main-text (without navigation and footers), markdown (main text as Markdown), metadata (Open Graph, Twitter, JSON-LD), body; and what they leave out: no-links, no-digest (SHA-256 of the body); separated by commas, or repeated; empty = links and digest", example: "text,no-links",
	},
	// A finished crawl has used hours of other people's bandwidth, and must never be lost through a typing mistake.
	{
		path: "output.overwrite", kind: kindBool, def: "false", flag: "overwrite",
		kept: "to resume is to go on with what is there; without 'resume' it begins anew",
		doc:  "replace an existing output file, archives and state",
	},
	// Written by default: the user of a crawl wants to know what exists, and searches can filter.
	{path: "output.skip_noindex", kind: kindBool, def: "false", was: "skip-noindex", doc: "write no record of pages that ask not to be indexed; their links are followed"},
	// A file of its own: among the records it would disturb programs that read those.
	{
		path: "output.events", kind: kindText, arg: "file", was: "events",
		doc: "file for changes of hosts' rates and their causes, one JSON line each, - = standard error; empty = none", example: "events.jsonl", check: printable,
	},
	{
		path: "output.skipped", kind: kindText, arg: "file",
		doc: "file for URLs that are left out, with the reason and the page that has the link, one JSON line each, - = standard error; empty = none", example: "skipped.jsonl", check: printable,
	},
	{
		path: "state.dir", kind: kindText, arg: "dir", flag: "state",
		kept: "the directory is given already",
		doc:  "directory for the state of the crawl, so that it can be resumed; empty = the output, if that is a directory", example: "crawl.state", check: directory,
	},
	// The bound stops an endless trap before the memory is used up.
	{
		path: "frontier.max_urls", kind: kindInt, unit: "URLs", def: "10000000", min: "1", max: "1000000000",
		doc: "most URLs the crawl knows; without a state each takes 11 to 21 bytes of memory, a queued one up to 150 more and its length",
	},
	// With the order of the links a crawl is repeatable page by page, and needs no sorting.
	{
		path: "frontier.order", kind: kindChoice, def: "found", enum: []string{"found", "breadth", "depth"}, was: "order", agreed: always,
		doc: "which of a host's URLs go first: in the order in which they were found, nearest to a seed, farthest from it",
	},
	{path: "stats.path", kind: kindText, arg: "file", flag: "stats", doc: "file for the state of the crawl as it runs, - = standard output; empty = none", example: "stats.jsonl", check: printable},
	// Often enough to watch a crawl, and 8640 lines a day.
	{path: "stats.interval", kind: kindDuration, def: "10s", min: "100ms", max: "24h", was: "stats-interval", doc: "time between two of its lines, and between progress lines in a log"},
	// On the loopback address unless another address is given: whoever reaches it can control the crawl.
	{
		path: "listen.addr", kind: kindText, arg: "addr", flag: "listen",
		doc: "address of the dashboard and HTTP API, a port alone = this computer only; empty = none", example: "8080", check: parses(endpoint.ParseAddress),
	},
	// Without a flag: everybody who lists processes sees their command lines.
	{
		path: "listen.token", kind: kindText,
		doc: "secret that clients of listen.addr send as a bearer token, 16 bytes or more; empty = none, on this computer only", example: "REDACTED", check: headerText, redact: redactAll,
	},
	{
		path: "log.level", kind: kindChoice, def: "info", enum: []string{"debug", "info", "warn", "error"}, was: "log-level", live: true, own: true,
		switches: []valueSwitch{{"quiet", "q", "error", "show errors only: no progress, no summary"}, {"verbose", "v", "debug", "show what is done and why"}},
		doc:      "lowest level of messages shown; error = no progress and no summary either",
	},
	{path: "log.format", kind: kindChoice, def: "text", enum: []string{"text", "json"}, was: "log-format", doc: "how messages are written"},
	{
		path: "log.progress", kind: kindChoice, def: "auto", enum: []string{"auto", "tty", "plain", "none"}, flag: "progress", own: true,
		doc: "progress display; auto = a live view on a terminal, plain lines elsewhere; tty = one line that changes",
	},
}

var warcFields = []field{
	{
		path: "warc.dir", kind: kindText, arg: "dir", flag: "warc",
		kept: "its archives go on in the directory they are in",
		doc:  "directory for archives (WARC) of all requests and responses, beside the records; empty = none, unless warc is the format", example: "archive", check: directory,
	},
	{path: "warc.prefix", kind: kindText, def: warc.DefaultPrefix, kept: "its archives go on under the name they have", doc: "how the names of archives begin", check: warc.CheckPrefix},
	// The common size of archives: large enough that there are few, small enough to be moved and indexed one by one.
	{path: "warc.max_size", kind: kindSize, def: "1GB", min: "64KiB", max: "1TiB", was: "warc-max-size", doc: "size at which an archive ends and the next one begins; the last exchange may exceed it"},
	{path: "warc.host", kind: kindBool, def: "true", doc: "put the name of this machine into the names of archives and their warcinfo records"},
	// Archives are passed on, and credentials in them would be too.
	{path: "warc.credentials", kind: kindBool, def: "false", doc: "keep the values of credentials and cookies in archived requests; the files are readable by their owner alone"},
	// As Heritrix and wget do: the directive is about showing copies, not about keeping them.
	{
		path: "warc.noarchive", kind: kindChoice, def: "ignore", enum: []string{"ignore", "obey"},
		doc: "pages whose robots rules say noarchive: ignore = archive them, with metadata that says so; obey = only the metadata",
	},
}

var fleetFields = []field{
	{
		path: "fleet.redis", kind: kindText, arg: "url", flag: "redis",
		doc: "URL of the Redis or Valkey of a crawl that several processes share, ${NAME} in it for a variable of the environment; empty = one process", example: "rediss://crawl:${REDIS_PASSWORD}@redis.example.com:6380", check: redisURL, redact: RedactRedis,
	},
	{
		path: "fleet.ca_file", kind: kindText, arg: "file", was: "redis-ca-file",
		doc: "PEM file of certificate authorities for that Redis, beside the system's; empty = none", example: "/etc/ssl/redis-ca.pem",
	},
	{
		path: "fleet.password_file", kind: kindText, arg: "file", was: "redis-passfile",
		doc: "file with the password of that Redis and nothing else; empty = the one in its URL, if any", example: "/run/secrets/redis",
	},
	{
		path: "fleet.job", kind: kindText, arg: "name", flag: "job",
		doc: "name of that crawl, letters, digits, dots, hyphens and underscores; the first process creates it, others join; empty = none", example: "news-2026-11", check: jobName,
	},
	{
		path: "fleet.worker", kind: kindText, was: "worker",
		doc: "name of this process in it, also for {worker} in names of files; empty = name of the machine and process number", example: "node-7", check: workerName,
	},
	// The hosts of a dead process wait that long, and a slow process must not count as dead.
	{path: "fleet.lease", kind: kindDuration, def: "15s", min: "1s", max: "10m", was: "lease", doc: "how long a process that no longer answers keeps its hosts"},
}

var traceFields = []field{
	{
		path: "traces.endpoint", kind: kindText, was: "otlp",
		doc: "URL of a collector of OpenTelemetry (OTLP over HTTP) for a trace of each URL; empty = none", example: "http://localhost:4318", check: parses(endpoint.ParseCollector),
	},
	// Redacted as a whole: the only headers that one sends there are credentials.
	{path: "traces.headers", kind: kindList, doc: `headers for the collector, "Name: value"; empty = none`, example: "Authorization: Bearer ${OTLP_TOKEN}", check: header, redact: redactHeaderValue},
	// Whoever turns traces on wants to see something. A large crawl sends a dozen spans per URL.
	{path: "traces.sample", kind: kindNumber, unit: "share", def: "1", min: "0", max: "1", doc: "share of URLs that is traced; 0 = none"},
	// Off: it shows foreign servers which requests belong together.
	{path: "traces.propagate", kind: kindBool, def: "false", doc: "send the header traceparent to the crawled hosts; for your own servers"},
}

// The bounds of every rate.
const (
	minRate = "0.001"
	maxRate = "1000000"
)

func strategyHelp() (text string) {
	for _, s := range control.Strategies() {
		text += s.Name + " = " + s.Help + "; "
	}
	return text
}

var rateFields = []field{
	// It has no field of its own in the structs.
	{path: "ratelimit.enabled", kind: kindBool, def: "true", noStruct: true, doc: "second spelling of the strategy: false = off"},
	{
		path: "ratelimit.strategy", kind: kindChoice, def: control.Names()[0], enum: append(control.Names(), off), flag: "strategy",
		doc: "how the rate of a host is set: " + strategyHelp() + "off = no pacing, for your own servers",
	},
	// No server minds one request per second from a stranger.
	{
		path: "ratelimit.initial_rps", kind: kindRate, def: "1", min: minRate, max: maxRate, flag: "rate", live: true,
		doc: "requests per second to begin with at a new host; the limit is max_rps, which this raises if that is not set",
	},
	// Not lower by default: a host that permits only a page in ten seconds is in trouble, and the breaker is the better
	// answer to that.
	{path: "ratelimit.min_rps", kind: kindRate, def: "0.1", min: minRate, max: maxRate, live: true, doc: "lowest requests per second to a host"},
	// More than ten per second is for hosts whose owner has been asked.
	{
		path: "ratelimit.max_rps", kind: kindRate, def: "10", min: minRate, max: maxRate, flag: "max-rate", live: true,
		doc: "highest requests per second to a host; lowers initial_rps if that is not set",
	},
	// One: requests are evenly spaced, and a pause permits no burst.
	{path: "ratelimit.token_bucket_capacity", kind: kindNumber, unit: "number of requests", def: "1", min: "1", max: "1000", doc: "requests that an idle host may get at once"},
	// Increase and decrease are those of classic AIMD: a tenth of a request per second more per success, half the rate
	// after a refusal.
	{path: "ratelimit.aimd_increase", kind: kindRate, def: "0.1", min: minRate, max: "1000", doc: "aimd: requests per second that a fast success adds to the rate"},
	// Neither 0, which would stop a host for ever, nor 1, which would learn nothing.
	{path: "ratelimit.aimd_decrease", kind: kindNumber, unit: "factor", def: "0.5", min: "0.01", max: "0.99", doc: "aimd, gradient: factor by which a refusal lowers the rate"},
	{path: "ratelimit.latency_target", kind: kindDuration, def: "1s", min: "1ms", max: "5m", doc: "aimd: expected time to an answer; faster ones raise the rate"},
	// Not below 1: otherwise a response would be fast and slow at the same time.
	{path: "ratelimit.latency_degrade_factor", kind: kindNumber, unit: "factor", def: "2", min: "1", max: "100", doc: "aimd: multiple of the target from which an answer lowers the rate"},
	// Not 0: otherwise a breaker would open without a failure.
	{path: "ratelimit.error_rate_threshold", kind: kindNumber, unit: "fraction", def: "0.5", min: "0.01", max: "1", doc: "all but steer: share of failures in the window that opens the breaker"},
	// With fewer than ten responses, half of them fail too often by chance.
	{path: "ratelimit.min_samples_to_trip", kind: kindInt, unit: "answers", def: "10", min: "1", max: "1000000", doc: "all but steer: answers in the window before their share of failures counts"},
	{path: "ratelimit.consecutive_fail_threshold", kind: kindInt, unit: "failures", def: "5", min: "1", max: "1000000", doc: "all but steer: failures in a row that open the breaker"},
	// Long enough for a restart behind a load balancer.
	{path: "ratelimit.open_state_duration", kind: kindDuration, def: "15s", min: "10ms", max: "24h", doc: "how long an open breaker lets nothing through; steer: at most so long, unless the host asks for more"},
	{path: "ratelimit.half_open_probes", kind: kindInt, unit: "requests", def: "2", min: "1", max: "1000", doc: "all but steer: successes that close the breaker again"},
	// Delays are drawn at random between zero and these bounds, so that clients do not return at the same time.
	{path: "ratelimit.retry_base_delay", kind: kindDuration, def: "200ms", min: "1ms", max: "1h", doc: "longest wait before the first retry, doubled for each one after it"},
	{path: "ratelimit.retry_max_delay", kind: kindDuration, def: "30s", min: "1ms", max: "24h", doc: "longest wait before any retry"},
	// Retries, not attempts: with --retries 0 a URL is requested once. Twenty doublings exceed any delay.
	{
		path: "ratelimit.retry_max_attempts", kind: kindInt, unit: "retries", def: "3", min: "0", max: "20", flag: "retries",
		doc: "retries of a request after 408, 425, 429, 502, 503, 504 or a network error; 0 = none, except that a first 429, 503 or 403 is tried once more, alone, to tell a limit of the host from a failing URL",
	},
	// Servers send dates years ahead by mistake; an hour is a pause, more is an absence.
	{path: "ratelimit.max_retry_after", kind: kindDuration, def: "1h", min: "1s", max: "168h", was: "max-retry-after", doc: "longest Retry-After that is obeyed, longer ones are cut to it"},
	{
		path: "ratelimit.min_delay", kind: kindDuration, def: "0", min: "1ms", max: "24h", zero: "none", flag: "min-delay", also: []string{"delay"}, live: true,
		doc: "shortest time between two requests to a host, whatever the rates; 0 = none", example: "2s",
	},
	{
		path: "ratelimit.global_rps", kind: kindRate, def: "0", min: minRate, max: "1000000", zero: "no limit", flag: "global-rate", agreed: ifSet,
		doc: "requests per second over all hosts; 0 = no limit", example: "100",
	},
	// Hosts at one address that refuse requests together are detected without it; this is for an operator who has said
	// what all his hosts together tolerate.
	{
		path: "ratelimit.ip_rps", kind: kindRate, def: "0", min: minRate, max: "1000000", zero: "no limit", agreed: ifSet,
		doc: "requests per second over all hosts at one IP address (IPv6: one /64); 0 = no limit", example: "20",
	},
	{
		path: "ratelimit.site_rps", kind: kindRate, def: "0", min: minRate, max: "1000000", zero: "no limit", agreed: ifSet,
		doc: "requests per second over all hosts of one registrable domain; 0 = no limit", example: "20",
	},
	// A value below --concurrency leaves workers idle, which is useful for a line or a proxy that tolerates few
	// requests at a time; hosts then take turns.
	{
		path: "ratelimit.global_concurrency", kind: kindInt, unit: "requests", def: "0", min: "1", max: "10000", zero: "no limit", was: "global-concurrency", agreed: ifSet,
		doc: "requests in flight over all hosts; 0 = no limit", example: "16",
	},
	// The minimum is a page in some seconds; the maximum is faster than any network card.
	{
		path: "ratelimit.global_bytes", kind: kindSize, def: "0", min: "1KiB", max: "1TiB", zero: "no limit", was: "global-bytes", agreed: ifSet,
		doc: "bytes of bodies per second over all hosts, as received; 0 = no limit", example: "2MiB",
	},
	// Not "memory", which elsewhere is the name of flags that bound bytes.
	{
		path: "ratelimit.remember", kind: kindText, arg: "file", flag: "remember",
		doc: "SQLite database that keeps what is learned of hosts for later crawls; empty = none", example: "hosts.db", check: noStream,
	},
	// Fifteen steps of two seconds: a failure stops counting within 7 % of its time. The p95 of 64 samples depends on
	// the four largest, so that it is not determined by a single slow page.
	{path: "ratelimit.latency_samples", kind: kindInt, unit: "answers", def: "64", min: "1", max: "255", doc: "number of last answers from which a host's average and p95 latency are computed"},
	{path: "ratelimit.stats_window", kind: kindDuration, def: "30s", min: "100ms", max: "1h", doc: "time over which failures are counted; a whole number of stats_bucket"},
	{path: "ratelimit.stats_bucket", kind: kindDuration, def: "2s", min: "10ms", max: "1h", doc: "step in which the window moves"},
	// What lasts longer, such as an open breaker, the limiter keeps in a short form.
	{path: "ratelimit.domain_state_ttl", kind: kindDuration, def: "10m", min: "1s", max: "720h", doc: "how long what was learned of an idle host is kept"},
	// A power of two, so that a hash selects its shard with a mask.
	{path: "ratelimit.shards", kind: kindInt, unit: "locks", def: "16", min: "1", max: "4096", doc: "locks over the hosts, a power of two", check: powerOfTwo},
}
