package testsite

import (
	"net"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// The ranges of the fields are their tags, see validate.go: "in" allows zero, which means the
// default, and "must" does not. Of a list or a text the range is that of its length.

// Config is a whole site. The zero Config is refused: a site needs a host.
type Config struct {
	// Seed determines pages, links and random failures. Zero is a seed like any other.
	Seed uint64 `yaml:"seed,omitempty"`
	// Base is the address of the first host, in 127.0.0.0/8; every further host has
	// the next address, but see Host.OneAddress. Empty means 127.0.1.1.
	Base string `yaml:"base,omitempty"`
	// Port is the port of every host. Zero means one that is free.
	Port int `yaml:"port,omitempty" in:"0..65535"`
	// Grace is how long after a refusal with Retry-After an arrival is assumed to have been
	// sent before the client read the refusal. Zero means 50ms.
	Grace time.Duration `yaml:"grace,omitempty" in:"0..10s"`
	// Hosts are the hosts, in the order of their addresses. Empty is refused.
	Hosts []Host `yaml:"hosts,omitempty"`

	// Clock tells the time. Run needs one that moves by itself. Nil means the system clock.
	Clock clock.Clock `yaml:"-"`
	// Listen opens the listener of one host; the port in its address may be 0. Nil means TCP.
	Listen func(address string) (net.Listener, error) `yaml:"-"`
	// Arrived is called with each request before the host decides about it, by many
	// goroutines at a time; it must not keep the request. Nil means that nothing is called.
	Arrived func(host int, r *http.Request) `yaml:"-"`
}

// Host is one host: its content and its behavior. The zero Host has 100 pages and answers
// each request at once.
type Host struct {
	// Name is the host's name in reports: a to z, 0 to 9 and hyphens, at most 32. Empty
	// means host.
	Name string `yaml:"name,omitempty"`
	// Count makes that many hosts of this kind, each with its own pages and its number after
	// its name. Zero means one, without a number.
	Count int `yaml:"count,omitempty" in:"0..10000"`

	// Pages is how many pages are reachable from "/", itself included. Zero means 100.
	Pages int `yaml:"pages,omitempty" in:"0..10000000"`
	// Fanout is how many children a page has in the tree. Zero means 10.
	Fanout int `yaml:"fanout,omitempty" in:"0..10000"`
	// CrossLinks is how many random links to pages of the same host a page has besides.
	CrossLinks int `yaml:"cross_links,omitempty" in:"0..1000"`
	// HostLinks is how many random links to pages of other hosts a page has.
	HostLinks int `yaml:"host_links,omitempty" in:"0..1000"`
	// Size bounds the text of a page, without tags and links. Zero means 2 KiB to 8 KiB.
	Size Size `yaml:"size,omitempty"`

	// Media is how many linked documents are not HTML (text, JSON, SVG, binary).
	Media int `yaml:"media,omitempty" in:"0..1000000"`
	// Redirects is how many links lead to a redirect to a page, every fourth by way of
	// another redirect.
	Redirects int `yaml:"redirects,omitempty" in:"0..1000000"`
	// Missing is how many links are answered by 404.
	Missing int `yaml:"missing,omitempty" in:"0..1000000"`
	// Private is how many linked pages lie under /private/, for robots.txt to disallow.
	Private int `yaml:"private,omitempty" in:"0..1000000"`
	// Listed is how many pages only the sitemap names: an index at /sitemap.xml, which
	// robots.txt names, and its parts, every second one compressed. Zero means no sitemap.
	Listed int `yaml:"listed,omitempty" in:"0..1000000"`

	// Latency is the time an answer takes. Zero means none.
	Latency Latency `yaml:"latency,omitempty"`
	// OneAddress puts the Count hosts of this kind on one address, each on its own port,
	// from the site's port on. They share the address's Limits, Load, Day and Ban. False
	// means an address each.
	OneAddress bool `yaml:"one_address,omitempty"`
	// Limit is the short form of the limits that are most in use. Zero means no limit.
	Limit Limit `yaml:"limit,omitempty"`
	// Limits are further limits of the address. A request must pass all of them and is
	// charged to none otherwise.
	Limits []Limiter `yaml:"limits,omitempty" in:"0..16"`
	// Load slows the address down when it gets many requests. Zero means never.
	Load Load `yaml:"load,omitempty"`
	// Day changes limits and load with the time of day. Zero means no change.
	Day Day `yaml:"day,omitempty"`
	// Ban shuts out clients that are refused too often. Zero means never.
	Ban Ban `yaml:"ban,omitempty"`
	// Refusal is how the host refuses a request. Zero means 429 without Retry-After.
	Refusal Refusal `yaml:"refusal,omitempty"`
	// Script answers the first page requests; normal service follows.
	Script []Step `yaml:"script,omitempty" in:"0..1000"`
	// Flaky fails page requests at random. Zero means never.
	Flaky Flaky `yaml:"flaky,omitempty"`
	// Outages are the times at which the host fails, in order, without overlap.
	Outages []Outage `yaml:"outages,omitempty" in:"0..1000"`
	// Robots is the host's robots.txt. Zero means that it has none: 404.
	Robots Robots `yaml:"robots,omitempty"`
}

// Size bounds a text, in bytes. Each length is drawn uniformly from Min to Max.
type Size struct {
	// Min zero means 2 KiB if Max is zero too, and no text otherwise.
	Min int `yaml:"min,omitempty" in:"0..16777216"`
	// Max zero means 8 KiB if Min is zero too, and Min otherwise.
	Max int `yaml:"max,omitempty" in:"0..16777216"`
}

// Latency is the time from the arrival of a request to the first byte of its answer, and
// from there to the last. Refusals and failures are answered at once.
type Latency struct {
	// Typical is the fixed value, the middle of the uniform distribution or the median of the
	// lognormal one.
	Typical time.Duration `yaml:"typical,omitempty" in:"0..10m"`
	// Dist is the distribution. Empty means fixed.
	Dist string `yaml:"dist,omitempty" in:"fixed uniform lognormal"`
	// Spread is, of uniform, the half width as a share of Typical, 0 to 1; of lognormal, sigma,
	// 0 to 2, with the tail cut at 20 times Typical. Zero means that every value is Typical.
	Spread float64 `yaml:"spread,omitempty"`
	// Body is the time over which the body is sent. Zero means at once.
	Body time.Duration `yaml:"body,omitempty" in:"0..10m"`
	// FastRoot answers "/" at once, so that a crawler finds many slow pages at one time.
	FastRoot bool `yaml:"fast_root,omitempty"`
}

// Limit is the short form of up to three limits, which apply together. They count requests
// for robots.txt too. [Limiter] has more kinds.
type Limit struct {
	// Rate is requests per second, as of nginx's limit_req. Zero means no limit by rate.
	Rate float64 `yaml:"rate,omitempty" in:"0.001..1000000"`
	// Burst is how many requests may come ahead of Rate. Zero means that requests must keep a
	// distance of 1/Rate.
	Burst int `yaml:"burst,omitempty" in:"0..1000000"`
	// Requests is how many requests fit into one Window. Zero means no limit by window.
	Requests int `yaml:"requests,omitempty" in:"0..1000000000"`
	// Window is the length of the fixed windows, the first of which begins at New. Zero is
	// refused if Requests is set.
	Window time.Duration `yaml:"window,omitempty" in:"0..24h"`
	// Concurrent is how many requests may be open at a time. Zero means no such limit.
	Concurrent int `yaml:"concurrent,omitempty" in:"0..1000000"`
}

// Limiter is one of the limits of an address, by kind:
//
//	leaky-bucket        rate, burst, delay    nginx's limit_req; drains at rate, allows burst more
//	token-bucket        rate, burst           holds burst tokens, refilled at rate
//	fixed-window        requests, window      windows at multiples of their length since 1970
//	sliding-window      requests, window      counts this window and the visible part of the last
//	sliding-window-log  requests, window      exact in every window, wherever it begins
//	concurrency         concurrent            open at a time
//
// A field that its kind does not have is refused, and so is a zero Rate, Requests, Window or
// Concurrent of a kind that has it.
type Limiter struct {
	// Kind is one of the above. Empty is refused.
	Kind string `yaml:"kind,omitempty" must:"leaky-bucket token-bucket fixed-window sliding-window sliding-window-log concurrency"`
	// Rate is requests per second.
	Rate float64 `yaml:"rate,omitempty" in:"0.001..1000000"`
	// Burst is, of a leaky bucket, how many requests may come ahead of Rate; of a token
	// bucket, how many tokens it holds. Zero means none ahead, or a second's worth of tokens
	// and at least one.
	Burst int `yaml:"burst,omitempty" in:"0..1000000"`
	// Delay makes a leaky bucket delay the requests of its burst to the distance of Rate, as
	// limit_req does without nodelay. False means that it answers them at once.
	Delay bool `yaml:"delay,omitempty"`
	// Requests is how many requests fit into one Window.
	Requests int `yaml:"requests,omitempty" in:"0..1000000"`
	// Window is the length of a window, 1ms to 24h in whole microseconds.
	Window time.Duration `yaml:"window,omitempty" in:"0..24h"`
	// Concurrent is how many requests may be open at a time.
	Concurrent int `yaml:"concurrent,omitempty" in:"0..1000000"`

	fromNew bool // the first window begins at New; see Limit
}

// Load is how latency grows with the number of requests.
type Load struct {
	// Rate is what one worker serves per second: one request after another, each in a time
	// drawn from the exponential distribution. Random arrivals make it the M/M/1 queue, whose
	// mean time is 1/(Rate−λ) at λ arrivals per second (Kleinrock, Queueing Systems I, 1975,
	// section 3.2). Zero means that there is no queue.
	Rate float64 `yaml:"rate,omitempty" in:"0.001..1000000"`
	// MaxWait is how long a request may have to wait for the worker; one that would wait
	// longer is refused. Zero means 30s.
	MaxWait time.Duration `yaml:"max_wait,omitempty" in:"0..10m"`
	// Workers is how many open requests take their Latency; with more, each takes longer in
	// proportion to how many are open, as on evenly shared processors (Kleinrock, Time-shared
	// systems, 1967). Zero means that the number of open requests changes nothing.
	Workers int `yaml:"workers,omitempty" in:"0..1000000"`
}

// Day changes the capacity of buckets, windows and Load.Rate over time: their clock goes
// slower or faster. At a quarter of the speed, 4/s is 1/s and a window lasts four times as
// long. Concurrency and Workers do not change.
type Day struct {
	// Length is that of a day, at least 1s; days follow each other from New on. Zero means 24h
	// if Low or Table is set, and no change otherwise.
	Length time.Duration `yaml:"length,omitempty" in:"1s..1000h"`
	// Low is the share of the speed in the middle of a day: a cosine that begins at 1, goes
	// down to Low and comes back, in 96 steps. Zero means that Table has the speeds.
	Low float64 `yaml:"low,omitempty" in:"0.01..1"`
	// Table has the speed from each time of day on, in order. Before the first it is 1.
	Table []Hour `yaml:"table,omitempty" in:"0..1000"`
}

// Hour is an entry of a timetable.
type Hour struct {
	// At is the time of day, 0 to less than a day. Zero means its beginning.
	At time.Duration `yaml:"at,omitempty"`
	// Speed is the share of the speed from then on. Zero is refused.
	Speed float64 `yaml:"speed,omitempty" must:"0.01..100"`
}

// Ban shuts a client out that is refused too often. All clients count as one: a site measures
// one crawler at a time.
type Ban struct {
	// After is how many refusals by a limit cause a ban. Zero means that nothing does.
	After int `yaml:"after,omitempty" in:"0..10000"`
	// Within is the time in which these refusals must come. Zero means For.
	Within time.Duration `yaml:"within,omitempty" in:"0..24h"`
	// For is how long a ban lasts; requests during it do not prolong it. Zero is refused if
	// After is set.
	For time.Duration `yaml:"for,omitempty" in:"0..24h"`
	// Mode is what a banned client gets: a status, or a closed connection. Empty means status.
	Mode string `yaml:"mode,omitempty" in:"status drop"`
	// Status is answered in mode status, without Retry-After. Zero means 403.
	Status int `yaml:"status,omitempty" in:"400..599"`
}

// Refusal is how a host refuses a request.
type Refusal struct {
	// Status answers a request over the limit. Zero means 429.
	Status int `yaml:"status,omitempty" in:"400..599"`
	// RetryAfter goes with every refusal, by limit, script or outage: none, seconds, a date in
	// one of the three forms of HTTP (http-date, rfc850, asctime), or an invalid value: past
	// (a date that is over), absurd (three thousand years) or garbage (no number and no date).
	// An invalid value asks for no wait and is not counted against a client. Empty means none.
	RetryAfter string `yaml:"retry_after,omitempty" in:"none seconds http-date rfc850 asctime past absurd garbage"`
	// Wait is what Retry-After asks for, rounded up to whole seconds, or the age of the past
	// date. Zero means the time until the host would accept a request, where it is known, or
	// 1s; for past, an hour.
	Wait time.Duration `yaml:"wait,omitempty" in:"0..24h"`
	// Headers tell the quota in every answer: legacy (X-RateLimit-Limit, -Remaining, -Reset
	// with seconds) or ietf (RateLimit, RateLimit-Policy). They describe Host.Limits only.
	// Empty means none.
	Headers string `yaml:"headers,omitempty" in:"none legacy ietf"`
	// Body is the text of a refusal by limit. Empty means a line with the status.
	Body string `yaml:"body,omitempty" in:"0..65536"`
}

// Flaky fails page requests at random.
type Flaky struct {
	// Probability is the share of page requests that fail.
	Probability float64 `yaml:"probability,omitempty" in:"0..1"`
	// Kinds are the failures, drawn evenly: 500, 502, 503, 504 or reset. Empty means 500, 503
	// and reset.
	Kinds []string `yaml:"kinds,omitempty" in:"0..1000"`
}

// Outage is a time in which the whole host fails.
type Outage struct {
	// After is when it begins, counted from New. Zero means at once.
	After time.Duration `yaml:"after,omitempty" in:"0..10000h"`
	// For is how long it lasts. Zero is refused.
	For time.Duration `yaml:"for,omitempty" must:"1ns..10000h"`
	// Mode is refuse (503), status (see Status), hang (no answer until it is over, then a
	// reset), reset, or close-listener (connections are refused and open ones closed; without
	// a listener, a reset). Empty means refuse.
	Mode string `yaml:"mode,omitempty" in:"refuse status hang reset close-listener"`
	// Status is what mode status answers, 400 to 599. Other modes have none.
	Status int `yaml:"status,omitempty"`
}

// Robots is a robots.txt. Disallow and CrawlDelay define what counts as a violation, even
// if Text replaces the file.
type Robots struct {
	// Allow writes a file that allows everything. False means a file only if another field
	// needs one.
	Allow bool `yaml:"allow,omitempty"`
	// Disallow are disallowed path prefixes, without * and $.
	Disallow []string `yaml:"disallow,omitempty" in:"0..1000"`
	// CrawlDelay is the least time asked for between two page requests.
	CrawlDelay time.Duration `yaml:"crawl_delay,omitempty" in:"0..24h"`
	// Text is served as it is. Empty means a text made from the fields above.
	Text string `yaml:"text,omitempty" in:"0..16777216"`
	// Status is answered instead of the file. Zero means the file.
	Status int `yaml:"status,omitempty" in:"400..599"`
	// Times is how often Status is answered before the file is. Zero means always.
	Times int `yaml:"times,omitempty" in:"0..1000000000"`
	// Latency is the time until the file, or its 404, is answered.
	Latency time.Duration `yaml:"latency,omitempty" in:"0..10m"`
}
