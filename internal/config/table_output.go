package config

// outFields are what leaves the crawl, what it keeps in memory and what people see.
var outFields = []field{
	{
		path: "output.path", kind: kindText, def: "-", flag: "output", short: "o",
		doc: "file for the records, - = standard output; its ending says the format: .jsonl, .csv, .txt (URLs), .warc, compressed with .gz behind it; a directory, written with a slash or there already, takes the state as well", example: "pages.jsonl",
		check: fileName,
	},
	// One JSON object a line can be cut anywhere and still be read.
	{
		path: "output.format", kind: kindChoice, def: "jsonl", enum: []string{"jsonl", "csv", "urls", "warc"},
		flag: "format",
		doc:  "how records are written, unless the output's ending says it; warc = archives alone: one if the output ends in .warc or .warc.gz, without an index, else several in that directory, with indexes",
	},
	// A finished crawl is hours of other people's bandwidth: never lost to a typo.
	{
		path: "output.overwrite", kind: kindBool, def: "false", flag: "overwrite",
		doc: "replace the output file if it exists, archives, and the state of a crawl",
	},
	{
		path: "output.text", kind: kindBool, def: "false", flag: "text",
		doc: "write the text of each page",
	},
	{
		path: "output.links", kind: kindBool, def: "true", flag: "links",
		doc:    "write the links of each page",
		unless: "leave the links out of the records",
	},
	// Bodies are most of what a crawl moves; the digest says whether one has changed.
	{
		path: "output.body", kind: kindChoice, def: "hash", enum: []string{"omit", "hash", "store"}, flag: "body",
		doc: "what records have of each body: nothing, its SHA-256, or that and the body itself",
	},
	// A tenth of what a page costs on a fast server, and what archives and comparisons of
	// crawls go by.
	{
		path: "output.digest", kind: kindBool, def: "true", flag: "digest",
		doc:    "write the SHA-256 of each body",
		unless: "leave the digest of bodies out of the records",
	},
	// Written by default: who crawls wants to know what is there, and searches may filter.
	{
		path: "output.skip_noindex", kind: kindBool, def: "false", flag: "skip-noindex",
		doc: "leave pages out of the records that ask not to be indexed; their links are followed",
	},
	// A file of its own: beside the records it would be in the way of who reads those.
	{
		path: "output.events", kind: kindText, flag: "events",
		doc: "file for what changed a host's rate and why, a JSON line each, - = standard error; empty = none", example: "events.jsonl",
		check: printable,
	},
	{
		path: "state.dir", kind: kindText, flag: "state",
		doc: "directory in which the crawl is kept, so that it can be resumed; empty = that of the output, if it is one", example: "crawl.state",
		check: directory,
	},
	// Both bounds are there to stop a trap of endless URLs before memory does.
	{
		path: "frontier.max_urls", kind: kindInt, unit: "URLs", def: "10000000", min: "1", max: "1000000000",
		doc: "URLs known at most; without a state 11 to 21 bytes each, and for those queued 150 and their length at most",
	},
	{
		path: "frontier.max_hosts", kind: kindInt, unit: "hosts", def: "1000000", min: "1", max: "100000000",
		doc: "hosts in memory at most, without a state those known; about 300 bytes each",
	},
	// About 60 MB with the usual lengths: the URLs that a thousand busy hosts ask for in a
	// minute, and a small part of what else a process takes.
	{
		path: "frontier.resident", kind: kindInt, unit: "URLs", def: "131072", min: "1024", max: "1000000000",
		doc: "queued URLs kept in memory at least, of a crawl with a state; the others are on disk",
	},
	// In the order of the links a crawl is repeatable page by page, and costs no sorting.
	{
		path: "frontier.order", kind: kindChoice, def: "found", enum: []string{"found", "breadth", "depth"},
		flag: "order",
		doc:  "which of a host's URLs go first: as they were found, those nearest to a seed, those farthest",
	},
	{
		path: "stats.path", kind: kindText, flag: "stats",
		doc: "file for the state of the crawl as it runs, - = standard output; empty = none", example: "stats.jsonl",
		check: printable,
	},
	// Often enough to watch a crawl by, and 8640 lines a day.
	{
		path: "stats.interval", kind: kindDuration, def: "10s", min: "100ms", max: "24h", flag: "stats-interval",
		doc: "time between two lines of it, and of progress in a log",
	},
	// On the loopback address unless an address says otherwise: whoever reaches it steers.
	{
		path: "listen.addr", kind: kindText, flag: "listen",
		doc: "address where the crawl is seen and steered by HTTP, a port alone = this computer only; empty = nowhere", example: "8080",
		check: listenAddr,
	},
	// Without a flag: what stands on a command line is seen by all who list processes.
	{
		path: "listen.token", kind: kindText,
		doc: "secret that clients of listen.addr bring as a bearer token, 16 bytes or more; empty = none, on this computer only", example: "REDACTED",
		check: headerText, redact: redactAll,
	},
	{
		path: "log.level", kind: kindChoice, def: "info", enum: []string{"debug", "info", "warn", "error"},
		flag: "log-level",
		doc:  "least important message that is shown",
	},
	{
		path: "log.format", kind: kindChoice, def: "text", enum: []string{"text", "json"}, flag: "log-format",
		doc: "how messages are written",
	},
	{
		path: "log.progress", kind: kindChoice, def: "auto", enum: []string{"auto", "tty", "plain", "none"}, flag: "progress",
		doc: "progress display; auto = a live view on a terminal, plain lines elsewhere; tty = one line that changes",
	},
	// These two move level and progress, see settleLog.
	{
		path: "log.quiet", kind: kindBool, def: "false", flag: "quiet", short: "q",
		doc: "show errors only: no progress, no summary",
	},
	{
		path: "log.verbose", kind: kindBool, def: "false", flag: "verbose", short: "v",
		doc: "show what is done and why",
	},
}
