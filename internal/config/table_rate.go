package config

import "github.com/treadlight/crawl/internal/ratelimit/control"

// The bounds of every rate.
const (
	minRate = "0.001"
	maxRate = "1000000"
)

func strategyHelp() (text string) {
	for _, s := range control.Strategies() {
		text += s.Name + " = " + s.Help + "; "
	}
	return text
}

var rateFields = []field{
	// No field of its own; the package comment says why.
	{path: "ratelimit.enabled", kind: kindBool, def: "true", noStruct: true, doc: "second spelling of the strategy: false = off"},
	{
		path: "ratelimit.strategy", kind: kindChoice, def: control.Names()[0], enum: append(control.Names(), off), flag: "strategy",
		doc: "how the rate of a host moves: " + strategyHelp() + "off = no pacing, for your own servers",
	},
	// One request a second is what no server minds from a stranger.
	{
		path: "ratelimit.initial_rps", kind: kindRate, def: "1", min: minRate, max: maxRate, flag: "rate", live: true,
		doc: "requests per second a new host starts with; a maximum that is not given moves along",
	},
	// Not lower by default: a host at one page in ten seconds is in trouble, and the
	// breaker is the better answer to that.
	{path: "ratelimit.min_rps", kind: kindRate, def: "0.1", min: minRate, max: maxRate, live: true, doc: "requests per second no host goes below"},
	// More than ten a second is for hosts whose owner one has asked.
	{
		path: "ratelimit.max_rps", kind: kindRate, def: "10", min: minRate, max: maxRate, flag: "max-rate", live: true,
		doc: "requests per second no host goes above; a start that is not given moves along",
	},
	// One: pages are paced evenly, a pause earns no burst.
	{path: "ratelimit.token_bucket_capacity", kind: kindNumber, unit: "number of requests", def: "1", min: "1", max: "1000", doc: "burst that a rested host accepts, in requests"},
	// Increase and decrease are those of the classic additive-increase law: a tenth of a
	// request a second per success, halved at a refusal.
	{path: "ratelimit.aimd_increase", kind: kindRate, def: "0.1", min: minRate, max: "1000", doc: "aimd: requests per second that a fast success adds to the rate"},
	// Neither 0, which stops a host for ever, nor 1, which teaches nothing.
	{path: "ratelimit.aimd_decrease", kind: kindNumber, unit: "factor", def: "0.5", min: "0.01", max: "0.99", doc: "aimd, gradient: factor by which a refusal lowers the rate"},
	{path: "ratelimit.latency_target", kind: kindDuration, def: "1s", min: "1ms", max: "5m", doc: "aimd: expected time to an answer; faster ones raise the rate"},
	// Not below 1: an answer would be fast and slow at the same time.
	{path: "ratelimit.latency_degrade_factor", kind: kindNumber, unit: "factor", def: "2", min: "1", max: "100", doc: "aimd: multiple of the target from which an answer lowers the rate"},
	// Not 0: a breaker that opens without a failure.
	{path: "ratelimit.error_rate_threshold", kind: kindNumber, unit: "fraction", def: "0.5", min: "0.01", max: "1", doc: "all but steer: share of failures in the window that opens the breaker"},
	// Of fewer than ten answers, half failing is chance too often.
	{path: "ratelimit.min_samples_to_trip", kind: kindInt, unit: "answers", def: "10", min: "1", max: "1000000", doc: "all but steer: answers in the window before their share of failures counts"},
	{path: "ratelimit.consecutive_fail_threshold", kind: kindInt, unit: "failures", def: "5", min: "1", max: "1000000", doc: "all but steer: failures in a row that open the breaker"},
	// Long enough for a restart behind a load balancer.
	{path: "ratelimit.open_state_duration", kind: kindDuration, def: "15s", min: "10ms", max: "24h", doc: "how long an open breaker lets nothing through; steer: at most, unless the host says more"},
	{path: "ratelimit.half_open_probes", kind: kindInt, unit: "requests", def: "2", min: "1", max: "1000", doc: "all but steer: successes that close the breaker again"},
	// Waits are drawn from zero to these bounds, so that clients do not come back as one.
	{path: "ratelimit.retry_base_delay", kind: kindDuration, def: "200ms", min: "1ms", max: "1h", doc: "longest wait before the first retry, doubled for each one after it"},
	{path: "ratelimit.retry_max_delay", kind: kindDuration, def: "30s", min: "1ms", max: "24h", doc: "longest wait before any retry"},
	// Retries, not tries: --retries 0 asks once. Twenty doublings are past any delay.
	{
		path: "ratelimit.retry_max_attempts", kind: kindInt, unit: "retries", def: "3", min: "0", max: "20", flag: "retries",
		doc: "retries after a first try that failed; 0 = none, but a first 429, 503 or 403 that may be a limit of the host is followed by one more request, alone, that tells",
	},
	// Servers send dates years ahead by mistake; an hour is a pause, more is an absence.
	{path: "ratelimit.max_retry_after", kind: kindDuration, def: "1h", min: "1s", max: "168h", was: "max-retry-after", doc: "longest Retry-After believed, longer ones count as this long"},
	{
		path: "ratelimit.min_delay", kind: kindDuration, def: "0", min: "1ms", max: "24h", zero: "none", flag: "min-delay", also: []string{"delay"}, live: true,
		doc: "shortest time between two requests to a host, whatever the rates; 0 = none", example: "2s",
	},
	{
		path: "ratelimit.global_rps", kind: kindRate, def: "0", min: minRate, max: "1000000", zero: "no limit", flag: "global-rate", agreed: ifSet,
		doc: "requests per second over all hosts; 0 = no limit", example: "100",
	},
	// Hosts at one address that refuse together are found out without it; this is for an
	// operator who has said what all his hosts together bear.
	{
		path: "ratelimit.ip_rps", kind: kindRate, def: "0", min: minRate, max: "1000000", zero: "no limit", agreed: ifSet,
		doc: "requests per second over all hosts at one IP address (IPv6: one /64); 0 = no limit", example: "20",
	},
	{
		path: "ratelimit.site_rps", kind: kindRate, def: "0", min: minRate, max: "1000000", zero: "no limit", agreed: ifSet,
		doc: "requests per second over all hosts of one registrable domain; 0 = no limit", example: "20",
	},
	// Below --concurrency it leaves workers idle, which is what somebody wants whose line or
	// proxy bears few requests at a time; hosts then take turns.
	{
		path: "ratelimit.global_concurrency", kind: kindInt, unit: "requests", def: "0", min: "1", max: "10000", zero: "no limit", was: "global-concurrency", agreed: ifSet,
		doc: "requests in flight over all hosts; 0 = no limit", example: "16",
	},
	// The least is a page in some seconds; the most is beyond any network card.
	{
		path: "ratelimit.global_bytes", kind: kindSize, def: "0", min: "1KiB", max: "1TiB", zero: "no limit", was: "global-bytes", agreed: ifSet,
		doc: "bytes of bodies per second over all hosts, as sent; 0 = no limit", example: "2MiB",
	},
	// Not "memory", which is a bound on bytes wherever else it is a flag.
	{
		path: "ratelimit.remember", kind: kindText, arg: "file", flag: "remember",
		doc: "file in which what is learned of hosts is kept for the next crawl, an SQLite database; empty = none", example: "hosts.db", check: noStream,
	},
	// Fifteen steps of two seconds: a failure stops counting within 7 % of its time.
	// The p95 of 64 rests on its four largest, so that one slow page does not make it.
	{path: "ratelimit.latency_samples", kind: kindInt, unit: "answers", def: "64", min: "1", max: "255", doc: "last answers of a host that its average and p95 latency are of"},
	{path: "ratelimit.stats_window", kind: kindDuration, def: "30s", min: "100ms", max: "1h", doc: "time over which failures are counted; a whole number of stats_bucket"},
	{path: "ratelimit.stats_bucket", kind: kindDuration, def: "2s", min: "10ms", max: "1h", doc: "step in which the window moves"},
	// What outlasts it, such as an open breaker, is kept in brief by the engine.
	{path: "ratelimit.domain_state_ttl", kind: kindDuration, def: "10m", min: "1s", max: "720h", doc: "how long what was learned of an idle host is kept"},
	// A power of two, so that a hash picks its shard with a mask.
	{path: "ratelimit.shards", kind: kindInt, unit: "locks", def: "16", min: "1", max: "4096", doc: "locks over the hosts, a power of two", check: powerOfTwo},
}
