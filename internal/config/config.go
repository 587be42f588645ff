package config

import (
	"strings"
	"time"

	"github.com/treadlight/crawl/resilience/binder"
)

// Config is every setting of a crawl. Start from [Default] or [Load]: the zero Config
// is refused by [Config.Validate], because zero is a meaning of its own in many fields.
//
// What a field means, its range, its default and what zero or empty means stand in the row of
// the table whose path has the names of the fields: Fetch.MaxBody is fetch.max_body.
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
	Hosts      []Host // rules for single hosts; the first that matches counts
	Fetch      Fetch
	Access     Access
	Resilience *binder.Model // policies around requests, which nobody changes any more; nil: none
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
	// Seeds says where the first URLs come from, beside the arguments.
	Seeds struct {
		Files []string `yaml:"file"`
	}
	// Scope says which of the links found belong to the crawl.
	Scope struct {
		Mode                                         string
		Include, Exclude, Scores, Budgets, Canonical []string
		Resources, Forms                             bool
	}
	// Traps says what is done about URLs that lead nowhere.
	Traps struct {
		Enabled, Report bool
		After           int
	}
	// Duplicates says whether pages are told that repeat others.
	Duplicates struct{ Find string }
	// Robots says how robots.txt is obeyed.
	Robots struct {
		Enabled, FollowNofollow bool
		MaxCrawlDelay           time.Duration
	}
	// Sitemaps says which lists of URLs are read, beside pages.
	Sitemaps struct{ Enabled, Feeds bool }
	// RateLimit sets up the engine that learns how fast each host may be asked.
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
	// Access says who the crawl is to sites, and which way it takes to them. Texts with a secret may have ${NAME} for
	// a variable of the environment, which is looked up when the crawl is built and not kept with it.
	Access struct {
		Auth, Resolve                                                  []string
		Netrc, CookieFile, Proxy, Cert, Key, CAFile, DNSServer, Family string
		Cookies                                                        bool
	}
	// Render says which pages a browser makes of, and how.
	Render struct {
		Mode, Browser, Screenshot string
		Steps                     []string
		Browsers                  int
	}
	// Extract says what is extracted from pages beside links and text.
	Extract struct {
		Fields      []string // see [ParseField]
		MaxElements int
		MaxTime     time.Duration
	}
	// Output says where records go and what is in them.
	Output struct {
		Path, Format, Events   string
		Record                 []string
		Overwrite, SkipNoindex bool
	}
	// WARC says whether what is sent and what comes is archived, and how.
	WARC struct {
		Dir, Prefix, NoArchive string
		MaxSize                int64
		Host, Credentials      bool
	}
	// State says where a crawl is kept.
	State struct{ Dir string }
	// Frontier bounds the memory of the URLs known, and orders them.
	Frontier struct {
		MaxURLs int
		Order   string
	}
	// Stats says where the state of the crawl is written while it runs.
	Stats struct {
		Path     string
		Interval time.Duration
	}
	// Fleet says to which crawl of several processes this one belongs.
	Fleet struct {
		Redis, CAFile, PasswordFile, Job, Worker string
		Lease                                    time.Duration
	}
	// Listen says where the crawl answers over HTTP: health, state, metrics, events and orders.
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

// Host is a rule for the hosts that Match names. [Load] fills what a rule leaves out
// from [RateLimit], so here a zero is a zero and never "unset".
type Host struct {
	Match                      string
	InitialRPS, MinRPS, MaxRPS float64
	MinDelay                   time.Duration
	MaxInFlight                int
	Cap, Quota                 Cap // zero: none
	Headers                    []string
	Auth, Proxy, Cert, Key     string
}

// Cap is a limit that the user sets for each of the hosts of a rule. The zero Cap is none.
type Cap struct {
	Kind    string
	Permits int64
	Per     time.Duration
}

const off = "off"

// Enabled reports whether hosts are paced at all: the strategy is not off.
func (r RateLimit) Enabled() bool { return r.Strategy != off }

// IsZero reports whether there is no cap.
func (c Cap) IsZero() bool { return c == Cap{} }

// ConnectTimeout bounds the lookup of the name and the connection. Three SYN
// retransmissions, after 1, 3 and 7 s (RFC 6298), fit into ten seconds.
func (f Fetch) ConnectTimeout() time.Duration { return min(f.Timeout, 10*time.Second) }

// HeaderTimeout bounds the wait for the headers: servers that compute a page slowly do it
// before them. It is 20 seconds of 30.
func (f Fetch) HeaderTimeout() time.Duration {
	return max(min(f.Timeout, 20*time.Second), f.Timeout*2/3)
}

// BodyTimeout bounds the silence between two reads of a body, and not all of it, for a large
// page on a slow line is still a page. It is 15 seconds of 30.
func (f Fetch) BodyTimeout() time.Duration {
	return max(min(f.Timeout, 15*time.Second), f.Timeout/2)
}

// Agent is the User-Agent to send: UserAgent if it is set, else the product with its version and the contact.
// Characters that no product version may have are left out, and so is an empty version.
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

// Product is the name in the User-Agent and the one that robots.txt files speak to. It
// is letters only, as RFC 9309 section 2.2.1 wants of it.
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

// MaxHosts is how many hosts are in memory at most.
func (f Frontier) MaxHosts() int { return max(f.MaxURLs/10, 1_000_000) }

// Quiet reports whether people want to see errors alone.
func (l Log) Quiet() bool { return l.Level == "error" }
