// Code generated from the table of settings by make docs. DO NOT EDIT.

package crawl

import "time"

// ScopeOptions says which of the URLs found belong to the crawl.
type ScopeOptions struct {
	// Mode: links to follow: same host, same registrable domain, below the seed's path, any. One of host, domain,
	// prefix, any. Empty: host.
	Mode string `set:"scope.mode"`
	// Include: follow only URLs that match one of these regular expressions; seeds need not match; none = all URLs.
	// For example `^https://example\.com/docs/`.
	Include []string `set:"scope.include"`
	// Exclude: leave out URLs, seeds too, that match one of these regular expressions. For example `\.pdf$`.
	Exclude []string `set:"scope.exclude"`
	// Scores: points for URLs that match, "POINTS REGEXP": the URLs of a host with the most points go first. For
	// example `10 ^https://example\.com/news/`.
	Scores []string `set:"scope.scores"`
	// Budgets: most pages with URLs that match, "N REGEXP" per host, "N/crawl REGEXP" in all: the first match counts;
	// empty = no limit. For example "500 ^https://[^/]+/calendar/".
	Budgets []string `set:"scope.budgets"`
	// Canonical: treat URLs as one that differ only in this: sessions, slashes, tracking, empty-query, index, sort,
	// drop:NAME for a parameter (* in it = any text). For example "tracking".
	Canonical []string `set:"scope.canonical"`
	// Resources: follow images, scripts and styles too; with Scope.Forms also what scripts, comments, texts and
	// headers name.
	Resources bool `set:"scope.resources"`
	// Forms: follow forms sent by GET, with their initial values, and press the buttons of rendered pages.
	Forms bool `set:"scope.forms"`
	// FollowNofollow: follow links that pages ask crawlers not to follow.
	FollowNofollow bool `set:"robots.follow_nofollow"`
	// FollowTraps: follow URL traps too: endless calendars, filter combinations and the like, whose pages have
	// nothing new.
	FollowTraps bool `set:"traps.enabled"`
	// ReportTraps: report URL traps and follow them all the same.
	ReportTraps bool `set:"traps.report"`
	// TrapsAfter: pages of a host before its pages and dates in URLs are judged; negative = from the first. Range: 1
	// to 1000000000. Zero: 1000.
	TrapsAfter int `set:"traps.after"`
	// IgnoreSitemaps: do not request the sitemaps that robots.txt names, or /sitemap.xml.
	IgnoreSitemaps bool `set:"sitemaps.enabled"`
	// IgnoreFeeds: do not read the RSS and Atom feeds that pages name.
	IgnoreFeeds bool `set:"sitemaps.feeds"`
}

// PolitenessOptions says how fast requests are sent to a host, and which of its rules are obeyed.
type PolitenessOptions struct {
	// IgnoreRobots: do not request robots.txt; for your own servers.
	IgnoreRobots bool `set:"robots.enabled"`
	// MaxCrawlDelay: longest Crawl-delay that is obeyed, longer ones are cut to it; negative = ignore Crawl-delay.
	// Range: 1ms to 24h. Zero: 60s.
	MaxCrawlDelay time.Duration `set:"robots.max_crawl_delay"`
	// Strategy: how the rate of a host is set: steer = searches for the limit of the host and stays below it; aimd =
	// a step up at each fast success, down by a factor at overload; gradient = up while responses are fast, down as
	// they slow; fixed = stays at Politeness.InitialRPS; off = no pacing, for your own servers. One of steer, aimd,
	// gradient, fixed, off. Empty: steer.
	Strategy string `set:"ratelimit.strategy"`
	// InitialRPS: requests per second to begin with at a new host; the limit is Politeness.MaxRPS, which this raises
	// if that is not set. Range: 0.001 to 1000000. Zero: 1.
	InitialRPS float64 `set:"ratelimit.initial_rps"`
	// MinRPS: lowest requests per second to a host. Range: 0.001 to 1000000. Zero: 0.1.
	MinRPS float64 `set:"ratelimit.min_rps"`
	// MaxRPS: highest requests per second to a host; lowers Politeness.InitialRPS if that is not set. Range: 0.001 to
	// 1000000. Zero: 10.
	MaxRPS float64 `set:"ratelimit.max_rps"`
	// TokenBucketCapacity: requests that an idle host may get at once. Range: 1 to 1000. Zero: 1.
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
	// OpenStateDuration: how long an open breaker lets nothing through; steer: at most so long, unless the host asks
	// for more. Range: 10ms to 24h. Zero: 15s.
	OpenStateDuration time.Duration `set:"ratelimit.open_state_duration"`
	// HalfOpenProbes: all but steer: successes that close the breaker again. Range: 1 to 1000. Zero: 2.
	HalfOpenProbes int `set:"ratelimit.half_open_probes"`
	// RetryBaseDelay: longest wait before the first retry, doubled for each one after it. Range: 1ms to 1h. Zero:
	// 200ms.
	RetryBaseDelay time.Duration `set:"ratelimit.retry_base_delay"`
	// RetryMaxDelay: longest wait before any retry. Range: 1ms to 24h. Zero: 30s.
	RetryMaxDelay time.Duration `set:"ratelimit.retry_max_delay"`
	// Retries: retries of a request after 408, 425, 429, 502, 503, 504 or a network error; negative = none, except
	// that a first 429, 503 or 403 is tried once more, alone, to tell a limit of the host from a failing URL. Range:
	// 0 to 20. Zero: 3.
	Retries int `set:"ratelimit.retry_max_attempts"`
	// MaxRetryAfter: longest Retry-After that is obeyed, longer ones are cut to it. Range: 1s to 168h. Zero: 1h.
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
	// GlobalBytes: bytes of bodies per second over all hosts, as received; 0 = no limit. Range: 1KiB to 1TiB, in
	// bytes. For example 2MiB.
	GlobalBytes int64 `set:"ratelimit.global_bytes"`
	// Remember: SQLite database that keeps what is learned of hosts for later crawls. For example "hosts.db".
	Remember string `set:"ratelimit.remember"`
	// LatencySamples: number of last answers from which a host's average and p95 latency are computed. Range: 1 to
	// 255. Zero: 64.
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

// FetchOptions says how a page is requested.
type FetchOptions struct {
	// UserAgent: User-Agent to send; empty = Treadlight/VERSION (+CONTACT), with Options.Version and Contact. For
	// example "ExampleBot/1.0 (+https://example.com/bot)".
	UserAgent string `set:"fetch.user_agent"`
	// Contact: URL or mail address for the operators of the sites; empty = none, with a warning. For example
	// "https://example.com/bot".
	Contact string `set:"fetch.contact"`
	// Headers: header for every request, "Name: value". For example "Accept-Language: en".
	Headers []string `set:"fetch.headers"`
	// Timeout: longest request, from the lookup of the name to the last byte. Range: 100ms to 1h. Zero: 30s.
	Timeout time.Duration `set:"fetch.timeout"`
	// MaxBody: most bytes that are kept of a body, after decoding. Range: 1KiB to 4GiB, in bytes. Zero: 10MiB.
	MaxBody int64 `set:"fetch.max_body"`
	// MaxRedirects: redirects followed in a row; negative = none. Range: 0 to 50. Zero: 10.
	MaxRedirects int `set:"fetch.max_redirects"`
	// HTTP2: offer HTTP/2 to servers.
	HTTP2 bool `set:"fetch.http2"`
	// Insecure: accept any TLS certificate.
	Insecure bool `set:"fetch.insecure"`
	// AllowPrivate: connect to all private and loopback addresses, not only to those of hosts that the first seeds
	// named; a link-local or cloud metadata address is used only if a seed or Access.Resolve names the address
	// itself.
	AllowPrivate bool `set:"fetch.allow_private"`
	// AcceptTypes: media type whose bodies are read, such as text/*, or with ! before it one that is not read; empty
	// = all. For example "!video/*".
	AcceptTypes []string `set:"fetch.accept_types"`
	// SkipLarger: skip bodies with a longer Content-Length; 0 = skip none, and cut at Fetch.MaxBody. Range: 1 to
	// 1TiB, in bytes. For example 50MiB.
	SkipLarger int64 `set:"fetch.skip_larger"`
	// Unconditional: in later rounds, request every page whole, and not only if it has changed.
	Unconditional bool `set:"fetch.conditional"`
}

// AccessOptions has credentials, cookies, proxies and name servers. Texts with a secret may use ${NAME} for an
// environment variable, which is looked up when the crawl is built and not saved with it.
type AccessOptions struct {
	// Auth: credentials for a host, "HOST=user:password" or "HOST=bearer TOKEN", ${NAME} for a variable of the
	// environment. For example "docs.example.com=bearer ${DOCS_TOKEN}".
	Auth []string `set:"access.auth"`
	// Netrc: netrc file with credentials for hosts. For example "/home/me/.netrc".
	Netrc string `set:"access.netrc"`
	// Cookies: keep cookies and send them back, in this run only.
	Cookies bool `set:"access.cookies"`
	// CookieFile: file cookies.txt of a browser to start with; turns cookies on. For example "cookies.txt".
	CookieFile string `set:"access.cookie_file"`
	// Proxy: proxy for all hosts, http://, https:// or socks5://, or env to use HTTP_PROXY and the like; the check of
	// private addresses then covers only names that resolve on this machine; direct or empty = none. For example
	// "http://proxy.example.com:3128".
	Proxy string `set:"access.proxy"`
	// Cert: PEM file of the client certificate, for servers that ask for one and that seeds name. For example
	// "client.pem".
	Cert string `set:"access.cert"`
	// Key: PEM file of its key; empty = in the file of the certificate. For example "client.key".
	Key string `set:"access.key"`
	// CAFile: PEM file of certificate authorities that are trusted beside the system's. For example "ca.pem".
	CAFile string `set:"access.ca_file"`
	// Resolve: addresses of a host, "HOST:PORT:ADDRESS[,ADDRESS]", * for every host or port; empty = ask name
	// servers. For example "example.com:443:192.0.2.7".
	Resolve []string `set:"access.resolve"`
	// Family: IP version of connections. One of any, ipv4, ipv6. Empty: any.
	Family string `set:"access.family"`
	// DNSServer: IP address of a name server, with a port unless it is 53; empty = those of the system. For example
	// "192.0.2.53".
	DNSServer string `set:"access.dns_server"`
}

// RenderOptions says which pages a browser renders before they are read. The program must import the package browser.
type RenderOptions struct {
	// Mode: render pages in Chromium before they are read: never, pages that seem empty without scripts, always. One
	// of never, auto, always. Empty: never.
	Mode string `set:"render.mode"`
	// Browser: path of Chromium, or the URL of a running one, ws://HOST:PORT; empty = where it is usually installed.
	// For example "/opt/chromium/chrome".
	Browser string `set:"render.browser"`
	// Steps: what to do on each rendered page: click:SELECTOR, more:SELECTOR (click again and again), scroll (to the
	// end, while it grows), wait:SELECTOR, wait:DURATION, pdf (print it, beside the picture); empty = nothing. For
	// example "click:#more".
	Steps []string `set:"render.steps"`
	// Screenshot: directory for a picture (PNG) of each rendered page, named in its record. For example "pictures".
	Screenshot string `set:"render.screenshot"`
	// Browsers: browsers at a time, each with one page. Range: 1 to 64. Zero: 2.
	Browsers int `set:"render.browsers"`
}

// ExtractOptions says what is extracted from pages beside links and text.
type ExtractOptions struct {
	// Duplicates: mark pages that repeat an earlier one: with the same bytes, or also with nearly the same text. One
	// of off, exact, near. Empty: off.
	Duplicates string `set:"duplicates.find"`
	// Fields: rule that extracts a value from pages, or from the item before it, NAME=css:SELECTOR,
	// css:SELECTOR@ATTRIBUTE, xpath:EXPRESSION, json:PATH, re:REGEXP or page for its URL. For example
	// "price:number=css:.price".
	Fields []string `set:"extract.fields"`
	// MaxElements: most elements of a page that are read; the record of a longer page says truncated. Range: 1000 to
	// 10000000. Zero: 100000.
	MaxElements int `set:"extract.max_elements"`
	// MaxTime: longest time to read one page; the record of a page that takes longer says truncated. Range: 10ms to
	// 1h. Zero: 2s.
	MaxTime time.Duration `set:"extract.max_time"`
}

// OutputOptions says what records contain.
type OutputOptions struct {
	// Record: what records also contain: text, main-text (without navigation and footers), metadata (Open Graph,
	// Twitter, JSON-LD), body; and what they leave out: no-links, no-digest (SHA-256 of the body). For example
	// "text", "no-links".
	Record []string `set:"output.record"`
	// Overwrite: replace existing archives and state.
	Overwrite bool `set:"output.overwrite"`
	// SkipNoindex: write no record of pages that ask not to be indexed; their links are followed.
	SkipNoindex bool `set:"output.skip_noindex"`
}

// ArchiveOptions says how archives are written; see [OpenArchive].
type ArchiveOptions struct {
	// Prefix: how the names of archives begin. Empty: treadlight.
	Prefix string `set:"warc.prefix"`
	// MaxSize: size at which an archive ends and the next one begins; the last exchange may exceed it. Range: 64KiB
	// to 1TiB, in bytes. Zero: 1GB.
	MaxSize int64 `set:"warc.max_size"`
	// HideHost: keep the name of this machine out of the names of archives and their warcinfo records.
	HideHost bool `set:"warc.host"`
	// Credentials: keep the values of credentials and cookies in archived requests; the files are readable by their
	// owner alone.
	Credentials bool `set:"warc.credentials"`
	// NoArchive: pages whose robots rules say noarchive: ignore = archive them, with metadata that says so; obey =
	// only the metadata. One of ignore, obey. Empty: ignore.
	NoArchive string `set:"warc.noarchive"`
}

// FleetOptions says to which crawl of several processes this one belongs.
type FleetOptions struct {
	// Redis: URL of the Redis or Valkey of a crawl that several processes share, ${NAME} in it for a variable of the
	// environment; empty = one process. For example "rediss://crawl:${REDIS_PASSWORD}@redis.example.com:6380".
	Redis string `set:"fleet.redis"`
	// CAFile: PEM file of certificate authorities for that Redis, beside the system's. For example
	// "/etc/ssl/redis-ca.pem".
	CAFile string `set:"fleet.ca_file"`
	// PasswordFile: file with the password of that Redis and nothing else; empty = the one in its URL, if any. For
	// example "/run/secrets/redis".
	PasswordFile string `set:"fleet.password_file"`
	// Job: name of that crawl, letters, digits, dots, hyphens and underscores; the first process creates it, others
	// join. For example "news-2026-11".
	Job string `set:"fleet.job"`
	// Worker: name of this process in it; empty = name of the machine and process number. For example "node-7".
	Worker string `set:"fleet.worker"`
	// Lease: how long a process that no longer answers keeps its hosts. Range: 1s to 10m. Zero: 15s.
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
	// Propagate: send the header traceparent to the crawled hosts; for your own servers.
	Propagate bool `set:"traces.propagate"`
}

// HostOptions is a rule for the hosts that Match names. A field that is not set is as for all hosts.
type HostOptions struct {
	// Match: the host, or *.NAME for all names below; with a port, that port only. For example "*.example.com".
	Match string `set:"match"`
	// InitialRPS: requests per second to begin with at a new host; the limit is Politeness.MaxRPS, which this raises
	// if that is not set. Range: 0.001 to 1000000. Zero: as for all hosts.
	InitialRPS float64 `set:"initial_rps"`
	// MinRPS: lowest requests per second to a host. Range: 0.001 to 1000000. Zero: as for all hosts.
	MinRPS float64 `set:"min_rps"`
	// MaxRPS: highest requests per second to a host; lowers Politeness.InitialRPS if that is not set. Range: 0.001 to
	// 1000000. Zero: as for all hosts.
	MaxRPS float64 `set:"max_rps"`
	// MinDelay: shortest time between two requests to a host, whatever the rates; negative = none. Range: 1ms to 24h.
	// Zero: as for all hosts. For example 2s.
	MinDelay time.Duration `set:"min_delay"`
	// MaxInFlight: requests in flight at a time, within Options.PerHostMax, which is the default. Range: 1 to 1000.
	// For example 2.
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
	// Cap is a limit of requests to each host of the rule. Zero means none.
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
	// Permits: requests per Per; of the kind concurrency, requests at a time. Range: 1 to 1000000. For example 10.
	Permits int64 `set:"permits"`
	// Per: span of Permits; none for the kind concurrency. Range: 1ms to 8760h. For example 1s.
	Per time.Duration `set:"per"`
}
