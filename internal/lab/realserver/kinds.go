package realserver

import "testing"

// Kind is a server with a limit per client address.
type Kind struct {
	Name       string
	Rule       string  // of its configuration
	Nominal    float64 // what the rule is in requests per second
	Available  float64 // the most requests per second that a client can have in the long run
	Why        string  // why Available is not Nominal
	AtOnce     int     // requests that it admits at once after a pause
	InFlight   int     // requests at a time; zero means any number
	Status     int     // of a refusal
	RetryAfter bool    // of a refusal
	Fast       bool    // the limit is so high that a measurement takes the whole machine

	recipe recipe
}

// Start runs the server until the test ends. Without the program or module the test ends as
// [Need] says.
func (k *Kind) Start(tb testing.TB) *Server {
	tb.Helper()
	return start(tb, k.recipe)
}

// Kinds are limits of each sort: small and large buckets, queues, fixed, sliding and logged
// windows, a limit of connections, and a block that every request renews.
func Kinds() []Kind {
	return []Kind{
		{Name: "nginx-2", Rule: "limit_req 2 r/s, burst 5 nodelay: 429", Nominal: 2, Available: 2, AtOnce: 6, Status: 429, recipe: nginxLimit("2r/s", "burst=5 nodelay", "limit_req_status 429;")},
		{Name: "nginx-20", Rule: "limit_req 20 r/s, burst 5 nodelay: 429", Nominal: 20, Available: 20, AtOnce: 6, Status: 429, recipe: nginxLimit("20r/s", "burst=5 nodelay", "limit_req_status 429;")},
		{Name: "nginx-20-503", Rule: "limit_req 20 r/s, burst 5 nodelay: 503", Nominal: 20, Available: 20, AtOnce: 6, Status: 503, recipe: nginxLimit("20r/s", "burst=5 nodelay", "")},
		{Name: "nginx-20-delay", Rule: "limit_req 20 r/s, burst 5 queued: 429", Nominal: 20, Available: 20, AtOnce: 6, Status: 429, recipe: nginxLimit("20r/s", "burst=5", "limit_req_status 429;")},
		{Name: "nginx-20-queue", Rule: "limit_req 20 r/s, burst 20 queued: 503", Nominal: 20, Available: 20, AtOnce: 21, Status: 503, recipe: nginxLimit("20r/s", "burst=20", "")},
		{Name: "nginx-200", Rule: "limit_req 200 r/s, burst 20 nodelay: 503", Nominal: 200, Available: 200, AtOnce: 21, Status: 503, Fast: true, recipe: nginxLimit("200r/s", "burst=20 nodelay", "")},
		{Name: "nginx-conn", Rule: "limit_conn 4, each answer takes 200 ms: 503", Nominal: 20, Available: 20, AtOnce: 4, InFlight: 4, Status: 503, recipe: nginxConcurrency()},
		{Name: "haproxy", Rule: "stick-table, > 200 in 10 s: 429, Retry-After 10", Nominal: 20, Available: 20, AtOnce: 200, Status: 429, RetryAfter: true, recipe: haproxy(haproxyConf)},
		{Name: "mod_qos", Rule: "200 per 10 s: 503", Nominal: 20, Available: 199.0 / 11, AtOnce: 199, Status: 503, Why: "it refuses the 200th, and the window lasts 11 whole seconds", recipe: modQoS()},
		{Name: "mod_evasive", Rule: "> 20 in a second: 403 for 10 s, renewed", Nominal: 20, Available: 20, AtOnce: 20, Status: 403, recipe: modEvasive()},
		{Name: "varnish", Rule: "vsthrottle, bucket of 200 per 10 s: 429", Nominal: 20, Available: 20, AtOnce: 200, Status: 429, recipe: varnish()},
		{Name: "flask-limiter", Rule: "moving window, 200 per 10 s: 429, quota headers", Nominal: 20, Available: 20, AtOnce: 200, Status: 429, RetryAfter: true, recipe: flask()},
	}
}
