// Code generated from the table of settings by make docs. DO NOT EDIT.

package crawl

import "time"

// ScopeOptions says which of the URLs found belong to the crawl.
type ScopeOptions struct {
	// Mode: links to follow: same host, same registrable domain, below the seed's path, any. One of host, domain,
	// prefix, any. Empty: host.
	Mode string `set:"scope.mode"`
	// Include: regular expressions of which a URL must match one; seeds need not; none = every URL does. For example
	// `^https://example\.com/docs/`.
	Include []string `set:"scope.include"`
	// Exclude: regular expressions that a URL, a seed too, must not match. For example `\.pdf$`.
	Exclude []string `set:"scope.exclude"`
	// Scores: points for URLs that match, "POINTS REGEXP": of a host's URLs those with more go first. For example `10
	// ^https://example\.com/news/`.
	Scores []string `set:"scope.scores"`
	// Budgets: pages taken at most of URLs that match, "N REGEXP" of each host, "N/crawl REGEXP" of all together: the
	// first match counts; empty = no limit. For example "500 ^https://[^/]+/calendar/".
	Budgets []string `set:"scope.budgets"`
	// Canonical: take URLs that differ in this alone for one: sessions, slashes, tracking, empty-query, index, sort,
	// drop:NAME for a parameter (* in it = any text). For example "tracking".
	Canonical []string `set:"scope.canonical"`
	// Resources: follow images, scripts and styles too.
	Resources bool `set:"scope.resources"`
	// Forms: follow forms sent by GET, with the values they begin with.
	Forms bool `set:"scope.forms"`
	// FollowNofollow: follow links that pages ask crawlers not to follow.
	FollowNofollow bool `set:"robots.follow_nofollow"`
	// FollowTraps: follow URLs that lead nowhere too, as those of endless calendars and of filters whose pages have
	// nothing new.
	FollowTraps bool `set:"traps.enabled"`
	// ReportTraps: count and tell URLs that lead nowhere, and follow them.
	ReportTraps bool `set:"traps.report"`
	// TrapsAfter: pages of a host before what its pages say counts, and dates; negative = from the first. Range: 1 to
	// 1000000000. Zero: 1000.
	TrapsAfter int `set:"traps.after"`
	// IgnoreSitemaps: do not ask for the sitemaps that robots.txt names, or for /sitemap.xml.
	IgnoreSitemaps bool `set:"sitemaps.enabled"`
	// IgnoreFeeds: do not follow the RSS and Atom feeds that pages name.
	IgnoreFeeds bool `set:"sitemaps.feeds"`
}

// PolitenessOptions says how fast hosts are asked, and what of their wishes is obeyed.
type PolitenessOptions struct {
	// IgnoreRobots: do not ask for robots.txt; for servers of one's own.
	IgnoreRobots bool `set:"robots.enabled"`
	// MaxCrawlDelay: longest Crawl-delay honoured, longer ones count as this long; negative = ignore Crawl-delay.
	// Range: 1ms to 24h. Zero: 60s.
	MaxCrawlDelay time.Duration `set:"robots.max_crawl_delay"`
	// Strategy: how the rate of a host moves: steer = searches for the limit of the host and stays below it; aimd = a
	// step up at each fast success, down by a factor at overload; gradient = up while responses are fast, down as
	// they slow; fixed = stays at Politeness.InitialRPS; off = no pacing, for your own servers. One of steer, aimd,
	// gradient, fixed, off. Empty: steer.
	Strategy string `set:"ratelimit.strategy"`
	// InitialRPS: requests per second a new host starts with; a maximum that is not given is at least that. Range:
	// 0.001 to 1000000. Zero: 1.
	InitialRPS float64 `set:"ratelimit.initial_rps"`
	// MinRPS: requests per second no host goes below. Range: 0.001 to 1000000. Zero: 0.1.
	MinRPS float64 `set:"ratelimit.min_rps"`
	// MaxRPS: requests per second no host goes above; a start that is not given is at most that. Range: 0.001 to
	// 1000000. Zero: 10.
	MaxRPS float64 `set:"ratelimit.max_rps"`
	// TokenBucketCapacity: burst that a rested host accepts, in requests. Range: 1 to 1000. Zero: 1.
	TokenBucketCapacity float64 `set:"ratelimit.token_bucket_capacity"`
	// AIMDIncrease: aimd: requests per second that a fast success adds to the rate. Range: 0.001 to 1000. Zero: 0.1.
	AIMDIncrease float64 `set:"ratelimit.aimd_increase"`
	// AIMDDecrease: aimd, gradient: factor by which a refusal lowers the rate. Range: 0.01 to 0.99. Zero: 0.5.
	AIMDDecrease float64 `set:"ratelimit.aimd_decrease"`
	// LatencyTarget: aimd: expected time to an answer; faster ones raise the rate. Range: 1ms to 5m. Zero: 1s.
	LatencyTarget time.Duration `set:"ratelimit.latency_target"`
	// LatencyDegradeFactor: aimd: multiple of the target from which an answer lowers the rate. Range: 1 to 100. Zero:
	// 2.
	LatencyDegradeFactor float64 `set:"ratelimit.latency_degrade_factor"`
	// ErrorRateThreshold: all but steer: share of failures in the window that opens the breaker. Range: 0.01 to 1.
	// Zero: 0.5.
	ErrorRateThreshold float64 `set:"ratelimit.error_rate_threshold"`
	// MinSamplesToTrip: all but steer: answers in the window before their share of failures counts. Range: 1 to
	// 1000000. Zero: 10.
	MinSamplesToTrip int `set:"ratelimit.min_samples_to_trip"`
	// ConsecutiveFailThreshold: all but steer: failures in a row that open the breaker. Range: 1 to 1000000. Zero: 5.
	ConsecutiveFailThreshold int `set:"ratelimit.consecutive_fail_threshold"`
	// OpenStateDuration: how long an open breaker lets nothing through; steer: at most, unless the host says more.
	// Range: 10ms to 24h. Zero: 15s.
	OpenStateDuration time.Duration `set:"ratelimit.open_state_duration"`
	// HalfOpenProbes: all but steer: successes that close the breaker again. Range: 1 to 1000. Zero: 2.
	HalfOpenProbes int `set:"ratelimit.half_open_probes"`
	// RetryBaseDelay: longest wait before the first retry, doubled for each one after it. Range: 1ms to 1h. Zero:
	// 200ms.
	RetryBaseDelay time.Duration `set:"ratelimit.retry_base_delay"`
	// RetryMaxDelay: longest wait before any retry. Range: 1ms to 24h. Zero: 30s.
	RetryMaxDelay time.Duration `set:"ratelimit.retry_max_delay"`
	// Retries: retries after a first try that failed; negative = none, but a first 429, 503 or 403 that may be a
	// limit of the host is followed by one more request, alone, that tells. Range: 0 to 20. Zero: 3.
	Retries int `set:"ratelimit.retry_max_attempts"`
	// MaxRetryAfter: longest Retry-After believed, longer ones count as this long. Range: 1s to 168h. Zero: 1h.
	MaxRetryAfter time.Duration `set:"ratelimit.max_retry_after"`
	// MinDelay: shortest time between two requests to a host, whatever the rates; 0 = none. Range: 1ms to 24h. For
	// example 2s.
	MinDelay time.Duration `set:"ratelimit.min_delay"`
	// GlobalRPS: requests per second over all hosts; 0 = no limit. Range: 0.001 to 1000000. For example 100.
	GlobalRPS float64 `set:"ratelimit.global_rps"`
	// IPRPS: requests per second over all hosts at one IP address (IPv6: one /64); 0 = no limit. Range: 0.001 to
	// 1000000. For example 20.
	IPRPS float64 `set:"ratelimit.ip_rps"`
	// SiteRPS: requests per second over all hosts of one registrable domain; 0 = no limit. Range: 0.001 to 1000000.
	// For example 20.
	SiteRPS float64 `set:"ratelimit.site_rps"`
	// GlobalConcurrency: requests in flight over all hosts; 0 = no limit. Range: 1 to 10000. For example 16.
	GlobalConcurrency int `set:"ratelimit.global_concurrency"`
	// GlobalBytes: bytes of bodies per second over all hosts, as sent; 0 = no limit. Range: 1KiB to 1TiB, in bytes.
	// For example 2MiB.
	GlobalBytes int64 `set:"ratelimit.global_bytes"`
	// Remember: file in which what is learned of hosts is kept for the next crawl, an SQLite database. For example
	// "hosts.db".
	Remember string `set:"ratelimit.remember"`
	// LatencySamples: last answers of a host that its average and p95 latency are of. Range: 1 to 255. Zero: 64.
	LatencySamples int `set:"ratelimit.latency_samples"`
	// StatsWindow: time over which failures are counted; a whole number of Politeness.StatsBucket. Range: 100ms to
	// 1h. Zero: 30s.
	StatsWindow time.Duration `set:"ratelimit.stats_window"`
	// StatsBucket: step in which the window moves. Range: 10ms to 1h. Zero: 2s.
	StatsBucket time.Duration `set:"ratelimit.stats_bucket"`
	// DomainStateTTL: how long what was learned of an idle host is kept. Range: 1s to 720h. Zero: 10m.
	DomainStateTTL time.Duration `set:"ratelimit.domain_state_ttl"`
	// Shards: locks over the hosts, a power of two. Range: 1 to 4096. Zero: 16.
	Shards int `set:"ratelimit.shards"`
	// Hosts are rules for single hosts; the first that matches counts.
	Hosts []HostOptions `set:"hosts"`
}

// FetchOptions says how a page is asked for.
type FetchOptions struct {
	// UserAgent: User-Agent to send; empty = Treadlight/VERSION (+CONTACT), with Options.Version and Contact. For
	// example "ExampleBot/1.0 (+https://example.com/bot)".
	UserAgent string `set:"fetch.user_agent"`
	// Contact: URL or mail address for the operators of the sites; empty = none, with a warning. For example
	// "https://example.com/bot".
	Contact string `set:"fetch.contact"`
	// Headers: header for every request, "Name: value". For example "Accept-Language: en".
	Headers []string `set:"fetch.headers"`
	// Timeout: longest fetch, from the lookup of the name to the last byte. Range: 100ms to 1h. Zero: 30s.
	Timeout time.Duration `set:"fetch.timeout"`
	// MaxBody: bytes of a body that are kept, after decoding. Range: 1KiB to 4GiB, in bytes. Zero: 10MiB.
	MaxBody int64 `set:"fetch.max_body"`
	// MaxRedirects: redirects followed in a row; negative = none. Range: 0 to 50. Zero: 10.
	MaxRedirects int `set:"fetch.max_redirects"`
	// HTTP2: offer HTTP/2 to servers.
	HTTP2 bool `set:"fetch.http2"`
	// Insecure: accept any TLS certificate.
	Insecure bool `set:"fetch.insecure"`
	// AllowPrivate: connect to all private and loopback addresses, not only to those that the seeds named when the
	// crawl began; to link-local ones, and those of cloud metadata, only a seed or Access.Resolve leads that names
	// the address itself.
	AllowPrivate bool `set:"fetch.allow_private"`
	// AcceptTypes: media type of pages whose bodies are read, such as text/*, or with ! before it of those that are
	// not; empty = all. For example "!video/*".
	AcceptTypes []string `set:"fetch.accept_types"`
	// SkipLarger: longest body by its Content-Length that is read at all, as it is sent; 0 = any, and cut at
	// Fetch.MaxBody. Range: 1 to 1TiB, in bytes. For example 50MiB.
	SkipLarger int64 `set:"fetch.skip_larger"`
	// Unconditional: in later rounds, ask for every page whole, and not only if it has changed.
	Unconditional bool `set:"fetch.conditional"`
}

// AccessOptions says who the crawl is to sites, and which way it takes to them. Texts with a secret may have ${NAME}
// for a variable of the environment, which is looked up when the crawl is built and not kept with it.
type AccessOptions struct {
	// Auth: credentials for a host, "HOST=user:password" or "HOST=bearer TOKEN", ${NAME} for a variable of the
	// environment. For example "docs.example.com=bearer ${DOCS_TOKEN}".
	Auth []string `set:"access.auth"`
	// Netrc: netrc file with credentials for hosts. For example "/home/me/.netrc".
	Netrc string `set:"access.netrc"`
	// Cookies: keep cookies and send them back, within this run.
	Cookies bool `set:"access.cookies"`
	// CookieFile: cookies.txt of a browser to begin with, which turns cookies on. For example "cookies.txt".
	CookieFile string `set:"access.cookie_file"`
	// Proxy: proxy for all hosts, http://, https:// or socks5://, or env for what HTTP_PROXY and its like say; of
	// hosts behind it only addresses, and names that are found here, are checked. For example
	// "http://proxy.example.com:3128".
	Proxy string `set:"access.proxy"`
	// Cert: PEM file of the client certificate for servers that ask for one, shown to hosts that seeds name. For
	// example "client.pem".
	Cert string `set:"access.cert"`
	// Key: PEM file of its key; empty = in the file of the certificate. For example "client.key".
	Key string `set:"access.key"`
	// CAFile: PEM file of authorities that are trusted beside the system's. For example "ca.pem".
	CAFile string `set:"access.ca_file"`
	// Resolve: addresses of a host, "HOST:PORT:ADDRESS[,ADDRESS]", * for every host or port; empty = what name
	// servers say. For example "example.com:443:192.0.2.7".
	Resolve []string `set:"access.resolve"`
	// Family: what to connect over. One of any, ipv4, ipv6. Empty: any.
	Family string `set:"access.family"`
	// DNSServer: IP address of a name server, with a port unless it is 53; empty = those of the system. For example
	// "192.0.2.53".
	DNSServer string `set:"access.dns_server"`
}

// RenderOptions says which pages a browser is given before they are read. It needs the package browser.
type RenderOptions struct {
	// Mode: run the scripts of pages in Chromium before reading them: never, of pages that seem empty without, of
	// all. One of never, auto, always. Empty: never.
	Mode string `set:"render.mode"`
	// Browser: path of Chromium, or the URL of one that runs, ws://HOST:PORT; empty = where it is usually installed.
	// For example "/opt/chromium/chrome".
	Browser string `set:"render.browser"`
	// Steps: what is done on each rendered page: click:SELECTOR, more:SELECTOR (again and again), scroll (to the end,
	// as it grows), wait:SELECTOR, wait:DURATION; empty = nothing. For example "click:#more".
	Steps []string `set:"render.steps"`
	// Screenshot: directory for a picture (PNG) of each rendered page, named in its record. For example "pictures".
	Screenshot string `set:"render.screenshot"`
	// PDF: directory for a print (PDF) of each rendered page, named in its record. For example "prints".
	PDF string `set:"render.pdf"`
	// Load: what rendered pages load beside documents, scripts, styles and data; empty = nothing else. For example
	// "images".
	Load []string `set:"render.load"`
	// Browsers: browsers at a time, each with one page. Range: 1 to 64. Zero: 2.
	Browsers int `set:"render.browsers"`
}

// ExtractOptions says what is read out of pages beside links and text.
type ExtractOptions struct {
	// Duplicates: mark pages that repeat an earlier one: byte by byte, or also in nearly all they say. One of off,
	// exact, near. Empty: off.
	Duplicates string `set:"duplicates.find"`
	// Fields: rule for a value to take out of pages, or of the item before it, NAME=css:SELECTOR,
	// css:SELECTOR@ATTRIBUTE, xpath:EXPRESSION, json:PATH or re:REGEXP. For example "price:number=css:.price".
	Fields []string `set:"extract.fields"`
	// MaxElements: elements of a page that are looked at; its record has what was read, and truncated. Range: 1000 to
	// 10000000. Zero: 100000.
	MaxElements int `set:"extract.max_elements"`
	// MaxTime: time that reading one page may take, links and all; its record has what was read, and truncated.
	// Range: 10ms to 1h. Zero: 2s.
	MaxTime time.Duration `set:"extract.max_time"`
}

// OutputOptions says what records have in them.
type OutputOptions struct {
	// Record: what records have beside the usual: text, main-text (without navigation and footers), metadata (Open
	// Graph, Twitter, JSON-LD), body; and what not: no-links, no-digest (SHA-256 of the body). For example "text",
	// "no-links".
	Record []string `set:"output.record"`
	// Overwrite: replace archives, and the state of another crawl.
	Overwrite bool `set:"output.overwrite"`
	// SkipNoindex: leave pages out of the records that ask not to be indexed; their links are followed.
	SkipNoindex bool `set:"output.skip_noindex"`
}

// ArchiveOptions says how archives are written, see [OpenArchive].
type ArchiveOptions struct {
	// Prefix: how the names of archives begin. Empty: treadlight.
	Prefix string `set:"warc.prefix"`
	// MaxSize: size at which an archive ends and the next one begins; the last exchange may exceed it. Range: 64KiB
	// to 1TiB, in bytes. Zero: 1GB.
	MaxSize int64 `set:"warc.max_size"`
	// HideHost: keep the name of this machine out of the names of archives and of what they tell of themselves.
	HideHost bool `set:"warc.host"`
	// Credentials: keep the values of credentials and cookies in archived requests, in files for their owner alone.
	Credentials bool `set:"warc.credentials"`
	// NoArchive: pages that say noarchive to robots: ignore = archived, with metadata that says so; obey = only the
	// metadata. One of ignore, obey. Empty: ignore.
	NoArchive string `set:"warc.noarchive"`
}

// FleetOptions says which crawl of several processes this is a part of.
type FleetOptions struct {
	// Redis: URL of the Redis or Valkey of a crawl that several processes share, ${NAME} in it for a variable of the
	// environment; empty = one process. For example "rediss://crawl:${REDIS_PASSWORD}@redis.example.com:6380".
	Redis string `set:"fleet.redis"`
	// CAFile: PEM file of authorities, beside the system's, that vouch for that Redis with TLS. For example
	// "/etc/ssl/redis-ca.pem".
	CAFile string `set:"fleet.ca_file"`
	// PasswordFile: file with the password of that Redis and nothing else; empty = the one in its URL, if any. For
	// example "/run/secrets/redis".
	PasswordFile string `set:"fleet.password_file"`
	// Job: name of that crawl, letters, digits, dots, hyphens and underscores; the first process makes it, others
	// join. For example "news-2026-11".
	Job string `set:"fleet.job"`
	// Worker: name of this process in it; empty = that of the machine and the number of the process. For example
	// "node-7".
	Worker string `set:"fleet.worker"`
	// Lease: how long a process that is not heard of keeps its hosts. Range: 1s to 10m. Zero: 15s.
	Lease time.Duration `set:"fleet.lease"`
}

// TracesOptions says where a trace of each URL is sent, by OTLP over HTTP.
type TracesOptions struct {
	// Endpoint: URL of a collector of OpenTelemetry (OTLP over HTTP) for a trace of each URL. For example
	// "http://localhost:4318".
	Endpoint string `set:"traces.endpoint"`
	// Headers: headers for the collector, "Name: value". For example "Authorization: Bearer ${OTLP_TOKEN}".
	Headers []string `set:"traces.headers"`
	// Sample: share of URLs that is traced; negative = none. Range: 0 to 1. Zero: 1.
	Sample float64 `set:"traces.sample"`
	// Propagate: send the hosts that are crawled the header traceparent; for your own.
	Propagate bool `set:"traces.propagate"`
}

// HostOptions is a rule for the hosts that Match names. What it leaves out is as for all hosts.
type HostOptions struct {
	// Match: the host, or *.NAME for all names below; with a port, that port only. For example "*.example.com".
	Match string `set:"match"`
	// InitialRPS: requests per second a new host starts with; a maximum that is not given is at least that. Range:
	// 0.001 to 1000000. Zero: as for all hosts.
	InitialRPS float64 `set:"initial_rps"`
	// MinRPS: requests per second no host goes below. Range: 0.001 to 1000000. Zero: as for all hosts.
	MinRPS float64 `set:"min_rps"`
	// MaxRPS: requests per second no host goes above; a start that is not given is at most that. Range: 0.001 to
	// 1000000. Zero: as for all hosts.
	MaxRPS float64 `set:"max_rps"`
	// MinDelay: shortest time between two requests to a host, whatever the rates; negative = none. Range: 1ms to 24h.
	// Zero: as for all hosts. For example 2s.
	MinDelay time.Duration `set:"min_delay"`
	// MaxInFlight: requests out at a time, within Options.PerHostMax, and as many as that by default. Range: 1 to
	// 1000. For example 2.
	MaxInFlight int `set:"max_in_flight"`
	// Headers: headers for its requests, "Name: value", over those of Fetch.Headers. For example "X-Api-Key:
	// ${API_KEY}".
	Headers []string `set:"headers"`
	// Auth: credentials, "user:password" or "bearer TOKEN"; empty = those of Access.Auth or Access.Netrc. For example
	// "reader:${READER_PASSWORD}".
	Auth string `set:"auth"`
	// Proxy: proxy, or direct for none; empty = Access.Proxy. For example "direct".
	Proxy string `set:"proxy"`
	// Cert: PEM file of the client certificate; empty = Access.Cert. For example "client.pem".
	Cert string `set:"cert"`
	// Key: PEM file of its key; empty = in the file of the certificate. For example "client.key".
	Key string `set:"key"`
	// Cap is a limit of requests that each host of the rule has. Zero: none.
	Cap Cap `set:"cap"`
	// Quota is a limit after which a host of the rule is blocked until its windows have passed. Its Kind is not
	// token-bucket, leaky-bucket or concurrency; empty: fixed-window. Zero: none.
	Quota Cap `set:"quota"`
}

// Cap is a limit of requests to each host of a rule. The zero Cap is none.
type Cap struct {
	// Kind: how the limit counts. One of token-bucket, fixed-window, sliding-window, sliding-window-log,
	// leaky-bucket, concurrency. For example "sliding-window-log".
	Kind string `set:"kind"`
	// Permits: requests in Per, or at a time for the kind concurrency. Range: 1 to 1000000. For example 10.
	Permits int64 `set:"permits"`
	// Per: span of Permits; none for the kind concurrency. Range: 1ms to 8760h. For example 1s.
	Per time.Duration `set:"per"`
}
