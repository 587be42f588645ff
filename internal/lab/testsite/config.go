package testsite

import (
	"net"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Config is a whole site. The zero Config is refused: a site needs a host.
type Config struct {
	// Seed is what everything is drawn from. Zero is a seed like any other.
	Seed uint64 `yaml:"seed,omitempty"`
	// Base is the address of the first host, in 127.0.0.0/8; every further host has
	// the next address, but see Host.OneAddress. Empty means 127.0.1.1.
	Base string `yaml:"base,omitempty"`
	// Port is the port of every host, 0 to 65535. Zero means one that is free.
	Port int `yaml:"port,omitempty"`
	// Grace is how long after a refusal with Retry-After arrivals are taken to have
	// been on their way already, 0 to 10s. Zero means 50ms.
	Grace time.Duration `yaml:"grace,omitempty"`
	// Hosts are the hosts, in the order of their addresses. Empty is refused.
	Hosts []Host `yaml:"hosts,omitempty"`

	// Clock tells the time. Run needs one that moves by itself. Nil means the
	// system clock.
	Clock clock.Clock `yaml:"-"`
	// Listen opens the listener of one host; the port in its address may be 0. Nil
	// means TCP.
	Listen func(address string) (net.Listener, error) `yaml:"-"`
	// Arrived is called with each request before it is decided, by many goroutines at a
	// time; it must not keep the request. Nil means that nobody is told.
	Arrived func(host int, r *http.Request) `yaml:"-"`
}

// Host is one host: what it holds and how it behaves. The zero Host has 100 pages
// and answers each at once.
type Host struct {
	// Name is the host's role in reports: a to z, 0 to 9 and hyphens, at most 32.
	// Empty means host.
	Name string `yaml:"name,omitempty"`
	// Count makes that many hosts of this kind, each with pages of its own and
	// its number after its name, 0 to 10000. Zero means one, without a number.
	Count int `yaml:"count,omitempty"`

	// Pages is how many pages are reachable from "/", itself included, 0 to ten
	// million. Zero means 100.
	Pages int `yaml:"pages,omitempty"`
	// Fanout is how many children a page has in the tree, 0 to 10000. Zero means 10.
	Fanout int `yaml:"fanout,omitempty"`
	// CrossLinks is how many random links to pages of the same host a page has
	// besides, 0 to 1000. Zero means none.
	CrossLinks int `yaml:"cross_links,omitempty"`
	// HostLinks is how many random links to pages of other hosts a page has, 0 to
	// 1000. Zero means none.
	HostLinks int `yaml:"host_links,omitempty"`
	// Size bounds the text of a page; tags and links come on top. Zero means 2 KiB
	// to 8 KiB.
	Size Size `yaml:"size,omitempty"`

	// Media is how many linked documents are not HTML (text, JSON, SVG, binary), 0
	// to one million. Zero means none.
	Media int `yaml:"media,omitempty"`
	// Redirects is how many links are answered by a redirect to a page, every
	// fourth by way of another redirect, 0 to one million. Zero means none.
	Redirects int `yaml:"redirects,omitempty"`
	// Missing is how many links are answered by 404, 0 to one million. Zero means
	// none.
	Missing int `yaml:"missing,omitempty"`
	// Private is how many linked pages lie under /private/, for robots.txt to
	// disallow, 0 to one million. Zero means none.
	Private int `yaml:"private,omitempty"`
	// Listed is how many pages nothing links to, named by the host's sitemap alone: an index
	// at /sitemap.xml, which robots.txt names, and its parts, every other compressed. 0 to one
	// million. Zero means none, and no sitemap.
	Listed int `yaml:"listed,omitempty"`

	// Latency is the time an answer takes. Zero means none.
	Latency Latency `yaml:"latency,omitempty"`
	// OneAddress puts the Count hosts of this kind on one address, each on a port of its
	// own from the site's port on. Limits, Load, Day and Ban are then those of the address:
	// all its hosts draw on them together. False means an address each.
	OneAddress bool `yaml:"one_address,omitempty"`
	// Limit is what the address allows, in short: the limits that are most in use. Zero
	// means everything.
	Limit Limit `yaml:"limit,omitempty"`
	// Limits are further limits of the address, at most 16. A request must pass all and is
	// charged to none otherwise. Empty means none.
	Limits []Limiter `yaml:"limits,omitempty"`
	// Load is how the address slows down when much is asked of it. Zero means never.
	Load Load `yaml:"load,omitempty"`
	// Day is how limits and load change with the time of day. Zero means that they do not.
	Day Day `yaml:"day,omitempty"`
	// Ban is what becomes of clients that are refused too often. Zero means nothing.
	Ban Ban `yaml:"ban,omitempty"`
	// Refusal is how the host says "not now". Zero means 429 without Retry-After.
	Refusal Refusal `yaml:"refusal,omitempty"`
	// Script answers the first page requests; it is followed by normal service.
	// At most 1000 steps. Empty means normal service from the start.
	Script []Step `yaml:"script,omitempty"`
	// Flaky fails page requests at random. Zero means never.
	Flaky Flaky `yaml:"flaky,omitempty"`
	// Outages are the times at which the host is not well, in order and apart. At
	// most 1000. Empty means it always is.
	Outages []Outage `yaml:"outages,omitempty"`
	// Robots is the host's robots.txt. Zero means that it has none: 404.
	Robots Robots `yaml:"robots,omitempty"`
}

// Size bounds a text, in bytes. Each is drawn uniformly from Min to Max.
type Size struct {
	// Min is 0 to Max. Zero means 2 KiB if Max is zero too, and no text if not.
	Min int `yaml:"min,omitempty"`
	// Max is at most 16 MiB. Zero means 8 KiB if Min is zero too, and Min if not.
	Max int `yaml:"max,omitempty"`
}

// Latency is the time from the arrival of a request to the first byte of its
// answer, and from there to the last. Refusals and failures are answered at once.
type Latency struct {
	// Typical is the fixed value, the middle of the uniform distribution or the
	// median of the lognormal one, 0 to 10m. Zero means at once.
	Typical time.Duration `yaml:"typical,omitempty"`
	// Dist is fixed, uniform or lognormal. Empty means fixed.
	Dist string `yaml:"dist,omitempty"`
	// Spread is, for uniform, the half width as a share of Typical, 0 to 1; for
	// lognormal, sigma, 0 to 2, with the tail cut at 20 times Typical. Zero means
	// that every value is Typical.
	Spread float64 `yaml:"spread,omitempty"`
	// Body is the time over which the body is spread, 0 to 10m. Zero means that it
	// follows the first byte at once.
	Body time.Duration `yaml:"body,omitempty"`
	// FastRoot answers "/" at once, so that a crawler learns of many slow pages in
	// one moment. False means that "/" takes as long as any page.
	FastRoot bool `yaml:"fast_root,omitempty"`
}

// Limit is what an address allows, robots.txt included. What is set applies together:
// a request must pass all of it and is charged to none otherwise. [Limiter] has more kinds.
type Limit struct {
	// Rate is requests per second by the law of nginx's limit_req (GCRA), 0.001
	// to one million. Zero means no limit by rate.
	Rate float64 `yaml:"rate,omitempty"`
	// Burst is how many requests may come ahead of Rate, 0 to one million. Zero
	// means that requests must keep a distance of 1/Rate.
	Burst int `yaml:"burst,omitempty"`
	// Requests is how many requests fit into one Window, 0 to one billion. Zero
	// means no limit by window.
	Requests int `yaml:"requests,omitempty"`
	// Window is the length of the fixed windows, the first of which begins at New,
	// up to 24h. Zero is refused if Requests is set.
	Window time.Duration `yaml:"window,omitempty"`
	// Concurrent is how many requests may be open at a time, 0 to one million.
	// Zero means no limit by concurrency.
	Concurrent int `yaml:"concurrent,omitempty"`
}

// Refusal is how a host says "not now".
type Refusal struct {
	// Status answers a request over the limit, 400 to 599. Zero means 429.
	Status int `yaml:"status,omitempty"`
	// RetryAfter goes with every refusal, be it by limit, script or outage: none, seconds,
	// a date in one of the three forms of HTTP (http-date, rfc850, asctime), or nonsense:
	// past (a date that is over), absurd (three thousand years) or garbage (no number and
	// no date). Nonsense asks for nothing that could be kept, and is not held against those
	// who come all the same. Empty means none.
	RetryAfter string `yaml:"retry_after,omitempty"`
	// Wait is what Retry-After asks for, rounded up to whole seconds, or how long ago the
	// past date is, 0 to 24h; it is refused where there is nothing to ask for. Zero means
	// the time until the host would answer again, where it knows, or 1s; an hour ago.
	Wait time.Duration `yaml:"wait,omitempty"`
	// Headers tell the quota with every answer that the limits have seen: none, legacy
	// (X-RateLimit-Limit, -Remaining, -Reset with seconds) or ietf (RateLimit,
	// RateLimit-Policy). They are about Host.Limits alone. Empty means none.
	Headers string `yaml:"headers,omitempty"`
	// Body is the text of a refusal by limit, at most 64 KiB. Empty means a line with the
	// status.
	Body string `yaml:"body,omitempty"`
}

// Flaky fails page requests at random.
type Flaky struct {
	// Probability is the share of page requests that fail, 0 to 1. Zero means none.
	Probability float64 `yaml:"probability,omitempty"`
	// Kinds are the ways to fail, drawn evenly: 500, 502, 503, 504 or reset. Empty
	// means 500, 503 and reset.
	Kinds []string `yaml:"kinds,omitempty"`
}

// Outage is a span of time in which the whole host behaves otherwise.
type Outage struct {
	// After is when it begins, counted from New. Zero means at once.
	After time.Duration `yaml:"after,omitempty"`
	// For is how long it lasts, up to 10000h. Zero is refused.
	For time.Duration `yaml:"for,omitempty"`
	// Mode is refuse (503), status (see Status), hang (no answer until it is over,
	// then a reset), reset, or close-listener (connections are refused and those
	// that are open are closed; without a listener, a reset). Empty means refuse.
	Mode string `yaml:"mode,omitempty"`
	// Status is what mode status answers, 400 to 599. Zero is refused with mode
	// status, and required with the others.
	Status int `yaml:"status,omitempty"`
}

// Robots is a robots.txt. Disallow and CrawlDelay say what counts as a violation
// even if Text is written in their place.
type Robots struct {
	// Allow writes a file that allows everything. False means a file only if
	// another field calls for one.
	Allow bool `yaml:"allow,omitempty"`
	// Disallow are the path prefixes that are off limits, without * and $. At most
	// 1000. Empty means none.
	Disallow []string `yaml:"disallow,omitempty"`
	// CrawlDelay is the distance asked for between two page requests, 0 to 24h. Zero
	// means none.
	CrawlDelay time.Duration `yaml:"crawl_delay,omitempty"`
	// Text is served as it is. Empty means a text made from the fields above.
	Text string `yaml:"text,omitempty"`
	// Status is answered instead of the file, 400 to 599. Zero means the file.
	Status int `yaml:"status,omitempty"`
	// Times is how often Status is answered before the file is, up to one billion.
	// Zero means always.
	Times int `yaml:"times,omitempty"`
	// Latency is the time until the file, or its 404, is answered, 0 to 10m. Zero means at once.
	Latency time.Duration `yaml:"latency,omitempty"`
}

// exists reports whether there is a file to serve.
func (r *Robots) exists() bool {
	return r.Allow || len(r.Disallow) > 0 || r.CrawlDelay > 0 || r.Text != ""
}
