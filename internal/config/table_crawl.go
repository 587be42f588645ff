package config

import "github.com/treadlight/crawl/internal/web/canonical"

var crawlFields = []field{
	// Beyond ten thousand, a process runs into its limit of open files before it gains
	// anything.
	{
		path: "concurrency", kind: kindInt, unit: "fetches", def: "64", min: "1", max: "10000", flag: "concurrency", short: "c",
		doc: "fetches in flight over all hosts; one that has waited a second for its answer does not count, up to four times as many in all",
	},
	// About what a browser opens to a host, and enough for a slow host to be asked at
	// its rate: eight answers of a second each are eight a second.
	{path: "per_host_max", kind: kindInt, unit: "fetches", def: "8", min: "1", max: "1000", was: "per-host-max", doc: "fetches in flight at one host"},
	// Minus one and not zero is "no limit", because zero has a use: fetch the seeds.
	{
		path: "depth", kind: kindInt, unit: "links", def: "-1", min: "-1", max: "1000000", flag: "depth", short: "d", agreed: always,
		doc: "links a page may be away from a seed; 0 = seeds only, -1 = no limit", example: "3",
	},
	{
		path: "max_pages", kind: kindInt, unit: "pages", def: "0", min: "1", max: "1000000000000", zero: "no limit", flag: "max-pages", agreed: ifSet,
		doc: "end the crawl after that many pages, those of earlier runs and of all processes of a fleet included; 0 = no limit", example: "10000",
	},
	{
		path: "max_pages_per_host", kind: kindInt, unit: "pages", def: "0", min: "1", max: "1000000000", zero: "no limit", flag: "max-pages-per-host", agreed: always,
		doc: "pages taken from one host at most; 0 = no limit", example: "500",
	},
	// A year is longer than any crawl; a larger number is a slip of units.
	{
		path: "max_time", kind: kindDuration, def: "0", min: "1s", max: "8760h", zero: "no limit", flag: "max-time", agreed: ifSet,
		doc: "end the crawl, or this run of it, after that long; of a fleet, since its job was made; 0 = no limit", example: "2h",
	},
	// Most pages under way come within two seconds, and whoever has ended a crawl waits no
	// longer. What is cut off is visited by the resume.
	{
		path: "grace", kind: kindDuration, def: "2s", min: "1s", max: "24h", zero: "as long as it takes", was: "grace",
		doc: "when max_time is over or the crawl is asked to stop, go on that long with what is under way; 0 = as long as it takes",
	},
	// Five minutes outlast the usual Retry-After of a minute or two; a host that is gone
	// for longer should not keep the whole crawl.
	{
		path: "max_blocked", kind: kindDuration, def: "5m", min: "1s", max: "168h", zero: "stopping at once", was: "max-blocked",
		doc: "go on waiting that long when only blocked hosts remain; 0 = stop at once",
	},
	{
		path: "seeds.file", kind: kindList, arg: "file", flag: "input-file", short: "i",
		doc: "file with one seed URL per line, repeatable, - = standard input; an empty name takes back those before it; empty = none", example: "seeds.txt", check: printable,
	},
	// host is the only mode that cannot surprise: it never leaves the sites one named.
	{
		path: "scope.mode", kind: kindChoice, def: "host", enum: []string{"host", "domain", "prefix", "any"}, flag: "scope", agreed: always,
		doc: "links to follow: same host, same registrable domain, below the seed's path, any",
	},
	{
		path: "scope.include", kind: kindList, arg: "regexp", flag: "include", agreed: always,
		doc: "regular expression a URL must match, one of them if repeated; seeds need not; empty = every URL does", example: `^https://example\.com/docs/`, check: expression,
	},
	{
		path: "scope.exclude", kind: kindList, arg: "regexp", flag: "exclude", agreed: always,
		doc: "regular expression a URL, a seed too, must not match, repeatable; empty = none", example: `\.pdf$`, check: expression,
	},
	// A text and not a group, so that it fits into a flag.
	{
		path: "scope.scores", kind: kindList, was: "score", agreed: always,
		doc: `points for URLs that match, "POINTS REGEXP", repeatable: of a host's URLs those with more go first; empty = none`, example: `10 ^https://example\.com/news/`, check: score,
	},
	// A text for the same reason.
	{
		path: "scope.budgets", kind: kindList, was: "budget", agreed: always,
		doc: `pages taken at most of URLs that match, "N REGEXP" of each host, "N/crawl REGEXP" of all together, repeatable: the first match counts; empty = no limit`, example: `500 ^https://[^/]+/calendar/`, check: budget,
	},
	// None by default: each of them can merge what some server tells apart.
	{
		path: "scope.canonical", kind: kindList, arg: "word", flag: "canonical", agreed: always,
		doc: "take URLs that differ in this alone for one, repeatable: sessions, slashes, tracking, empty-query, index, sort, drop:NAME for a parameter (* in it = any text); see crawl explain; empty = none", example: "tracking", check: canonical.CheckRule,
	},
	{path: "scope.resources", kind: kindBool, def: "false", flag: "resources", agreed: always, doc: "follow images, scripts and styles too"},
	// Off, because each form is a question that nobody has asked.
	{path: "scope.forms", kind: kindBool, def: "false", was: "forms", agreed: always, doc: "follow forms sent by GET, with the values they begin with"},
	// RFC 9309 is what a crawler owes; leaving it needs the user's word.
	{path: "robots.enabled", kind: kindBool, def: "true", flag: "robots", agreed: always, doc: "ask every host for robots.txt and obey it", unless: "do not ask for robots.txt; for your own servers"},
	// An hour is more likely a mistake in units than a wish, and a minute leaves 1440
	// pages a day.
	{
		path: "robots.max_crawl_delay", kind: kindDuration, def: "60s", min: "1ms", max: "24h", zero: "ignoring Crawl-delay", was: "max-crawl-delay",
		doc: "longest Crawl-delay honoured, longer ones count as this long; 0 = ignore Crawl-delay",
	},
	// What rel=nofollow and its like ask for is what RFC 9309 is to the server.
	{path: "robots.follow_nofollow", kind: kindBool, def: "false", was: "follow-nofollow", agreed: always, doc: "follow links that pages ask crawlers not to follow"},
}

var trapFields = []field{
	// On by default: a calendar without an end costs its server more than anyone else.
	{
		path: "traps.enabled", kind: kindBool, def: "true", flag: "traps", agreed: always,
		doc: "leave URLs that lead nowhere, as those of endless calendars and of filters whose pages have nothing new", unless: "follow URLs that lead nowhere too",
	},
	{path: "traps.report", kind: kindBool, def: "false", agreed: always, doc: "count and tell URLs that lead nowhere, and follow them"},
	// A trap has no end and can wait; most sites have fewer pages, and are visited whole.
	{
		path: "traps.after", kind: kindInt, unit: "pages", def: "1000", min: "1", max: "1000000000", zero: "the first page on", agreed: always,
		doc: "pages of a host before what its pages say counts, and dates; 0 = from the first",
	},
	// Off by default: a fingerprint costs as much as the links, see docs/explanation/links-and-traps.md.
	{
		path: "duplicates.find", kind: kindChoice, def: "off", enum: []string{"off", "exact", "near"}, flag: "duplicates",
		doc: "mark pages that repeat an earlier one: byte by byte, or also in nearly all they say",
	},
}

var sitemapFields = []field{
	// Sites publish them for crawlers, and pages that nothing links to are only there.
	{
		path: "sitemaps.enabled", kind: kindBool, def: "true", flag: "sitemaps", agreed: always,
		doc: "ask for the sitemaps that robots.txt names, else for /sitemap.xml; none with depth 0", unless: "do not ask for sitemaps",
	},
	// A feed is how a site tells of what is new.
	{path: "sitemaps.feeds", kind: kindBool, def: "true", was: "feeds", agreed: always, doc: "follow the RSS and Atom feeds that pages name, and read their links"},
}
