package config

import (
	"strings"
	"time"

	"github.com/treadlight/crawl/resilience/binder"
)

// Config is all settings of a crawl. Start from [Default] or [Load]: [Config.Validate] rejects the zero Config, because
// zero has a meaning of its own in many fields.
//
// What a field means, its range, its default and what zero or empty means is described in the table, in the row whose
// path consists of the names of the fields: Fetch.MaxBody is fetch.max_body.
type Config struct {
	Concurrency, PerHostMax, Depth int
	MaxPages, MaxPagesPerHost      int64
	MaxTime, Grace, MaxBlocked     time.Duration

	Seeds      Seeds
	Scope      Scope
	Traps      Traps
	Duplicates Duplicates
	Robots     Robots
	Sitemaps   Sitemaps
	RateLimit  RateLimit
	Hosts      []Host // rules for single hosts; the first that matches applies
	Fetch      Fetch
	Access     Access
	Resilience *binder.Model // policies around requests, not changed after loading; nil means none
	Render     Render
	Extract    Extract
	Output     Output
	WARC       WARC
	State      State
	Frontier   Frontier
	Stats      Stats
	Fleet      Fleet
	Listen     Listen
	Traces     Traces
	Log        Log
}

// The sections of [Config], as in its file.
type (
	// Seeds says where the first URLs come from, besides the arguments.
	Seeds struct {
		Files []string `yaml:"file"`
	}
	// Scope says which of the links found belong to the crawl.
	Scope struct {
		Mode                                         string
		Include, Exclude, Scores, Budgets, Canonical []string
		Resources, Forms                             bool
	}
	// Traps says how URLs in traps are handled.
	Traps struct {
		Enabled, Report bool
		After           int
	}
	// Duplicates says whether pages that repeat others are detected.
	Duplicates struct{ Find string }
	// Robots says how robots.txt is obeyed.
	Robots struct {
		Enabled, FollowNofollow bool
		MaxCrawlDelay           time.Duration
	}
	// Sitemaps says which lists of URLs are read, besides pages.
	Sitemaps struct{ Enabled, Feeds bool }
	// RateLimit configures the limiter, which learns how fast requests may be sent to each host.
	RateLimit struct {
		Strategy                                                 string
		InitialRPS, MinRPS, MaxRPS, GlobalRPS, IPRPS, SiteRPS    float64 // requests per second
		TokenBucketCapacity, AIMDIncrease, AIMDDecrease          float64
		LatencyDegradeFactor, ErrorRateThreshold                 float64
		LatencyTarget, OpenStateDuration                         time.Duration
		RetryBaseDelay, RetryMaxDelay, MaxRetryAfter, MinDelay   time.Duration
		StatsWindow, StatsBucket, DomainStateTTL                 time.Duration
		MinSamplesToTrip, ConsecutiveFailThreshold               int
		HalfOpenProbes, RetryMaxAttempts, LatencySamples, Shards int
		GlobalConcurrency                                        int
		GlobalBytes                                              int64
		Remember                                                 string
	}
	// Fetch says how a page is requested.
	Fetch struct {
		UserAgent, Contact                         string
		Headers, AcceptTypes                       []string
		Timeout                                    time.Duration
		MaxBody, SkipLarger                        int64
		MaxRedirects                               int
		Conditional, HTTP2, Insecure, AllowPrivate bool
	}
	// Access says how the crawl identifies itself to sites, and how it connects to them. Texts with a secret may
	// contain ${NAME} for an environment variable, which is looked up when the crawl is built and not saved with it.
	Access struct {
		Auth, Resolve                                                  []string
		Netrc, CookieFile, Proxy, Cert, Key, CAFile, DNSServer, Family string
		Cookies                                                        bool
	}
	// Render says which pages a browser renders, and how.
	Render struct {
		Mode, Browser, Screenshot string
		Steps                     []string
		Browsers                  int
	}
	// Extract says what is extracted from pages besides links and text.
	Extract struct {
		Fields      []string // see [ParseField]
		MaxElements int
		MaxTime     time.Duration
	}
	// Output says where records are written and what they contain.
	Output struct {
		Path, Format, Events, Skipped string
		Chunk                         int
		Record                        []string
		Overwrite, SkipNoindex        bool
	}
	// WARC says whether and how requests and responses are archived.
	WARC struct {
		Dir, Prefix, NoArchive string
		MaxSize                int64
		Host, Credentials      bool
	}
	// State says where the state of a crawl is kept.
	State struct{ Dir string }
	// Frontier bounds the memory for known URLs, and orders them.
	Frontier struct {
		MaxURLs int
		Order   string
	}
	// Stats says where the state of the crawl is written while it runs.
	Stats struct {
		Path     string
		Interval time.Duration
	}
	// Fleet says to which crawl of several processes this process belongs.
	Fleet struct {
		Redis, CAFile, PasswordFile, Job, Worker string
		Lease                                    time.Duration
	}
	// Listen says where the crawl serves HTTP: health, state, metrics, events and control.
	Listen struct{ Addr, Token string }
	// Traces says where a trace of each URL is sent, by OTLP over HTTP.
	Traces struct {
		Endpoint  string
		Headers   []string
		Sample    float64
		Propagate bool
	}
	// Log says what people see on standard error.
	Log struct{ Level, Format, Progress string }
)

// Host is a rule for the hosts that Match names. [Load] fills in what a rule leaves out from [RateLimit], so a zero
// here is a zero and never "unset".
type Host struct {
	Match                      string
	InitialRPS, MinRPS, MaxRPS float64
	MinDelay                   time.Duration
	MaxInFlight                int
	Cap, Quota                 Cap // zero means none
	Headers                    []string
	Auth, Proxy, Cert, Key     string
}

// Cap is a limit that the user sets for each of the hosts of a rule. The zero Cap means no limit.
type Cap struct {
	Kind    string
	Permits int64
	Per     time.Duration
}

const off = "off"

// Enabled reports whether requests are paced at all, which means that the strategy is not off.
func (r RateLimit) Enabled() bool { return r.Strategy != off }

// IsZero reports whether there is no cap.
func (c Cap) IsZero() bool { return c == Cap{} }

// ConnectTimeout bounds the lookup of the name and the connection. Three retransmissions of SYN, after 1, 3 and 7 s
// (RFC 6298), fit into ten seconds.
func (f Fetch) ConnectTimeout() time.Duration { return min(f.Timeout, 10*time.Second) }

// HeaderTimeout bounds the wait for the headers, since servers that compute a page slowly do that before the headers.
// Of a timeout of 30 seconds it is 20.
func (f Fetch) HeaderTimeout() time.Duration {
	return max(min(f.Timeout, 20*time.Second), f.Timeout*2/3)
}

// BodyTimeout bounds the time between two reads of a body, and not the time of the whole body, because a large page on
// a slow line is still a page. Of a timeout of 30 seconds it is 15.
func (f Fetch) BodyTimeout() time.Duration {
	return max(min(f.Timeout, 15*time.Second), f.Timeout/2)
}

// Agent returns the User-Agent to send: UserAgent if it is set, otherwise the product with its version and the contact.
// Characters that a product version must not contain are left out, and so is an empty version.
func (f Fetch) Agent(version string) string {
	if f.UserAgent != "" {
		return f.UserAgent
	}
	agent := Product
	if v := strings.Map(tokenOnly, version); v != "" {
		agent += "/" + v
	}
	if f.Contact != "" {
		agent += " (+" + f.Contact + ")"
	}
	return agent
}

// Product is the name in the User-Agent and the name that robots.txt files address. It consists of letters only, as RFC
// 9309 section 2.2.1 demands.
const Product = "Treadlight"

func tokenOnly(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return r
	case strings.ContainsRune("._-+", r):
		return r
	}
	return -1
}

// MaxHosts returns how many hosts may be in memory.
func (f Frontier) MaxHosts() int { return max(f.MaxURLs/10, 1_000_000) }

// Quiet reports whether only errors are shown.
func (l Log) Quiet() bool { return l.Level == "error" }
