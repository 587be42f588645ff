package testsite

import (
	"cmp"
	"net"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// docs/how-to/test-site.md says what the fields mean and what zero stands for. Their ranges are their
// tags: "in" allows zero, which means the default, and "must" does not; "with" names a field without which one
// has no meaning.

// Config is a whole site. The zero Config is not valid, since a site needs a host.
type Config struct {
	Seed  uint64        `yaml:"seed,omitempty"`
	Base  string        `yaml:"base,omitempty"`
	Port  int           `yaml:"port,omitempty" in:"0..65535"`
	Grace time.Duration `yaml:"grace,omitempty" in:"0..10s"`
	Hosts []Host        `yaml:"hosts,omitempty"`

	// Clock gives the time. Run needs a clock that moves by itself. Nil means the system clock.
	Clock clock.Clock `yaml:"-"`
	// Listen opens the listener of one host; the port in its address may be 0. Nil means TCP.
	Listen func(address string) (net.Listener, error) `yaml:"-"`
	// Arrived is called with each request before the host decides about it, by many goroutines at the same time. It
	// must not keep the request. Nil means that nothing is called.
	Arrived func(host int, r *http.Request) `yaml:"-"`
}

// Host is one host: its content and its behavior. The zero Host has 100 pages and answers each request at once.
type Host struct {
	Name       string    `yaml:"name,omitempty"`
	Count      int       `yaml:"count,omitempty" in:"0..10000"`
	Pages      int       `yaml:"pages,omitempty" in:"0..10000000"`
	Fanout     int       `yaml:"fanout,omitempty" in:"0..10000"`
	CrossLinks int       `yaml:"cross_links,omitempty" in:"0..1000"`
	HostLinks  int       `yaml:"host_links,omitempty" in:"0..1000"`
	Size       Size      `yaml:"size,omitempty"`
	Media      int       `yaml:"media,omitempty" in:"0..1000000"`
	Redirects  int       `yaml:"redirects,omitempty" in:"0..1000000"`
	Missing    int       `yaml:"missing,omitempty" in:"0..1000000"`
	Private    int       `yaml:"private,omitempty" in:"0..1000000"`
	Listed     int       `yaml:"listed,omitempty" in:"0..1000000"`
	Latency    Latency   `yaml:"latency,omitempty"`
	OneAddress bool      `yaml:"one_address,omitempty" with:"count"`
	Limit      Limit     `yaml:"limit,omitempty"`
	Limits     []Limiter `yaml:"limits,omitempty" in:"0..16"`
	Load       Load      `yaml:"load,omitempty"`
	Day        Day       `yaml:"day,omitempty"`
	Ban        Ban       `yaml:"ban,omitempty"`
	Refusal    Refusal   `yaml:"refusal,omitempty"`
	Script     []Step    `yaml:"script,omitempty" in:"0..1000"`
	Flaky      Flaky     `yaml:"flaky,omitempty"`
	Outages    []Outage  `yaml:"outages,omitempty" in:"0..1000"`
	Robots     Robots    `yaml:"robots,omitempty"`
}

// Size bounds a text, in bytes. Each length is drawn uniformly from Min to Max.
type Size struct {
	Min int `yaml:"min,omitempty" in:"0..16777216"`
	Max int `yaml:"max,omitempty" in:"0..16777216"`
}

// Latency is the time from the arrival of a request to the first byte of the response, and from there to the last.
// Refusals and failures are sent at once.
type Latency struct {
	Typical  time.Duration `yaml:"typical,omitempty" in:"0..10m"`
	Dist     string        `yaml:"dist,omitempty" in:"fixed uniform lognormal"`
	Spread   float64       `yaml:"spread,omitempty"`
	Body     time.Duration `yaml:"body,omitempty" in:"0..10m"`
	FastRoot bool          `yaml:"fast_root,omitempty"`
}

// Limit is the short form of up to three limits, which apply together. They count requests
// for robots.txt too. [Limiter] has more kinds.
type Limit struct {
	Rate       float64       `yaml:"rate,omitempty" in:"0.001..1000000"`
	Burst      int           `yaml:"burst,omitempty" in:"0..1000000" with:"rate"`
	Requests   int           `yaml:"requests,omitempty" in:"0..1000000000" with:"window"`
	Window     time.Duration `yaml:"window,omitempty" in:"0..24h" with:"requests"`
	Concurrent int           `yaml:"concurrent,omitempty" in:"0..1000000"`
}

// Limiter is one limit of an address. A field that its kind does not use is an error, and so is a zero in one that it
// needs.
type Limiter struct {
	Kind       string        `yaml:"kind,omitempty" must:"leaky-bucket token-bucket fixed-window sliding-window sliding-window-log concurrency"`
	Rate       float64       `yaml:"rate,omitempty" in:"0.001..1000000"`
	Burst      int           `yaml:"burst,omitempty" in:"0..1000000"`
	Delay      bool          `yaml:"delay,omitempty"`
	Requests   int           `yaml:"requests,omitempty" in:"0..1000000"`
	Window     time.Duration `yaml:"window,omitempty" in:"1ms..24h"`
	Concurrent int           `yaml:"concurrent,omitempty" in:"0..1000000"`

	fromNew bool // the first window begins at New; see Limit
}

// Load makes latency grow with the number of requests.
type Load struct {
	Rate    float64       `yaml:"rate,omitempty" in:"0.001..1000000"`
	MaxWait time.Duration `yaml:"max_wait,omitempty" in:"0..10m" with:"rate"`
	Workers int           `yaml:"workers,omitempty" in:"0..1000000"`
}

// Day changes the capacity of buckets, windows and Load.Rate over time: their clock goes
// slower or faster. At a quarter of the speed, 4/s is 1/s and a window lasts four times as
// long. Concurrency and Workers do not change.
type Day struct {
	Length time.Duration `yaml:"length,omitempty" in:"1s..1000h"`
	Low    float64       `yaml:"low,omitempty" in:"0.01..1"`
	Table  []Hour        `yaml:"table,omitempty" in:"0..1000"`
}

// Hour is an entry of a timetable.
type Hour struct {
	At    time.Duration `yaml:"at,omitempty"`
	Speed float64       `yaml:"speed,omitempty" must:"0.01..100"`
}

// Ban shuts out a client that is refused too often. All clients count as one, since a site measures one crawler at a
// time.
type Ban struct {
	After  int           `yaml:"after,omitempty" in:"0..10000" with:"for"`
	Within time.Duration `yaml:"within,omitempty" in:"0..24h" with:"after"`
	For    time.Duration `yaml:"for,omitempty" in:"0..24h" with:"after"`
	Mode   string        `yaml:"mode,omitempty" in:"status drop" with:"after"`
	Status int           `yaml:"status,omitempty" in:"400..599" with:"after"`
}

// Refusal is how a host refuses a request.
type Refusal struct {
	Status     int           `yaml:"status,omitempty" in:"400..599"`
	RetryAfter string        `yaml:"retry_after,omitempty" in:"none seconds http-date rfc850 asctime past absurd garbage"`
	Wait       time.Duration `yaml:"wait,omitempty" in:"0..24h" with:"retry_after"`
	Headers    string        `yaml:"headers,omitempty" in:"none legacy ietf"`
	Body       string        `yaml:"body,omitempty" in:"0..65536"`
}

// Flaky fails page requests at random.
type Flaky struct {
	Probability float64  `yaml:"probability,omitempty" in:"0..1"`
	Kinds       []string `yaml:"kinds,omitempty" in:"0..1000"`
}

// Outage is a period in which the whole host fails.
type Outage struct {
	After  time.Duration `yaml:"after,omitempty" in:"0..10000h"`
	For    time.Duration `yaml:"for,omitempty" must:"1ns..10000h"`
	Mode   string        `yaml:"mode,omitempty" in:"refuse status hang reset close-listener"`
	Status int           `yaml:"status,omitempty" in:"400..599"`
}

// Robots is a robots.txt. Disallow and CrawlDelay define what counts as a violation, even
// if Text replaces the file.
type Robots struct {
	Allow      bool          `yaml:"allow,omitempty"`
	Disallow   []string      `yaml:"disallow,omitempty" in:"0..1000"`
	CrawlDelay time.Duration `yaml:"crawl_delay,omitempty" in:"0..24h"`
	Text       string        `yaml:"text,omitempty" in:"0..16777216"`
	Status     int           `yaml:"status,omitempty" in:"400..599"`
	Times      int           `yaml:"times,omitempty" in:"0..1000000000" with:"status"`
	Latency    time.Duration `yaml:"latency,omitempty" in:"0..10m"`
}

// Mixed returns a site with one host of each kind that a polite crawler meets, for a demonstration of some twenty
// seconds.
func Mixed() Config {
	page := Latency{Typical: 15 * time.Millisecond, Dist: distLognormal, Spread: 0.4}
	return Config{Seed: 1, Hosts: []Host{
		{Name: "fast", Pages: 60, CrossLinks: 3, HostLinks: 1, Robots: Robots{Allow: true}},
		{Name: "slow", Pages: 12, Latency: Latency{Typical: 900 * time.Millisecond, Dist: distUniform, Spread: 0.5, Body: 200 * time.Millisecond}},
		// With Retry-After, and then without, as most servers are: nginx answers 503 and gives none.
		{Name: "limited", Pages: 50, Latency: page, Limit: Limit{Rate: 4, Burst: 2}, Refusal: Refusal{RetryAfter: retrySeconds, Wait: 2 * time.Second}},
		{Name: "limited-silent", Pages: 50, Latency: page, Limit: Limit{Rate: 4, Burst: 4}, Refusal: Refusal{Status: 503}},
		{Name: "flaky", Pages: 40, Latency: page, Flaky: Flaky{Probability: 0.1}},
		// Down while the crawl runs at full rate, and back before it ends.
		{Name: "down-a-while", Pages: 40, Latency: page, Outages: []Outage{{After: 4 * time.Second, For: 5 * time.Second, Mode: modeClose}}},
		{Name: "robots", Pages: 14, Private: 6, Latency: page, Robots: Robots{Disallow: []string{"/private/"}, CrawlDelay: time.Second}},
		{Name: "maze", Pages: 30, CrossLinks: 8, Media: 4, Redirects: 8, Missing: 6, Latency: page},
	}}
}

// Uniform returns n healthy hosts with that many pages each (zero means 100). Their home pages link to up to 10000 of
// them, and each response takes latency. It is the site for measuring speed.
func Uniform(n, pages int, latency time.Duration) Config {
	return Config{Seed: 1, Hosts: []Host{
		{Name: "host", Count: n, Pages: pages, Fanout: wholeTree(pages), Latency: Latency{Typical: latency}},
	}}
}

// HeadOfLine returns twenty healthy hosts with 51 pages of 20ms each, and slow hosts with 51 pages of 5s each after a
// fast home page. It shows whether slow hosts block the others.
func HeadOfLine(slow int) Config {
	const pages = 51
	cfg := Uniform(20, pages, 20*time.Millisecond)
	cfg.Hosts[0].Name = "healthy"
	if slow > 0 {
		cfg.Hosts = append(cfg.Hosts, Host{
			Name: "slow", Count: slow, Pages: pages, Fanout: wholeTree(pages),
			Latency: Latency{Typical: 5 * time.Second, FastRoot: true},
		})
	}
	return cfg
}

// wholeTree returns the fanout with which the home page links to every page, within bounds.
func wholeTree(pages int) int {
	pages = cmp.Or(pages, defaultPages)
	return max(1, min(maxFanout, pages-1))
}
