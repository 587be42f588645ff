package config

import (
	"bufio"
	"cmp"
	"iter"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/resilience/binder"
)

func policyKeys(m *binder.Model) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) { eachKey(policyTree(m), resiliencePath, yield) }
}

func eachKey(n document.Node, path string, yield func(string, string) bool) bool {
	if n.Kind != document.Map {
		return yield(path, flow(n))
	}
	for _, e := range n.Keys {
		if !eachKey(e.Value, path+"."+e.Key, yield) {
			return false
		}
	}
	return true
}

// diffPolicies names the policies that differ. They are built at the start and hold what
// is under way, so none of them is live.
func diffPolicies(was, is *binder.Model) (changes []Change) {
	if was.Equal(is) {
		return nil
	}
	a, b := policyTexts(was), policyTexts(is)
	for _, name := range policyNames {
		if a[name] != b[name] {
			changes = append(changes, Change{Path: resiliencePath + "." + name, Was: cmp.Or(a[name], "none"), Is: cmp.Or(b[name], "none")})
		}
	}
	return changes
}

func policyTexts(m *binder.Model) map[string]string {
	texts := make(map[string]string)
	if m != nil {
		for _, e := range policyTree(m).Keys {
			texts[e.Key] = flow(e.Value)
		}
	}
	return texts
}

var policyNames = []string{"retry", "timeout", "circuit_breaker", "bulkhead", "bulkhead_isolation", "hedging", "fallback"}

type policyRow struct{ key, kind, def, min, max, doc string }

var policyRows = []policyRow{
	{"retry.max_retries", "int", "3", "0", "100", "how often robots.txt is asked for again after a failure"},
	{"retry.retry_forever", "bool", "false", "", "", "again until fetch.timeout, whatever max_retries says"},
	{"retry.backoff.type", "choice", "exponential", "", "", "how the pause grows: none, constant, linear, exponential or decorrelatedJitter"},
	{"retry.backoff.base_ms", "number", "200", "1", "3600000", "first pause in milliseconds"},
	{"retry.backoff.max_delay_ms", "number", "30000", "1", "86400000", "longest pause in milliseconds"},
	{"retry.backoff.use_jitter", "bool", "true", "", "", "draws pauses from zero to these bounds"},
	{"timeout.seconds", "number", "30", "0.001", "86400", "time for one request, in seconds"},
	{"circuit_breaker.circuit_name", "text", "default", "", "", "has no effect: every host has a circuit of its own"},
	{"circuit_breaker.failure_threshold", "int", "5", "1", "1000000", "another name for ratelimit.consecutive_fail_threshold"},
	{"circuit_breaker.success_threshold", "int", "1", "1", "1000", "another name for ratelimit.half_open_probes"},
	{"circuit_breaker.break_seconds", "number", "30", "0.01", "86400", "another name for ratelimit.open_state_duration, in seconds"},
	{"bulkhead.max_concurrency", "int", "10", "1", "100000", "requests under way at a time"},
	{"bulkhead.max_queue_depth", "int", "100", "0", "1000000", "requests that may wait for a place"},
	{"bulkhead.queue_timeout_seconds", "number", "10", "0", "86400", "how long one may wait, in seconds; 0 = not at all"},
	{"bulkhead_isolation.max_concurrent_requests", "int", "10", "1", "100000", "requests under way at a time at one host"},
	{"bulkhead_isolation.max_queue_size", "int", "100", "0", "1000000", "requests that may wait for a place at one host"},
	{"bulkhead_isolation.queue_timeout_seconds", "number", "10", "0", "86400", "how long one may wait, in seconds; 0 = not at all"},
}

func writePolicyReference(b *bufio.Writer) {
	_, _ = b.WriteString(policyHead)
	for _, r := range policyRows {
		bounds := ""
		if r.min != "" {
			bounds = r.min + " to " + r.max
		}
		writeRow(b, code(resiliencePath+"."+r.key), r.kind, code(r.def), bounds, r.doc)
	}
}
