package config

import (
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/records/sink/warc"
)

func formatNames() (names []string) {
	for _, s := range sink.Formats() {
		names = append(names, string(s.Format))
	}
	return names
}

var extractFields = []field{
	{
		path: fieldsPath, kind: kindList, arg: "rule", flag: "field",
		doc: "rule for a value to take out of pages, NAME=css:SELECTOR, css:SELECTOR@ATTRIBUTE or xpath:EXPRESSION, repeatable; empty = none", example: "price:number=css:.price", check: fieldRule,
	},
	// A third of the specification of HTML on one page, which is among the largest there are.
	// What a page may cost in steps follows from it.
	{path: "extract.max_elements", kind: kindInt, unit: "elements", def: "100000", min: "1000", max: "10000000", doc: "elements of a page that are looked at; its record has what was read, and truncated"},
	// The steps that max_elements allows take about a second.
	{path: "extract.max_time", kind: kindDuration, def: "2s", min: "10ms", max: "1h", doc: "time that reading one page may take, links and all; its record has what was read, and truncated"},
}

var outFields = []field{
	{
		path: "output.path", kind: kindText, def: "-", arg: "file", flag: "output", short: "o",
		kept: "its records go on in the file they are in, and one that was moved is to be moved back",
		doc:  "file for the records, - = standard output; its ending says the format: " + sink.EndingList(", ") + ", compressed with .gz behind it; a directory, written with a slash or there already, takes the state as well", example: "pages.jsonl", check: fileName,
	},
	// One JSON object a line can be cut anywhere and still be read.
	{
		path: "output.format", kind: kindChoice, def: "jsonl", enum: formatNames(), flag: "format",
		kept: "its records go on in the file they are in",
		doc:  "how records are written, unless the output's ending says it; warc = archives alone: one if the output ends in .warc or .warc.gz, without an index, else several in that directory, with indexes",
	},
	// Neither text nor body by default: they are most of what a crawl moves. The digest says
	// whether a body has changed.
	{
		path: "output.record", kind: kindList, enum: recordParts, flag: "record", arg: "words",
		doc: "what records have beside the usual: text, main-text (without navigation and footers), metadata (Open Graph, Twitter, JSON-LD), body; and what not: no-links, no-digest (SHA-256 of the body); with commas between, or repeated; empty = links and digest", example: "text,no-links",
	},
	// A finished crawl is hours of other people's bandwidth: never lost to a typo.
	{
		path: "output.overwrite", kind: kindBool, def: "false", flag: "overwrite",
		kept: "to resume is to go on with what is there; without 'resume' it begins anew",
		doc:  "replace the output file if it exists, archives, and the state of a crawl",
	},
	// Written by default: who crawls wants to know what is there, and searches may filter.
	{path: "output.skip_noindex", kind: kindBool, def: "false", was: "skip-noindex", doc: "leave pages out of the records that ask not to be indexed; their links are followed"},
	// A file of its own: beside the records it would be in the way of who reads those.
	{
		path: "output.events", kind: kindText, arg: "file", was: "events",
		doc: "file for what changed a host's rate and why, a JSON line each, - = standard error; empty = none", example: "events.jsonl", check: printable,
	},
	{
		path: "state.dir", kind: kindText, arg: "dir", flag: "state",
		kept: "the directory is given already",
		doc:  "directory in which the crawl is kept, so that it can be resumed; empty = that of the output, if it is one", example: "crawl.state", check: directory,
	},
	// Both bounds are there to stop a trap of endless URLs before memory does.
	{
		path: "frontier.max_urls", kind: kindInt, unit: "URLs", def: "10000000", min: "1", max: "1000000000",
		doc: "URLs known at most; without a state 11 to 21 bytes each, and for those queued 150 and their length at most",
	},
	// In the order of the links a crawl is repeatable page by page, and costs no sorting.
	{
		path: "frontier.order", kind: kindChoice, def: "found", enum: []string{"found", "breadth", "depth"}, was: "order", agreed: always,
		doc: "which of a host's URLs go first: as they were found, those nearest to a seed, those farthest",
	},
	{path: "stats.path", kind: kindText, arg: "file", flag: "stats", doc: "file for the state of the crawl as it runs, - = standard output; empty = none", example: "stats.jsonl", check: printable},
	// Often enough to watch a crawl by, and 8640 lines a day.
	{path: "stats.interval", kind: kindDuration, def: "10s", min: "100ms", max: "24h", was: "stats-interval", doc: "time between two lines of it, and of progress in a log"},
	// On the loopback address unless an address says otherwise: whoever reaches it steers.
	{
		path: "listen.addr", kind: kindText, arg: "addr", flag: "listen",
		doc: "address where the crawl is seen and steered by HTTP, a port alone = this computer only; empty = nowhere", example: "8080", check: listenAddr,
	},
	// Without a flag: what stands on a command line is seen by all who list processes.
	{
		path: "listen.token", kind: kindText,
		doc: "secret that clients of listen.addr bring as a bearer token, 16 bytes or more; empty = none, on this computer only", example: "REDACTED", check: headerText, redact: redactAll,
	},
	{
		path: "log.level", kind: kindChoice, def: "info", enum: []string{"debug", "info", "warn", "error"}, was: "log-level", live: true, own: true,
		switches: []valueSwitch{{"quiet", "q", "error", "show errors only: no progress, no summary"}, {"verbose", "v", "debug", "show what is done and why"}},
		doc:      "least important message that is shown; error = no progress and no summary either",
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
		doc:  "directory for archives (WARC) of all that is sent and comes, beside the records; empty = none, unless that is the format", example: "archive", check: directory,
	},
	{path: "warc.prefix", kind: kindText, def: warc.DefaultPrefix, kept: "its archives go on under the name they have", doc: "how the names of archives begin", check: warc.CheckPrefix},
	// The size that archives commonly are cut at: large enough to be few, small enough to be
	// moved and indexed one at a time.
	{path: "warc.max_size", kind: kindSize, def: "1GB", min: "64KiB", max: "1TiB", was: "warc-max-size", doc: "size at which an archive ends and the next one begins; the last exchange may exceed it"},
	{path: "warc.host", kind: kindBool, def: "true", doc: "put the name of this machine into the names of archives and into what they tell of themselves"},
	// Archives are handed on, and with them whatever opens something.
	{path: "warc.credentials", kind: kindBool, def: "false", doc: "keep the values of credentials and cookies in archived requests, in files for their owner alone"},
	// As Heritrix and wget do: the directive is about showing copies, not about having them.
	{
		path: "warc.noarchive", kind: kindChoice, def: "ignore", enum: []string{"ignore", "obey"},
		doc: "pages that say noarchive to robots: ignore = archived, with metadata that says so; obey = only the metadata",
	},
}

var fleetFields = []field{
	{
		path: "fleet.redis", kind: kindText, arg: "url", flag: "redis",
		doc: "URL of the Redis or Valkey of a crawl that several processes share, ${NAME} in it for a variable of the environment; empty = one process", example: "rediss://crawl:${REDIS_PASSWORD}@redis.example.com:6380", check: redisURL, redact: redactRedis,
	},
	{
		path: "fleet.ca_file", kind: kindText, arg: "file", was: "redis-ca-file",
		doc: "PEM file of authorities, beside the system's, that vouch for that Redis with TLS; empty = none", example: "/etc/ssl/redis-ca.pem",
	},
	{
		path: "fleet.password_file", kind: kindText, arg: "file", was: "redis-passfile",
		doc: "file with the password of that Redis and nothing else; empty = the one in its URL, if any", example: "/run/secrets/redis",
	},
	{
		path: "fleet.job", kind: kindText, arg: "name", flag: "job",
		doc: "name of that crawl, letters, digits, dots, hyphens and underscores; the first process makes it, others join; empty = none", example: "news-2026-11", check: jobName,
	},
	{
		path: "fleet.worker", kind: kindText, was: "worker",
		doc: "name of this process in it, which stands for {worker} in names of files; empty = that of the machine and the number of the process", example: "node-7", check: workerName,
	},
	// A dead process is missed that long, and a slow one must not be taken for dead.
	{path: "fleet.lease", kind: kindDuration, def: "15s", min: "1s", max: "10m", was: "lease", doc: "how long a process that is not heard of keeps its hosts"},
}

var traceFields = []field{
	{
		path: "traces.endpoint", kind: kindText, was: "otlp",
		doc: "URL of a collector of OpenTelemetry (OTLP over HTTP) for a trace of each URL; empty = none", example: "http://localhost:4318", check: collector,
	},
	// Hidden whole: there is nothing to send there but what lets one in.
	{path: "traces.headers", kind: kindList, doc: `headers for the collector, "Name: value"; empty = none`, example: "Authorization: Bearer ${OTLP_TOKEN}", check: header, redact: redactHeaderValue},
	// Whoever turns them on wants to see something. A large crawl sends a dozen spans a URL.
	{path: "traces.sample", kind: kindNumber, unit: "share", def: "1", min: "0", max: "1", doc: "share of URLs that is traced; 0 = none"},
	// Off: it tells strangers which requests belong together.
	{path: "traces.propagate", kind: kindBool, def: "false", doc: "send the hosts that are crawled the header traceparent; for your own"},
}
