package config

import (
	"strings"
	"time"

	"github.com/treadlight/crawl/resilience/binder"
)

// Config is every setting of a crawl. Start from [Default] or [Load]: the zero Config
// is refused by [Config.Validate], because zero is a meaning of its own in many fields.
type Config struct {
	// Concurrency is how many fetches are in flight over all hosts, but for those that have
	// waited for an answer for longer than a second: with these there are at most four times
	// as many, and half of the files that the process may have open. It is 1 to 10000
	// (default 64). Zero is refused.
	Concurrency int `yaml:"concurrency"`
	// PerHostMax is how many fetches are in flight at one host, 1 to 1000 (default 8).
	// Zero is refused.
	PerHostMax int `yaml:"per_host_max"`
	// Depth is how many links a page may be away from a seed (default -1). Zero
	// fetches seeds only, -1 follows links without bound.
	Depth int `yaml:"depth"`
	// MaxPages ends the crawl after that many pages, those of all processes of a fleet
	// included, and those of earlier runs if it is resumed (default 0). Zero: no limit.
	MaxPages int64 `yaml:"max_pages"`
	// MaxPagesPerHost bounds the pages of one host (default 0). Zero: no limit.
	MaxPagesPerHost int64 `yaml:"max_pages_per_host"`
	// MaxTime ends the crawl, or each of its runs if it is resumed, after that long; that
	// of a fleet so long after its job was made (default 0). Zero: no limit.
	MaxTime time.Duration `yaml:"max_time"`
	// Grace is how long a crawl that is to end, because it is asked to stop or MaxTime is
	// over, may go on with what is under way (default 2s). Requests are cancelled after three
	// quarters of it; what was not recorded stays queued. Zero: as long as that takes.
	Grace time.Duration `yaml:"grace"`
	// MaxBlocked is how long to go on waiting when only blocked hosts remain
	// (default 5m). Zero stops at once.
	MaxBlocked time.Duration `yaml:"max_blocked"`

	// Seeds are where the crawl starts.
	Seeds Seeds `yaml:"seeds"`
	// Scope is which links it follows.
	Scope Scope `yaml:"scope"`
	// Traps is what it does about URLs that lead nowhere.
	Traps Traps `yaml:"traps"`
	// Duplicates is whether it tells pages that repeat others.
	Duplicates Duplicates `yaml:"duplicates"`
	// Robots is how far it obeys robots.txt.
	Robots Robots `yaml:"robots"`
	// Sitemaps is which lists of URLs it reads.
	Sitemaps Sitemaps `yaml:"sitemaps"`
	// RateLimit is how fast it may ask.
	RateLimit RateLimit `yaml:"ratelimit"`
	// Hosts are rules for single hosts; the first that matches counts. Empty: every
	// host is paced as RateLimit says.
	Hosts []Host `yaml:"hosts"`
	// Fetch is how it asks.
	Fetch Fetch `yaml:"fetch"`
	// Access is who it is to sites, and which way it takes to them.
	Access Access `yaml:"access"`
	// Resilience is the policies around its requests, which nobody changes any more; of
	// those that a crawl can have, see the manual. Nil: none.
	Resilience *binder.Model `yaml:"resilience"`
	// Extract is what it reads out of pages beside links and text.
	Extract Extract `yaml:"extract"`
	// Output is what it writes.
	Output Output `yaml:"output"`
	// WARC is the archives beside that.
	WARC WARC `yaml:"warc"`
	// State is where it is kept so that it can be resumed.
	State State `yaml:"state"`
	// Frontier is how much it remembers.
	Frontier Frontier `yaml:"frontier"`
	// Stats is what it tells programs as it runs.
	Stats Stats `yaml:"stats"`
	// Fleet is which crawl of several processes it is a part of.
	Fleet Fleet `yaml:"fleet"`
	// Listen is where it can be seen and steered while it runs.
	Listen Listen `yaml:"listen"`
	// Traces is what it tells a collector of OpenTelemetry.
	Traces Traces `yaml:"traces"`
	// Log is what it tells people.
	Log Log `yaml:"log"`
}

// Seeds says where the first URLs come from, beside the arguments.
type Seeds struct {
	// Files hold one URL per line and are read one after another; "-" is standard input
	// (default []). Empty: no file.
	Files []string `yaml:"file"`
}

// Scope says which of the links found belong to the crawl.
type Scope struct {
	// Mode is host, domain, prefix or any (default host). Empty is refused.
	Mode string `yaml:"mode"`
	// Include are regular expressions; a URL must match one of them (default []).
	// Empty: every URL does.
	Include []string `yaml:"include"`
	// Exclude are regular expressions; a URL must match none (default []). Empty:
	// no URL does.
	Exclude []string `yaml:"exclude"`
	// Scores are patterns with the number of points, -1000 to 1000, that a URL gets of the
	// first one it matches, each as "POINTS REGEXP" (default []). Of a host's URLs those
	// with more go first. Empty: all have none.
	Scores []string `yaml:"scores"`
	// Budgets are patterns with the number of URLs, 1 to 1,000,000,000, that are taken of
	// those that match, each as "N REGEXP" for so many of each host, or "N/crawl REGEXP" for
	// so many of all together (default []); see [ParseBudget]. The first that matches a URL
	// counts, and seeds are always taken. Empty: no bound.
	Budgets []string `yaml:"budgets"`
	// Canonical are rules that give more than one spelling of a URL the same form, beyond
	// what the URL standard does: sessions, slashes, tracking, empty-query, index, sort,
	// and drop:NAME for a parameter to take out, "*" in NAME being any text (default []).
	// Empty: none.
	Canonical []string `yaml:"canonical"`
	// Resources follows images, scripts and styles too (default false). False:
	// only links to pages.
	Resources bool `yaml:"resources"`
	// Forms follows forms that are sent by GET, with the values they begin with (default
	// false). False: no form.
	Forms bool `yaml:"forms"`
}

// Traps says what is done about URLs that lead nowhere.
type Traps struct {
	// Enabled leaves them (default true). False: they are followed like others.
	Enabled bool `yaml:"enabled"`
	// Report follows them, and only counts and logs them (default false). False: they are
	// left.
	Report bool `yaml:"report"`
	// After is how many pages of a host are visited before what pages say counts, and dates
	// (default 1000). Zero: they count from the first.
	After int `yaml:"after"`
}

// Duplicates says whether pages are told that repeat others.
type Duplicates struct {
	// Find is off, exact or near (default off). Empty is refused.
	Find string `yaml:"find"`
}

// Robots says how robots.txt is obeyed.
type Robots struct {
	// Enabled asks for robots.txt and obeys it (default true). False: never asked
	// for; for one's own servers.
	Enabled bool `yaml:"enabled"`
	// MaxCrawlDelay is the longest Crawl-delay honoured (default 60s). Zero: the
	// line is ignored.
	MaxCrawlDelay time.Duration `yaml:"max_crawl_delay"`
	// FollowNofollow follows links that their pages ask crawlers not to follow, by
	// rel=nofollow, meta robots or X-Robots-Tag (default false). False: not followed.
	FollowNofollow bool `yaml:"follow_nofollow"`
}

// Sitemaps says which lists of URLs are read, beside pages.
type Sitemaps struct {
	// Enabled asks for the sitemaps that robots.txt names, and where it names none, or is not
	// asked for, for /sitemap.xml (default true). False: for none.
	Enabled bool `yaml:"enabled"`
	// Feeds follows the feeds that pages name and reads RSS and Atom for links (default
	// true). False: neither.
	Feeds bool `yaml:"feeds"`
}

// Host is a rule for the hosts that Match names. [Load] fills what a rule leaves out
// from [RateLimit], so here a zero is a zero and never "unset".
type Host struct {
	// Match is a host ("example.com") or all names below one ("*.example.com"); with a
	// port ("example.com:8080") it is that port only. Empty is refused.
	Match string `yaml:"match"`
	// InitialRPS is the first rate, in requests per second. Zero is refused.
	InitialRPS float64 `yaml:"initial_rps"`
	// MinRPS is the smallest rate, in requests per second. Zero is refused.
	MinRPS float64 `yaml:"min_rps"`
	// MaxRPS is the largest rate, in requests per second. Zero is refused.
	MaxRPS float64 `yaml:"max_rps"`
	// MinDelay is the shortest time between two requests. Zero: none.
	MinDelay time.Duration `yaml:"min_delay"`
	// MaxInFlight is how many requests may be out at a time, within PerHostMax. Zero: as
	// many as PerHostMax says.
	MaxInFlight int `yaml:"max_in_flight"`
	// Cap is what no host that matches may be asked beyond, whatever is learned of it.
	// Zero: no cap.
	Cap Cap `yaml:"cap"`
	// Quota is how many requests such a host gets in a long span, robots.txt and retries
	// included. When it is spent, the host counts as blocked. Zero: no quota.
	Quota Cap `yaml:"quota"`
	// Headers are sent over those of Fetch, each as "Name: value". Empty: none.
	Headers []string `yaml:"headers"`
	// Auth is "user:password" or "bearer TOKEN". Empty: what Access says.
	Auth string `yaml:"auth"`
	// Proxy is the URL of a proxy, or "direct" for none. Empty: that of Access.
	Proxy string `yaml:"proxy"`
	// Cert and Key are the PEM files of a client certificate. Empty: those of Access, and a
	// Key that is empty is in Cert.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Cap is a limit that the user sets for each of the hosts of a rule. The zero Cap is none.
type Cap struct {
	// Kind is the algorithm: token-bucket, fixed-window, sliding-window,
	// sliding-window-log, leaky-bucket or concurrency; of a quota, one of the windows.
	// Empty is refused for a cap; for a quota it is fixed-window.
	Kind string `yaml:"kind"`
	// Permits is how many requests there are in Per, of the kind concurrency at a time.
	// Zero is refused where anything else of the cap is set.
	Permits int64 `yaml:"permits"`
	// Per is the span. Zero is refused, but for the kind concurrency, which has none.
	Per time.Duration `yaml:"per"`
}

// IsZero reports whether there is no cap.
func (c Cap) IsZero() bool { return c == Cap{} }

// Fetch says how a page is asked for.
type Fetch struct {
	// UserAgent is sent as is (default ""). Empty: what [Fetch.Agent] composes.
	UserAgent string `yaml:"user_agent"`
	// Contact is a URL or mail address for operators of the sites (default "").
	// Empty: none is named, and Load warns.
	Contact string `yaml:"contact"`
	// Headers are sent with every request, each as "Name: value" (default []). Empty:
	// none beyond the crawler's own.
	Headers []string `yaml:"headers"`
	// Timeout bounds one fetch from dial to the last byte, and with it the parts of one: see
	// [Fetch.ConnectTimeout] and its like (default 30s). Zero is refused.
	Timeout time.Duration `yaml:"timeout"`
	// MaxBody is how many bytes of a body are kept, after decoding (default 10MiB).
	// Zero is refused.
	MaxBody int64 `yaml:"max_body"`
	// AcceptTypes are patterns of media types whose bodies are read, or with ! before them
	// are not (default []). Empty: all are.
	AcceptTypes []string `yaml:"accept_types"`
	// SkipLarger is how long a body may be by its Content-Length to be read (default 0).
	// Zero: any length.
	SkipLarger int64 `yaml:"skip_larger"`
	// Conditional asks for a page that an earlier round has seen only if it has changed
	// (default true). False: for every page whole.
	Conditional bool `yaml:"conditional"`
	// MaxRedirects is how many redirects in a row are followed (default 10). Zero:
	// none.
	MaxRedirects int `yaml:"max_redirects"`
	// HTTP2 offers HTTP/2 to servers (default false). False: HTTP/1.1 only.
	HTTP2 bool `yaml:"http2"`
	// Insecure accepts any TLS certificate (default false). False: verified.
	Insecure bool `yaml:"insecure"`
	// AllowPrivate lets links, redirects, and seeds that others bring, lead to private and
	// loopback addresses (default false). False: only to what the seeds of the user named when
	// the crawl began, at their ports. To link-local addresses, and those where clouds keep
	// secrets for their machines, only seeds and access.resolve lead, by the address itself.
	AllowPrivate bool `yaml:"allow_private"`
}

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

// Agent is the User-Agent to send: UserAgent if it is set, else the product with its
// version and the contact. Characters that no product version may have are left out,
// and so is an empty version.
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

// Extract says what is read out of pages beside links and text.
type Extract struct {
	// Fields are rules for values, each as "NAME=css:SELECTOR" or "NAME=xpath:EXPRESSION", with
	// more to be said; see [ParseField] (default []). Empty: none.
	Fields []string `yaml:"fields"`
	// MaxElements bounds the tree that is built of a page, and with it what all reading of the page
	// may cost (default 100000). Zero is refused.
	MaxElements int `yaml:"max_elements"`
	// MaxTime is how long the reading of one page may take (default 2s). Zero is refused.
	MaxTime time.Duration `yaml:"max_time"`
}

// Output says where records go and what is in them.
type Output struct {
	// Path is a file, a directory for records and state, or "-" for standard output
	// (default "-"). Empty is refused.
	Path string `yaml:"path"`
	// Format is jsonl, csv, urls or warc (default jsonl); [Load] takes what the ending of Path
	// says if nobody wrote it. warc writes archives and no records, one if Path ends in .warc
	// or .warc.gz and else several into the directory Path. Empty is refused.
	Format string `yaml:"format"`
	// Record is what records have beside what all have: text, main-text (without navigation,
	// asides and footers), metadata (Open Graph, Twitter and JSON-LD) and body; and what they
	// have not: no-links, no-digest (default []). Empty: links, and the SHA-256 of bodies.
	Record []string `yaml:"record"`
	// Overwrite replaces a file that exists, and a state (default false). False: an error.
	Overwrite bool `yaml:"overwrite"`
	// SkipNoindex leaves out pages that say noindex (default false). False: written, with
	// what they say.
	SkipNoindex bool `yaml:"skip_noindex"`
	// Events is a file for what changed the rate of a host and why, or "-" for standard
	// error (default ""). Empty: not written.
	Events string `yaml:"events"`
}

// WARC says whether what is sent and what comes is archived, and how.
type WARC struct {
	// Dir is a directory for archives (default ""). Empty: none are written, unless that is
	// Output.Format.
	Dir string `yaml:"dir"`
	// Prefix begins the names of the files (default "treadlight"). Empty is refused.
	Prefix string `yaml:"prefix"`
	// MaxSize is the bytes of a file at which the next one begins (default 1GB). Zero is
	// refused.
	MaxSize int64 `yaml:"max_size"`
	// Host has the name of this machine in those of files and in what they tell of
	// themselves (default true). False: it is not told.
	Host bool `yaml:"host"`
	// Credentials keeps those of requests in the archives, which are then for their owner
	// alone (default false). False: their values are left out.
	Credentials bool `yaml:"credentials"`
	// NoArchive is ignore or obey: what becomes of pages that say noarchive to robots
	// (default ignore). Empty is refused.
	NoArchive string `yaml:"noarchive"`
}

// State says where a crawl is kept.
type State struct {
	// Dir is a directory of its own, in which the frontier, what is learned of hosts and
	// these settings survive the process (default ""). Empty: they do not, unless
	// Output.Path is a directory.
	Dir string `yaml:"dir"`
}

// Frontier bounds the memory of the URLs known, and orders them. As package frontier
// counts it, a visited URL is about 8 bytes, a queued one 150 and a host 300: the defaults
// allow for 1.8 GB, which only a crawl of that size uses. One with a state keeps most of the
// queued URLs on disk.
type Frontier struct {
	// MaxURLs is how many URLs are known at most, queued or visited (default
	// 10000000). Zero is refused.
	MaxURLs int `yaml:"max_urls"`
	// Order is found, breadth or depth: which of a host's URLs go first (default found).
	// Empty is refused.
	Order string `yaml:"order"`
}

// MaxHosts is how many hosts are in memory at most.
func (f Frontier) MaxHosts() int { return max(f.MaxURLs/10, 1_000_000) }

// Stats says where the state of the crawl is written while it runs.
type Stats struct {
	// Path is a file, or "-" for standard output (default ""). Empty: not written.
	Path string `yaml:"path"`
	// Interval is the time between two lines (default 10s). Zero is refused.
	Interval time.Duration `yaml:"interval"`
}

// Fleet says which crawl of several processes this is a part of.
type Fleet struct {
	// Redis is the URL of a Redis or Valkey, redis://, rediss:// or unix://, in which ${NAME}
	// is a variable of the environment (default ""). Empty: one process, and no Redis.
	Redis string `yaml:"redis"`
	// CAFile is a PEM file of authorities beside the system's that vouch for it, if Redis
	// begins with rediss (default ""). Empty: none.
	CAFile string `yaml:"ca_file"`
	// PasswordFile is a file with the password for it and nothing else, in place of one in
	// Redis (default ""). Empty: none.
	PasswordFile string `yaml:"password_file"`
	// Job is the name of the crawl in it, 1 to 64 letters, digits, dots, hyphens and
	// underscores (default ""). Empty is refused with Redis.
	Job string `yaml:"job"`
	// Worker is the name of this process, which stands for {worker} in names of files
	// (default ""). Empty: those of the machine and the process.
	Worker string `yaml:"worker"`
	// Lease is how long a process that is not heard of keeps its hosts, 1s to 10m (default
	// 15s). Zero is refused.
	Lease time.Duration `yaml:"lease"`
}

// Listen says where the crawl answers over HTTP: health, state, metrics, events and orders.
type Listen struct {
	// Addr is an IP address or localhost with a port, or a port alone, which is one of the
	// loopback address (default ""). Empty: nowhere.
	Addr string `yaml:"addr"`
	// Token is a secret of 16 bytes or more, which clients bring as a bearer token (default
	// ""). Empty: none, which is refused where other computers can reach Addr.
	Token string `yaml:"token"`
}

// Traces says where a trace of each URL is sent, by OTLP over HTTP.
type Traces struct {
	// Endpoint is the http or https URL of a collector, completed by /v1/traces if it has no
	// path (default ""). Empty: nothing is traced.
	Endpoint string `yaml:"endpoint"`
	// Headers are added to requests to it, each as "Name: value" (default []). Empty: none.
	Headers []string `yaml:"headers"`
	// Sample is the share of URLs that is traced, 0 to 1 (default 1). Zero: none.
	Sample float64 `yaml:"sample"`
	// Propagate sends the hosts that are crawled a traceparent header (default false). False:
	// they hear nothing of traces.
	Propagate bool `yaml:"propagate"`
}

// Log says what people see on standard error.
type Log struct {
	// Level is debug, info, warn or error: the least important message that is shown. With
	// error there is no progress and no summary either (default info). Empty is refused.
	Level string `yaml:"level"`
	// Format is text or json (default text). Empty is refused.
	Format string `yaml:"format"`
	// Progress is auto, tty, plain or none (default auto). Empty is refused.
	Progress string `yaml:"progress"`
}

// Quiet reports whether people want to see errors alone.
func (l Log) Quiet() bool { return l.Level == "error" }
